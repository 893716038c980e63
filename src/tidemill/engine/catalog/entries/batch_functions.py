"""Functions of batches: of pandas Series or Arrow arrays, called for one row or for many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from tidemill.changes.arrow import arrow_schema
from tidemill.changes.zset import Row
from tidemill.model.errors import InvalidArgument
from tidemill.model.types import Field, Map, Type

FORMS = ("values", "pandas", "arrow")
"""Forms of a function: of the values of a row, or of batches of them."""

RowFunction = Callable[[Sequence[Type]], Callable[..., Any]]
"""From the types of the arguments to a function of the values of one row."""

BatchFunction = Callable[[Sequence[Type]], Callable[[Sequence[Row]], Sequence[Any]]]
"""From the types of the arguments to a function of many rows of values."""


def row_function(function: Callable[..., Any], form: str, returns: Type) -> RowFunction:
    """``function`` as a function of the values of a row, whatever its ``form``."""
    batches = batch_function(function, form, returns)
    if batches is None:
        return lambda types: function
    return lambda types: lambda *values: batches(types)([values])[0]


def batch_function(function: Callable[..., Any], form: str, returns: Type) -> BatchFunction | None:
    """``function`` as a function of many rows; None for one that takes values."""
    if form not in FORMS:
        raise InvalidArgument(f'there is no form "{form}" of functions', hint=f"Forms are {', '.join(FORMS)}.")
    if form == "values":
        return None
    of = _arrow_type(returns)

    def bound(types: Sequence[Type]) -> Callable[[Sequence[Row]], Sequence[Any]]:
        kinds = [_arrow_type(one) for one in types]

        def call(rows: Sequence[Row]) -> Sequence[Any]:
            columns = zip(zip(*rows, strict=True), types, kinds, strict=True)
            arrays = [pa.array([_entries(v, of_) for v in column], kind) for column, of_, kind in columns]
            given = arrays if form == "arrow" else [array.to_pandas() for array in arrays]
            return _values(function(*given), of, len(rows))

        return call

    return bound


def _entries(value: Any, of: Type) -> Any:
    return list(value.items()) if isinstance(of, Map) and isinstance(value, dict) else value


def _values(batch: Any, of: pa.DataType, count: int) -> Sequence[Any]:
    """The values of a batch that a function has given for ``count`` rows."""
    if len(batch) != count:
        raise ValueError(f"a batch of {count} row{'s' if count > 1 else ''} has become one of {len(batch)}")
    made = batch if isinstance(batch, pa.Array | pa.ChunkedArray) else pa.array(batch, from_pandas=True)
    values: list[Any] = made.cast(of).to_pylist()
    return [dict(value) if value is not None else None for value in values] if isinstance(of, pa.MapType) else values


def _arrow_type(of: Type) -> pa.DataType:
    return arrow_schema((Field("value", of),)).field("value").type
