"""Writers: tasks hand their rows to the driver with the message that ends them, and one commit has them all.

Nothing is written before all tasks of a batch have ended, so a failed batch leaves nothing behind, and a task that runs
twice counts once: Spark hands on the message of one attempt.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import datasource as api
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from tidemill.changes.arrow import to_stream
from tidemill.model.errors import Unsupported
from tidemill.runtimes.spark.data_source.relation import WarehouseRelation

__all__ = ["STREAMS_ARROW", "BatchWriter", "StreamWriter"]

TASK_BYTES = 256 * 2**20
"""Bytes of rows that a task hands over; all of them pass through the driver."""

_STREAM_WRITER: Any = getattr(api, "DataSourceStreamArrowWriter", object)
STREAMS_ARROW = _STREAM_WRITER is not object
"""True if this version of Spark has writers of streams that get Arrow: it has since 4.1."""


@dataclass
class WrittenRows(WriterCommitMessage):  # type: ignore[misc]
    """The rows of a task as a stream of Arrow, and the query that they belong to."""

    rows: bytes
    query: str | None


class BatchWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Writes a DataFrame as one epoch; with the options ``query`` and ``batch`` only once."""

    def __init__(self, source: WarehouseRelation) -> None:
        self.source = source

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Hand the rows of a task over."""
        return _written(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit the rows of all tasks."""
        options, rows = self.source.parsed, _rows_of(messages)
        if rows is not None:
            self.source.commit(rows, options.query, options.batch)


class StreamWriter(_STREAM_WRITER):  # type: ignore[misc]
    """Writes each batch of a streaming query as one epoch, with the query's id and the batch's number as position."""

    def __init__(self, source: WarehouseRelation) -> None:
        self.source = source

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Hand the rows of a task over."""
        return _written(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Commit the rows of all tasks; a batch without rows changes nothing, and needs no position."""
        rows = _rows_of(messages)
        if rows is None:
            return
        query = next((message.query for message in messages if message is not None), None)
        if query is None:
            raise Unsupported("this query does not tell its id to tasks", hint="Write it with wh.stream.")
        self.source.commit(rows, query, batchId)


def _written(batches: Iterator[pa.RecordBatch]) -> WrittenRows:
    taken: list[Any] = []
    size = 0
    for batch in batches:
        taken.append(batch)
        size += batch.nbytes
        if size > TASK_BYTES:
            raise Unsupported(
                f"a task has more than {TASK_BYTES // 2**20} MB of rows",
                detail="Rows of a write pass through the driver.",
                hint="Repartition the frame, or open the warehouse and give the frame to wh.apply, which writes files.",
            )
    context = TaskContext.get()
    query = None if context is None else context.getLocalProperty("sql.streaming.queryId")
    return WrittenRows(to_stream(pa.Table.from_batches(taken)) if taken else b"", query)


def _rows_of(messages: Sequence[WriterCommitMessage | None]) -> pa.Table | None:
    """The rows of all tasks; None if there are none."""
    streams = [message.rows for message in messages if message is not None and message.rows]
    tables = [table for table in (pa.ipc.open_stream(stream).read_all() for stream in streams) if table.num_rows]
    return pa.concat_tables(tables) if tables else None
