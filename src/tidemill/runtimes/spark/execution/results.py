"""Results of jobs as changes: small ones are collected as Arrow, large ones are written to files of the store."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from tidemill.algebra.expressions.scalars import Column
from tidemill.changes.arrow import arrow_schema
from tidemill.changes.changeset import ChangeSet
from tidemill.model.schema import EPOCH, WEIGHT, names_of
from tidemill.model.types import Field
from tidemill.program.maps import Map, map_fields
from tidemill.program.stages import GroupEmission
from tidemill.runtimes.spark.execution.arrow_frames import rows_as_arrow
from tidemill.runtimes.spark.execution.parquet_files import write_files
from tidemill.runtimes.spark.execution.remote_files import shared_staging
from tidemill.runtimes.spark.execution.temporary_views import VIEW_PREFIX
from tidemill.runtimes.spark.lowering.ring_values import any_nonzero
from tidemill.runtimes.spark.lowering.sql_text import comma_list, quote
from tidemill.runtimes.spark.lowering.stages import NEW_ROW, OLD_ROW, lower_linear, lower_output_rows
from tidemill.storage.runs import write_table
from tidemill.storage.segments import with_epoch
from tidemill.storage.store import Store

STAGE_ROWS = 10_000
"""Row count above which a change is put in a file: inline, Spark would process it in every planning step."""

COLLECT_ROWS = 250_000
"""Row count of an epoch up to which its results are collected by the driver, which saves writing jobs."""

_RESULT = quote(f"{VIEW_PREFIX}result")


def stage_rows(spark: SparkSession, store: Store, name: str, rows: pa.Table) -> list[os.PathLike[str]]:
    """Rows of this process in a staged file that the tasks of a session can read."""
    shared = shared_staging(spark, store, name)
    if shared is not None:
        run = shared.write([rows], rows.schema)
        return [] if run is None else [shared.file(run)]
    staged = store.staging(name) / "change.parquet"
    write_table(rows, staged)
    return [staged]


class ResultCollector:
    """Collects the results of one epoch."""

    def __init__(self, spark: SparkSession, store: Store, epoch: int) -> None:
        self._spark = spark
        self._store = store
        self._epoch = epoch

    def stage(self, change: ChangeSet, name: str) -> ChangeSet:
        """A change in a file, so that Spark reads it in parallel and the store adopts the file."""
        if len(change) <= STAGE_ROWS or change.files is not None:
            return change
        table = change.arrow()
        files = stage_rows(self._spark, self._store, name, with_epoch(table, self._epoch))
        return ChangeSet(change.fields, table=table, files=files)

    def collect_change(
        self, sql: str, name: str, fields: Sequence[Field], rows: int, order: Sequence[Field] = ()
    ) -> ChangeSet:
        """The weighted rows of a query, as a change of the map or relation ``name``; large ones in that ``order``."""
        frame = self._spark.sql(sql)
        if rows <= COLLECT_ROWS:
            return self._collect(frame, fields)
        return self._write(_sorted(frame, [quote(f.name) for f in order]) if order else frame, name, fields)

    def collect_bounded(self, sql: str, name: str, fields: Sequence[Field], most: int) -> ChangeSet:
        """The same for a query that returns at most ``most`` rows, and mostly far fewer."""
        if most <= COLLECT_ROWS:
            return self.collect_change(sql, name, fields, most)
        with self._held(sql) as (frame, rows):
            return self._collect(frame, fields) if rows <= COLLECT_ROWS else self._write(frame, name, fields)

    def collect_together(
        self, parts: Sequence[ChangeSet], sql: str, name: str, fields: Sequence[Field], most: int
    ) -> ChangeSet:
        """Several changes as one, of which no two have a row in common; ``sql`` reads all of them."""
        if all(part.files is None for part in parts):
            rows = pa.concat_tables([part.arrow() for part in parts])
            return self.stage(ChangeSet.of_arrow(rows, fields), name)
        return self.collect_bounded(sql, name, fields, most)

    def collect_map_and_rows(
        self, sql: str, map_: Map, finish: GroupEmission, name: str, fields: Sequence[Field], rows: int
    ) -> tuple[ChangeSet, ChangeSet]:
        """The change of a map and of the rows that come from it, out of the one result that holds both."""
        if rows <= COLLECT_ROWS:
            return _split(rows_as_arrow(self._spark.sql(sql)), map_, finish, fields)
        with self._held(sql) as (frame, found):
            if found <= COLLECT_ROWS:
                return _split(rows_as_arrow(frame), map_, finish, fields)
            return self._write_finish(frame, map_, name, fields)

    @contextmanager
    def _held(self, sql: str) -> Iterator[tuple[DataFrame, int]]:
        """A computed result and its row count: many rows often fall into few groups."""
        frame = self._spark.sql(sql).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            yield frame, frame.count()
        finally:
            frame.unpersist()

    def _collect(self, frame: DataFrame, fields: Sequence[Field]) -> ChangeSet:
        return ChangeSet.of_arrow(_typed(rows_as_arrow(frame), fields), fields)

    def _write_finish(
        self, frame: DataFrame, map_: Map, name: str, fields: Sequence[Field]
    ) -> tuple[ChangeSet, ChangeSet]:
        stored = map_fields(map_)
        frame.createOrReplaceTempView(_RESULT)
        try:
            values = [quote(f.name) for f in stored[len(map_.keys) :]]
            columns = comma_list(quote(column) for column in (*names_of(stored), WEIGHT))
            moved = f"SELECT {columns} FROM {_RESULT} WHERE {any_nonzero([*values, quote(WEIGHT)])}"
            shown = [lower_output_rows(side, sign, _RESULT, fields) for side, sign in _sides(frame.columns)]
            map_change = self._write(self._spark.sql(moved), map_.name, stored)
            return map_change, self._write(self._spark.sql(lower_linear(shown, fields)), name, fields)
        finally:
            self._spark.catalog.dropTempView(_RESULT.strip("`"))

    def _write(self, frame: DataFrame, name: str, fields: Sequence[Field]) -> ChangeSet:
        columns = [quote(column) for column in (*names_of(fields), WEIGHT)]
        files = write_files(frame.selectExpr(*columns, f"{self._epoch}L AS {quote(EPOCH)}"), self._store, name, fields)
        return ChangeSet.of_files(list(files), fields, sum(files.values()))


def _sorted(frame: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The rows in an order that suits lookups: each file a range of the first key, sorted by it."""
    return frame.repartitionByRange(*keys[:1]).sortWithinPartitions(*keys)


def _split(table: pa.Table, map_: Map, finish: GroupEmission, fields: Sequence[Field]) -> tuple[ChangeSet, ChangeSet]:
    """The two changes that a collected result holds."""
    sides = [_side(table, side, sign, fields) for side, sign in _sides(table.column_names)]
    shown = ChangeSet.of_arrow(pa.concat_tables(sides), fields)
    if finish.times is not None or not shows_keys(finish, map_):
        shown = ChangeSet.of(shown.zset().items(), fields)
    return ChangeSet.of_arrow(_moved(table, map_, finish), map_fields(map_)), shown


def _sides(columns: Sequence[str]) -> list[tuple[str, int]]:
    """The columns that hold rows, with their sign in the change: a map that was empty had none before."""
    return [(side, sign) for side, sign in ((OLD_ROW, -1), (NEW_ROW, +1)) if side in columns]


def shows_keys(finish: GroupEmission, map_: Map) -> bool:
    """True if every key is a column of the rows: then rows of different keys differ and need not be summed."""
    bare = {output.scalar.name for output in finish.outputs if isinstance(output.scalar, Column)}
    return bare.issuperset(names_of(map_.keys))


def _typed(table: pa.Table, fields: Sequence[Field]) -> pa.Table:
    schema = arrow_schema(fields)
    return table.select(schema.names).cast(schema)


def _moved(table: pa.Table, map_: Map, finish: GroupEmission) -> pa.Table:
    """The map's part of a result. A key can be in it without having changed: the global one, which always has a row,
    and one under which only a multiset has changed."""
    typed = _typed(table, map_fields(map_))
    if map_.keys and not finish.multiset_reads:
        return typed
    numbers = typed.columns[len(map_.keys) :]
    return typed.filter(reduce(pc.or_, (pc.not_equal(pc.sign(column), 0) for column in numbers)))


def _side(table: pa.Table, side: str, sign: int, fields: Sequence[Field]) -> pa.Table:
    """The old or the new rows of a result, each with the weight that it has in the change."""
    schema = arrow_schema(fields)
    rows = table.column(side).drop_null()
    columns = rows.flatten() if len(rows) else [pa.chunked_array([], kind) for kind in schema.types]
    *values, weights = columns
    return pa.Table.from_arrays([*values, pc.multiply(weights, sign)], names=schema.names).cast(schema)
