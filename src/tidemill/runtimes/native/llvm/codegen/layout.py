"""The layout of values in memory: cells in registers, records in maps, and the same records for NumPy.

=====================  ==========================================================
type                   cell
=====================  ==========================================================
BOOLEAN                i8, 0 or 1
INT, DATE              i32
BIGINT, TIMESTAMP      i64
INTERVAL of months     i32
INTERVAL of days       i64, in microseconds
TIME                   i64, microseconds of the day
DECIMAL(p <= 18)       i64, scaled
wider DECIMAL          i128, scaled
FLOAT, DOUBLE          f64, one NaN and no -0.0
window of time         i128, its start in the low half and its end in the high half
STRING, ARRAY, STRUCT  i32, the id of an interned value
=====================  ==========================================================

NULL is a flag beside the cell; a key that is NULL is stored as 0, with its bit set in the record's mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt
from llvmlite import ir

from tidemill.algebra.functions.datetime.time_windows import WINDOW
from tidemill.model import types as t
from tidemill.model.types import Type
from tidemill.program.maps import Map

I1, I8, I16, I32, I64, I128 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64, 128))
F64 = ir.DoubleType()
PTR = ir.PointerType()
NULL_POINTER = ir.Constant(PTR, None)


class Status(IntEnum):
    """The result of a function of a map; everything but OK leaves the maps as ``rollback`` needs them."""

    OK = 0
    WEIGHT_OVERFLOW = 1
    VALUE_OVERFLOW = 2
    DOUBLE_RANGE = 3
    BUDGET = 4
    MEMORY = 5
    PYTHON_CALL = 6


@dataclass(frozen=True, slots=True)
class NullableValue:
    """A value in registers; ``is_null`` is an i1, or None where it cannot be NULL."""

    value: ir.Value
    is_null: ir.Value | None = None


@dataclass(frozen=True, slots=True)
class DoubleSum:
    """A DOUBLE ring value: a double-double of the finite terms, and how often NaN, +inf and -inf were added."""

    high: ir.Value
    low: ir.Value
    nans: ir.Value
    infinities: ir.Value
    negative_infinities: ir.Value

    def parts(self) -> tuple[ir.Value, ...]:
        """All five numbers, as they lie in a record."""
        return self.high, self.low, self.nans, self.infinities, self.negative_infinities


RingValue = ir.Value | DoubleSum
"""A ring value: an i128, or the five numbers of a DOUBLE."""


NO_INSTANT = -(1 << 63)
"""Stands for NULL in the place of a start or an end of a window, far outside the calendar."""


def is_window(type_: Type) -> bool:
    """True of the struct that a window of time is, which has a cell of its own."""
    return type_ == WINDOW


INTERNED = (t.String, t.Binary, t.Variant, t.Array, t.Map, t.Struct, t.CalendarInterval)
"""Types without a cell of their own, but for windows of time."""


def is_interned(type_: Type) -> bool:
    """True if a cell is the id of an interned value: of texts, bytes, arrays, maps, structs and calendar intervals.

    >>> is_interned(t.BINARY), is_interned(t.INT), is_interned(WINDOW)
    (True, False, False)
    """
    return isinstance(type_, INTERNED) and not is_window(type_)


def is_object(type_: Type) -> bool:
    """True if interned values are objects of Python: all but texts."""
    return is_interned(type_) and not isinstance(type_, t.String | t.Variant)


def cell_type(type_: Type) -> ir.Type:
    """The LLVM type of a cell.

    >>> print(cell_type(t.Decimal(18, 2)), cell_type(t.Decimal(19, 2)), cell_type(t.STRING))
    i64 i128 i32
    """
    match type_:
        case t.Boolean():
            return I8
        case t.BigInt() | t.Timestamp() | t.Time() | t.DayTimeInterval():
            return I64
        case t.Decimal(precision=precision):
            return I64 if precision <= 18 else I128
        case t.Floating():
            return F64
        case t.Struct() if is_window(type_):
            return I128
    return I32


class StructLayout:
    """Fields at known offsets of a piece of memory. Nothing is aligned beyond 8 bytes, so a struct has few gaps."""

    def __init__(self) -> None:
        self._fields: dict[str, tuple[ir.Type, int]] = {}
        self._end = 0

    def field(self, name: str, type_: ir.Type) -> None:
        """Append a field."""
        bytes_ = size_of(type_)
        offset = _aligned(self._end, min(bytes_, 8))
        self._fields[name] = type_, offset
        self._end = offset + bytes_

    def part(self, name: str, part: StructLayout) -> None:
        """Append another struct, as a whole; its fields are reached through its ``address``."""
        self.bytes(name, part.size)

    def bytes(self, name: str, count: int) -> None:
        """Append so many bytes, which are reached through their ``address``."""
        self._fields[name] = I8, _aligned(self._end, 8)
        self._end = self._fields[name][1] + count

    @property
    def size(self) -> int:
        """The size in bytes, a multiple of 8."""
        return _aligned(self._end, 8)

    def __contains__(self, name: str) -> bool:
        return name in self._fields

    def offset(self, name: str) -> int:
        """The offset of a field."""
        return self._fields[name][1]

    def address(self, builder: ir.IRBuilder, base: ir.Value, name: str) -> ir.Value:
        """The place of a field."""
        return at(builder, base, self.offset(name))

    def load(self, builder: ir.IRBuilder, base: ir.Value, name: str) -> ir.Value:
        """Read a field."""
        type_ = self._fields[name][0]
        return builder.load(self.address(builder, base, name), typ=type_, align=min(size_of(type_), 8))

    def store(self, builder: ir.IRBuilder, base: ir.Value, name: str, value: ir.Value) -> None:
        """Write a field."""
        builder.store(value, self.address(builder, base, name), align=min(size_of(value.type), 8))

    def dtype(self, names: Sequence[str]) -> np.dtype[np.void]:
        """The same memory as records of NumPy, with some of the fields; 128 bits are 16 bytes of their own."""
        formats = [NUMPY_FORMATS[str(self._fields[name][0])] for name in names]
        offsets = [self.offset(name) for name in names]
        return np.dtype({"names": list(names), "formats": formats, "offsets": offsets, "itemsize": self.size})


NUMPY_FORMATS = {"i8": "i1", "i32": "<i4", "i64": "<i8", "i128": "V16", "double": "<f8"}
"""The format in which NumPy reads a cell, by its LLVM type; 128 bits are 16 bytes of their own."""

DOUBLE_PARTS = ("high", "low", "nans", "infinities", "negative_infinities")


def size_of(type_: ir.Type) -> int:
    """The bytes of a number or a pointer."""
    if isinstance(type_, ir.IntType):
        return int(type_.width) // 8
    return 8


def at(builder: ir.IRBuilder, base: ir.Value, offset: int | ir.Value) -> ir.Value:
    """The address ``offset`` bytes from ``base``."""
    if isinstance(offset, int) and not offset:
        return base
    index = ir.Constant(I64, offset) if isinstance(offset, int) else offset
    return builder.gep(base, [index], source_etype=I8)


def _aligned(offset: int, to: int) -> int:
    return -(-offset // to) * to


class MapRecord(StructLayout):
    """An entry in memory: a header, the mask of NULL keys, the weight, the values and the keys.

    The header is the tag by which hash tables know an entry (0 where there is none), and the stamp of the epoch that
    touched it last. Whatever a kind of map needs besides comes after ``payload`` bytes, so that all maps of the same
    keys and values can exchange their records.

    >>> from tidemill.model.types import BIGINT, INT, Field
    >>> from tidemill.program.maps import RingField
    >>> MapRecord(Map("m", (Field("k", INT, nullable=False),), (RingField("n", BIGINT),))).payload
    40
    """

    def __init__(self, map_: Map) -> None:
        super().__init__()
        self.field("tag", I32)
        self.field("stamp", I32)
        self.nulls = any(key.nullable for key in map_.keys)
        if self.nulls:
            self.field("nulls", I64)
        self.field("weight", I64)
        self.values: list[tuple[str, ...]] = []
        for i, value in enumerate(map_.values):
            is_double = isinstance(value.type, t.Double)
            self.values.append(tuple(f"value{i}.{part}" for part in DOUBLE_PARTS) if is_double else (f"value{i}",))
            for name in self.values[-1]:
                self.field(name, I128 if not is_double else F64 if name.endswith(("high", "low")) else I64)
        cells = {f"key{i}": cell_type(key.type) for i, key in enumerate(map_.keys)}
        self.keys = tuple(cells)
        for name in sorted(cells, key=lambda name: -size_of(cells[name])):
            self.field(name, cells[name])
        self.payload = self.size
        stored = ["weight", *(["nulls"] if self.nulls else []), *(n for names in self.values for n in names), *cells]
        self.columns = self.dtype(stored)

    def view(self, memory: npt.NDArray[np.uint8]) -> npt.NDArray[np.void]:
        """Records that lie in ``memory``, for NumPy."""
        return memory.view(self.columns)
