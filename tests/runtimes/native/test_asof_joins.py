"""ASOF JOIN and temporal joins under random changes: what DuckDB says of the final tables, or a plain search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from random import Random

import duckdb
import pytest

import tidemill
from tidemill.changes.zset import Row

START = datetime(2024, 1, 1)

TABLES = """
    CREATE TABLE a (id INT PRIMARY KEY, k INT, ts TIMESTAMP);
    CREATE TABLE b (k INT, ts TIMESTAMP, x INT);
"""

SPELLINGS = {
    "ge": "SELECT a.id, b.x FROM a ASOF JOIN b ON a.k = b.k AND a.ts >= b.ts",
    "gt": "SELECT a.id, b.x, b.ts FROM a ASOF LEFT JOIN b ON b.ts < a.ts AND b.k = a.k",
    "le": "SELECT a.id, b.x FROM a ASOF LEFT JOIN b ON a.k = b.k AND a.ts <= b.ts",
    "lt": "SELECT a.id, b.x FROM a ASOF JOIN b ON a.k = b.k AND a.ts < b.ts",
    "using": "SELECT k, ts, id, x FROM a ASOF JOIN b USING (k, ts)",
    "expressions": "SELECT a.id, b.x FROM a ASOF JOIN b ON a.k + 1 = b.k AND a.ts >= b.ts + INTERVAL 2 MINUTES",
    "grouped": "SELECT b.x, COUNT(*) AS n FROM a ASOF JOIN b ON a.k = b.k AND a.ts >= b.ts WHERE b.x > 20 GROUP BY b.x",
    "semi": "SELECT a.id FROM a ASOF SEMI JOIN b ON a.k = b.k AND a.ts >= b.ts",
    "anti": "SELECT a.id FROM a ASOF ANTI JOIN b ON a.k = b.k AND a.ts >= b.ts",
    "right": "SELECT a.id, b.x FROM a ASOF RIGHT JOIN b ON a.k = b.k AND a.ts >= b.ts",
    "full": "SELECT a.id, b.x FROM a ASOF FULL JOIN b ON a.k = b.k AND a.ts >= b.ts",
}


class Rows:
    """Rows of both tables at random: those of the right side have times of their own among equal keys."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.held: dict[str, list[Row]] = {"a": [], "b": []}
        self.ids = iter(range(10**6))

    def _time(self) -> datetime | None:
        return None if self.chance.random() < 0.05 else START + timedelta(minutes=self.chance.randint(0, 40))

    def _row(self, table: str) -> Row:
        key = self.chance.choice((1, 2, 3, None))
        return (next(self.ids), key, self._time()) if table == "a" else (key, self._time(), next(self.ids))

    def _is_new(self, table: str, row: Row) -> bool:
        return table == "a" or row[1] is None or all(row[:2] != other[:2] for other in self.held["b"])

    def change(self, most: int) -> dict[str, list[tuple[int, Row]]]:
        """The changes of one epoch, which may insert, delete and replace."""
        found: dict[str, list[tuple[int, Row]]] = {"a": [], "b": []}
        for table, rows in self.held.items():
            for gone in self.chance.sample(rows, min(len(rows), self.chance.randint(0, most))):
                rows.remove(gone)
                found[table].append((-1, gone))
            for row in (self._row(table) for _ in range(self.chance.randint(0, most + 1))):
                if self._is_new(table, row):
                    rows.append(row)
                    found[table].append((1, row))
        return found


def counted(rows: Iterable[Iterable[object]]) -> Counter[Row]:
    return Counter(tuple(row) for row in rows)


@pytest.fixture
def oracle() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute(TABLES.replace(" PRIMARY KEY", ""))
        yield connection


def answer(oracle: duckdb.DuckDBPyConnection, held: dict[str, list[Row]], query: str) -> Counter[Row]:
    for table, rows in held.items():
        oracle.execute(f"DELETE FROM {table}")
        if rows:
            oracle.executemany(f"INSERT INTO {table} VALUES (?, ?, ?)", rows)
    return counted(oracle.execute(query).fetchall())


@pytest.mark.turns("backend")
@pytest.mark.parametrize("backend", ["python", "llvm"])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_the_closest_row_is_the_one_of_duckdb(spelling: str, backend: str, oracle: duckdb.DuckDBPyConnection) -> None:
    query = SPELLINGS[spelling]
    rows = Rows(sum(map(ord, spelling)))
    with tidemill.open(":memory:", runtime="native", backend=backend) as wh:
        wh.sql(TABLES)
        wh.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
        for epoch in range(25):
            wh.apply(rows.change(6 if epoch % 5 else 25))
            wanted = answer(oracle, rows.held, query)
            assert counted(wh.view("v").rows()) == wanted
            assert counted(wh.sql(query)) == wanted
        assert wanted, "something is joined"
        assert wh.view("v").verify()


TEMPORAL = """
    CREATE TABLE a (id INT PRIMARY KEY, k INT, ts TIMESTAMP);
    CREATE TABLE b (k INT, ts TIMESTAMP, x INT, PRIMARY KEY (k, ts));
    CREATE MATERIALIZED VIEW v AS
      SELECT a.id, r.x FROM a LEFT JOIN b FOR SYSTEM_TIME AS OF a.ts AS r ON r.k = a.k AND r.x % 3 > 0;
"""


def test_a_temporal_join_shows_the_version_of_each_time() -> None:
    rows = Rows(7)
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql(TEMPORAL)
        for _ in range(25):
            change = rows.change(8)
            rows.held["b"] = [row for row in rows.held["b"] if None not in row]
            change["b"] = [pair for pair in change["b"] if None not in pair[1]]
            wh.apply(change)
            expected = Counter[Row]()
            for id_, key, at in rows.held["a"]:
                versions = [row for row in rows.held["b"] if at is not None and row[0] == key and row[1] <= at]
                held = max(versions, key=lambda row: row[1], default=None)
                expected[id_, held[2] if held is not None and held[2] % 3 else None] += 1
            assert counted(wh.view("v").rows()) == expected
