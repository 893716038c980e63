"""Seconds of one-off queries and of ``verify`` over one table, by DuckDB in columns and by the native runtime.

``python -m benchmarks.one_off_queries --rows 2000000``; both must give the same rows before a time is printed.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

import tidemill
from tidemill.compiler import choose

QUERIES = {
    "group by": "SELECT region, COUNT(*) AS n, SUM(amount) AS total, AVG(amount) AS mean FROM orders GROUP BY region",
    "join": "SELECT c.segment, SUM(o.amount) AS total FROM orders o JOIN customers c ON o.customer = c.customer "
    "WHERE o.region <> 'west' GROUP BY c.segment",
    "order by, limit": "SELECT id, amount FROM orders ORDER BY amount DESC, id LIMIT 10",
    "one row by its id": "SELECT * FROM orders WHERE id = 77",
}
VIEW = "SELECT customer, region, COUNT(*) AS n, SUM(amount) AS total FROM orders GROUP BY customer, region"
CUSTOMERS = 5_000


def filled(rows: int) -> tidemill.Warehouse:
    """A warehouse in memory with so many orders of ``CUSTOMERS`` customers."""
    chance = np.random.default_rng(7)
    warehouse = tidemill.open(":memory:")
    warehouse.sql("CREATE TABLE orders (id BIGINT, customer INT, amount DECIMAL(12,2), region STRING)")
    warehouse.sql("CREATE TABLE customers (customer INT, segment STRING)")
    orders = pa.table(
        {
            "id": pa.array(np.arange(rows), pa.int64()),
            "customer": pa.array(chance.integers(0, CUSTOMERS, rows), pa.int32()),
            "amount": pa.array(chance.integers(1, 100_000, rows), pa.int32()).cast(pa.decimal128(12, 2)),
            "region": pa.array(np.array(["north", "south", "east", "west"])[chance.integers(0, 4, rows)]),
        }
    )
    segments = pa.array(np.array(["a", "b", "c"])[chance.integers(0, 3, CUSTOMERS)])
    customers = pa.table({"customer": pa.array(range(CUSTOMERS), pa.int32()), "segment": segments})
    warehouse.apply({"orders": orders, "customers": customers})
    warehouse.sql(f"CREATE MATERIALIZED VIEW spend AS {VIEW}")
    return warehouse


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """The result of ``work``, and its seconds."""
    start = time.perf_counter()
    found = work()
    return found, time.perf_counter() - start


def by_native(work: Callable[[], Any]) -> tuple[Any, float]:
    """As ``timed``, with DuckDB left out of the choice."""
    before = choose.COLUMN_WORK
    choose.COLUMN_WORK = choose.NATIVE_ROWS
    try:
        return timed(work)
    finally:
        choose.COLUMN_WORK = before


def main() -> None:
    """Print a line for each query, and one for ``verify``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    rows = parser.parse_args().rows
    with filled(rows) as warehouse:
        for name, query in QUERIES.items():
            (found, seconds), (expected, native) = (
                run(lambda query=query: warehouse.sql(query).rows())  # type: ignore[misc]
                for run in (timed, by_native)
            )
            assert Counter(found) == Counter(expected), name
            print(f"{name:18} DuckDB {seconds:7.3f} s   native {native:7.3f} s")
        (found, seconds), (expected, slow) = (run(warehouse.view("spend").verify) for run in (timed, by_native))
        assert found and expected
        print(f"{'verify':18} DuckDB {seconds:7.3f} s   {expected.oracle} {slow:7.3f} s")


if __name__ == "__main__":
    main()
