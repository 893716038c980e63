"""Files of a warehouse in an object store, read and written by tasks on machines that do not share the driver's disk.

Spark itself would need a connector of Hadoop for each cloud. Instead tasks open the store as the driver does: a task
fetches the files that it reads, and puts what it writes under names that no other attempt uses. What it needs to open
the store goes with its function (``granted``), and is in no plan, description or row.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tidemill.model.schema import EPOCH, WEIGHT
from tidemill.model.types import BIGINT, Field
from tidemill.runtimes.spark.execution.arrow_frames import frame_of_arrow, rows_as_arrow
from tidemill.runtimes.spark.execution.job_settings import is_small, shuffle_partitions
from tidemill.runtimes.spark.lowering.sql_text import schema_sql
from tidemill.runtimes.spark.sessions.session import cores_of, is_local, is_remote
from tidemill.storage.filesystem.fetched_file import FetchedFile
from tidemill.storage.filesystem.file_system import Access
from tidemill.storage.runs import ROW_GROUP, read_table, rows_between
from tidemill.storage.segments import stored_schema
from tidemill.storage.shared_staging import SharedStaging
from tidemill.storage.store import Store

__all__ = ["fetch_files", "granted", "read_fetched", "runs_elsewhere", "shared_staging", "write_shared"]

BATCH_ROWS = 10_000
"""Rows of an Arrow batch that a task hands to Spark."""

Task = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def runs_elsewhere(session: SparkSession) -> bool:
    """True if the tasks of a session may run on other machines than this one."""
    return is_remote(session) or not is_local(session.sparkContext)


def shared_staging(session: SparkSession, store: Store, name: str) -> SharedStaging | None:
    """The place where the tasks of a session put files for map ``name``; None if they write to a folder that this
    process sees."""
    return store.shared_staging(name) if runs_elsewhere(session) else None


def granted(task: Callable[..., Iterator[pa.RecordBatch]], store: Store) -> Task:
    """A function of tasks, with what they need to open the files of a store."""
    access = store.access()
    return task if access is None else partial(_granted, access, task)


def _granted(access: Access, task: Task, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    access.grant()
    return task(batches)


def fetch_files(session: SparkSession, store: Store) -> bool:
    """True if the tasks of a session fetch the files of a store, since they cannot read those of this machine."""
    return runs_elsewhere(session) and store.access() is not None


def read_fetched(
    spark: SparkSession, store: Store, files: Sequence[os.PathLike[str]], fields: Sequence[Field]
) -> DataFrame:
    """Files of weighted rows, fetched by the tasks that read them; those of this machine go to them with the query.

    It is a function of row numbers, so Spark divides the rows among tasks, and knows how many there are when it plans a
    join.
    """
    schema, fetched = stored_schema(fields), tuple(file for file in files if isinstance(file, FetchedFile))
    task, rows = granted(partial(_rows_numbered, fetched, schema), store), sum(file.rows for file in fetched)
    frame = spark.range(0, rows, 1, _partitions(spark, rows)).mapInArrow(task, _stored_sql(fields))
    ours = [read_table(file, schema) for file in files if isinstance(file, Path)]
    return frame.unionAll(frame_of_arrow(spark, pa.concat_tables(ours))) if ours else frame


def _partitions(spark: SparkSession, rows: int) -> int:
    """The number of tasks for so many rows: one for a few, as many as there are cores for more."""
    return 1 if is_small(rows) else max(shuffle_partitions(rows), min(cores_of(spark), -(-rows // ROW_GROUP)))


def _stored_sql(fields: Sequence[Field]) -> str:
    return schema_sql((*fields, Field(WEIGHT, BIGINT), Field(EPOCH, BIGINT)))


def _rows_numbered(
    files: Sequence[os.PathLike[str]], schema: pa.Schema, numbers: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The rows whose numbers a task gets: those of its partition follow each other."""
    ends = [(batch.column(0)[0].as_py(), batch.column(0)[-1].as_py()) for batch in numbers if batch.num_rows]
    if ends:
        for table in rows_between(files, schema, ends[0][0], ends[-1][1] + 1):
            yield from table.combine_chunks().to_batches(max_chunksize=BATCH_ROWS)


def write_shared(
    frame: DataFrame, store: Store, shared: SharedStaging, fields: Sequence[Field]
) -> dict[os.PathLike[str], int]:
    """Write the columns of ``fields``, weights and epochs: each task puts one file. Returns the files with their row
    counts."""
    task = granted(partial(_write_rows, shared, stored_schema(fields)), store)
    # By numbers, since Spark looks up the names, and users may have given any.
    numbered = frame.toDF(*(str(number) for number in range(len(frame.columns))))
    answers = rows_as_arrow(numbered.mapInArrow(task, "run BINARY")).column(0).to_pylist()
    runs = [pickle.loads(answer) for answer in answers]
    return {shared.file(run): run.entry.rows for run in sorted(runs, key=lambda run: run.entry.file)}


def _write_rows(
    shared: SharedStaging, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    run = shared.write(_row_groups(batches, schema), schema)
    if run is not None:
        yield pa.record_batch([pa.array([pickle.dumps(run)], pa.binary())], names=["run"])


def _row_groups(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """The rows of batches as tables of at least a row group, but for the last one."""
    waiting: list[Any] = []
    for batch in batches:
        waiting.append(batch)
        if sum(one.num_rows for one in waiting) >= ROW_GROUP:
            yield _table(waiting, schema)
            waiting = []
    if waiting:
        yield _table(waiting, schema)


def _table(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches(batches).rename_columns(schema.names).cast(schema)
