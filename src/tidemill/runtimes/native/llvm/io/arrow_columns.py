"""Arrow columns as cells, and cells as Arrow columns: whole columns at a time, by NumPy.

A cell of 128 bits is 16 bytes here (``V16``), which is how Arrow holds a DECIMAL too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.changes.arrow import arrow_type, from_arrow, to_arrow
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault
from tidemill.model.types import Field, Type
from tidemill.runtimes.native.llvm.codegen.layout import NO_INSTANT, is_object, is_window
from tidemill.runtimes.native.llvm.io.string_dictionary import StringDictionary

CellArray = npt.NDArray[Any]
NullFlags = npt.NDArray[np.bool_]

_PLAIN: dict[type[Type], tuple[pa.DataType, np.dtype[Any] | None]] = {
    t.Boolean: (arrow_type(t.BOOLEAN), None),
    t.TinyInt: (arrow_type(t.TINYINT), np.dtype(np.int32)),
    t.SmallInt: (arrow_type(t.SMALLINT), np.dtype(np.int32)),
    t.Int: (arrow_type(t.INT), np.dtype(np.int32)),
    t.Date: (arrow_type(t.DATE), np.dtype(np.int32)),
    t.BigInt: (arrow_type(t.BIGINT), np.dtype(np.int64)),
    t.Timestamp: (arrow_type(t.TIMESTAMP), np.dtype(np.int64)),
    t.TimestampNtz: (arrow_type(t.TIMESTAMP_NTZ), np.dtype(np.int64)),
    t.YearMonthInterval: (arrow_type(t.YEAR_MONTH), np.dtype(np.int32)),
    t.DayTimeInterval: (arrow_type(t.DAY_TIME), np.dtype(np.int64)),
    t.Time: (arrow_type(t.TIME), np.dtype(np.int64)),
}
"""The Arrow type of types that are plain numbers, and that of their cells; BOOLEANs are bits in Arrow."""

_NARROW = 18
_UNITS = {t.DATE: "datetime64[D]", t.TIMESTAMP: "datetime64[us]", t.TIMESTAMP_NTZ: "datetime64[us]"}
_VIEWED = (t.Date, t.Time, t.Timestamp)
_FIRST, _LAST = np.datetime64("0001-01-01"), np.datetime64("9999-12-31")
_LIMIT = 10**t.MAX_PRECISION


def one_chunk(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column in one piece."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def nulls_of(column: pa.Array) -> NullFlags | None:
    """The flags of the NULLs of a column; None where there are none."""
    if not column.null_count:
        return None
    found: NullFlags = pc.is_null(column).to_numpy(zero_copy_only=False)
    return found


def cells_of(column: pa.Array, type_: Type, strings: StringDictionary) -> CellArray:
    """The cells of a column, 0 where it is NULL.

    >>> from tidemill.runtimes.native.llvm.codegen.memory import Memory
    >>> cells_of(pa.array([1, None, 3], pa.int32()), t.INT, StringDictionary(Memory()))
    array([1, 0, 3], dtype=int32)
    """
    match type_:
        case t.String() | t.Variant():
            return strings.intern_column(column)
        case t.Struct() if is_window(type_):
            return _window_cells(column)
        case _ if is_object(type_):
            return _nested_cells(column, type_, strings)
        case t.Decimal(precision=precision):
            return _decimal_cells(column.cast(arrow_type(type_)), precision)
        case t.Floating():
            given: CellArray = pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False)
            found = given + 0.0  # no -0.0
            found[np.isnan(found)] = np.nan  # and one NaN
            return found
    kind, cell = _PLAIN[type(type_)]
    alike = column.type == kind and not column.null_count
    if alike and (data := column.buffers()[1]) is not None and cell is not None and kind.bit_width == 8 * cell.itemsize:
        return np.frombuffer(data, cell, len(column), column.offset * cell.itemsize)
    plain = pa.int8() if cell is None else pa.from_numpy_dtype(cell)
    numbers = column.cast(kind)
    numbers = numbers.view(plain) if isinstance(type_, _VIEWED) else numbers.cast(plain)
    cells: CellArray = pc.fill_null(numbers, 0).to_numpy(zero_copy_only=False)
    return cells


def column_of(cells: CellArray, nulls: NullFlags | None, type_: Type, strings: StringDictionary) -> pa.Array:
    """The column whose cells these are."""
    kind = arrow_type(type_)
    match type_:
        case t.String() | t.Variant():
            found = strings.column(cells)
        case t.Struct() if is_window(type_):
            return _window_column(_pairs(cells), nulls, kind)
        case _ if is_object(type_):
            return _nested_column(cells, nulls, type_, strings)
        case t.Decimal(precision=precision):
            pairs = _widened(cells) if precision <= _NARROW else _pairs(cells)
            return pa.Array.from_buffers(kind, len(cells), [_validity(nulls), pa.py_buffer(pairs)])
        case t.Boolean():
            found = pa.array(cells.astype(np.bool_))
        case t.Date() | t.Time() | t.Timestamp():
            found = pa.array(np.ascontiguousarray(cells)).view(kind)
        case _:
            found = pa.array(np.ascontiguousarray(cells)).cast(kind)
    return found if nulls is None else pc.if_else(pa.array(nulls), pa.scalar(None, kind), found)


def values_of(cells: CellArray, nulls: NullFlags | None, type_: Type, strings: StringDictionary) -> list[Any]:
    """The values whose cells these are, as rows have them; numbers and times do without an Arrow column.

    >>> from tidemill.runtimes.native.llvm.codegen.memory import Memory
    >>> values_of(np.array([1, 0, 3], np.int32), np.array([False, True, False]), t.DATE, StringDictionary(Memory()))
    [datetime.date(1970, 1, 2), None, datetime.date(1970, 1, 4)]
    """
    match type_:
        case t.Integral() | t.AnsiInterval():
            found = cells.tolist()
        case t.Boolean():
            found = cells.astype(np.bool_).tolist()
        case t.Date() | t.Timestamp() if _are_times(times := cells.astype(_UNITS[type_])):
            found = times.tolist()
        case _:
            field = Field("value", type_)
            table = pa.Table.from_arrays([column_of(cells, nulls, type_, strings)], names=[field.name])
            return [value for (value,), _ in from_arrow(table, (field,))]
    if nulls is None:
        return list(found)
    return [None if null else value for value, null in zip(found, nulls.tolist(), strict=True)]


def _are_times(times: CellArray) -> bool:
    """True if Python has them all; Arrow says which one it has not."""
    return not len(times) or bool(times.min() >= _FIRST and times.max() <= _LAST)


def sums_of(column: pa.Array, type_: Type) -> CellArray:
    """The numbers of a stored BIGINT or DECIMAL ring value, in 128 bits."""
    if isinstance(type_, t.Decimal):
        return _decimal_cells(column.cast(arrow_type(type_)), t.MAX_PRECISION)
    return _widened(column.cast(pa.int64()).to_numpy(zero_copy_only=False)).view("V16").ravel()


def column_of_sums(sums: CellArray, type_: Type) -> pa.Array:
    """Ring values as they are stored. A sum that does not fit its type is a fault."""
    pairs = _pairs(sums)
    low, high = pairs[:, 0], pairs[:, 1]
    if isinstance(type_, t.Decimal):
        _refuse(_beyond_precision(low, high), sums, type_)
        return pa.Array.from_buffers(arrow_type(type_), len(sums), [None, pa.py_buffer(pairs)])
    _refuse(high != low >> 63, sums, type_)
    return pa.array(np.ascontiguousarray(low))


def integers(sums: CellArray) -> list[int]:
    """Numbers of 128 bits as Python has them."""
    pairs = _pairs(sums)
    low, high = pairs[:, 0], pairs[:, 1]
    if not (high != low >> 63).any():
        return list(low.tolist())
    return [(upper << 64) + lower % 2**64 for lower, upper in pairs.tolist()]


def _refuse(wrong: NullFlags, sums: CellArray, type_: Type) -> None:
    if wrong.any():
        total = integers(sums[wrong][:1])[0]
        raise ArithmeticFault(f"a sum does not fit {type_}: {total}", hint="Convert its argument to DOUBLE.")


def _beyond_precision(low: CellArray, high: CellArray) -> NullFlags:
    """The mask of the numbers with more than 38 digits."""
    bounds = _LIMIT >> 64, np.uint64(_LIMIT % 2**64)
    unsigned = low.view(np.uint64)
    above = (high > bounds[0]) | ((high == bounds[0]) & (unsigned >= bounds[1]))
    lowest = -_LIMIT >> 64, np.uint64(-_LIMIT % 2**64)
    below = (high < lowest[0]) | ((high == lowest[0]) & (unsigned <= lowest[1]))
    return np.asarray(above | below)


def _decimal_cells(column: pa.Array, precision: int) -> CellArray:
    data = column.buffers()[1]
    if data is None:
        return np.zeros(len(column), np.int64 if precision <= _NARROW else "V16")
    pairs = np.frombuffer(data, np.int64).reshape(-1, 2)[column.offset : column.offset + len(column)]
    nulls = nulls_of(column)
    if nulls is not None:
        pairs = np.where(nulls[:, None], 0, pairs)
    return pairs[:, 0] if precision <= _NARROW else np.ascontiguousarray(pairs).view("V16").ravel()


def _widened(cells: CellArray) -> CellArray:
    """Numbers of 64 bits as pairs of a low and a high word."""
    pairs = np.empty((len(cells), 2), np.int64)
    pairs[:, 0] = cells
    pairs[:, 1] = pairs[:, 0] >> 63
    return pairs


def _pairs(cells: CellArray) -> CellArray:
    return np.ascontiguousarray(cells).view(np.int64).reshape(-1, 2)


def _validity(nulls: NullFlags | None) -> pa.Buffer | None:
    return None if nulls is None else pa.py_buffer(np.packbits(~nulls, bitorder="little"))


def _window_cells(column: pa.StructArray) -> CellArray:
    pairs = np.empty((len(column), 2), np.int64)
    for half, moments in enumerate(column.flatten()):
        numbers = moments.cast(arrow_type(t.TIMESTAMP)).view(pa.int64())
        pairs[:, half] = pc.fill_null(numbers, NO_INSTANT).to_numpy(zero_copy_only=False)
    nulls = nulls_of(column)
    if nulls is not None:
        pairs[nulls] = 0
    return pairs.view("V16").ravel()


def _window_column(pairs: CellArray, nulls: NullFlags | None, kind: pa.StructType) -> pa.Array:
    halves = []
    for half in range(2):
        numbers = np.ascontiguousarray(pairs[:, half])
        absent = numbers == NO_INSTANT
        moments = pa.array(numbers, mask=absent) if absent.any() else pa.array(numbers)
        halves.append(moments.view(arrow_type(t.TIMESTAMP)))
    return pa.StructArray.from_arrays(halves, fields=list(kind), mask=None if nulls is None else pa.array(nulls))


def _nested_cells(column: pa.Array, type_: Type, strings: StringDictionary) -> CellArray:
    rows = from_arrow(pa.table({"nested": column}), [Field("nested", type_)])
    return np.array([0 if value is None else strings.intern(value) for (value,), _ in rows], np.int32)


def _nested_column(cells: CellArray, nulls: NullFlags | None, type_: Type, strings: StringDictionary) -> pa.Array:
    values = strings.nested_values()
    absent = [False] * len(cells) if nulls is None else nulls.tolist()
    rows = [((None if null else values[cell],), 1) for cell, null in zip(cells.tolist(), absent, strict=True)]
    return one_chunk(to_arrow(rows, [Field("nested", type_)]).column("nested"))
