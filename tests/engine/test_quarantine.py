"""Rows that a view cannot compute: held back, listed, and taken when they are corrected."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import tidemill
from tests.ways import taking
from tidemill.algebra.evaluate import evaluate
from tidemill.changes.zset import ZSet
from tidemill.engine.quarantine.notes import QuarantineWarning
from tidemill.model.errors import ArithmeticFault, Unsupported

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLE = "CREATE TABLE t (id BIGINT PRIMARY KEY, g INT, a INT, b INT, s STRING)"
GUARDED = "WITH (on_error = 'quarantine')"

BY_GROUP = {
    "sums": "SELECT g, SUM(a DIV b) AS s, COUNT(*) AS n FROM t GROUP BY g",
    "casts": "SELECT g + 1 AS k, MAX(CAST(s AS INT)) AS m FROM t WHERE a > 1 GROUP BY g + 1",
    "ratios": "SELECT g, SUM(a) DIV SUM(b) AS r FROM t GROUP BY g HAVING COUNT(*) > 0",
    "whole": "SELECT SUM(a DIV b) AS s FROM t",
    "distinct": "SELECT g, COUNT(DISTINCT a DIV b) AS n FROM t GROUP BY g",
}
BY_ROW = {
    "rows": "SELECT id, a DIV b AS q FROM t WHERE g <> 2",
    "filtered": "SELECT id FROM t WHERE CAST(s AS INT) > 2",
    "values": "SELECT DISTINCT a DIV b AS q FROM t",
}
JOINED = {
    "joined": "SELECT x.id, x.a DIV y.b AS q FROM t x JOIN u y ON x.g = y.g",
    "facts": "SELECT t.g, SUM(t.a DIV t.b) AS s, COUNT(*) AS n FROM t JOIN u ON t.g = u.g GROUP BY t.g",
    "shares": "SELECT t.g, SUM(t.a DIV u.b) AS s FROM t JOIN u ON t.g = u.g GROUP BY t.g",
    "by_b": "SELECT u.b, SUM(CAST(t.s AS INT)) AS s FROM t JOIN u ON t.g = u.g GROUP BY u.b",
    "outer": "SELECT t.id, SUM(t.a DIV u.b) AS s FROM t LEFT JOIN u ON t.g = u.g GROUP BY t.id",
    "pairs": "SELECT x.g, COUNT(*) AS n, SUM(x.a DIV y.b) AS s FROM t x JOIN t y ON x.id = y.a GROUP BY x.g",
}
WHOLE = {
    "looked_up": "SELECT x.id, x.a DIV y.b AS q FROM t x JOIN u y ON x.g = y.g",
    "ranked": "SELECT id, a DIV b AS q FROM t ORDER BY a DIV b, id LIMIT 3",
}


ALL = {**BY_GROUP, **BY_ROW, **JOINED, **WHOLE}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", QuarantineWarning)
        yield


def opened(path: Path | str, backend: str = "python") -> tidemill.Warehouse:
    return tidemill.open(path, runtime="native", backend=backend)


def made(path: Path | str, backend: str = "python") -> tidemill.Warehouse:
    wh = opened(path, backend)
    wh.sql(TABLE)
    wh.sql("CREATE TABLE u (g INT PRIMARY KEY, b INT)")
    for name, query in ALL.items():
        guarded = GUARDED if name != "looked_up" else "WITH (on_error = 'quarantine', strategy = 'delta')"
        wh.sql(f"CREATE MATERIALIZED VIEW {name} {guarded} AS {query}")
    wh.sql("CREATE MATERIALIZED VIEW plain AS SELECT g, COUNT(*) AS n FROM t GROUP BY g")
    wh.sql("CREATE MATERIALIZED VIEW above AS SELECT s, COUNT(*) AS n FROM sums GROUP BY s")
    return wh


def expected(wh: tidemill.Warehouse, view: str, rows: list[tuple[Any, ...]]) -> ZSet | None:
    """What the evaluator says of a view over these rows of t; None if it fails."""
    return evaluated(wh, view, {"t": ZSet.of(rows), "u": wh._engine.contents("u").zset()})


def evaluated(wh: tidemill.Warehouse, view: str, tables: dict[str, ZSet]) -> ZSet | None:
    try:
        return evaluate(wh._engine.catalog.view(view).relation, tables)
    except (ArithmeticFault, ArithmeticError):
        return None


def held_of(wh: tidemill.Warehouse, view: str, table: str) -> ZSet:
    held = wh._engine.state.quarantine.held(view)
    return ZSet.summed((one.row, one.weight) for one in held if one.relation == table)


def check_joined(wh: tidemill.Warehouse, *views: str) -> None:
    """Views over joins show what the evaluator says of the rows that are not held; no held group could be shown."""
    for view in views:
        assert not wh._engine.catalog.view(view).stopped, view
        seen = {name: wh._engine.contents(name).zset() - held_of(wh, view, name) for name in ("t", "u")}
        answer = evaluated(wh, view, seen)
        assert answer is not None and Counter(wh.view(view).rows()) == Counter(answer.expand()), view
        for table, groups in wh._engine.state.quarantine.groups(wh._engine.catalog.view(view)).items():
            held = held_of(wh, view, table)
            by_group: dict[Any, ZSet] = {}
            for row, group in groups.of_rows(list(held)).items():
                by_group.setdefault(group, ZSet()).add(row, held.weight(row))
            for rows in by_group.values():
                assert evaluated(wh, view, {**seen, table: seen[table] + rows}) is None, (view, table, rows)


class Model:
    """What views by groups must show: for each group the answer when it could last be computed."""

    def __init__(self) -> None:
        self.shown: dict[str, dict[Any, ZSet]] = {}

    def step(self, wh: tidemill.Warehouse) -> None:
        rows = wh.table("t").rows()
        for view in BY_GROUP:
            groups: dict[Any, list[tuple[Any, ...]]] = {}
            for row in rows:
                groups.setdefault(() if view == "whole" else row[1], []).append(row)
            shown = self.shown.setdefault(view, {})
            for group in {*groups, *shown}:
                answer = expected(wh, view, groups.get(group, []))
                if answer is not None:
                    shown[group] = answer
            if view == "whole":
                shown.setdefault((), expected(wh, view, []) or ZSet())
        for view in BY_ROW:
            shown = self.shown[view] = {}
            for row in rows:
                answer = expected(wh, view, [row])
                if answer is not None:
                    shown[row] = answer

    def check(self, wh: tidemill.Warehouse) -> None:
        for view, shown in self.shown.items():
            total = ZSet()
            for rows in shown.values():
                total.update_by(rows)
            if view == "values":
                total = ZSet.of(total)
            assert Counter(wh.view(view).rows()) == Counter(total.expand()), view
        check_joined(wh, *JOINED)
        for check in wh.verify():
            assert check.ok, check


def random_step(wh: tidemill.Warehouse, random: Random, ids: Iterator[int]) -> None:
    rows, changes = {row[0]: row for row in wh.table("t").rows()}, []
    for _ in range(random.randrange(1, 5)):
        if rows and random.random() < 0.5:
            changes.append((-1, rows.pop(random.choice(list(rows)))))
        if random.random() < 0.7:
            b = 0 if random.random() < 0.2 else random.choice([None, 1, 2, -1])
            s = "bad" if random.random() < 0.15 else random.choice([None, "1", "7"])
            a = random.choice([None, 1, 2, 3, 2147483647])
            changes.append((1, (next(ids), random.choice([None, 1, 2, 3]), a, b, s)))
    of_u = []
    if random.random() < 0.3:
        g, b = random.choice([1, 2, 3]), random.choice([0, 1, 2])
        of_u = [*((-1, row) for row in wh.table("u").rows() if row[0] == g), (1, (g, b))]
    for epoch in [{"t": changes, "u": of_u}] if random.random() < 0.5 else [{"t": changes}, {"u": of_u}]:
        if any(epoch.values()):
            wh.apply({name: rows for name, rows in epoch.items() if rows})


def heal(wh: tidemill.Warehouse) -> None:
    """Correct every faulty row: all views must equal fresh ones."""
    wh.sql("UPDATE u SET b = 1 WHERE b = 0")
    wh.sql("UPDATE t SET b = 1 WHERE b = 0 OR b IS NULL OR b = -1")
    wh.sql("UPDATE t SET s = '4' WHERE s = 'bad'")
    wh.sql("UPDATE t SET a = 2 WHERE a > 3")
    for name, query in ALL.items():
        assert wh.table(f"{name}_errors").rows() == [], name
        wh.sql(f"CREATE MATERIALIZED VIEW fresh AS {query}")
        assert Counter(wh.view(name).rows()) == Counter(wh.view("fresh").rows()), name
        wh.sql("DROP VIEW fresh")
        assert not wh._engine.notes([name])


def campaign(path: Path, seed: int, steps: int, backend: str) -> None:
    random, ids, model = Random(seed), iter(range(10**6)), Model()
    wh = made(path, backend)
    for _ in range(steps):
        random_step(wh, random, ids)
        model.step(wh)
        model.check(wh)
        if random.random() < 0.1:
            wh.close()
            wh = opened(path, backend)
            model.check(wh)
        if random.random() < 0.1:
            wh.sql(f"CREATE MATERIALIZED VIEW late {GUARDED} AS {random.choice(list(JOINED.values()))}")
            check_joined(wh, "late")
            assert wh.view("late").verify()
            wh.sql("DROP VIEW late")
        if random.random() < 0.1:
            wh.sql(f"RELEASE ERRORS OF {random.choice(list(ALL))}")
            model.check(wh)
    heal(wh)
    wh.close()


@pytest.mark.parametrize("backend", ["python", "llvm"])
def test_random_rows_and_corrections(backend: str, tmp_path: Path) -> None:
    campaign(tmp_path / "wh", Random().randrange(10**9), 6, backend)


@pytest.mark.long
@pytest.mark.parametrize("backend", ["python", "llvm"])
@pytest.mark.parametrize("seed", range(30))
def test_many_random_rows_and_corrections(backend: str, seed: int, tmp_path: Path) -> None:
    campaign(tmp_path / "wh", seed, 40, backend)


ROWS = [(1, (1, 1, 4, 2, None)), (1, (2, 2, 6, 3, None))]
BAD, GOOD = (3, 1, 4, 0, None), (4, 2, 6, 3, None)


@pytest.fixture
def wh() -> Iterator[tidemill.Warehouse]:
    with opened(":memory:") as warehouse:
        warehouse.sql(TABLE)
        warehouse.sql(f"CREATE MATERIALIZED VIEW v {GUARDED} AS {BY_GROUP['sums']}")
        warehouse.sql("CREATE MATERIALIZED VIEW w AS SELECT COUNT(*) AS n FROM v")
        warehouse.apply({"t": ROWS})
        yield warehouse


def test_a_view_in_quarantine_says_so(wh: tidemill.Warehouse) -> None:
    wh.apply({"t": [(1, (3, 1, 4, 0, None)), (1, (4, 2, 6, 3, None))]})
    with pytest.warns(QuarantineWarning, match='"v" is in quarantine since epoch 2'):
        assert sorted(wh.view("v").rows()) == [(1, 2, 1), (2, 4, 2)]
    with pytest.warns(QuarantineWarning, match='"w" reads v, in quarantine'):
        assert "v_errors" in wh.sql("SELECT * FROM w").notes[0]
    assert "in quarantine" in wh.sql("SHOW VIEWS")[0][-1]
    assert "in quarantine" in str(wh.sql("DESCRIBE EXTENDED v")) and "by group of t" in wh.view("v").explain()
    (error,) = wh.table("v_errors").rows()
    assert error[:2] + error[3:5] == (2, "t", 1, "fault") and '"id": 3' in error[2] and "division by zero" in error[5]


def test_a_group_can_go_on_without_its_faulty_rows(wh: tidemill.Warehouse) -> None:
    wh.apply({"t": [(1, (3, 1, 4, 0, None)), (1, (5, 1, 8, 2, None))]})
    assert str(wh.sql("RELEASE ERRORS OF v")) == "released 0 rows of v; 2 left in v_errors"
    assert wh.release("v", skip=True).left == 1
    assert sorted(wh.view("v").rows()) == [(1, 6, 2), (2, 2, 1)]
    wh.sql("DELETE FROM t WHERE id = 3")
    assert sorted(wh.view("v").rows()) == [(1, 6, 2), (2, 2, 1)] and wh.table("v_errors").rows() == []


@pytest.fixture
def star() -> Iterator[tidemill.Warehouse]:
    """Facts that are joined with dimensions; group 2 of the facts has a bad row, which is the fourth."""
    with opened(":memory:") as wh:
        wh.sql(f"""
            {TABLE}; CREATE TABLE u (g INT PRIMARY KEY, b INT);
            CREATE MATERIALIZED VIEW facts {GUARDED} AS {JOINED["facts"]};
            CREATE MATERIALIZED VIEW shares {GUARDED} AS {JOINED["shares"]}
        """)
        wh.apply({"u": [(1, (1, 2)), (1, (2, 1))], "t": ROWS})
        yield wh


def test_one_group_of_facts_waits_and_the_others_go_on(star: tidemill.Warehouse) -> None:
    star.apply({"t": [(1, (3, 1, 8, 4, None)), (1, (4, 2, 8, 0, None)), (1, (5, 2, 1, 1, None))]})
    assert sorted(star.view("facts").rows()) == [(1, 4, 2), (2, 2, 1)]
    assert sorted(row[3:5] for row in star.table("facts_errors").rows()) == [(1, "fault"), (1, "waits")]
    assert "quarantine by group of t and key of u" in star.view("facts").explain()
    assert star.release("facts", skip=True).left == 1
    assert sorted(star.view("facts").rows()) == [(1, 4, 2), (2, 3, 2)]
    check_joined(star, "facts", "shares")


def test_a_dimension_at_fault_keeps_its_last_row_until_it_is_corrected(star: tidemill.Warehouse) -> None:
    shown = sorted(star.view("shares").rows())
    star.apply({"u": [(-1, (2, 1)), (1, (2, 0))]})
    star.apply({"t": [(1, (6, 2, 5, 1, None))]})
    assert sorted(star.view("shares").rows()) == [shown[0], (2, 11)]
    assert {row[1] for row in star.table("shares_errors").rows()} == {"u"}
    check_joined(star, "facts", "shares")
    star.apply({"u": [(-1, (2, 0)), (1, (2, 5))]})
    assert star.table("shares_errors").rows() == [] and (2, 2) in star.view("shares").rows()


def test_facts_heal_when_their_dimension_is_corrected(star: tidemill.Warehouse) -> None:
    star.apply({"u": [(1, (3, 0))]})
    star.apply({"t": [(1, (7, 3, 6, 1, None))]})
    assert {row[1] for row in star.table("shares_errors").rows()} == {"t"}
    star.apply({"u": [(-1, (3, 0)), (1, (3, 3))]})
    assert star.table("shares_errors").rows() == [] and (3, 2) in star.view("shares").rows()
    check_joined(star, "facts", "shares")


def test_facts_are_blamed_before_dimensions_when_a_view_is_made() -> None:
    with opened(":memory:") as wh:
        wh.sql(f"{TABLE}; CREATE TABLE u (g INT PRIMARY KEY, b INT)")
        wh.apply({"u": [(1, (1, 2)), (1, (2, 1))], "t": [*ROWS, (1, BAD), (1, GOOD)]})
        wh.sql(f"CREATE MATERIALIZED VIEW facts {GUARDED} AS {JOINED['facts']}")
        assert wh.view("facts").rows() == [(2, 4, 2)]
        assert {row[1] for row in wh.table("facts_errors").rows()} == {"t"}


def test_rows_of_a_view_that_stopped_as_a_whole_cannot_be_skipped(star: tidemill.Warehouse) -> None:
    by_delta = "WITH (on_error = 'quarantine', strategy = 'delta')"
    star.sql(f"CREATE MATERIALIZED VIEW ranked {GUARDED} AS {WHOLE['ranked']}")
    star.sql(f"CREATE MATERIALIZED VIEW looked_up {by_delta} AS {JOINED['shares']}")
    star.apply({"t": [(1, BAD)], "u": [(-1, (2, 1)), (1, (2, 0))]})
    for view, why in (("ranked", "it has no groups"), ("looked_up", "viewlet would keep them")):
        with pytest.raises(Unsupported, match=rf"(?s)stopped as a whole, at epoch 1: .*{why}.*{view}_errors.*WHERE"):
            star.release(view, skip=True)


def test_a_view_that_refuses_still_refuses(wh: tidemill.Warehouse) -> None:
    wh.sql("CREATE MATERIALIZED VIEW strict AS SELECT id, a DIV b AS q FROM t")
    with pytest.raises(ArithmeticFault):
        wh.apply({"t": [(1, (3, 1, 4, 0, None))]})
    assert wh.table("v_errors").rows() == [] and wh.epoch == 1


def test_a_view_can_be_made_over_faulty_rows(wh: tidemill.Warehouse) -> None:
    wh.apply({"t": [(1, (3, 1, 4, 0, None))]})
    wh.sql(f"CREATE MATERIALIZED VIEW late {GUARDED} AS {BY_GROUP['sums']}")
    assert wh.view("late").rows() == [(2, 2, 1)] and len(wh.table("late_errors").rows()) == 2
    wh.sql("UPDATE t SET b = 1 WHERE id = 3")
    assert sorted(wh.view("late").rows()) == sorted(wh.view("v").rows()) == [(1, 6, 2), (2, 2, 1)]


def test_events_of_streams_are_held_too(wh: tidemill.Warehouse) -> None:
    wh.sql("CREATE STREAM s (g INT, a INT)")
    wh.sql(f"CREATE MATERIALIZED VIEW of_s {GUARDED} AS SELECT g, SUM(1 DIV a) AS n FROM s GROUP BY g")
    feed = wh.feed("s")
    for event in ((1, 1, 1), (1, 1, 0), (1, 2, 1)):
        feed(*event)
    assert sorted(wh.view("of_s").rows()) == [(1, 1), (2, 1)] and len(wh.table("of_s_errors").rows()) == 1
    feed(-1, 1, 0)
    assert wh.table("of_s_errors").rows() == [] and sorted(wh.view("of_s").rows()) == [(1, 1), (2, 1)]


@pytest.mark.parametrize("view", ["sums", "rows", "facts", "shares", "ranked"])
def test_a_transaction_sees_what_it_will_commit(view: str) -> None:
    changes: list[list[tuple[int, Any]]] = [
        [(1, GOOD)],
        [(1, (5, 1, 8, 2, None))],  # in the group of the bad row
        [(-1, BAD), (1, (3, 1, 4, 4, None))],
        [(1, (6, 2, 1, 0, None)), (1, (7, 3, 1, 1, None))],  # a bad row of its own
        [(-1, (1, 1, 4, 2, None))],
    ]
    for change in changes:
        with opened(":memory:") as wh:
            wh.sql(TABLE)
            wh.sql("CREATE TABLE u (g INT PRIMARY KEY, b INT)")
            wh.sql(f"CREATE MATERIALIZED VIEW v {GUARDED} AS {ALL[view]}")
            wh.sql("CREATE MATERIALIZED VIEW w AS SELECT COUNT(*) AS n FROM v")
            wh.apply({"u": [(1, (g, 1)) for g in (1, 2, 3)], "t": ROWS})
            wh.apply({"t": [(1, BAD)]})
            before = Counter(wh.view("v").rows())
            with wh.transaction():
                wh.apply({"t": change})
                seen = [Counter(rows) for rows in (wh.view("v").rows(), wh.sql("SELECT * FROM v"))]
                above = wh.sql("SELECT * FROM w").rows()
            # A view that is stopped shows its last epoch, and heals in an epoch of its own.
            assert seen == [Counter(wh.view("v").rows()) if view != "ranked" else before] * 2, change
            assert above == wh.view("w").rows() or view == "ranked"


def test_a_transaction_says_that_it_leaves_its_own_rows_out(wh: tidemill.Warehouse) -> None:
    with wh.transaction():
        wh.apply({"t": [(1, BAD)]})
        with pytest.warns(QuarantineWarning, match="rows of this transaction cannot be computed"):
            assert sorted(wh.view("v").rows()) == [(1, 2, 1), (2, 2, 1)]


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE MATERIALIZED VIEW x WITH (on_error = 'maybe') AS SELECT id FROM t",
        "CREATE MATERIALIZED VIEW x WITH (on_error = 'quarantine', refresh = 'deferred') AS SELECT id FROM t",
        "CREATE MATERIALIZED VIEW x AS SELECT epoch FROM v_errors",
        "CREATE MATERIALIZED VIEW x WITH (on_error = 'null') AS SELECT sqrt(a) AS r FROM t",
        "DELETE FROM v_errors",
        "DROP TABLE v_errors",
        "ALTER VIEW v RENAME TO x",
        "RELEASE ERRORS OF w",
    ],
)
def test_what_is_refused(statement: str, wh: tidemill.Warehouse) -> None:
    with pytest.raises(Unsupported):
        wh.sql(statement)


@pytest.mark.parametrize("backend", ["python", "llvm"])
def test_null_is_what_the_try_functions_give(backend: str) -> None:
    with opened(":memory:", backend) as wh:
        wh.sql(TABLE.replace("a INT, b INT", "a INT NOT NULL, b INT NOT NULL"))
        plain = (
            "SELECT id, coalesce(a % b, -1) AS m, CAST(s AS INT) AS c, a + b AS p, a / b AS q FROM t WHERE 6 / b < 9"
        )
        tried = (
            "SELECT id, coalesce(try_mod(a, b), -1) AS m, TRY_CAST(s AS INT) AS c, try_add(a, b) AS p, "
            "try_divide(a, b) AS q FROM t WHERE try_divide(6, b) < 9"
        )
        wh.sql(f"CREATE MATERIALIZED VIEW v WITH (on_error = 'null') AS {plain}; CREATE MATERIALIZED VIEW w AS {tried}")
        grouped = "SELECT m, {}(p) AS s, COUNT(c) AS n FROM (SELECT coalesce(m, 0) AS m, p, c FROM v) GROUP BY m"
        wh.sql(f"CREATE MATERIALIZED VIEW n WITH (on_error = 'null') AS {grouped.format('SUM')}")
        random = Random()
        for number in range(30):
            a, b = random.choice([1, 2, 2147483647]), random.choice([0, 1, 2])
            wh.apply({"t": [(1, (number, 1, a, b, random.choice(["x", "7", None])))]})
        assert Counter(wh.view("v").rows()) == Counter(wh.view("w").rows()) and all(wh.verify())


def test_bad_rows_of_files_go_to_a_table(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("id,n\n1,5\n2,x\n1,6\n3,-1\n")
    with opened(":memory:") as wh:
        wh.sql("CREATE TABLE r (id INT PRIMARY KEY, n INT CHECK (n > 0))")
        wh.sql(f"CREATE FEED f INTO r FROM '{tmp_path / 'in'}' OPTIONS (on_error = 'quarantine')")
        assert wh.sync("f").counts.rejected == 3
        assert wh.table("r").rows() == [(1, 5)]
        assert [row[:2] for row in sorted(wh.table("r_errors").rows())] == [("f: a.csv", n) for n in (3, 4, 5)]
        (tmp_path / "b.csv").write_text("id,n\n7,7\n8,\n9,none\n")
        assert wh.load("r", tmp_path / "b.csv", on_error="quarantine").counts.rejected == 1
        assert len(wh.table("r_errors").rows()) == 4


def test_a_text_compared_with_a_number_is_noted(wh: tidemill.Warehouse) -> None:
    with pytest.warns(UserWarning, match="compares a STRING with a number"):
        assert wh.sql("CREATE MATERIALIZED VIEW x AS SELECT id FROM t WHERE s = id").notes
    assert not wh.sql("CREATE MATERIALIZED VIEW y AS SELECT id FROM t WHERE CAST(s AS BIGINT) = id").notes


def test_a_view_in_quarantine_can_be_replaced() -> None:
    with opened(":memory:") as wh:
        wh.sql(TABLE)
        wh.sql(f"CREATE MATERIALIZED VIEW v {GUARDED} AS {BY_GROUP['sums']}")
        wh.apply({"t": [*ROWS, (1, (3, 1, 4, 0, None))]})
        wh.sql(f"CREATE OR REPLACE MATERIALIZED VIEW v {GUARDED} AS SELECT g, MAX(a DIV b) AS m FROM t GROUP BY g")
        assert wh.view("v").rows() == [(2, 2)] and len(wh.table("v_errors").rows()) == 2
        wh.sql("UPDATE t SET b = 1 WHERE b = 0")
        assert sorted(wh.view("v").rows()) == [(1, 4), (2, 2)] and wh.table("v_errors").rows() == []
        wh.sql("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT g FROM t")
        assert "v_errors" not in wh.tables()


@pytest.mark.spark
def test_spark_holds_the_same_rows_back(tmp_path: Path, spark: SparkSession) -> None:
    """As DataFrames: each view shows what the evaluator says of the rows that are not held."""
    views = {name: ALL[name] for name in ("sums", "facts")}
    with taking("frames"), tidemill.open(tmp_path / "wh", spark=spark, runtime="spark") as wh:
        wh.sql(f"{TABLE}; CREATE TABLE u (g INT PRIMARY KEY, b INT)")
        for name, query in views.items():
            wh.sql(f"CREATE MATERIALIZED VIEW {name} {GUARDED} AS {query}")
        assert {wh._engine.pipeline[name].runtime.name for name in views} == {"spark dataframes"}
        wh.apply({"u": [(1, (1, 2)), (1, (2, 1))], "t": ROWS})
        wh.apply({"t": [(1, BAD), (1, GOOD)]})
        assert {tuple(held_of(wh, name, "t")) for name in views} == {(BAD,)}
        assert sorted(wh.view("sums").rows()) == [(1, 2, 1), (2, 4, 2)]
        check_joined(wh, *views)
        wh.apply({"t": [(-1, BAD), (1, (3, 1, 4, 1, None))]})
        assert not any(wh._engine.notes(views))
        check_joined(wh, *views)
