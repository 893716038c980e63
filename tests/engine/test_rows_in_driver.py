"""Nested aggregates of views that ask for Spark: kept row by row in the driver, and no session is started for them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import tidemill

BOOK = """
  CREATE TABLE bids (id INT PRIMARY KEY, broker INT NOT NULL, price INT NOT NULL, volume INT NOT NULL);
  CREATE TABLE asks (id INT PRIMARY KEY, broker INT NOT NULL, price INT NOT NULL, volume INT NOT NULL);
  CREATE TABLE parts (id INT PRIMARY KEY, brand INT);
"""
RUNNING = "(SELECT COALESCE(SUM(w.volume), 0) FROM bids w WHERE w.price > b.price{same})"
NESTED = {
    "vwap": "SELECT SUM(b.price * b.volume) AS total FROM bids b"
    f" WHERE 0.25 * (SELECT SUM(v.volume) FROM bids v) > {RUNNING.format(same='')}",
    "vwap_of_brokers": "SELECT b.broker, SUM(b.price * b.volume) AS total FROM bids b"
    " WHERE 0.25 * (SELECT SUM(v.volume) FROM bids v WHERE v.broker = b.broker)"
    f" > {RUNNING.format(same=' AND w.broker = b.broker')} GROUP BY b.broker",
    "met": "SELECT SUM(b.volume) AS total FROM bids b"
    " WHERE EXISTS (SELECT 1 FROM asks a WHERE a.broker = b.broker AND a.price < b.price)",
    "small_quantities": "SELECT SUM(a.price) AS total FROM asks a JOIN parts p ON p.id = a.broker WHERE p.brand = 1"
    " AND a.volume < (SELECT 0.2 * AVG(l.volume) FROM asks l WHERE l.broker = p.id)",
}
EPOCHS = (1, 300, 800, 1)


def rows(chance: random.Random, first: int, count: int) -> list[tuple[int, int, int, int]]:
    return [(first + i, chance.randrange(40), chance.randrange(500), chance.randrange(1, 50)) for i in range(count)]


@pytest.mark.parametrize("strategy", ["auto", "viewlet"])
def test_rows_and_batches_are_taken_by_the_driver(strategy: str, tmp_path: Path) -> None:
    """An epoch of each size inserts as many rows as it deletes of those before; every view is computed again then."""
    chance = random.Random(3)
    options = f"WITH (runtime = 'spark', strategy = '{strategy}', optimize = 'latency')"
    with tidemill.open(tmp_path / "w") as warehouse:
        warehouse.sql(BOOK)
        held = {name: rows(chance, 0, 800) for name in ("bids", "asks")}
        first = {name: [(1, row) for row in found] for name, found in held.items()}
        warehouse.apply({**first, "parts": [(1, (i, i % 3)) for i in range(40)]})
        for name, query in NESTED.items():
            warehouse.sql(f"CREATE MATERIALIZED VIEW {name} {options} AS {query}")
        for number, count in enumerate(EPOCHS):
            change = {}
            for name, there in held.items():
                chance.shuffle(there)
                new = rows(chance, 10_000 * (number + 1), count)
                change[name] = [*((-1, row) for row in there[:count]), *((1, row) for row in new)]
                held[name] = [*there[count:], *new]
            warehouse.apply(change)
            for name, query in NESTED.items():
                assert sorted(warehouse.view(name).rows()) == sorted(warehouse.sql(query).rows())
        for name in NESTED:
            explained = warehouse.view(name).explain()
            assert "native (its triggers take one row, or one iteration, at a time: in the driver" in explained
        assert warehouse._engine.state.placement.spark_counters() == []
