"""SELECT, UPDATE and DELETE by primary key: answers as over the whole table, from the rows under these keys."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tidemill
from tidemill.algebra.evaluate import evaluate
from tidemill.algebra.relational.walk import scans
from tidemill.compiler import choose
from tidemill.compiler.frontends.translate import translate
from tidemill.engine.epochs.reading import keyed_reads
from tidemill.engine.warehouse import Warehouse
from tidemill.model.errors import DuplicateKey
from tidemill.runtimes.native import runtime_state
from tidemill.runtimes.native.runtime import NativeRuntime
from tidemill.runtimes.native.runtime_state import RuntimeState
from tidemill.runtimes.native.state import stored_lookups

TABLES = """
    CREATE TABLE item (id BIGINT PRIMARY KEY, owner INT, name STRING, price DECIMAL(10, 2));
    CREATE TABLE stock (place STRING, day DATE, item BIGINT, n INT, PRIMARY KEY (place, day));
    CREATE TABLE loose (id BIGINT, n INT);
"""

WAYS = ("held", "overlay", "compiled", "disk")


@pytest.fixture(params=WAYS)
def wh(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Warehouse]:
    """The tables in each form: dictionaries, a snapshot in columns with an overlay, machine code, files."""
    if request.param in ("overlay", "disk"):
        monkeypatch.setattr(runtime_state, "RESIDENT_ROWS", 10)
    if request.param == "disk":
        monkeypatch.setattr(stored_lookups, "LOOKUP_ROWS", 10)
    backend = "llvm" if request.param == "compiled" else "python"
    path = tmp_path if request.param == "disk" else ":memory:"
    with tidemill.open(path, runtime="native", backend=backend) as warehouse:
        warehouse.sql(TABLES)
        warehouse.apply(
            {
                "item": [(1, (i, i % 5 or None, f"n{i}" if i % 7 else None, f"{i}.50")) for i in range(100)],
                "stock": [(1, (f"p{i % 10}", f"2026-01-{1 + i // 10:02}", i, i % 3)) for i in range(100)],
                "loose": [(2, (i % 10, i)) for i in range(30)],
            }
        )
        yield warehouse


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The lookups that statements make: the relation, and the number of keys; a scan of a whole relation fails."""
    made: list[tuple[str, int]] = []
    find = NativeRuntime.find

    def counted(self, relation, positions, keys):  # type: ignore[no-untyped-def]
        made.append((relation, len(keys)))
        return find(self, relation, positions, keys)

    monkeypatch.setattr(NativeRuntime, "find", counted)
    monkeypatch.setattr(RuntimeState, "scan", lambda self, name: pytest.fail(f"{name} is scanned"))
    return made


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT name FROM item WHERE id = 8", [("n8",)]),
        ("SELECT name FROM item WHERE 8 = id AND owner = 3", [("n8",)]),
        ("SELECT name FROM item WHERE id = 8 AND owner = 4", []),
        ("SELECT name FROM item WHERE id = 800", []),
        ("SELECT name FROM item WHERE id = NULL", []),
        ("SELECT id FROM item WHERE id IN (3, 2, 3, NULL, 700, 2)", [(2,), (3,)]),
        ("SELECT id FROM item WHERE id IN (2, 3, 4) AND id IN (3, 4, 5) AND id = 4", [(4,)]),
        ("SELECT id FROM item WHERE id = 2 AND id = 3", []),
        ("SELECT id FROM item WHERE id = 2 OR id IN (3, 4) AND owner = 3", [(2,), (3,)]),
        ("SELECT id FROM item WHERE id = '8'", [(8,)]),
        ("SELECT id FROM item WHERE id = 8.0", [(8,)]),
        ("SELECT id FROM item WHERE id = 8.5", []),
        ("SELECT id FROM item WHERE id = 12345678901234567890", []),
        ("SELECT id FROM item WHERE id = 3 + 5", [(8,)]),
        ("SELECT COUNT(*), SUM(price) FROM item WHERE id IN (1, 2)", [(2, "4.00")]),
        ("SELECT COUNT(*) FROM item WHERE id = 700", [(0,)]),
        ("SELECT n FROM stock WHERE place = 'p3' AND day = '2026-01-02'", [(1,)]),
        ("SELECT n FROM stock WHERE day = DATE '2026-01-02' AND place IN ('p3', 'p4', 'q')", [(1,), (2,)]),
        ("SELECT a.id, b.id FROM item a, item b WHERE a.id = 1 AND b.id = 2", [(1, 2)]),
        ("SELECT name FROM (SELECT id AS k, name FROM item) x WHERE k = 8", [("n8",)]),
        ("WITH x AS (SELECT * FROM item WHERE id = 8) SELECT a.name FROM x a JOIN x b ON a.id = b.id", [("n8",)]),
        (
            "SELECT i.name FROM stock s JOIN item i ON i.id = s.item WHERE place = 'p3' AND day = '2026-01-02'",
            [("n13",)],
        ),
        (
            "SELECT s.n, i.name FROM stock s LEFT JOIN item i ON i.id = s.item AND i.owner = 1 "
            "WHERE s.place = 'p3' AND s.day = '2026-01-02'",
            [(1, None)],
        ),
        ("SELECT id FROM item i WHERE id = 3 AND EXISTS (SELECT 1 FROM item j WHERE j.id = i.owner)", [(3,)]),
        ("SELECT id FROM item WHERE id = 8 UNION ALL SELECT id FROM item WHERE id IN (8, 9)", [(8,), (8,), (9,)]),
    ],
)
def test_rows_are_looked_up(wh: Warehouse, looked_up: list[tuple[str, int]], query: str, rows: list[object]) -> None:
    found = [tuple(str(v) if hasattr(v, "as_tuple") else v for v in row) for row in wh.sql(query)]
    assert sorted(found) == rows
    assert sum(count for _, count in looked_up) <= 6


@pytest.mark.parametrize(
    "query",
    [
        "SELECT COUNT(*) FROM item WHERE id > 8",
        "SELECT COUNT(*) FROM item WHERE id = 8 OR owner = 3",
        "SELECT COUNT(*) FROM item WHERE NOT id = 8",
        "SELECT COUNT(*) FROM item WHERE id = owner",
        "SELECT COUNT(*) FROM item WHERE CAST(id AS DOUBLE) = 8",
        "SELECT COUNT(*) FROM stock WHERE place = 'p3'",
        "SELECT COUNT(*) FROM loose WHERE id = 3",
        "SELECT COUNT(*) FROM item a, item b WHERE a.id = 1 AND b.id < 5",
        "SELECT COUNT(*) FROM item a FULL JOIN item b ON a.id = 1 AND b.id = 1",
        "SELECT COUNT(*) FROM item a LEFT JOIN item b ON a.id = 1 AND b.id = 1",
    ],
)
def test_other_conditions_scan(wh: Warehouse, query: str) -> None:
    relation = translate(query, wh._engine.catalog.relations).relation
    tables = {name: wh._engine.contents(name).zset() for name in scans(relation)}
    assert sorted(wh.sql(query)) == sorted(evaluate(relation, tables).expand())


def test_statements_by_key(wh: Warehouse, looked_up: list[tuple[str, int]]) -> None:
    assert "2 row changes" in wh.sql("UPDATE item SET name = 'new', price = price * 2 WHERE id = 8").message
    assert wh.sql("SELECT name, CAST(price AS STRING) FROM item WHERE id = 8") == [("new", "17.00")]
    assert "2 row changes" in wh.sql("DELETE FROM item WHERE id IN (9, 9, 10, 700)").message
    assert wh.sql("SELECT id FROM item WHERE id IN (8, 9, 10)") == [(8,)]
    wh.sql("UPDATE item SET id = 9 WHERE id = 8")  # the key itself moves
    assert wh.sql("SELECT id, name FROM item WHERE id IN (8, 9)") == [(9, "new")]
    assert "0 row changes" in wh.sql("UPDATE item SET name = 'lost' WHERE id = 8").message
    wh.sql("INSERT INTO item VALUES (8, 1, 'again', 1)")
    with pytest.raises(DuplicateKey):
        wh.sql("UPDATE item SET id = 8 WHERE id = 9")
    assert wh.sql("SELECT id, name FROM item WHERE id IN (8, 9)") == [(8, "again"), (9, "new")]
    wh.sql("UPDATE stock SET n = NULL WHERE place = 'p3' AND day = '2026-01-02' AND n = 1")
    assert wh.sql("SELECT n FROM stock WHERE place = 'p3' AND day = '2026-01-02'") == [(None,)]
    assert {relation for relation, _ in looked_up} == {"item", "stock"}


def test_a_joined_table_that_is_not_bounded_is_scanned(wh: Warehouse) -> None:
    query = "SELECT i.id, COUNT(*) FROM item i JOIN loose l ON l.id = i.owner WHERE i.id IN (3, 8) GROUP BY i.id"
    assert sorted(wh.sql(query)) == [(3, 6), (8, 6)]


def test_many_keys_are_answered_by_a_compiled_query(wh: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyed_reads, "FEW_ROWS", 3)
    keys = ", ".join(map(str, range(0, 100, 2)))
    assert wh.sql(f"SELECT COUNT(*), SUM(id) FROM item WHERE id IN ({keys})") == [(50, 2450)]


def test_random_statements_agree_with_the_whole_table(wh: Warehouse) -> None:
    """Whatever the conditions, and whatever was changed before: the evaluator over all rows says the same."""
    draw = random.Random(7)
    engine = wh._engine
    for _ in range(60):
        query = f"SELECT * FROM item a {_join(draw)} WHERE {_condition(draw)}"
        relation = translate(query, engine.catalog.relations).relation
        tables = {name: engine.contents(name).zset() for name in scans(relation)}
        assert engine.answer(relation).zset() == evaluate(relation, tables), query
        wh.sql(_statement(draw))
    assert wh.sql("SELECT COUNT(*) FROM item") == [(len(wh.table("item")),)]


def _condition(draw: random.Random) -> str:
    atoms: list[Callable[[], str]] = [
        lambda: f"a.id = {draw.randrange(-2, 110)}",
        lambda: f"a.id IN ({', '.join(str(draw.choice((None, *range(110)))) for _ in range(4))})".replace(
            "None", "NULL"
        ),
        lambda: f"a.owner = {draw.randrange(5)}",
        lambda: f"a.id = {draw.randrange(110)}.{draw.choice('05')}",
        lambda: "a.name IS NULL",
        lambda: f"(a.id = {draw.randrange(110)} OR a.id = {draw.randrange(110)} AND a.owner <=> NULL)",
    ]
    parts = [draw.choice(atoms)() for _ in range(draw.randrange(1, 4))]
    return draw.choice((" AND ", " AND ", " OR ")).join(parts)


def _join(draw: random.Random) -> str:
    return draw.choice(
        (
            "",
            "JOIN item b ON b.id = a.owner",
            "LEFT JOIN item b ON b.id = a.owner AND b.owner = 1",
            "RIGHT JOIN item b ON b.id = a.owner",
            "FULL JOIN item b ON b.id = a.owner",
            "JOIN stock b ON b.item = a.id AND b.place = 'p3' AND b.day = '2026-01-03'",
        )
    )


def _statement(draw: random.Random) -> str:
    one, other = draw.randrange(110), draw.randrange(110)
    return draw.choice(
        (
            f"DELETE FROM item WHERE id = {one}",
            f"UPDATE item SET owner = {draw.choice(('NULL', '1', '2'))}, name = NULL WHERE id IN ({one}, {other})",
            f"DELETE FROM item WHERE id = {one}; INSERT INTO item VALUES ({one}, 1, 'x{other}', {other})",
            f"UPDATE item SET price = price + 1 WHERE id = {one} AND owner = 1",
        )
    )


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id FROM item WHERE id = 8 AND EXISTS (SELECT 1)",
        "SELECT id FROM item WHERE id = 8 AND NOT EXISTS (SELECT 1)",
        "SELECT id FROM item WHERE id IN (8, 9) AND id IN (SELECT 8)",
        "SELECT id FROM item WHERE id IN (8, 9) AND owner >= ALL (SELECT owner FROM item WHERE id IN (8, 9))",
        "SELECT id, (SELECT MAX(n) FROM stock WHERE item = i.id) FROM item i WHERE id = 8",
        "SELECT id, (SELECT MAX(name) FROM item j WHERE j.id = i.owner) FROM item i WHERE id IN (8, 9)",
        "SELECT id FROM item WHERE id IN (8, 9) EXCEPT SELECT id FROM item WHERE id = 9",
        "SELECT id FROM item WHERE id IN (8, 9) INTERSECT ALL SELECT id FROM item WHERE id = 9",
        "SELECT a.owner, COUNT(b.id) FROM item a LEFT JOIN item b ON b.id = a.owner WHERE a.id IN (8, 9) "
        "GROUP BY a.owner",
        "SELECT owner, COUNT(*) OVER (PARTITION BY owner) FROM item WHERE id IN (1, 2, 6)",
        "SELECT DISTINCT owner FROM item WHERE id IN (1, 2, 6)",
        "SELECT id FROM (SELECT owner AS id, COUNT(*) AS n FROM item GROUP BY owner) x WHERE id = 3",
        "SELECT i.id, x.n FROM item i JOIN (SELECT owner, COUNT(*) AS n FROM item GROUP BY owner) x "
        "ON x.owner = i.owner WHERE i.id = 8",
        "SELECT id FROM item WHERE id = 8 AND id = (SELECT MAX(id) FROM item WHERE id IN (7, 8))",
        "WITH RECURSIVE r AS (SELECT id, owner FROM item WHERE id = 8 UNION SELECT i.id, i.owner FROM r JOIN item i "
        "ON i.id = r.owner) SELECT * FROM r",
    ],
)
def test_queries_of_every_kind_agree_with_the_evaluator(wh: Warehouse, query: str) -> None:
    translated = translate(query, wh._engine.catalog.relations)
    tables = {name: wh._engine.contents(name).zset() for name in scans(translated.relation)}
    assert wh._engine.answer(translated.relation).zset() == evaluate(translated.relation, tables)


def test_events_of_an_open_epoch_are_seen(wh: Warehouse) -> None:
    item = wh.feed("item")
    item(+1, 500, 1, "fed", 1)
    assert wh.sql("SELECT name FROM item WHERE id = 500") == [("fed",)]
    item(-1, 500, 1, "fed", 1)
    assert wh.sql("SELECT name FROM item WHERE id = 500") == []


def test_large_tables_do_not_start_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "NATIVE_WORK", 50)
    monkeypatch.setattr(runtime_state, "RESIDENT_ROWS", 10)
    with tidemill.open(tmp_path, runtime="auto") as wh:
        wh.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, n INT)")
        for start in range(0, 200, 50):
            wh.apply({"t": [(1, (i, i)) for i in range(start, start + 50)]})
        started = wh._engine.placement
        wh.sql("UPDATE t SET n = -1 WHERE id = 150; DELETE FROM t WHERE id = 151")
        assert wh.sql("SELECT id, n FROM t WHERE id IN (150, 151)") == [(150, -1)]
        assert started._dataframes is None and started._driver is None


def test_the_first_statements_read_files_and_load_no_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few lookups read the row groups that may have a key; then the table is worth loading. All give the same."""
    monkeypatch.setattr(runtime_state, "RESIDENT_ROWS", 10)
    monkeypatch.setattr(stored_lookups, "LOOKUP_ROWS", 16)
    with tidemill.open(tmp_path, runtime="native", backend="python") as wh:
        wh.sql("CREATE TABLE t (k STRING, d DATE, id INT, n INT, PRIMARY KEY (k, d, id))")
        wh.apply({"t": [(1, (f"k{i % 3}", f"2026-01-0{1 + i % 2}", i, i)) for i in range(50)]})
    with tidemill.open(tmp_path, runtime="native", backend="python") as wh:
        held = wh._engine.placement.native._state._contents
        point = "k = 'k1' AND d = '2026-01-02' AND id = 7"
        assert wh.sql(f"SELECT n FROM t WHERE {point}") == [(7,)]
        wh.sql(f"UPDATE t SET n = n + 100 WHERE {point}")
        assert wh.sql(f"SELECT n FROM t WHERE {point}") == [(107,)]
        assert held["t"].stored is not None and not held["t"].stored.is_read
        with pytest.raises(DuplicateKey):
            wh.sql("INSERT INTO t VALUES ('k1', DATE '2026-01-02', 7, 1)")
        wh.sql(f"UPDATE t SET n = n + 100 WHERE {point}; DELETE FROM t WHERE {point}")
        assert wh.sql(f"SELECT n FROM t WHERE {point}") == []
        wh.sql("UPDATE t SET n = 0 WHERE k = 'k2' AND d = '2026-01-01' AND id = 8")
        assert held["t"].stored.is_read
        assert len(wh.table("t")) == 49
