"""ALTER TABLE ... ADD and DROP of constraints: rows that are there are compared, and a violation changes nothing."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidemill
from tidemill.model.errors import (
    CheckViolation,
    DanglingReference,
    DataError,
    DuplicateKey,
    NameTaken,
    ParseError,
    TidemillError,
    TypeMismatch,
    UnknownName,
    Unsupported,
)

TABLES = """
CREATE TABLE p (id INT PRIMARY KEY);
CREATE TABLE t (id INT PRIMARY KEY, k INT, b STRING);
INSERT INTO p VALUES (1), (2), (3);
INSERT INTO t VALUES (1, 1, 'x'), (2, 1, 'y'), (3, -2, NULL), (4, NULL, NULL);
CREATE MATERIALIZED VIEW sums AS SELECT k, COUNT(*) AS n FROM t GROUP BY k
"""


@pytest.fixture(params=["memory", "disk"])
def wh(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tidemill.Warehouse]:
    place = ":memory:" if request.param == "memory" else tmp_path / "w"
    with tidemill.open(place, runtime="native", backend="python") as opened:
        opened.sql(TABLES)
        yield opened


VIOLATED = [
    ("ADD UNIQUE (k)", "t_k_key", r"Several rows have the same k: \(1,\)\."),
    ("ADD CONSTRAINT pos CHECK (k > 0)", "pos", r"CHECK \(k > 0\) is false of \(3, -2, None\)\."),
    ("ADD CHECK (id > 9)", "t_check", r"false of \(1, 1, 'x'\), \(2, 1, 'y'\), \(3, -2, None\) and more\."),
    ("ADD FOREIGN KEY (k) REFERENCES p", "t_k_fkey", r'"p" has no row for \(3, -2, None\)\.'),
    ("ADD CONSTRAINT own FOREIGN KEY (id) REFERENCES p (id)", "own", r'"p" has no row for \(4, None, None\)\.'),
]


@pytest.mark.parametrize(("change", "name", "told"), VIOLATED)
def test_rows_that_violate_a_constraint_are_named(wh: tidemill.Warehouse, change: str, name: str, told: str) -> None:
    before = wh.sql("SHOW CREATE TABLE t").rows()
    with pytest.raises(DataError, match=f'"t" cannot have the constraint "{name}"') as error:
        wh.sql(f"ALTER TABLE t {change}")
    assert error.match(told)
    assert wh.sql("SHOW CREATE TABLE t").rows() == before
    wh.sql("INSERT INTO t VALUES (5, 1, 'z')")
    assert wh.view("sums").verify().ok


def test_a_constraint_holds_from_then_on_and_after_reopening(tmp_path: Path) -> None:
    for round_ in range(2):
        with tidemill.open(tmp_path / "w", runtime="native", backend="python") as wh:
            if round_ == 0:
                wh.sql(TABLES)
                wh.sql("UPDATE t SET k = 2 WHERE id = 2; UPDATE t SET k = 3 WHERE id = 3")
                wh.sql("ALTER TABLE t ADD UNIQUE (k); ALTER TABLE t ADD CONSTRAINT short CHECK (length(b) < 3)")
                wh.sql("ALTER TABLE t ADD FOREIGN KEY (k) REFERENCES p")
            with pytest.raises(DuplicateKey, match='violates "t_k_key": two rows would have k = 3'):
                wh.sql("INSERT INTO t VALUES (9, 3, 'z')")
            with pytest.raises(CheckViolation, match='violates "short"'):
                wh.sql("INSERT INTO t VALUES (9, NULL, 'long')")
            with pytest.raises(DanglingReference):
                wh.sql("INSERT INTO t VALUES (9, 7, 'z')")
            wh.sql(f"INSERT INTO t VALUES ({5 + round_}, NULL, NULL); UPDATE t SET k = 4 - k WHERE k IN (1, 3)")
            rows = wh.sql("SELECT constraint_name, constraint_type FROM information_schema.table_constraints").rows()
            assert {("t_k_key", "UNIQUE"), ("short", "CHECK"), ("t_k_fkey", "FOREIGN KEY")} < set(rows)
            assert wh.view("sums").verify().ok
    with tidemill.open(tmp_path / "w", runtime="native") as wh:
        for name in ("t_k_key", "short", "t_k_fkey"):
            wh.sql(f"ALTER TABLE t DROP CONSTRAINT {name}")
        wh.sql("INSERT INTO t VALUES (9, 3, 'long'), (10, 3, 'longer'), (11, 99, NULL)")
        assert "CONSTRAINT" not in wh.sql("SHOW CREATE TABLE t").rows()[0][0]


def test_a_renamed_column_is_renamed_in_its_checks(wh: tidemill.Warehouse) -> None:
    wh.sql("ALTER TABLE t ADD CONSTRAINT small CHECK (t.k < 10 OR b LIKE 'k%' -- as it was written\n)")
    wh.sql("ALTER TABLE t RENAME COLUMN k TO amount; ALTER TABLE t RENAME TO sales")
    (text,) = wh.sql("SHOW CREATE TABLE sales").rows()[0]
    assert "CHECK (`sales`.`amount` < 10 OR b LIKE 'k%'" in text
    with pytest.raises(CheckViolation, match='violates "small"'):
        wh.sql("INSERT INTO sales VALUES (9, 10, 'z')")
    wh.sql("INSERT INTO sales VALUES (9, 10, 'kk')")
    wh.sql("CREATE TABLE lists (n INT, xs ARRAY<INT>, CHECK (exists(xs, a -> a > n)))")
    with pytest.raises(Unsupported, match='"n" of "lists" cannot be renamed') as error:
        wh.sql("ALTER TABLE lists RENAME COLUMN n TO a")
    assert "DROP CONSTRAINT lists_check" in (error.value.hint or "")


HELD = [
    ("DROP COLUMN id", "ALTER TABLE t DROP PRIMARY KEY first."),
    ("DROP COLUMN k", "ALTER TABLE t DROP CONSTRAINT t_check first."),
    ("DROP COLUMN b", "ALTER TABLE t DROP CONSTRAINT t_b_key first."),
]


@pytest.mark.parametrize(("change", "hint"), HELD)
def test_a_column_of_a_constraint_stays_and_the_error_says_what_next(
    wh: tidemill.Warehouse, change: str, hint: str
) -> None:
    wh.sql("ALTER TABLE t ADD CHECK (k < 9); ALTER TABLE t ADD UNIQUE (b); DROP VIEW sums")
    with pytest.raises(Unsupported) as error:
        wh.sql(f"ALTER TABLE t {change}")
    assert error.value.hint == hint
    wh.sql(f"{hint.removesuffix(' first.')}; ALTER TABLE t {change}")


def test_foreign_keys_to_tables_that_are_not_there_yet_and_to_itself(wh: tidemill.Warehouse) -> None:
    wh.sql("UPDATE t SET k = NULL WHERE k < 0; ALTER TABLE t ADD FOREIGN KEY (k) REFERENCES t (id)")
    with pytest.raises(DataError, match='cannot have the constraint "t_k_fkey_2"'):
        wh.sql("ALTER TABLE t ADD FOREIGN KEY (k) REFERENCES later (id)")
    wh.sql("UPDATE t SET k = NULL")
    told = wh.sql("ALTER TABLE t ADD FOREIGN KEY (k) REFERENCES later (id)").message
    assert told == "altered table t; it refers to later, which is not there yet"
    assert wh.sql("ALTER TABLE t ADD CHECK (k > 0) NOT ENFORCED").message == "altered table t"


REFUSED: list[tuple[str, type[TidemillError]]] = [
    ("ALTER TABLE t ADD UNIQUE (nope)", UnknownName),
    ("ALTER TABLE t ADD UNIQUE (k, k)", ParseError),
    ("ALTER TABLE t ADD CHECK (nope > 0)", UnknownName),
    ("ALTER TABLE t ADD CHECK (k > 0), CHECK (id > 0)", ParseError),
    ("ALTER TABLE t ADD CHECK ((SELECT MAX(id) FROM p) > 0)", TidemillError),
    ("ALTER TABLE t ADD CONSTRAINT c FOREIGN KEY (b) REFERENCES p", Unsupported),
    ("ALTER TABLE t ADD CONSTRAINT c FOREIGN KEY (k) REFERENCES sums (k)", Unsupported),
    ("ALTER TABLE t ADD UNIQUE one (k)", ParseError),
    ("ALTER TABLE t DROP CONSTRAINT nope", UnknownName),
    ("ALTER TABLE v ADD UNIQUE (d)", TypeMismatch),
    ("ALTER TABLE s ADD UNIQUE (a)", Unsupported),
    ("ALTER TABLE sums ADD UNIQUE (k)", UnknownName),
    ("CREATE TABLE x (a INT CONSTRAINT c CHECK (a > 0), b INT CONSTRAINT c UNIQUE)", NameTaken),
]


@pytest.mark.parametrize(("statement", "error"), REFUSED)
def test_refused(wh: tidemill.Warehouse, statement: str, error: type[TidemillError]) -> None:
    wh.sql("CREATE STREAM s (a INT); CREATE TABLE v (d VARIANT)")
    before = {name: wh.sql(f"SHOW CREATE TABLE {name}").rows() for name in ("t", "v", "s")}
    with pytest.raises(error):
        wh.sql(statement)
    assert {name: wh.sql(f"SHOW CREATE TABLE {name}").rows() for name in ("t", "v", "s")} == before


def test_a_stream_takes_a_check_for_rows_to_come(wh: tidemill.Warehouse) -> None:
    wh.sql(
        "CREATE STREAM s (a INT); CREATE MATERIALIZED VIEW m AS SELECT SUM(a) AS s FROM s; INSERT INTO s VALUES (-1)"
    )
    wh.sql("ALTER STREAM s ADD CHECK (a > 0)")
    with pytest.raises(CheckViolation):
        wh.sql("INSERT INTO s VALUES (-2)")
    wh.sql("INSERT INTO s VALUES (3); ALTER STREAM s DROP CONSTRAINT s_check; INSERT INTO s VALUES (-4)")
    assert wh.view("m").rows() == [(-2,)]


# -- constraints that come and go in the middle of changes -------------------------------------------------------------

CONSTRAINTS = {
    "one": ("UNIQUE (k, b)", lambda rows: _distinct([(k, b) for _, k, b in rows if k is not None and b is not None])),
    "low": ("CHECK (k < 3)", lambda rows: all(k is None or k < 3 for _, k, _ in rows)),
    "up": (
        "FOREIGN KEY (k) REFERENCES t (id)",
        lambda rows: {k for _, k, _ in rows} <= {None, *(i for i, _, _ in rows)},
    ),
}


def _distinct(values: list[tuple[object, ...]]) -> bool:
    return len(values) == len(set(values))


def holds(rows: Counter[tuple[object, ...]], present: set[str]) -> bool:
    keys = [row[0] for row in rows.elements()]
    return _distinct([(key,) for key in keys]) and all(CONSTRAINTS[name][1](list(rows)) for name in present)


def run(path: Path | str, seed: int, turns: int) -> int:
    """Random changes, and constraints that come and go, of which just those are taken that a model takes."""
    draw, present, refused = random.Random(seed), set[str](), 0
    rows: Counter[tuple[object, ...]] = Counter()
    wh = tidemill.open(path, runtime="native", backend="python")
    wh.sql("CREATE TABLE t (id INT PRIMARY KEY, k INT, b STRING)")
    wh.sql("CREATE MATERIALIZED VIEW n AS SELECT x.id, y.b FROM t x JOIN t y ON x.k = y.id")
    for _ in range(turns):
        name = draw.choice(sorted(CONSTRAINTS))
        new, known = rows.copy(), name in present
        if draw.random() < 0.3:
            statement = (
                f"ALTER TABLE t DROP CONSTRAINT {name}"
                if known
                else (f"ALTER TABLE t ADD CONSTRAINT {name} {CONSTRAINTS[name][0]}")
            )
            fits = holds(rows, present ^ {name})
            present ^= {name} if fits else set()
        else:
            row = (draw.randrange(8), draw.choice((None, *range(5))), draw.choice((None, "a", "b")))
            gone = [one for one in rows if one[0] == row[0] and draw.random() < 0.7]
            new = new - Counter(gone) + Counter([row])
            fits, statement = holds(new, present), ""
        try:
            if statement:
                wh.sql(statement)
            else:
                wh.apply({"t": [*((-1, one) for one in gone), (1, row)]})
            assert fits, statement
            rows = new
        except DataError:
            refused += 1
            assert not fits, statement
        if draw.random() < 0.1 and path != ":memory:":
            wh.close()
            wh = tidemill.open(path, runtime="native", backend="python")
        assert Counter(wh.table("t").rows()) == rows
    assert wh.view("n").verify().ok
    wh.close()
    return refused


def test_constraints_come_and_go_in_the_middle_of_changes(tmp_path: Path) -> None:
    assert run(":memory:", 1, 60) > 5
    assert run(tmp_path / "w", 2, 40) > 3


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_constraints_come_and_go_for_longer(tmp_path: Path, seed: int) -> None:
    run(tmp_path / "w", seed, 300)
