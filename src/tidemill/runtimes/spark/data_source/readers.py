"""Readers of rows as of an epoch, and of changes as a stream; each task reads one part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from inspect import signature
from typing import Any

import pyarrow as pa
from pyspark.sql import datasource as api
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

try:
    from pyspark.sql.streaming import datasource as streaming
except ImportError:  # before Spark 4.2
    streaming = None

from tidemill.model.errors import Unsupported
from tidemill.runtimes.spark.data_source.relation import ReadPart, WarehouseRelation

__all__ = ["ChangeReader", "RowReader", "arrow_columns"]

BATCH_ROWS = 10_000
"""Rows of an Arrow batch that a task hands to Spark."""

SNAPSHOT = -1
"""The offset before the first batch of a stream that begins with all rows of a relation."""

_ALL: Any = getattr(api, "ReadAllAvailable", None)
"""The limit of a batch that has everything; Spark has limits since 4.2."""


def arrow_columns(schema: StructType) -> pa.Schema:
    """The columns in the Arrow types that Spark expects of a data source: those of TIMESTAMP are in UTC."""
    zone = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **zone)


class _TaskReader:
    """The rows of a part in the columns that Spark expects; runs in a task."""

    def __init__(self, source: WarehouseRelation, schema: StructType) -> None:
        self.source = source
        self._columns = arrow_columns(schema)
        # It goes to tasks with the function that they run, and is in no plan.
        self._access = source.access()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a part in batches; those that nobody takes, below a LIMIT, are not read."""
        if partition.value is None:  # Spark asks for one part where there are none
            return
        if self._access is not None:
            self._access.grant()
        part: ReadPart = partition.value
        for table in part.tables():
            rows = table.select(self._columns.names).cast(self._columns)
            yield from rows.combine_chunks().to_batches(max_chunksize=BATCH_ROWS)


_AVAILABLE_NOW: Any = getattr(streaming, "SupportsTriggerAvailableNow", object)
"""The interface of readers that end at what was there when a query began; Spark has it since 4.2."""


class RowReader(_TaskReader, DataSourceReader):  # type: ignore[misc]
    """Reads a relation as of the epoch of its options, or of the last one when a frame is first used.

    It takes no conditions: Spark (4.3) keeps the reader of a frame with the conditions of one query for all others.
    """

    def partitions(self) -> list[InputPartition]:
        """Parts of the rows, or with the option ``changes`` of the changes."""
        options, source = self.source.parsed, self.source
        if options.changes:
            return _partitions(source.change_parts(options.since or 0, options.epoch))
        if options.fresh:
            return [InputPartition(LatestRows(source))]
        return _partitions(source.row_parts(options.epoch))


def _partitions(parts: Sequence[ReadPart]) -> list[InputPartition]:
    return [InputPartition(part) for part in parts]


class ChangeReader(_TaskReader, DataSourceStreamReader, _AVAILABLE_NOW):  # type: ignore[misc]
    """Changes of a relation; an offset is an epoch. Without ``since`` a stream begins with all rows as insertions."""

    _target: int | None = None
    """The epoch at which a query ends that takes what is available now."""

    def prepareForTriggerAvailableNow(self) -> None:
        """Note the last epoch: later ones are left to the next run of the query."""
        self._target = self.source.last_epoch()

    def initialOffset(self) -> dict[str, int]:
        """The epoch after which a new stream begins."""
        since = self.source.parsed.since
        return {"epoch": SNAPSHOT if since is None else since}

    def latestOffset(self, start: dict[str, int] | None = None, limit: object = None) -> dict[str, int]:
        """The epoch at which the next batch ends."""
        options = self.source.parsed
        if start is None and (options.max_rows or options.max_epochs):
            raise Unsupported("limits of a batch on this version of Spark", hint="Install pyspark 4.2 or later.")
        if start is None or start["epoch"] == SNAPSHOT:
            return {"epoch": self.source.last_epoch() if self._target is None else self._target}
        limits = (None, None) if _takes_all(limit) else (options.max_rows, options.max_epochs)
        return {"epoch": self.source.epoch_after(start["epoch"], self._target, *limits)}

    def getDefaultReadLimit(self) -> object:
        """A limit by rows, if there is one of either kind: else Spark would ask for everything at once."""
        options = self.source.parsed
        if options.max_rows or options.max_epochs:
            from pyspark.sql.streaming.datasource import ReadMaxRows

            return ReadMaxRows(options.max_rows or 2**31 - 1)
        return _ALL()

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """Parts of the changes of one batch."""
        since, until = start["epoch"], end["epoch"]
        if since == until:
            return []
        if since == SNAPSHOT:
            return [InputPartition(AsInsertions(part, until)) for part in self.source.row_parts(until)]
        return _partitions(self.source.change_parts(since, until))


def _takes_all(limit: object) -> bool:
    return _ALL is None or isinstance(limit, _ALL)


class LatestRows:
    """The rows of a relation as of the last epoch when a task reads them.

    Spark keeps the parts of a scan for as long as a frame or temporary view lasts. So what shall be fresh in each query
    of these is one part, which looks for the last epoch itself.
    """

    def __init__(self, relation: WarehouseRelation) -> None:
        self._relation = relation

    def tables(self) -> Iterator[pa.Table]:
        """The rows, all as of one epoch."""
        for part in self._relation.row_parts(None):
            yield from part.tables()


class AsInsertions:
    """Rows of a part as changes that insert them in an epoch."""

    def __init__(self, part: ReadPart, epoch: int) -> None:
        self._part, self._epoch = part, epoch

    def tables(self) -> Iterator[pa.Table]:
        """The rows with weight 1."""
        from tidemill.model.schema import WEIGHT
        from tidemill.storage.segments import with_epoch

        for table in self._part.tables():
            ones = pa.repeat(pa.scalar(1, pa.int64()), table.num_rows)
            yield with_epoch(table.append_column(WEIGHT, ones), self._epoch)
