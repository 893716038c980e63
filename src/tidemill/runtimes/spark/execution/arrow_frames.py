"""Arrow tables as DataFrames and back, for every version of Spark.

Spark 4 takes and gives Arrow tables itself. For Spark 3.5 a table travels as bytes in one cell, and a task of
``mapInArrow`` reads it there: pandas, the other way of that version, has no NULLs of integers and no decimals.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from tidemill.changes.arrow import to_stream
from tidemill.model.types import Field
from tidemill.runtimes.spark.lowering.interval_columns import from_arrow_columns, to_arrow_columns
from tidemill.runtimes.spark.lowering.types import fields_of
from tidemill.runtimes.spark.sessions.session import active_session_kept

__all__ = ["frame_of_arrow", "rows_as_arrow"]


def rows_as_arrow(frame: DataFrame) -> pa.Table:
    """The rows of a DataFrame."""
    columns = to_arrow_columns(_known_fields(frame.schema))
    if columns is not None:
        frame = frame.selectExpr(*columns)
    if hasattr(frame, "toArrow"):
        return frame.toArrow()
    return pa.Table.from_batches(frame._collect_as_arrow(), to_arrow_schema(frame.schema))


def _known_fields(schema: StructType) -> tuple[Field, ...]:
    """The columns, if there can be intervals among them; of types that are unknown here there are none."""
    try:
        return fields_of(schema) if "interval" in schema.simpleString() else ()
    except KeyError:
        return ()


def frame_of_arrow(spark: SparkSession, table: pa.Table, fields: Sequence[Field] = ()) -> DataFrame:
    """The rows of a table as a DataFrame, with ``fields`` of their types.

    Spark takes an empty chunk for the end, so there is one chunk.
    """
    with active_session_kept(spark):
        frame = _frame_of_arrow(spark, table)
    columns = from_arrow_columns(fields, table.column_names)
    return frame if columns is None else frame.selectExpr(*columns)


def _frame_of_arrow(spark: SparkSession, table: pa.Table) -> DataFrame:
    whole = table.combine_chunks()
    if hasattr(DataFrame, "toArrow"):
        return spark.createDataFrame(whole)
    schema = from_arrow_schema(table.schema, prefer_timestamp_ntz=False)
    return spark.createDataFrame([(bytearray(to_stream(whole)),)], "stream BINARY").mapInArrow(
        _batches_of_streams, schema
    )


def _batches_of_streams(cells: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for cell in cells:
        for stream in cell.column(0):
            yield from pa.ipc.open_stream(stream.as_buffer())
