"""Functions of batches: of pandas Series or Arrow arrays, called as functions of the values of one row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from tidemill.changes.arrow import arrow_schema
from tidemill.model.errors import InvalidArgument
from tidemill.model.types import Field, Map, Type

FORMS = ("values", "pandas", "arrow")
"""What a function takes and gives: values of a row, or batches of them."""

RowFunction = Callable[[Sequence[Type]], Callable[..., Any]]
"""From the types of the arguments to a function of the values of one row."""


def row_function(function: Callable[..., Any], form: str, returns: Type) -> RowFunction:
    """``function`` as a function of the values of a row, whatever its ``form``.

    A batch has one row: epochs call functions row by row.
    """
    if form not in FORMS:
        raise InvalidArgument(f'there is no form "{form}" of functions', hint=f"Forms are {', '.join(FORMS)}.")
    if form == "values":
        return lambda types: function
    of = _arrow_type(returns)

    def bound(types: Sequence[Type]) -> Callable[..., Any]:
        kinds = [_arrow_type(one) for one in types]

        def call(*values: Any) -> Any:
            arrays = [pa.array([_entries(v, t)], kind) for v, t, kind in zip(values, types, kinds, strict=True)]
            if form == "arrow":
                return _only(function(*arrays), of)
            return _only(function(*(array.to_pandas() for array in arrays)), of)

        return call

    return bound


def _entries(value: Any, of: Type) -> Any:
    return list(value.items()) if isinstance(of, Map) and isinstance(value, dict) else value


def _only(batch: Any, of: pa.DataType) -> Any:
    """The one value of a batch that a function has given."""
    if len(batch) != 1:
        raise ValueError(f"a batch of 1 row has become one of {len(batch)}")
    made = batch if isinstance(batch, pa.Array | pa.ChunkedArray) else pa.array(batch, from_pandas=True)
    value = made.cast(of)[0].as_py()
    return dict(value) if isinstance(of, pa.MapType) and value is not None else value


def _arrow_type(of: Type) -> pa.DataType:
    return arrow_schema((Field("value", of),)).field("value").type
