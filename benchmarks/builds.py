"""How long writers wait while a view is built in the background: epochs of ten rows over a table of many.

``python -m benchmarks.builds --rows 2000000`` prints the times of epochs before, during and after the build, and those
of the same epochs with the view filled by its statement, for which everybody waits.
"""

from __future__ import annotations

import argparse
import time
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

import tidemill

VIEWS = {
    "sums": "SELECT customer, COUNT(*) AS orders, SUM(amount) AS amount FROM orders GROUP BY customer",
    "joined": """SELECT c.region, COUNT(*) AS orders, SUM(o.amount) AS amount
        FROM orders o JOIN customers c ON o.customer = c.id GROUP BY c.region""",
}

CUSTOMERS = 10_000


class Writer:
    """Commits epochs of ten orders, and keeps the milliseconds of each."""

    def __init__(self, warehouse: tidemill.Warehouse, first: int) -> None:
        self._warehouse = warehouse
        self._next = first
        self._random = np.random.default_rng(2)

    def epoch(self) -> float:
        """The milliseconds of one more epoch."""
        rows = [(1, (self._next + i, int(self._random.integers(CUSTOMERS)), 1.5)) for i in range(10)]
        self._next += 10
        began = time.perf_counter()
        self._warehouse.apply({"orders": rows})
        return 1e3 * (time.perf_counter() - began)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--view", choices=VIEWS, default="joined")
    parser.add_argument("--pause", type=float, default=0.01, help="seconds between two epochs")
    given = parser.parse_args()
    with TemporaryDirectory() as folder, tidemill.open(folder) as warehouse:
        _load(warehouse, given.rows)
        writer = Writer(warehouse, given.rows)
        for _ in range(50):
            writer.epoch()  # the first look rows up in files
        _tell("before", [writer.epoch() for _ in range(200)])
        began = time.perf_counter()
        warehouse.sql(f"CREATE MATERIALIZED VIEW v WITH (build = 'background') AS {VIEWS[given.view]}")
        during = []
        while len(warehouse.builds):
            during.append(writer.epoch())
            time.sleep(given.pause)
        _tell(f"during {time.perf_counter() - began:.1f} s", during)
        _tell("after", [writer.epoch() for _ in range(200)])
        began = time.perf_counter()
        warehouse.sql(f"CREATE MATERIALIZED VIEW w AS {VIEWS[given.view].replace('SUM(', 'MAX(')}")
        print(f"a view like it, built by its statement: everybody waits {1e3 * (time.perf_counter() - began):,.0f} ms")
        print(warehouse.view("v").verify())


def _load(warehouse: tidemill.Warehouse, rows: int) -> None:
    warehouse.sql("CREATE TABLE orders (id BIGINT PRIMARY KEY, customer INT, amount DOUBLE)")
    warehouse.sql("CREATE TABLE customers (id INT PRIMARY KEY, region STRING)")
    random = np.random.default_rng(1)
    customers = pa.table(
        {"id": pa.array(range(CUSTOMERS), pa.int32()), "region": [f"r{i % 50}" for i in range(CUSTOMERS)]}
    )
    orders = pa.table(
        {
            "id": np.arange(rows),
            "customer": random.integers(CUSTOMERS, size=rows).astype("int32"),
            "amount": random.random(rows),
        }
    )
    warehouse.apply({"orders": orders, "customers": customers})


def _tell(when: str, times: list[float]) -> None:
    p50, p99 = np.percentile(times, [50, 99])
    print(f"{when}: {len(times)} epochs, p50 {p50:.1f} ms, p99 {p99:.1f} ms, longest {max(times):.1f} ms", flush=True)


if __name__ == "__main__":
    main()
