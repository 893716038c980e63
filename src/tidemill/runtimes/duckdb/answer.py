"""The rows of a query by DuckDB: its translation, run on a private connection over Arrow tables.

A connection lives for one query, or for one fill. It sees nothing but the tables that are registered with it: no files,
no network, no extensions, no variables of this process. To set up a database takes some 15 ms, so connections without a
limit on memory share one, which is empty: what is registered is temporary, and belongs to one connection.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.algebra.node import Relation
from tidemill.changes.arrow import arrow_schema, without_negative_zeros
from tidemill.changes.changeset import ChangeSet
from tidemill.model.schema import WEIGHT
from tidemill.runtimes.duckdb.interrupt import interruptible
from tidemill.runtimes.duckdb.relations import LoweredQuery, ScannedTable, lower_query
from tidemill.runtimes.duckdb.sql_text import comma_list
from tidemill.runtimes.runtime import NotAnswered, ReadTable

if TYPE_CHECKING:  # workers of a cluster may have none, and import these modules
    import duckdb

THREADS = 2

FEW_TOUCHED = 1_000
"""Rows up to which a table is cut at the rows that are left out of it."""

MOST_REPEATED = 50_000_000
"""Rows beyond which a relation with equal rows is not handed over, since each of them is listed."""

LEAST_MEMORY = 64 << 20
"""Bytes below which DuckDB gives up on queries that it could answer with files."""

_SETTINGS = (
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET GLOBAL python_enable_replacements = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """The bytes that DuckDB may take, and the folder for what does not fit into them."""

    bytes: int
    folder: Path

    @property
    def settings(self) -> tuple[str, ...]:
        """The limit as settings of a connection. Rows have no order here, and to keep one takes memory."""
        return (
            f"SET memory_limit = '{max(self.bytes, LEAST_MEMORY)}B'",
            "SET temp_directory = '{}'".format(str(self.folder).replace("'", "''")),
            "SET preserve_insertion_order = false",
        )


def answer(relation: Relation, read: ReadTable, limit: MemoryLimit | None = None) -> ChangeSet:
    """The rows of a query, unsummed; raises ``NotAnswered`` if it has no translation, or if DuckDB reports an error.

    Such an error may be Spark's as well, as an overflow is, or come from conditions that DuckDB tries in another order.
    """
    query = lower_query(relation)
    with errors_as_unanswered(), connected(limit) as connection:
        return ask(connection, query, read)


INTERRUPTED = "interrupt"
"""Part of the message of the errors that DuckDB makes of SIGINT, and where another thread ends a query."""


@contextmanager
def errors_as_unanswered() -> Iterator[None]:
    """Raise errors of DuckDB's and of Arrow's as ``NotAnswered``, and that there is no DuckDB."""
    try:
        import duckdb
    except ImportError as error:
        raise NotAnswered("DuckDB is not installed") from error
    try:
        yield
    except (duckdb.InterruptException, RuntimeError) as error:
        if INTERRUPTED not in str(error).lower():
            raise
        raise KeyboardInterrupt from error
    except (duckdb.Error, pa.ArrowException) as error:
        raise NotAnswered(str(error)) from error


@contextmanager
def connected(limit: MemoryLimit | None = None, threads: int = THREADS) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to an empty database in memory, whose settings nothing can change."""
    database = _shared_database(os.getpid(), threads) if limit is None else _new_database(threads, limit.settings)
    try:
        with database.cursor() as connection, interruptible(connection):
            yield connection
    finally:
        if limit is not None:
            database.close()


@lru_cache(maxsize=1)
def _shared_database(process: int, threads: int) -> duckdb.DuckDBPyConnection:
    """The database without a limit of a process: one that was forked has no threads of the other one's."""
    return _new_database(threads)


def _new_database(threads: int, settings: Sequence[str] = ()) -> duckdb.DuckDBPyConnection:
    import duckdb

    database = duckdb.connect(":memory:")
    for setting in (f"SET threads = {threads}", *settings, *_SETTINGS):
        database.execute(setting)
    return database


def ask(connection: duckdb.DuckDBPyConnection, query: LoweredQuery, read: ReadTable) -> ChangeSet:
    """The rows of a translated query."""
    return ChangeSet.of_arrow(_weighted(fetch(connection, query, read), query), query.fields)


def fetch(connection: duckdb.DuckDBPyConnection, query: LoweredQuery, read: ReadTable) -> pa.Table:
    """The columns of a translated query; its tables are registered under their names in the text."""
    for name, table in query.tables.items():
        _register(connection, table, read(name, tuple(table.fields.values())))
    return connection.sql(query.text).to_arrow_table()


def _register(connection: duckdb.DuckDBPyConnection, table: ScannedTable, rows: pa.Table) -> None:
    """Rows under the names of the translation, each as often as its weight says."""
    columns = [_plain(rows.column(name)) for name in table.columns]
    given = pa.table([*columns, rows.column(WEIGHT)], names=[*table.columns.values(), "w"])
    least = pc.min(given.column("w")).as_py()
    if least is not None and least < 0:
        given = _remaining(connection, given) if columns else _count(given)
    connection.register(table.name, _repeated(given))


def _remaining(connection: duckdb.DuckDBPyConnection, rows: pa.Table) -> pa.Table:
    """Rows of which some have been deleted: those that remain, with the sums of their weights.

    Only rows that may be equal to a deleted one are grouped, which are few as a rule.
    """
    touched = _may_be_deleted(rows)
    connection.register("touched", rows.filter(touched))
    names = comma_list(rows.column_names[:-1])
    summed = connection.sql(
        f"SELECT {names}, CAST(sum(w) AS BIGINT) AS w FROM touched GROUP BY {names} HAVING sum(w) > 0"
    ).to_arrow_table()
    connection.unregister("touched")
    return pa.concat_tables([_without(rows, touched), summed.cast(rows.schema)])


def _without(rows: pa.Table, touched: pa.ChunkedArray) -> pa.Table:
    """Rows without those that are touched: if these are few, as what lies between them, which copies nothing."""
    places = np.flatnonzero(touched.to_numpy())
    if len(places) > FEW_TOUCHED:
        return rows.filter(pc.invert(touched))
    bounds = pairwise([-1, *places.tolist(), rows.num_rows])
    return pa.concat_tables([rows.slice(before + 1, after - before - 1) for before, after in bounds])


def _may_be_deleted(rows: pa.Table) -> pa.ChunkedArray:
    """For each row true if each of its columns has a value of some deleted row; only then it can be one of them."""
    deleted = rows.filter(pc.less(rows.column("w"), 0))
    mask = pa.chunked_array([pa.array(np.ones(rows.num_rows, dtype=bool))])
    for name in rows.column_names[:-1]:
        # NaN is equal to itself here and not in Arrow, and nested values are not looked up at all.
        if not (pa.types.is_floating(rows.column(name).type) or pa.types.is_nested(rows.column(name).type)):
            mask = pc.and_(mask, pc.is_in(rows.column(name), deleted.column(name).combine_chunks()))
            if 100 * pc.sum(mask).as_py() < rows.num_rows:
                break
    return mask


def _count(rows: pa.Table) -> pa.Table:
    """The number of rows alone, where no column of them is read."""
    return pa.table({"w": [pc.sum(rows.column("w")).as_py()]})


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column as DuckDB reads it: instants without their zone, which is UTC, and no negative zero."""
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us"))
    if pa.types.is_floating(column.type):
        return without_negative_zeros(column)
    return column


def _repeated(rows: pa.Table) -> pa.Table:
    """Each row as often as its weight ``w``."""
    weights = rows.column("w").to_numpy()
    if not len(weights) or weights.max() == 1:
        return rows
    if weights.sum(dtype=np.float64) > MOST_REPEATED:
        raise NotAnswered("rows that are repeated too often to be listed")
    return rows.take(pa.array(np.repeat(np.arange(len(weights)), weights)))


def _weighted(found: pa.Table, query: LoweredQuery) -> pa.Table:
    """The answer as weighted rows of the query's columns, each of weight 1."""
    schema = arrow_schema(query.fields)
    weights = pa.array(np.ones(found.num_rows, dtype=np.int64))
    return pa.table([*found.columns, weights], names=schema.names).cast(schema)
