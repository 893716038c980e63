"""Rows to Arrow and back. Arrow is the form in which changes cross every boundary."""

from __future__ import annotations

import decimal
import math
import sys
from array import array
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from itertools import accumulate, islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.changes.zset import Row
from tidemill.model import types as t
from tidemill.model.array_tree import as_array
from tidemill.model.schema import WEIGHT
from tidemill.model.types import Field, Type

NAN = math.nan
"""The only NaN object in rows: a dictionary finds it because it is identical."""

_PLAIN: dict[Type, pa.DataType] = {
    t.VOID: pa.null(),
    t.BOOLEAN: pa.bool_(),
    t.TINYINT: pa.int8(),
    t.SMALLINT: pa.int16(),
    t.INT: pa.int32(),
    t.BIGINT: pa.int64(),
    t.FLOAT: pa.float32(),
    t.DOUBLE: pa.float64(),
    t.STRING: pa.string(),
    t.BINARY: pa.binary(),
    t.VARIANT: pa.string(),
    t.DATE: pa.date32(),
    t.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    t.TIMESTAMP_NTZ: pa.timestamp("us"),
    t.CALENDAR_INTERVAL: pa.struct([("months", pa.int32()), ("days", pa.int32()), ("microseconds", pa.int64())]),
}


_BARE = pa.timestamp("us")


def arrow_type(type_: Type) -> pa.DataType:
    """The Arrow type that holds ``type_`` exactly."""
    match type_:
        case t.Decimal(precision, scale):
            return pa.decimal128(precision, scale)
        case t.YearMonthInterval():
            return pa.int32()  # in Python Arrow has no type of months alone
        case t.DayTimeInterval():
            return pa.int64()  # of durations Arrow computes no minimum
        case t.Time():
            return pa.time64("us")
        case t.Collated():
            return pa.string()
        case t.Array(element):
            return pa.list_(arrow_type(element))
        case t.Map(key, value):
            # Arrow has no keys that are NULL by type; a map without a type has none at all.
            return pa.map_(pa.string() if key == t.VOID else arrow_type(key), arrow_type(value))
        case t.Struct(fields):
            return pa.struct([pa.field(f.name, arrow_type(f.type)) for f in fields])
    return _PLAIN[type_]


def arrow_schema(fields: Sequence[Field]) -> pa.Schema:
    """The Arrow schema of weighted rows: ``fields`` and then the weight."""
    return _schema(tuple(fields))


@lru_cache(maxsize=1024)
def _schema(fields: tuple[Field, ...]) -> pa.Schema:
    # Single-row epochs request the same few schemas thousands of times a second.
    columns = [pa.field(f.name, arrow_type(f.type)) for f in fields]
    return pa.schema([*columns, pa.field(WEIGHT, pa.int64())])


def to_arrow(pairs: Iterable[tuple[Row, int]], fields: Sequence[Field]) -> pa.Table:
    """Weighted rows as an Arrow table whose last column is the weight."""
    schema = arrow_schema(fields)
    given = list(pairs)
    rows, weights = zip(*given, strict=True) if given else ((), ())
    columns = [*(zip(*rows, strict=True) if rows else [()] * len(fields)), weights]
    types = [*(f.type for f in fields), t.BIGINT]
    arrays = [_column_of(*one) for one in zip(columns, types, schema.types, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def repeat_rows(table: pa.Table) -> pa.Table:
    """Rows with weights of at least 0, each as often as its weight says, without the column of weights.

    >>> repeat_rows(pa.table({"n": [7, 8], WEIGHT: [2, 1]})).column("n").to_pylist()
    [7, 7, 8]
    """
    weights, rows = table.column(WEIGHT).to_numpy(), table.drop_columns([WEIGHT])
    return rows if (weights == 1).all() else rows.take(pa.array(np.repeat(np.arange(len(weights)), weights)))


def to_stream(table: pa.Table) -> bytes:
    """A table as the bytes of an Arrow stream, with its schema."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _column_of(values: Sequence[Any], type_: Type, kind: pa.DataType) -> pa.Array:
    found = plain_array(values, type_) if len(values) <= FEW else None
    if found is not None:
        return found
    to = _outward(type_)
    return pa.array(values if to is None else [None if v is None else to(v) for v in values], type=kind)


FEW = 64
"""Row count up to which columns are made of buffers."""


def plain_array(values: Sequence[Any], type_: Type) -> pa.Array | None:
    """Values as an Arrow array made of buffers; None for nested types, and for values that only Arrow can judge.

    For few values it takes as long as ``pyarrow.array``, which imports pandas when it is first called, if that is
    installed: four times as long as all else that the first change of a process does.

    >>> plain_array(["ann", None], t.STRING).to_pylist(), plain_array([(1,)], t.Array(t.INT))
    (['ann', None], None)
    """
    try:
        data = _buffers(values, type_)
    except OverflowError:
        return None
    if data is None:
        return None
    bits = pa.py_buffer(_bits([value is not None for value in values])) if None in values else None
    return pa.Array.from_buffers(arrow_type(type_), len(values), [bits, *map(pa.py_buffer, data)])


def _buffers(values: Sequence[Any], type_: Type) -> Sequence[array[Any] | bytes] | None:
    """The buffers of an array but the first, which tells the NULLs."""
    match type_:
        case t.Boolean():
            return [_bits(values)]
        case t.Integral():
            return [array(_INTEGER_CODES[type_.bits], [v or 0 for v in values])]
        case t.Floating():
            code = "f" if isinstance(type_, t.Float) else "d"
            return [array(code, [0.0 if v is None else v for v in values])]
        case t.Date():
            return [array("i", [0 if v is None else v.toordinal() - _DAY_ZERO for v in values])]
        case t.Time():
            return [array("q", [0 if v is None else microsecond_of_day(v) for v in values])]
        case t.Timestamp():
            return [array("q", [0 if v is None else (v - _MOMENT_ZERO) // _MICROSECOND for v in values])]
        case t.YearMonthInterval():
            return [array("i", [v or 0 for v in values])]
        case t.DayTimeInterval():
            return [array("q", [v or 0 for v in values])]
        case t.String() | t.Binary() | t.Variant():
            texts = [b"" if v is None else v if isinstance(v, bytes) else v.encode() for v in values]
            return [array("i", accumulate(map(len, texts), initial=0)), b"".join(texts)]
        case t.Decimal(precision, scale):
            scaled = [0 if v is None else v.scaleb(scale, _WIDE) for v in values]
            numbers = [int(v) for v in scaled]
            if numbers != scaled or max(map(abs, numbers), default=0) >= 10**precision:
                return None
            return [b"".join([number.to_bytes(16, sys.byteorder, signed=True) for number in numbers])]
    return None


_INTEGER_CODES = {8: "b", 16: "h", 32: "i", 64: "q"}


def _bits(flags: Sequence[Any]) -> bytes:
    """Flags as the bits of a buffer, the first in the lowest bit; NULL is 0."""
    return sum(1 << place for place, flag in enumerate(flags) if flag).to_bytes((len(flags) + 7) // 8, "little")


def integer_array(numbers: npt.NDArray[np.int64]) -> pa.Array:
    """Numbers as Arrow, made of their buffer like ``plain_array``."""
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])


ZERO: pa.Scalar = integer_array(np.zeros(1, dtype=np.int64))[0]
"""A weight of nothing."""


_DAY_ZERO = date(1970, 1, 1).toordinal()
_MOMENT_ZERO = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_WIDE = decimal.Context(prec=80)


def from_arrow(table: pa.Table, fields: Sequence[Field]) -> list[tuple[Row, int]]:
    """The rows of an Arrow table of this very schema, with their weights (1 where there is no weight column)."""
    columns: list[list[Any]] = []
    for f in fields:
        stored = table.column(f.name)
        if isinstance(f.type, t.Timestamp):
            columns.append(_timestamps(stored.cast(_BARE)))
            continue
        if f.type == t.STRING:
            columns.append(_texts(stored))
            continue
        column = stored.to_pylist()
        to = _inward(f.type)
        columns.append(column if to is None else [None if v is None else to(v) for v in column])
    weights = table.column(WEIGHT).to_pylist() if WEIGHT in table.column_names else [1] * table.num_rows
    rows = zip(*columns, strict=True) if columns else ((),) * table.num_rows
    pairs = zip(rows, weights, strict=True)
    found: list[tuple[Row, int]] = []
    while part := list(islice(pairs, TURN)):
        found += part
    return found


TURN = 65_536
"""Rows that are made at once. A single ``list`` of all holds the interpreter until it is made, a second for two million
rows: other threads would wait for it, and so would Ctrl-C."""


MANY = 1024
"""Row count from which it pays to examine a column before it is converted to Python values."""


def _texts(column: pa.ChunkedArray) -> list[str | None]:
    """The texts of a column. If many are equal, they are interned: one object for each, across columns.

    So they take no additional memory, are hashed once, and compare equal by identity.
    """
    if len(column) < MANY or 2 * len(column.slice(0, MANY).unique()) > MANY:
        return list(column.to_pylist())
    encoded = column.dictionary_encode().unify_dictionaries()
    words = np.array([*map(sys.intern, encoded.chunk(0).dictionary.to_pylist()), None], dtype=object)
    found: list[str | None] = []
    for chunk in encoded.chunks:
        places = pc.fill_null(chunk.indices, len(words) - 1)
        found += words[places.to_numpy(zero_copy_only=False)].tolist()
    return found


def _timestamps(column: pa.ChunkedArray) -> list[datetime | None]:
    """Timestamps without time zone, converted by NumPy if they are many, since Arrow takes fifteen times as long.

    NumPy returns integers for values outside the range of ``datetime``; Arrow raises an error.
    """
    if len(column) >= MANY and not column.null_count:
        moments = column.to_numpy()
        if moments.min() >= _FIRST and moments.max() <= _LAST:
            return list(moments.astype(object).tolist())
    return list(column.to_pylist())


_FIRST, _LAST = (np.datetime64(moment, "us") for moment in (datetime.min, datetime.max))

DAY = 86_400_000_000
"""Microseconds of a day."""


def microsecond_of_day(value: time) -> int:
    """Microseconds from midnight, the number that a TIME stands for.

    >>> microsecond_of_day(time(0, 1, 0, 5))
    60000005
    """
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond


def time_of_day(micros: int) -> time:
    """The TIME so many microseconds after midnight."""
    seconds, micros = divmod(micros, 1_000_000)
    minutes, second = divmod(seconds, 60)
    return time(*divmod(minutes, 60), second, micros)


def instants(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Timestamps and dates in microseconds since 1970; numbers are left as they are."""
    if pa.types.is_date32(column.type):
        return pc.multiply(column.cast(pa.int32()).cast(pa.int64()), DAY)
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    return column


def canonical_double(value: float) -> float:
    """The representative of all doubles that SQL holds equal: one NaN, and 0.0 for -0.0."""
    return NAN if value != value else value + 0.0


def without_negative_zeros(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of FLOAT or DOUBLE with 0.0 for -0.0."""
    return pc.add(column, pa.scalar(0.0, column.type))


_CALENDAR = ("months", "days", "microseconds")


def _outward(type_: Type) -> Callable[[Any], Any] | None:
    """The conversion from an internal value to Arrow's; None if they are the same. Naive timestamps are UTC."""
    match type_:
        case t.CalendarInterval():
            return lambda value: dict(zip(_CALENDAR, value, strict=True))
        case t.Array(element):
            to = _outward(element) or (lambda v: v)
            return lambda values: [None if v is None else to(v) for v in values]
        case t.Map(key, value):
            pair = _outward(key) or (lambda v: v), _outward(value) or (lambda v: v)
            return lambda entries: [(pair[0](k), None if v is None else pair[1](v)) for k, v in entries]
        case t.Struct(fields):
            parts = [(f.name, _outward(f.type) or (lambda v: v)) for f in fields]
            return lambda value: {
                name: None if v is None else to(v) for (name, to), v in zip(parts, value, strict=True)
            }
    return None


def _inward(type_: Type) -> Callable[[Any], Any] | None:
    """The conversion from Arrow's value to an internal one; None if they are the same."""
    match type_:
        case t.Floating():
            return canonical_double
        case t.Timestamp():
            return lambda v: v.replace(tzinfo=None)
        case t.CalendarInterval():
            return lambda v: tuple(v[name] for name in _CALENDAR)
        case t.Array(element):
            to = _inward(element) or (lambda v: v)
            return lambda values: as_array([None if v is None else to(v) for v in values])
        case t.Map(key, value):
            pair = _inward(key) or (lambda v: v), _inward(value) or (lambda v: v)
            return lambda entries: tuple((pair[0](k), None if v is None else pair[1](v)) for k, v in entries)
        case t.Struct(fields):
            parts = [(f.name, _inward(f.type) or (lambda v: v)) for f in fields]
            return lambda value: tuple(None if value[name] is None else to(value[name]) for name, to in parts)
    return None
