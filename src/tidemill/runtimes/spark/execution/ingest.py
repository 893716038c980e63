"""DataFrames that users pass in, batch or streaming, as changes of a table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

from tidemill.changes.changeset import ChangeSet
from tidemill.model.errors import BadValue, NullViolation, UnknownName, Unsupported
from tidemill.model.schema import EPOCH, WEIGHT, Table
from tidemill.model.types import STRING, Field
from tidemill.runtimes.spark.execution.arrow_frames import rows_as_arrow
from tidemill.runtimes.spark.execution.errors import condition_of, translate, translate_errors
from tidemill.runtimes.spark.execution.parquet_files import url_of, write_files
from tidemill.runtimes.spark.execution.results import COLLECT_ROWS
from tidemill.runtimes.spark.lowering.sql_text import literal_sql, quote
from tidemill.runtimes.spark.sessions.job_counters import described
from tidemill.runtimes.spark.sessions.session import is_remote
from tidemill.runtimes.spark.sessions.worker_packages import require_packages
from tidemill.storage.store import Store


def collect_small(frame: DataFrame, table: Table, epoch: int) -> pa.Table | None:
    """The frame's rows as Arrow, or None if they are too many for this process."""
    with _taking(frame, table, epoch):
        rows = rows_as_arrow(frame.limit(COLLECT_ROWS + 1))
    return rows if rows.num_rows <= COLLECT_ROWS else None


def stage_large(frame: DataFrame, table: Table, store: Store, epoch: int) -> ChangeSet:
    """The frame's rows in files of the store, written and converted by Spark; they never pass through this process."""
    names = {name.lower(): name for name in frame.columns}
    for name in names.keys() - {f.name for f in table.fields} - {WEIGHT}:
        raise UnknownName(f'"{table.name}" has no column "{names[name]}"')
    columns = [_column(f, names, table) for f in table.fields]
    weight = quote(names[WEIGHT]) if WEIGHT in names else "1"
    if store.access() is not None:
        require_packages(frame.sparkSession, ["obstore"])
    with translate_errors(table.name), _values_refused(), _taking(frame, table, epoch):
        chosen = frame.selectExpr(
            *columns, f"CAST({weight} AS BIGINT) AS {WEIGHT}", f"CAST({epoch} AS BIGINT) AS {EPOCH}"
        )
        files = write_files(chosen, store, table.name, table.fields)
    return ChangeSet.of_files(list(files), table.fields, sum(files.values()))


def _taking(frame: DataFrame, table: Table, epoch: int) -> AbstractContextManager[None]:
    """Describe the jobs that take in rows of a table."""
    return described(frame.sparkSession, f"tidemill epoch {epoch}: rows for {table.name}")


@contextmanager
def computed_once(frame: DataFrame, times: int) -> Iterator[DataFrame]:
    """A frame that is read so many times, and computed once."""
    if times == 1:
        yield frame
        return
    held = frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield held
    finally:
        held.unpersist()


@contextmanager
def _values_refused() -> Iterator[None]:
    """Raise errors of ``_column`` as data errors."""
    try:
        yield
    except PySparkException as error:
        if condition_of(error) == "USER_RAISED_EXCEPTION":
            what = (error.getMessageParameters() or {})["errorMessage"]
            raise (BadValue if what.startswith(_TOO_LONG) else NullViolation)(what) from error
        raise


_TOO_LONG = "a value is too long for "


def _column(field: Field, names: Mapping[str, str], table: Table) -> str:
    value = (
        f"CAST({quote(names[field.name])} AS {field.type})" if field.name in names else f"CAST(NULL AS {field.type})"
    )
    if field.length is not None:
        complaint = literal_sql(f'{_TOO_LONG}{field.declared} of column "{field.name}" of "{table.name}"', STRING)
        # Spaces beyond the length are cut off, as Spark does it for its own tables.
        value = (
            f"CASE WHEN length(rtrim({value})) > {field.length} THEN raise_error({complaint})"
            f" ELSE {_fitted(value, field)} END"
        )
    if not field.nullable:
        complaint = literal_sql(f'column "{field.name}" of "{table.name}" cannot be NULL', STRING)
        value = f"coalesce({value}, raise_error({complaint}))"
    return f"{value} AS {quote(field.name)}"


def _fitted(value: str, field: Field) -> str:
    cut = f"substring({value}, 1, {field.length})"
    return cut if field.char is None else f"rpad({cut}, {field.char}, ' ')"


class StreamBatches:
    """Commits each batch of a streaming query exactly once.

    Spark repeats a batch after a failure, with its number. The number is committed with the batch's epoch, which
    identifies a batch that was committed before. A query that starts from a new checkpoint has a new id and counts from
    0.
    """

    def __init__(
        self, name: str, position: Callable[[str], str | None], take: Callable[[DataFrame, str, str], None]
    ) -> None:
        self._name = f"stream:{name}"
        self._position = position
        self._take = take
        self.error: Exception | None = None
        """The error that has stopped the stream."""

    def __call__(self, frame: DataFrame, number: int) -> None:
        """Commit batch ``number``, unless it already is."""
        query = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId") or ""
        known = json.loads(self._position(self._name) or "{}")
        if known.get("query") == query and known.get("batch", -1) >= number:
            return
        try:
            self._take(frame, self._name, json.dumps({"query": query, "batch": number}))
        except Exception as error:
            self.error = error
            raise

    @contextmanager
    def raising_errors(self) -> Iterator[None]:
        """Raise the error of a batch as it was, and other failures of the query as errors of the stream."""
        try:
            yield
        except StreamingQueryException as error:
            if self.error is not None:
                raise self.error from None
            raise translate(error, self._name) from error


def start_stream(
    frame: DataFrame, batches: StreamBatches, checkpoint: str | Path, options: Mapping[str, object]
) -> StreamingQuery:
    """Start a streaming query whose batches become epochs."""
    if is_remote(frame.sparkSession):
        raise Unsupported(
            "a streaming query of Spark Connect cannot be followed",
            detail="Its batches are processed where the server runs, and the warehouse is open here.",
            hint="Give a stream of a classic session: SparkSession.builder.master(...).getOrCreate().",
        )
    place = url_of(checkpoint.absolute()) if isinstance(checkpoint, Path) else checkpoint
    writer = frame.writeStream.foreachBatch(batches).option("checkpointLocation", place)
    return writer.trigger(**options).start() if options else writer.start()
