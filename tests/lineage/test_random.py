"""Views with lineage under random epochs: their rows are the evaluator's, and what leaves or stays reads no table."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import tidemill
from tests.answers import Answers, differ, inner
from tests.ways import opened
from tidemill.changes.zset import ZSet
from tidemill.compiler.frontends.script.statements import CreateTable
from tidemill.compiler.frontends.translate import parse

TABLES = """
CREATE TABLE c (oid BIGINT PRIMARY KEY, id INT, type STRING, doc BIGINT, parts ARRAY<BIGINT>, used ARRAY<BIGINT>);
CREATE TABLE d (oid BIGINT PRIMARY KEY, id INT, title STRING);
CREATE TABLE a (oid BIGINT PRIMARY KEY, id INT, bd INT);
CREATE TABLE k (x INT, y INT, z INT, PRIMARY KEY (x, y))
"""

QUERIES = {
    "joined": "SELECT c.id AS cid, c.type, d.id AS did FROM c JOIN d ON c.doc = d.oid WHERE c.id <= 5",
    "unnested": (
        "SELECT c.id AS cid, c.type, a.bd FROM c, LATERAL explode(parts) AS t(p), a WHERE a.oid = p AND c.id > a.id"
    ),
    "itself": "SELECT x.id AS x, y.id AS y, x.bd + y.bd AS z FROM a x JOIN a y ON x.bd = y.id",
    "grouped": (
        "SELECT c.type, SUM(d.id) AS t, COUNT(*) AS n, MAX(d.id) AS m FROM c JOIN d ON c.doc = d.oid GROUP BY c.type"
    ),
    "nested": (
        "SELECT c.oid, c.id, COLLECT_LIST(a.bd) AS bds FROM c, LATERAL explode(parts) AS t(p), a WHERE a.oid = p"
        " GROUP BY c.oid, c.id"
    ),
    "twice": (
        "SELECT c.id AS cid, a.bd, b.id AS bid, d.title FROM c, LATERAL explode(parts) AS t(p),"
        " LATERAL explode(used) AS r(q), a, a b, d WHERE a.oid = p AND b.oid = q AND c.doc = d.oid"
    ),
    "outer_joined": "SELECT c.id, d.title FROM c LEFT JOIN d ON c.doc = d.oid",
    "once": "SELECT DISTINCT c.type, d.title FROM c JOIN d ON c.doc = d.oid",
    "summed": (
        "SELECT c.id, d.title FROM c JOIN d ON c.doc = d.oid UNION ALL SELECT a.id, c.type FROM a JOIN c ON a.id = c.id"
    ),
    "elements": "SELECT c.id, p, d.title FROM c, LATERAL explode(parts) AS t(p), d WHERE c.doc = d.oid",
    "placed": "SELECT c.id, i, p, a.bd FROM c, LATERAL posexplode(parts) AS t(i, p), a WHERE a.oid = p",
    "composite": "SELECT k.z, a.bd, k.x FROM k JOIN a ON k.y = a.id AND k.z <> a.bd",
    "first": "SELECT c.id, d.title FROM c JOIN d ON c.doc = d.oid ORDER BY c.id, d.title LIMIT 3",
}


class Epochs:
    """Random changes of all tables: new rows, rows that go, and rows with some other values."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._rows: dict[str, dict[Any, tuple[Any, ...]]] = {"c": {}, "d": {}, "a": {}, "k": {}}

    def next(self) -> dict[str, list[tuple[int, tuple[Any, ...]]]]:
        changes: dict[str, list[tuple[int, tuple[Any, ...]]]] = {}
        for table, rows in self._rows.items():
            if self._random.random() < 0.5:
                keys = [(x, y) for x in (1, 2) for y in (1, 2, 3)] if table == "k" else [1, 2, 3, 4, 5]
                for key in self._random.sample(keys, self._random.randint(1, 3)):
                    old, new = rows.pop(key, None), self._row(table, key)
                    if old is not None:
                        changes.setdefault(table, []).append((-1, old))
                        new = self._altered(old, new) if self._random.random() < 0.7 else None
                    if new is not None:
                        changes.setdefault(table, []).append((1, new))
                        rows[key] = new
        return changes

    def _altered(self, old: tuple[Any, ...], new: tuple[Any, ...]) -> tuple[Any, ...]:
        moved = self._random.random()
        return tuple(n if self._random.random() < moved else o for o, n in zip(old, new, strict=True))

    def _row(self, table: str, key: Any) -> tuple[Any, ...]:
        pick, number = self._random.choice, self._random.randint
        match table:
            case "c":
                references = (None, 1, 2, 3, 4)
                return (key, pick((None, 1, 2, 3, 6)), pick("xyz"), pick(references), self._array(), self._array())
            case "d":
                return (key, number(1, 5), pick(("p", "q", None)))
            case "a":
                return (key, number(1, 4), number(1, 5))
        return (*key, number(1, 4))

    def _array(self) -> list[int | None] | None:
        if self._random.random() < 0.1:
            return None
        return [self._random.choice((1, 2, 3, 4, None)) for _ in range(self._random.randint(0, 4))]


@pytest.mark.parametrize(("way", "seed", "epochs"), [("held", 1, 40), ("held", 2, 40), ("columns", 3, 15)])
def test_lineage_is_what_the_evaluator_says(way: str, seed: int, epochs: int) -> None:
    answers = Answers()
    with opened(way) as warehouse:
        for statement in parse(TABLES):
            assert isinstance(statement, CreateTable)
            answers.declare(statement.table)
        warehouse.sql(TABLES)
        for name, query in QUERIES.items():
            answers.define(name, query)
            warehouse.sql(f"CREATE MATERIALIZED VIEW {name} WITH (strategy = 'lineage') AS {query}")
            assert "no lineage" not in warehouse.view(name).explain()
        changes = Epochs(seed)
        for _ in range(epochs):
            epoch = changes.next()
            warehouse.apply(epoch)
            for table, pairs in epoch.items():
                fields = answers.fields(table)
                answers.rows[table].update_by(ZSet.summed((inner([r], fields, table)[0], w) for w, r in pairs))
            for name, rows in answers.evaluator().items():
                shown = ZSet.of(inner(warehouse.view(name).rows(), answers.fields(name), name))
                assert not differ(rows, shown, answers.fields(name)), name


@pytest.fixture
def parts() -> tidemill.Warehouse:
    """Two composites that share a document, and the parts of one of them."""
    warehouse = tidemill.open(":memory:", runtime="native")
    warehouse.sql(TABLES)
    warehouse.sql(f"CREATE MATERIALIZED VIEW joined WITH (strategy = 'lineage') AS {QUERIES['joined']}")
    warehouse.apply(
        {
            "c": [(1, (1, 1, "x", 1, [1, 2], [])), (1, (2, 2, "y", 1, [], []))],
            "d": [(1, (1, 7, "p")), (1, (2, 8, "q"))],
        }
    )
    return warehouse


def test_a_row_is_traced_to_the_rows_that_it_comes_from(parts: tidemill.Warehouse) -> None:
    parts.sql("CREATE MATERIALIZED VIEW counted AS SELECT did, COUNT(*) AS n FROM joined GROUP BY did")
    assert parts.view("joined").lineage((1, "x", 7)) == {"c": [(1, 1, "x", 1, [1, 2], [])], "d": [(1, 7, "p")]}
    found = parts.view("counted").lineage((7, 2))
    assert sorted(row[0] for row in found["c"]) == [1, 2]
    assert found["d"] == [(1, 7, "p")]
    with pytest.raises(tidemill.TidemillError, match='view "joined" has no row'):
        parts.view("joined").lineage((9, "x", 7))


def test_only_rows_that_arrive_read_tables(parts: tidemill.Warehouse) -> None:
    def read() -> int:
        return sum(parts.view("joined").base_reads().values())

    before = read()
    parts.apply({"c": [(-1, (1, 1, "x", 1, [1, 2], [])), (1, (1, 1, "z", 1, [2], []))]})
    parts.apply({"d": [(-1, (1, 7, "p")), (1, (1, 9, "p"))]})
    parts.apply({"c": [(-1, (2, 2, "y", 1, [], []))]})
    assert read() == before
    assert parts.view("joined").rows() == [(1, "z", 9)]
    parts.apply({"c": [(-1, (1, 1, "z", 1, [2], [])), (1, (1, 1, "z", 2, [2], []))]})
    assert read() > before
    assert "onModifyAttribute c.type: vx ⋈ Δnew; reads no base data" in parts.view("joined").explain()
