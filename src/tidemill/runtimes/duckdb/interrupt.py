"""Queries that DuckDB runs, by thread, so that another thread can end them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import get_ident
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # workers of a cluster may have none, and import these modules
    import duckdb

__all__ = ["interrupt", "interruptible"]

_RUNNING: dict[int, list[duckdb.DuckDBPyConnection]] = {}


@contextmanager
def interruptible(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Allow other threads to end what this thread runs on a connection."""
    mine = _RUNNING.setdefault(get_ident(), [])
    mine.append(connection)
    try:
        yield
    finally:
        mine.remove(connection)
        if not mine:
            _RUNNING.pop(get_ident(), None)


def interrupt(thread: int) -> None:
    """End the queries that a thread runs, with an error there."""
    for connection in list(_RUNNING.get(thread, ())):
        with suppress(Exception):  # it is closed just now
            connection.interrupt()
