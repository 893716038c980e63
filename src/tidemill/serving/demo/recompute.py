"""Recomputation of all views, as a pipeline without incremental views does it after every change."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidemill.engine.warehouse import Warehouse

__all__ = ["NO_DUCKDB", "recompute_seconds", "timed"]

NO_DUCKDB = "DuckDB is not installed, so its recomputation is not shown: pip install duckdb"


def recompute_seconds(wh: Warehouse, views: Mapping[str, str], runtime: str) -> dict[str, float]:
    """Seconds that each engine takes to compute all views from the tables as they are, by its name."""
    connection = _duckdb()
    seconds = {runtime: timed(lambda: _by_runtime(wh, views, runtime))}
    if connection is not None:
        seconds["DuckDB"] = _by_duckdb(connection, wh, views)
    return seconds


def timed(work: Callable[[], object]) -> float:
    """Seconds that ``work`` takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _by_runtime(wh: Warehouse, views: Mapping[str, str], runtime: str) -> None:
    """Run the queries by Spark itself on Spark, elsewhere as one-off queries of the warehouse."""
    for name, query in views.items():
        if runtime == "spark":
            wh.view(name).recompute()
        else:
            wh.sql(query)


def _by_duckdb(connection: Any, wh: Warehouse, views: Mapping[str, str]) -> float:
    """Seconds of the queries alone: DuckDB is handed the tables as Arrow before the clock starts, and reads no file."""
    with connection:
        for name in wh.tables():
            connection.register(name, wh.table(name).arrow())
        return timed(lambda: [connection.execute(text) for text in _statements(views)])


def _statements(views: Mapping[str, str]) -> Iterator[str]:
    return (f"CREATE TABLE {name} AS {query}" for name, query in views.items())


def _duckdb() -> Any:
    """A new database in memory, or None where DuckDB is not installed."""
    try:
        import duckdb
    except ImportError:
        return None
    return duckdb.connect()
