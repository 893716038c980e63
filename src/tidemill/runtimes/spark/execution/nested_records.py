"""Nested files through Spark's readers: any file system and format that it supports."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tidemill.runtimes.spark.execution.arrow_frames import rows_as_arrow
from tidemill.runtimes.spark.execution.errors import translate_errors

__all__ = ["records_of_frame", "records_of_paths"]


def records_of_paths(session: SparkSession, paths: Sequence[str], format: str | None) -> pa.Table:
    """The records of files or folders, JSON lines unless ``format`` or the ending says otherwise."""
    kind = format or ("parquet" if paths[0].rstrip("/").endswith(".parquet") else "json")
    with translate_errors("load"):
        return records_of_frame(session.read.format(kind).load(list(paths)))


def records_of_frame(frame: DataFrame) -> pa.Table:
    """The rows of a frame."""
    return rows_as_arrow(frame)
