"""One change after the other through each construct, at two sizes, beside computing the view again."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice

from rich.table import Table

import tidemill
from benchmarks.sql.capabilities import CAPABILITIES, SCHEMA, Capability
from benchmarks.sql.data import Shop
from tidemill.changes.zset import ZSet
from tidemill.engine.inspect.verification.differences import differences
from tidemill.serving.cli.bench_runner import BenchmarkOptions, Figure

SIZES = (10_000, 1_000_000)
QUICK_SIZES = (1_000, 10_000)
CHANGES = 30
WARM_UP = 5
SECONDS = 5.0
"""How long the changes of one construct may take: a dear one is measured by fewer."""

CHANGED = ("orders", "customers", "returns", "parts")
"""Of the tables that an example reads, the first of these is the one that changes."""


def run(options: BenchmarkOptions) -> Iterator[Figure]:
    """For each construct: the median cost of one change at each size, the ratio, and what recomputing it costs."""
    wanted = [one for one in CAPABILITIES if not options.queries or any(word in slug(one) for word in options.queries)]
    sizes = QUICK_SIZES if options.quick else SIZES
    medians: dict[str, list[float]] = defaultdict(list)
    steps = len(wanted) * len(sizes)
    for place, rows in enumerate(sizes):
        shop = Shop(rows)
        with tidemill.open(":memory:", runtime="native") as warehouse:
            warehouse.sql(SCHEMA)
            warehouse.apply(shop.load())
            options.say(f"{rows:,} orders loaded")
            for number, one in enumerate(wanted):
                options.progress((place * len(wanted) + number) / steps, f"{one.construct} at {rows:,}")
                figure = _measure(one, warehouse, shop, rows, options.seconds or SECONDS)
                medians[slug(one)].append(figure.value)
                yield figure
    for one in wanted:
        small, large = medians[slug(one)]
        growth = f"{sizes[1] // sizes[0]}x the rows; claimed {one.cost.kind}"
        yield Figure("sql", slug(one), "growth", large / small, "x", growth)


def slug(capability: Capability) -> str:
    """A name for a construct that fits a command line: its words, lower case, joined by dashes.

    >>> slug(CAPABILITIES[0])
    'rows/select-expressions-where'
    """
    words = "".join(c if c.isalnum() else " " for c in capability.construct.lower()).split()
    return f"{capability.theme.lower().replace(' ', '-')}/{'-'.join(words)}"


def _measure(one: Capability, warehouse: tidemill.Warehouse, shop: Shop, rows: int, limit: float) -> Figure:
    warehouse.sql(f"CREATE MATERIALIZED VIEW v AS {one.example}")
    seconds = _changes(warehouse, shop, _changed(one), limit)
    again = _check(one, warehouse)
    warehouse.sql("DROP VIEW v")
    milliseconds = statistics.median(seconds) * 1e3
    return Figure("sql", f"{slug(one)}/{rows}", "change", milliseconds, "ms", f"recomputed: {again * 1e3:,.1f} ms")


def _changes(warehouse: tidemill.Warehouse, shop: Shop, table: str, limit: float) -> list[float]:
    seconds: list[float] = []
    for change in islice(shop.replacements(table), WARM_UP + CHANGES):
        start = time.perf_counter()
        warehouse.apply(change)
        seconds.append(time.perf_counter() - start)
        if sum(seconds) > limit and len(seconds) > 2:
            break
    return seconds[WARM_UP:] or seconds[1:]


def _changed(one: Capability) -> str:
    read = {name for stage in one.program.stages for name in stage.inputs}
    return next(name for name in CHANGED if name in read)


def _check(one: Capability, warehouse: tidemill.Warehouse) -> float:
    """Compare the view with its query, recomputed from all rows; returns the seconds that this took."""
    start = time.perf_counter()
    fresh = _multiset(warehouse.sql(one.example))
    seconds = time.perf_counter() - start
    view = warehouse.view("v")
    missing, extra = differences(fresh, _multiset(view.rows()), view.fields)
    if missing or extra:
        raise AssertionError(f"{one.construct}: {len(missing)} rows are missing and {len(extra)} are wrong")
    return seconds


def _multiset(rows: Sequence[tuple[object, ...]]) -> ZSet:
    return ZSet.of(tuple(tuple(value) if isinstance(value, list) else value for value in row) for row in rows)


def as_table(figures: list[Figure]) -> Table:
    """A line for each construct: both costs, their ratio and the class."""
    table = Table(title="tidemill bench sql: one changed row")
    lines: dict[str, list[str]] = defaultdict(list)
    for figure in figures:
        name = figure.case if figure.metric == "growth" else figure.case.rpartition("/")[0]
        lines[name].append(f"{figure.value:,.3g} {figure.unit}")
        if figure.metric == "growth":
            lines[name].append(figure.baseline.rpartition("claimed ")[2])
        else:
            lines[name].append(figure.baseline.rpartition(": ")[2])
    for heading in ("construct", "small", "recomputed", "large", "recomputed", "ratio", "class"):
        table.add_column(heading)
    for name, cells in lines.items():
        table.add_row(name, *cells)
    return table
