"""Arrow tables as DataFrames and back, for every version of Spark.

Spark 4 takes and gives Arrow tables itself. For Spark 3.5 a table travels as bytes in one cell, and a task of
``mapInArrow`` reads it there: pandas, the other way of that version, has no NULLs of integers and no decimals.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from tidemill.changes.arrow import to_stream

__all__ = ["frame_of_arrow", "rows_as_arrow"]


def rows_as_arrow(frame: DataFrame) -> pa.Table:
    """The rows of a DataFrame."""
    if hasattr(frame, "toArrow"):
        return frame.toArrow()
    return pa.Table.from_batches(frame._collect_as_arrow(), to_arrow_schema(frame.schema))


def frame_of_arrow(spark: SparkSession, table: pa.Table) -> DataFrame:
    """The rows of a table as a DataFrame. Spark takes an empty chunk for the end, so there is one chunk."""
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
