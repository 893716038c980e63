"""What a one-row epoch costs beside views that it does not reach: the work must be that of the change alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import median

import tidemill
from tidemill.engine.warehouse import Warehouse
from tidemill.serving.cli.bench_runner import BenchmarkOptions, Figure

VIEWS, QUICK_VIEWS = 1_000, 100
EPOCHS, QUICK_EPOCHS = 4_000, 1_000
SLICE = 100
"""Epochs of one warehouse in a row; the warehouses take turns, and of all slices the median counts."""


def unrelated_views(options: BenchmarkOptions) -> Iterator[Figure]:
    """Microseconds of CPU an epoch with one view and with many, and the second over the first."""
    views, epochs = (QUICK_VIEWS, QUICK_EPOCHS) if options.quick else (VIEWS, EPOCHS)
    with warehouse_with(0) as alone, warehouse_with(views - 1) as beside:
        slices: dict[int, list[float]] = {1: [], views: []}
        for first in range(0, epochs, SLICE):
            for count, warehouse in ((1, alone), (views, beside)):
                slices[count].append(_seconds(warehouse, first))
            options.progress((first + SLICE) / epochs, f"{first + SLICE:,} epochs")
    typical = {count: median(seconds) / SLICE for count, seconds in slices.items()}
    for count, seconds in typical.items():
        yield Figure("epochs", f"unrelated/views{count}", "us/epoch", 1e6 * seconds, "us")
    ratio = typical[views] / typical[1]
    yield Figure("epochs", f"unrelated/views{views}", "ratio", ratio, "x", "over one view; at most 1.2")


def warehouse_with(unrelated: int) -> Warehouse:
    """A warehouse in memory with one view over ``sales``, and so many over a table that does not change."""
    warehouse = tidemill.open(":memory:", runtime="native")
    for table in ("sales", "others"):
        warehouse.sql(f"CREATE TABLE {table} (id BIGINT PRIMARY KEY, shop INT, amount BIGINT)")
    warehouse.sql("CREATE MATERIALIZED VIEW by_shop AS SELECT shop, SUM(amount) AS total FROM sales GROUP BY shop")
    for number in range(unrelated):
        warehouse.sql(f"""CREATE MATERIALIZED VIEW other_{number} AS
            SELECT shop, SUM(amount + {number}) AS total FROM others GROUP BY shop""")
    warehouse.apply({"others": [(+1, (0, 0, 0))]})
    return warehouse


def sell(warehouse: Warehouse, number: int) -> None:
    """Commit one row."""
    warehouse.apply({"sales": [(+1, (number, number % 10, number))]})


def _seconds(warehouse: Warehouse, first: int) -> float:
    begun = time.process_time()
    for number in range(first, first + SLICE):
        sell(warehouse, number)
    return time.process_time() - begun
