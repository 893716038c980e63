"""Refresh against recompute, side by side in one run, answers checked before any figure is given."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import sqlglot

import tidemill
from benchmarks.tpch.data import DDL, TABLES, Changes, generate
from benchmarks.tpch.views import VIEWS
from tidemill.serving.cli.bench_runner import BenchmarkOptions, Figure

PERCENTS = (0.01, 0.1, 1.0, 5.0)
QUICK_PERCENTS = (0.1, 1.0)
REPEATS = 3
RUNTIMES = ("spark", "auto")
SMALLEST = 0.01
"""Below this scale the generator gives two rows of partsupp one key, so there is no tenth of it to compare with."""

FIXED_ORDERS = 150
"""The growth figure changes this many orders, whatever the scale."""


def run(options: BenchmarkOptions) -> Iterator[Figure]:
    """All figures at one scale, and how a fixed change's refresh time grows from a tenth of it."""
    scale = options.scale or (0.01 if options.quick else 0.1)
    with tempfile.TemporaryDirectory(prefix="tidemill-bench-") as work:
        before = {}
        runtimes = options.runtimes or RUNTIMES
        # Who asks for certain sizes of change wants to know about those.
        if scale / 10 >= SMALLEST and not options.changes:
            small = Pipeline(options, scale / 10, Path(work) / "small", runtimes)
            before = {name: small.fixed_change(name) for name in runtimes}
            small.close()
        pipeline = Pipeline(options, scale, Path(work) / "full", runtimes)
        for percent in options.changes or (QUICK_PERCENTS if options.quick else PERCENTS):
            yield from pipeline.measure(percent)
        for name, seconds in before.items():
            after = pipeline.fixed_change(name)
            case = f"scale{scale:g}/growth/{name}"
            both = f"{FIXED_ORDERS} orders: {seconds:.3f} s at scale {scale / 10:g}, {after:.3f} s at {scale:g}"
            yield Figure("tpch", case, "growth_ratio", after / seconds, "x", both)
        pipeline.close()


class Pipeline:
    """The same data in a warehouse for each runtime and in plain Parquet files for the recomputing peers.

    Figures are those of ``bench``. With a ``session`` the runtime is Spark, and ``runtimes`` names where that runs.
    """

    def __init__(
        self,
        options: BenchmarkOptions,
        scale: float,
        work: Path,
        runtimes: tuple[str, ...],
        *,
        bench: str = "tpch",
        session: Any = None,
    ) -> None:
        self._say = options.say
        self._bench = bench
        self._session = session
        self._scale = scale
        self._repeats = 1 if options.quick else REPEATS
        self._files = work / "files"
        tables = generate(options.folder, scale)
        self._changes = Changes(tables)
        self._warehouses = {name: self._open(work / name, name, tables) for name in runtimes}
        self._spark = next(iter(self._warehouses.values())).spark
        self._fixed = 100 * FIXED_ORDERS / tables["orders"].num_rows

    def _open(self, folder: Path, runtime: str, tables: dict[str, pa.Table]) -> tidemill.Warehouse:
        named = runtime if self._session is None else "spark"
        warehouse = tidemill.open(folder, runtime=named, spark=self._session)
        warehouse.sql(DDL)
        seconds = _timed(partial(warehouse.apply, tables))
        self._say(f"scale {self._scale:g}, {runtime}: loaded in {seconds:.1f} s")
        for name, query in VIEWS.items():
            seconds = _timed(partial(warehouse.sql, f"CREATE MATERIALIZED VIEW {name} AS {query}"))
            self._say(f"scale {self._scale:g}, {runtime}: view {name} filled in {seconds:.1f} s")
        warehouse.apply(self._warm_up(warehouse))
        return warehouse

    def _warm_up(self, warehouse: tidemill.Warehouse) -> dict[str, Any]:
        """An epoch that changes nothing in the end: its deletes and inserts cancel, but all code paths are warm."""
        row = warehouse.sql("SELECT * FROM region LIMIT 1")[0]
        return {"region": [(-1, row), (+1, row)]}

    def fixed_change(self, runtime: str) -> float:
        """Seconds to refresh after the same small change, whatever the scale; the other warehouse just follows."""
        times = []
        for _ in range(self._repeats):
            change = self._changes.draw(self._fixed)
            for name, warehouse in self._warehouses.items():
                seconds = _timed(partial(warehouse.apply, change))
                if name == runtime:
                    times.append(seconds)
        return statistics.median(times)

    def single_row(self, runtime: str) -> float:
        """Seconds to refresh after one customer has moved."""
        warehouse = self._warehouses[runtime]
        changes = (self._changes.move_customers(1) for _ in range(1 + self._repeats))
        times = [_timed(partial(warehouse.apply, change)) for change in changes]
        return statistics.median(times[1:])

    def measure(self, percent: float) -> Iterator[Figure]:
        """Refresh and recompute after changes of ``percent``; the answers are compared before anything is reported."""
        refresh: dict[str, list[float]] = {name: [] for name in self._warehouses}
        costs: dict[str, Any] = {}
        rows = 0
        for _ in range(1 if percent >= 5 else self._repeats):
            change = self._changes.draw(percent)
            rows = sum(table.num_rows for table in change.values())
            for name, warehouse in self._warehouses.items():
                refresh[name].append(_timed(partial(warehouse.apply, change)))
                self._say(f"{percent:g} percent, {rows} rows, {name}: refreshed in {refresh[name][-1]:.2f} s")
                costs[name] = warehouse.costs()
        self._write_files()
        spark = min(_timed(self._recompute_on_spark) for _ in range(min(self._repeats, 2)))
        duck = min(_timed(self._recompute_on_duckdb) for _ in range(min(self._repeats, 2)))
        self._check()
        for name, times in refresh.items():
            yield from self._figures(percent, name, statistics.median(times), spark, duck, rows, costs[name])

    def _figures(
        self, percent: float, runtime: str, refresh: float, spark: float, duck: float, rows: int, cost: Any
    ) -> Iterator[Figure]:
        case = f"scale{self._scale:g}/change{percent:g}/{runtime}"
        baseline = f"{rows} rows; Spark recomputes in {spark:.2f} s, DuckDB in {duck:.2f} s"
        figure = partial(Figure, self._bench, case)
        yield figure("refresh_s", refresh, "s", baseline)
        yield figure("speedup", spark / refresh, "x", f"Spark recompute {spark:.2f} s")
        yield figure("speedup_duckdb", duck / refresh, "x", f"DuckDB recompute {duck:.2f} s")
        yield figure("jobs", cost.jobs, "jobs", f"Spark recompute {len(VIEWS)} queries")
        yield figure("bytes_read", cost.bytes_read, "B")
        yield figure("bytes_written", cost.bytes_written, "B")
        yield figure("exchanges", cost.exchanges, "exchanges")
        yield figure("bytes_exchanged", cost.bytes_exchanged, "B")
        yield figure("task_s", cost.task_seconds, "s", f"{cost.tasks} tasks")

    def _write_files(self) -> None:
        """The tables as they are now, as plain Parquet: what the peers read."""
        self._files.mkdir(parents=True, exist_ok=True)
        for name in TABLES:
            pq.write_table(self._changes.tables[name], self._files / f"{name}.parquet")

    def _recompute_on_spark(self) -> None:
        for name in TABLES:
            self._spark.read.parquet(str(self._files / f"{name}.parquet")).createOrReplaceTempView(name)
        for name, query in VIEWS.items():
            self._spark.sql(query).write.mode("overwrite").parquet(str(self._files / f"view-{name}"))

    def _recompute_on_duckdb(self) -> None:
        with duckdb.connect() as connection:
            for name in TABLES:
                connection.execute(f"CREATE VIEW {name} AS SELECT * FROM '{self._files / name}.parquet'")
            for name, query in VIEWS.items():
                text = sqlglot.transpile(query, read="spark", write="duckdb")[0]
                connection.execute(f"COPY ({text}) TO '{self._files / name}-duckdb.parquet' (FORMAT parquet)")

    def _check(self) -> None:
        """Every view of every warehouse against what Spark has just computed."""
        for view in VIEWS:
            expected = _multiset(self._spark.read.parquet(str(self._files / f"view-{view}")).toArrow())
            for runtime, warehouse in self._warehouses.items():
                if _multiset(warehouse.view(view).arrow()) != expected:
                    raise AssertionError(f"view {view} on {runtime} differs from Spark's answer")

    def close(self) -> None:
        for warehouse in self._warehouses.values():
            warehouse.close()


def _multiset(table: pa.Table) -> list[str]:
    return sorted(map(repr, zip(*(column.to_pylist() for column in table.columns), strict=True)))


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
