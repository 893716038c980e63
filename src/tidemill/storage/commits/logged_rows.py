"""A few rows as JSON, the form in which small changes stand in the log.

An Arrow message of one row takes ten times as long to write as the same row in JSON. Numbers, text, BOOLEAN and NULL
are JSON's own; DECIMAL, BINARY, DATE, TIME and TIMESTAMP are text; arrays, maps and structs are lists. The schema of
the map tells them apart when they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tidemill.model.array_tree import ArrayTree

__all__ = ["encode_value", "table_of"]


def encode_value(value: object) -> str | list[Any]:
    """A value that JSON does not have, as text, or as a list if it is an array: for ``json.dumps``.

    >>> encode_value(Decimal("1.50")), encode_value(date(2026, 1, 2)), encode_value(b"a")
    ('1.50', '2026-01-02', '61')
    """
    if isinstance(value, ArrayTree):
        return list(value)
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes):
        return value.hex()
    assert isinstance(value, date | time)  # a datetime is a date
    return value.isoformat()


def table_of(pairs: Iterable[tuple[Sequence[Any], int]], schema: pa.Schema) -> pa.Table:
    """Weighted rows as they came out of JSON, as a table whose last column is the weight.

    >>> schema = pa.schema([("day", pa.date32()), ("_weight", pa.int64())])
    >>> table_of([[["2026-01-02"], -1]], schema).to_pylist()
    [{'day': datetime.date(2026, 1, 2), '_weight': -1}]
    """
    rows = [(*row, weight) for row, weight in pairs]
    columns = zip(*rows, strict=True)
    arrays = [
        pa.array([_decoded(value, _decoder(kind)) for value in column], kind)
        for column, kind in zip(columns, schema.types, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


Decoder = Callable[[Any], Any]


def _decoded(value: Any, decode: Decoder | None) -> Any:
    return value if value is None or decode is None else decode(value)


def _decoder(kind: pa.DataType) -> Decoder | None:
    """The conversion of a JSON value to one that Arrow takes for ``kind``; None if they are the same."""
    if pa.types.is_decimal(kind):
        return Decimal
    if pa.types.is_date(kind):
        return date.fromisoformat
    if pa.types.is_time(kind):
        return time.fromisoformat
    if pa.types.is_timestamp(kind):
        return datetime.fromisoformat
    if pa.types.is_binary(kind):
        return bytes.fromhex
    if pa.types.is_map(kind):
        key, item = _decoder(kind.key_type), _decoder(kind.item_type)
        return lambda entries: [(_decoded(k, key), _decoded(v, item)) for k, v in entries]
    if pa.types.is_list(kind):
        element = _decoder(kind.value_type)
        return lambda values: [_decoded(value, element) for value in values]
    if pa.types.is_struct(kind):
        fields = [(field.name, _decoder(field.type)) for field in kind]
        return lambda values: {n: _decoded(v, decode) for (n, decode), v in zip(fields, values, strict=True)}
    return None
