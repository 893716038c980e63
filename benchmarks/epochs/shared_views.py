"""Costs of views that have much in common: a second one that is equal, and a hundred over the same joins.

Times are CPU time: the warehouses take turns in one process, and the median of their epochs counts. Memory is that of a
process of its own, for the tables, the views and all that is kept for them.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Sequence
from multiprocessing import get_context
from pathlib import Path
from statistics import median

import pyarrow as pa

import tidemill
from benchmarks.dbtoaster.oracle import WrongAnswer
from benchmarks.dbtoaster.subject import anonymous_bytes
from benchmarks.tpch.data import DDL, Changes, generate
from tidemill.engine.epochs.memory_budget import return_free_memory
from tidemill.engine.warehouse import Warehouse
from tidemill.serving.cli.bench_runner import BenchmarkOptions, Figure

SCALE = 0.01
PERCENT = 1.3
"""Percentage of the orders that an epoch touches, with their lines: about 1,000 rows."""

EPOCHS, QUICK_EPOCHS = 40, 6
WARM = 3
"""Epochs that are not timed: in them code is compiled, and indexes are built."""

RUNS = 5
"""Processes whose memory is measured for a case, the smallest of which counts: allocators differ by a tenth."""

ORDERS = """SELECT l_orderkey, o_orderdate, o_shippriority, SUM(l_extendedprice * (1 - l_discount)) AS revenue
    FROM customer, orders, lineitem WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey
    GROUP BY l_orderkey, o_orderdate, o_shippriority"""
"""A view with a row for each order, after TPC-H's query 3."""

JOINS = (
    (
        "customer, orders, lineitem, nation",
        "c_custkey = o_custkey AND l_orderkey = o_orderkey AND c_nationkey = n_nationkey",
        ("n_name", "c_mktsegment", "o_orderpriority", "YEAR(o_orderdate)", "l_shipmode"),
    ),
    (
        "orders, lineitem",
        "l_orderkey = o_orderkey",
        ("o_orderstatus", "o_orderpriority", "l_returnflag", "YEAR(l_shipdate)", "l_shipmode"),
    ),
    (
        "lineitem, part",
        "l_partkey = p_partkey",
        ("p_brand", "p_size", "p_container", "l_returnflag", "p_mfgr"),
    ),
    (
        "lineitem, supplier, nation",
        "l_suppkey = s_suppkey AND s_nationkey = n_nationkey",
        ("n_name", "l_shipmode", "l_returnflag", "l_linestatus", "s_nationkey"),
    ),
)
"""Relations, how they are joined, and what their rows are grouped by."""

FILTERS = (
    "l_quantity < 24",
    "l_discount BETWEEN 0.05 AND 0.07",
    "l_shipdate >= DATE '1995-01-01'",
    "l_returnflag = 'R'",
    "l_shipmode IN ('MAIL', 'SHIP')",
)

HUNDRED = tuple(
    f"""SELECT {group} AS grouped, SUM(l_extendedprice * (1 - l_discount)) AS revenue, COUNT(*) AS n
    FROM {relations} WHERE {joined} AND {condition} GROUP BY {group}"""
    for condition in FILTERS
    for relations, joined, groups in JOINS
    for group in groups
)

CASES = {
    "equal/views1": (ORDERS,),
    "equal/views2": (ORDERS, ORDERS),
    "joins/views1": HUNDRED[:1],
    "joins/views100": HUNDRED,
}
BARS = {"equal/views2": 1.05, "joins/views100": 15.0}


def shared_views(options: BenchmarkOptions) -> Iterator[Figure]:
    """Milliseconds an epoch and megabytes of each case, and how many times those of one view they are."""
    tables = generate(options.folder, SCALE)
    epochs = QUICK_EPOCHS if options.quick else EPOCHS
    seconds = _seconds(tables, epochs, options)
    with get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        runs = 1 if options.quick else RUNS
        held = {case: min(pool.apply(_held, (case, options.folder)) for _ in range(runs)) for case in CASES}
    for case in CASES:
        yield Figure("epochs", f"shared/{case}", "ms/epoch", 1e3 * seconds[case], "ms")
        yield Figure("epochs", f"shared/{case}", "memory", held[case] / 1e6, "MB")
        if case in BARS:
            one, bar = f"{case.partition('/')[0]}/views1", f"over one view; at most {BARS[case]:g}"
            yield Figure("epochs", f"shared/{case}", "time_ratio", seconds[case] / seconds[one], "x", bar)
            yield Figure("epochs", f"shared/{case}", "memory_ratio", held[case] / held[one], "x", bar)


def warehouse_with(tables: dict[str, pa.Table], views: Sequence[str]) -> Warehouse:
    """A warehouse in memory over TPC-H with these views."""
    warehouse = tidemill.open(":memory:", runtime="native")
    warehouse.sql(DDL)
    warehouse.apply(dict(tables))
    for number, query in enumerate(views):
        warehouse.sql(f"CREATE MATERIALIZED VIEW view_{number} AS {query}")
    return warehouse


def _seconds(tables: dict[str, pa.Table], epochs: int, options: BenchmarkOptions) -> dict[str, float]:
    """The median CPU seconds of an epoch of each case; the last view of each is verified at the end."""
    warehouses = {case: warehouse_with(tables, views) for case, views in CASES.items()}
    spent: dict[str, list[float]] = {case: [] for case in CASES}
    changes = Changes(tables)
    for number in range(WARM + epochs):
        drawn = changes.draw(PERCENT)
        # By turns in this order and in the other: whoever comes first finds the rows in no cache.
        for case, warehouse in list(warehouses.items())[:: -1 if number % 2 else 1]:
            begun = time.process_time()
            warehouse.apply(drawn)
            spent[case].append(time.process_time() - begun)
        options.progress((number + 1) / (WARM + epochs), f"{number + 1} epochs")
    for case, warehouse in warehouses.items():
        if not warehouse.view(warehouse.views()[-1]).verify():
            raise WrongAnswer(f"{case}: the last view is wrong")
        warehouse.close()
    return {case: median(seconds[WARM:]) for case, seconds in spent.items()}


def _held(case: str, folder: Path) -> int:
    """Bytes of this process that a warehouse takes after a few epochs."""
    tables = generate(folder, SCALE)
    changes = Changes(tables)
    gc.collect()
    before = anonymous_bytes()
    with warehouse_with(tables, CASES[case]) as warehouse:
        for _ in range(WARM):
            warehouse.apply(changes.draw(PERCENT))
        gc.collect()
        return_free_memory()
        return anonymous_bytes() - before
