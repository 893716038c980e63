"""A warehouse over PostgreSQL: how its first rows are fetched, and a backlog of which every state is shown."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import tidemill
from benchmarks.dbtoaster.oracle import WrongAnswer
from benchmarks.eca.postgres import PASSWORD_ENV, Database
from benchmarks.eca.results import BENCH
from tests.sources.server import PASSWORD
from tidemill.changes.zset import ZSet
from tidemill.serving.cli.bench_runner import Figure
from tidemill.sources.postgres.connection import Connection
from tidemill.sources.postgres.source import fetch_rows
from tidemill.sources.remote_queries.render_sql import SqlStatement

__all__ = ["complete", "fetch"]

SPREAD = 100
"""Among how many groups the transactions of a backlog are spread."""

CHUNK = 50_000
"""Rows that are fetched at a time, as the first load of a large table does."""

_VIEW = """CREATE MATERIALIZED VIEW v WITH (consistency = 'complete') AS
    SELECT r1.w, r2.i, r3.z FROM shop.r1 r1 JOIN shop.r2 r2 ON r1.x = r2.x JOIN shop.r3 r3 ON r2.y = r3.y
    WHERE r1.w > r3.z"""


def complete(database: Database, transactions: int) -> Iterator[Figure]:
    """A backlog of transactions, each of which is an epoch of a ``complete`` view."""
    with _warehouse(database) as warehouse:
        with _timed("complete/first rows") as timed:
            warehouse.sql(_VIEW)
        yield from timed
        database.move(SPREAD)
        for _ in range(transactions):
            database.update()
        began = warehouse.epoch
        with _timed(f"complete/{transactions} transactions") as timed:
            warehouse.sync()
        yield from timed
        if ZSet.of(warehouse.view("v").rows()) != database.answer() or warehouse.epoch - began != transactions:
            raise WrongAnswer("the complete view is not what the server answers, or left out a state")
        warehouse.sql("DROP VIEW v")


@contextmanager
def _warehouse(database: Database) -> Iterator[tidemill.Warehouse]:
    os.environ[PASSWORD_ENV] = os.environ["PGPASSWORD"] = PASSWORD
    options = {**database.options, "setup": "create", "changes": "slot", "reader": "backlog"}
    given = ", ".join(f"{name} = '{value}'" for name, value in options.items())
    with tempfile.TemporaryDirectory() as folder, tidemill.open(Path(folder) / "warehouse", runtime="native") as opened:
        opened.sql(f"CREATE SOURCE shop TYPE postgres OPTIONS ({given})")
        yield opened


def fetch(database: Database) -> Iterator[Figure]:
    """All rows of a relation in ranges of its key: by queries, as sources do, and by COPY, in text and in binary."""
    ways: dict[str, Callable[[Connection, str], int]] = {
        "query": _by_query,
        "COPY": _by_copy,
        "COPY, binary": _by_binary_copy,
    }
    with database.connect() as connection:
        for way, read in ways.items():
            with _timed(f"fetch/{way}") as timed:
                rows = sum(read(connection, _range(low)) for low in range(0, database.groups * 2, CHUNK))
            if rows != database.groups * 2:
                raise WrongAnswer(f"{way}: {rows:,} rows of {database.groups * 2:,}")
            yield from timed


def _range(low: int) -> str:
    return f"SELECT 1, i, x, y FROM ONLY r2 WHERE i >= {low} AND i < {low + CHUNK}"


def _by_query(connection: Connection, sql: str) -> int:
    return sum(1 for _ in fetch_rows(connection, SqlStatement(sql, ())))


def _by_copy(connection: Connection, sql: str) -> int:
    with connection.cursor().copy(f"COPY ({sql}) TO STDOUT".encode()) as copy:
        return sum(1 for _ in copy.rows())


def _by_binary_copy(connection: Connection, sql: str) -> int:
    with connection.cursor().copy(f"COPY ({sql}) TO STDOUT (FORMAT BINARY)".encode()) as copy:
        copy.set_types(["int4", "int8", "int8", "int8"])
        return sum(1 for _ in copy.rows())


@contextmanager
def _timed(case: str) -> Iterator[list[Figure]]:
    """The time that a block takes, and the time of this process's processor."""
    found: list[Figure] = []
    began, used = time.perf_counter(), time.process_time()
    yield found
    seconds, own = time.perf_counter() - began, time.process_time() - used
    found.append(Figure(BENCH, case, "seconds", seconds, "s", f"{own:.2f} s of its own processor time"))
