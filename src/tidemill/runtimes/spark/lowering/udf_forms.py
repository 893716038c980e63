"""A function over columns of arrays as a UDF, for every version of Spark.

From Spark 4.1 on a UDF can take Arrow. Before, it takes one value at a time as Python objects, of which timestamps are
in the time zone of the worker, without naming it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC
from typing import Any

import pyarrow as pa
from pyspark.sql import functions

from tidemill.changes.arrow import arrow_type
from tidemill.model.types import Array, Struct, Timestamp, Type

__all__ = ["udf_over_arrays"]


def udf_over_arrays(function: Callable[[pa.Array], pa.Array], taken: Array, returns: str) -> Any:
    """A UDF of one argument of type ``taken``; ``function`` computes a column of it."""
    if hasattr(functions, "arrow_udf"):
        return functions.arrow_udf(function, returnType=returns)
    return functions.udf(lambda value: _applied(function, taken, value), returns, useArrow=False)


def _applied(function: Callable[[pa.Array], pa.Array], taken: Array, value: Any) -> Any:
    return function(pa.array([_arrow_value(value, taken)], arrow_type(taken)))[0].as_py()


def _arrow_value(value: Any, of: Type) -> Any:
    """A value as Arrow takes it: records by their columns' names, timestamps with their time zone."""
    match of:
        case _ if value is None:
            return None
        case Timestamp():
            return value.astimezone(UTC)
        case Array(element):
            return [_arrow_value(each, element) for each in value]
        case Struct(fields):
            return {field.name: _arrow_value(each, field.type) for field, each in zip(fields, value, strict=True)}
    return value
