"""A job from files to fresh views: loading, point updates, filling five views, and the first change after opening.

Each step runs in a process of its own over the folder that the step before has left, Tidemill's beside DuckDB's: CPU
and memory of a step are its own. Both make the same changes, and their views are compared.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol

import duckdb
import numpy as np
import pyarrow.parquet as pq

import tidemill
from benchmarks.apply.history import Row
from benchmarks.apply.measure import BENCH
from benchmarks.apply.subject import plain
from benchmarks.apply.workloads import ORDERS
from benchmarks.dbtoaster.oracle import WrongAnswer
from tidemill.serving.cli.bench_runner import BenchmarkOptions, Figure

ROWS, QUICK_ROWS = 2_250_000, 75_000
"""Rows of all tables; two thirds of them are lines."""

UPDATES = 50
"""Number of point updates; the first one after opening is reported by itself."""

VIEWS = {
    "days": "SELECT shipped, COUNT(*) AS n, SUM(price) AS price FROM lines GROUP BY shipped",
    "discounts": "SELECT discount, COUNT(*) AS n, MIN(price) AS least, MAX(price) AS most FROM lines GROUP BY discount",
    "customers_orders": "SELECT customer, COUNT(*) AS n, MAX(placed) AS placed FROM orders GROUP BY customer",
    "segments": """SELECT c.segment, o.priority, SUM(l.price) AS price, COUNT(*) AS n FROM customers c
        JOIN orders o ON o.customer = c.id JOIN lines l ON l.order_id = o.id GROUP BY c.segment, o.priority""",
    "revenue": ORDERS.query,
}

Costs = dict[str, float]


class JobSystem(Protocol):
    """A database in a folder."""

    def load(self, table: str, file: Path) -> None:
        """Create a table, and take in a Parquet file."""

    def run(self, statement: str) -> None:
        """Run one statement, committed when it returns."""

    def fill(self) -> None:
        """Create and fill the views."""

    def insert_line(self, row: Row) -> None:
        """Insert one line; the views are fresh after it."""

    def rows(self, view: str) -> Counter[Row]:
        """The rows of a view."""

    def close(self) -> None:
        """Close the database."""


class TidemillJob:
    """A warehouse on disk, native, with everything else by default."""

    def __init__(self, folder: Path) -> None:
        self._warehouse = tidemill.open(folder / "warehouse", runtime="native")

    def load(self, table: str, file: Path) -> None:
        """One epoch."""
        self._warehouse.sql(f"CREATE TABLE {table} ({ORDERS.tables[table]})")
        self._warehouse.load(table, file)

    def run(self, statement: str) -> None:
        """One epoch."""
        self._warehouse.sql(statement)

    def fill(self) -> None:
        """Materialized views."""
        for name, query in VIEWS.items():
            self._warehouse.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")

    def insert_line(self, row: Row) -> None:
        """One epoch, which maintains the views."""
        self._warehouse.apply({"lines": [(+1, row)]})

    def rows(self, view: str) -> Counter[Row]:
        """The stored rows."""
        return plain(self._warehouse.view(view).rows())

    def close(self) -> None:
        """Close the warehouse."""
        self._warehouse.close()


class DuckDBJob:
    """A database file; views are tables that are computed again."""

    def __init__(self, folder: Path) -> None:
        self._connection = duckdb.connect(folder / "duck.db")

    def load(self, table: str, file: Path) -> None:
        """The table has the primary key, too."""
        self._connection.execute(f"CREATE TABLE {table} ({ORDERS.tables[table]})")
        self._connection.execute(f"INSERT INTO {table} SELECT * FROM read_parquet('{file}')")

    def run(self, statement: str) -> None:
        """One transaction."""
        self._connection.execute(statement)

    def fill(self) -> None:
        """One table for each view."""
        for name, query in VIEWS.items():
            self._connection.execute(f"CREATE OR REPLACE TABLE {name} AS {query}")

    def insert_line(self, row: Row) -> None:
        """One transaction, in which all views are computed again."""
        self._connection.begin()
        self._connection.execute("INSERT INTO lines VALUES (?, ?, ?, ?, ?)", row)
        self.fill()
        self._connection.commit()

    def rows(self, view: str) -> Counter[Row]:
        """The rows computed last."""
        return plain(self._connection.execute(f"SELECT * FROM {view}").fetchall())

    def close(self) -> None:
        """Close the database."""
        self._connection.close()


SYSTEMS: dict[str, Callable[[Path], JobSystem]] = {"tidemill": TidemillJob, "duckdb": DuckDBJob}


# -- steps, each in a process of its own -------------------------------------------------------------------------------


def load(system: JobSystem, folder: Path) -> Costs:
    """Load all tables; the costs are those of the lines."""
    for table in ("customers", "orders"):
        system.load(table, folder / f"{table}.parquet")
    return _timed(lambda: system.load("lines", folder / "lines.parquet"))


def point_update(system: JobSystem, folder: Path) -> Costs:
    """Update single lines by primary key; no view reads them yet."""
    lines = pq.read_metadata(folder / "lines.parquet").num_rows
    each = []
    for key in np.random.default_rng(1).integers(0, lines, UPDATES).tolist():
        each.append(_timed(lambda: system.run(f"UPDATE lines SET price = price + 1 WHERE id = {key}"))["seconds"])  # noqa: B023
    return {"ms": 1e3 * statistics.median(each), "first_ms": 1e3 * each[0]}


def fill(system: JobSystem, folder: Path) -> Costs:
    """Create five views over the tables."""
    return _timed(system.fill)


def reopen(system: JobSystem, folder: Path) -> Costs:
    """Insert one line, the first change since the database was opened, with five views to be kept fresh."""
    lines = pq.read_metadata(folder / "lines.parquet").num_rows
    return {"ms": 1e3 * _timed(lambda: system.insert_line((lines, 0, 500, 3, date(2026, 9, 1))))["seconds"]}


STEPS = {"load": load, "point_update": point_update, "fill": fill, "reopen": reopen}


def _timed(work: Callable[[], None]) -> Costs:
    begin, busy = time.perf_counter(), time.process_time()
    work()
    return {
        "seconds": time.perf_counter() - begin,
        "cpu": time.process_time() - busy,
        "peak_mb": _peak_bytes() / 1e6,
    }


def _peak_bytes() -> int:
    """The most memory that this process has had so far."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def run_step(step: str, system: str, folder: Path) -> Costs:
    """Open the database that the step before has left, and do one step."""
    opened = SYSTEMS[system](folder)
    try:
        return STEPS[step](opened, folder)
    finally:
        opened.close()


def view_rows(system: str, folder: Path) -> dict[str, Counter[Row]]:
    """The rows of all views."""
    opened = SYSTEMS[system](folder)
    try:
        return {name: opened.rows(name) for name in VIEWS}
    finally:
        opened.close()


# -- the job -----------------------------------------------------------------------------------------------------------


def job(folder: Path, options: BenchmarkOptions) -> Iterator[Figure]:
    """All steps of both systems; views are compared after they were filled, and after the last change."""
    write_files(folder, int((QUICK_ROWS if options.quick else ROWS) * (options.scale or 1)))
    for place, step in enumerate(STEPS):
        options.progress(place / len(STEPS), f"job: {step}")
        ours, theirs = (in_process(run_step, step, system, folder) for system in SYSTEMS)
        if step in ("fill", "reopen"):
            compare(step, *(in_process(view_rows, system, folder) for system in SYSTEMS))
        yield from figures(step, ours, theirs)


def in_process(function: Callable[..., Any], *arguments: object) -> Any:
    """The result of a function in a new process."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def write_files(folder: Path, rows: int) -> None:
    """The tables as Parquet files."""
    for name, table in ORDERS.history(rows).tables.items():
        pq.write_table(table, folder / f"{name}.parquet")


def compare(step: str, ours: dict[str, Counter[Row]], theirs: dict[str, Counter[Row]]) -> None:
    """Refuse figures of a step after which a view is wrong."""
    for view, expected in theirs.items():
        if ours[view] != expected or not expected:
            missing, extra = list(expected - ours[view])[:3], list(ours[view] - expected)[:3]
            raise WrongAnswer(f"{view} is wrong after {step}: missing {missing}, too many {extra}")


def figures(step: str, ours: Costs, theirs: Costs) -> Iterator[Figure]:
    """The costs of a step beside DuckDB's; of CPU the ratio."""
    for metric, unit in _metrics(ours):
        yield Figure(BENCH, f"job/{step}", metric, ours[metric], unit, f"DuckDB {theirs[metric]:,.4g} {unit}")
    if "cpu" in ours:
        about = f"{ours['cpu']:.2f} s of CPU, DuckDB {theirs['cpu']:.2f} s"
        yield Figure(BENCH, f"job/{step}", "cpu_ratio", ours["cpu"] / max(theirs["cpu"], 1e-3), "x", about)


def _metrics(costs: Costs) -> Sequence[tuple[str, str]]:
    units = {"seconds": "s", "peak_mb": "MB", "ms": "ms", "first_ms": "ms"}
    return [(metric, unit) for metric, unit in units.items() if metric in costs]
