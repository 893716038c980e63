"""The types of Spark that public functions take and return, for annotations outside this package."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.types import StructType

__all__ = ["DataFrame", "SparkSession", "StreamingQuery", "StructType"]
