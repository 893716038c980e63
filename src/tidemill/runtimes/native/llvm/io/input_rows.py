"""Rows on their way in: Arrow columns read in place, and Python rows packed into records.

Only the columns that a stage uses are looked at. Numbers are read where Arrow has them; texts become ids first, once
for each column. A row that is a Python tuple is packed into a *record*: its weight, a mask of its NULLs, its cells.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from llvmlite import ir

from tidemill.changes.zset import Row
from tidemill.model import types as t
from tidemill.model.schema import WEIGHT
from tidemill.model.types import Field, Type
from tidemill.runtimes.native.llvm.codegen.layout import (
    F64,
    I8,
    I32,
    I64,
    I128,
    INTERNED,
    NULL_POINTER,
    PTR,
    NullableValue,
    StructLayout,
    at,
    cell_type,
    is_interned,
)
from tidemill.runtimes.native.llvm.io.arrow_columns import CellArray, cells_of
from tidemill.runtimes.native.llvm.io.string_dictionary import StringDictionary
from tidemill.runtimes.native.llvm.scalars.conversions import from_stored, inner_value, number_converter
from tidemill.runtimes.native.llvm.scalars.exact_numbers import canonical

INPUT_COLUMN = StructLayout()
"""An Arrow column for emitted code: its values, its validity bits (null where all are valid) and where it begins."""
INPUT_COLUMN.field("values", PTR)
INPUT_COLUMN.field("validity", PTR)
INPUT_COLUMN.field("offset", I64)

INPUT_TABLE = StructLayout()
"""A batch for emitted code: its columns, its weights (null where all are 1), and the next row to take."""
INPUT_TABLE.field("columns", PTR)
INPUT_TABLE.field("weights", PTR)
INPUT_TABLE.field("next", I64)


def load_cells(builder: ir.IRBuilder, columns: ir.Value, row: ir.Value, fields: Sequence[Field]) -> list[NullableValue]:
    """The cells of a row of an Arrow batch."""
    return [load_cell(builder, columns, i, row, f) for i, f in enumerate(fields)]


def load_cell(builder: ir.IRBuilder, columns: ir.Value, number: int, row: ir.Value, field: Field) -> NullableValue:
    """The cell of one column."""
    column = at(builder, columns, number * INPUT_COLUMN.size)
    values, offset = INPUT_COLUMN.load(builder, column, "values"), INPUT_COLUMN.load(builder, column, "offset")
    place = builder.add(row, offset)
    value = _load_value(builder, values, place, field.type)
    if not field.nullable:
        return NullableValue(value)
    validity = INPUT_COLUMN.load(builder, column, "validity")
    counted = builder.icmp_unsigned("!=", validity, NULL_POINTER)
    # Where there are no bits at all some byte is read that is there anyway: of the column's own description.
    bits = builder.select(counted, validity, column)
    position = builder.select(counted, place, ir.Constant(I64, 0))
    invalid = builder.not_(_bit(builder, bits, position))
    return NullableValue(value, builder.and_(counted, invalid))


def _load_value(builder: ir.IRBuilder, values: ir.Value, place: ir.Value, type_: Type) -> ir.Value:
    if isinstance(type_, t.Boolean):
        return _bit(builder, values, place)
    kind = _STORED.get(type_, I128 if isinstance(type_, t.Decimal) else cell_type(type_))
    spot = builder.gep(values, [place], source_etype=kind)
    value = builder.load(spot, typ=kind, align=1 if type_ in _STORED else 4 if kind == I32 else 8)
    if isinstance(type_, t.Floating):
        return canonical(builder, builder.fpext(value, F64) if kind != F64 else value)
    if type_ in _STORED:
        return builder.sext(value, cell_type(type_))
    return builder.trunc(value, I64) if kind == I128 and cell_type(type_) == I64 else value


_STORED: dict[Type, ir.Type] = {t.TINYINT: I8, t.SMALLINT: ir.IntType(16), t.FLOAT: ir.FloatType()}
"""The types that are narrower in Arrow than as cells."""


def _bit(builder: ir.IRBuilder, bits: ir.Value, place: ir.Value) -> ir.Value:
    byte = builder.load(at(builder, bits, builder.lshr(place, ir.Constant(I64, 3))), typ=I8)
    shift = builder.trunc(builder.and_(place, ir.Constant(I64, 7)), I8)
    return builder.trunc(builder.lshr(byte, shift), ir.IntType(1))


def load_weight(builder: ir.IRBuilder, weights: ir.Value, row: ir.Value) -> ir.Value:
    """The weight of a row of an Arrow batch."""
    given = builder.icmp_unsigned("!=", weights, NULL_POINTER)
    with builder.if_else(given) as (there, absent):
        with there:
            found = builder.load(builder.gep(weights, [row], source_etype=I64), typ=I64)
            one_block = builder.block
        with absent:
            other_block = builder.block
    weight = builder.phi(I64)
    weight.add_incoming(found, one_block)
    weight.add_incoming(ir.Constant(I64, 1), other_block)
    return weight


class InputBatch:
    """An Arrow batch as emitted code reads it. It keeps alive what it points to."""

    def __init__(self, batch: pa.RecordBatch, fields: Sequence[Field], strings: StringDictionary) -> None:
        self.rows = int(batch.num_rows)
        self._kept: list[Any] = [batch]
        words: list[int] = []
        for f in fields:
            words += self._column(batch.column(f.name), f.type, strings)
        self._columns = (ctypes.c_uint64 * max(len(words), 1))(*words)
        self.columns = ctypes.addressof(self._columns)
        self.weights = self._weights(batch)

    def _column(self, array: pa.Array, type_: Type, strings: StringDictionary) -> tuple[int, int, int]:
        validity = array.buffers()[0] if array.null_count else None
        valid = 0 if validity is None else int(validity.address)
        if isinstance(type_, INTERNED):
            ids = cells_of(array, type_, strings)
            # Ids begin at the array's first row, its validity bits where the buffer does.
            padded: CellArray = np.concatenate([np.zeros(array.offset, ids.dtype), ids])
            self._kept.append(padded)
            return int(padded.ctypes.data), valid, int(array.offset)
        values = array.buffers()[1]
        return 0 if values is None else int(values.address), valid, int(array.offset)

    def _weights(self, batch: pa.RecordBatch) -> int:
        if WEIGHT not in batch.schema.names:
            return 0
        column = batch.column(WEIGHT)
        return int(column.buffers()[1].address) + 8 * int(column.offset)


class InputRecord:
    """The form of one row in memory: weight, mask of NULLs, then each cell in 8 or 16 bytes."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self.fields = tuple(fields)
        self._struct = StructLayout()
        self._struct.field("weight", I64)
        self._struct.field("nulls", I64)
        for place, f in enumerate(fields):
            self._struct.field(f"cell{place}", _slot_type(f.type))

    @property
    def size(self) -> int:
        """The bytes of a record."""
        return self._struct.size

    def weight(self, builder: ir.IRBuilder, record: ir.Value) -> ir.Value:
        """The weight of the row."""
        return self._struct.load(builder, record, "weight")

    def cells(self, builder: ir.IRBuilder, record: ir.Value) -> list[NullableValue]:
        """The cells of the row."""
        nulls = self._struct.load(builder, record, "nulls")
        return [self._cell(builder, record, nulls, place) for place in range(len(self.fields))]

    def _cell(self, builder: ir.IRBuilder, record: ir.Value, nulls: ir.Value, place: int) -> NullableValue:
        field = self.fields[place]
        kind = cell_type(field.type)
        value = self._struct.load(builder, record, f"cell{place}")
        if isinstance(kind, ir.IntType) and kind.width < 64:
            value = builder.trunc(value, kind)
        null = builder.trunc(builder.lshr(nulls, ir.Constant(I64, place)), ir.IntType(1)) if field.nullable else None
        return from_stored(builder, NullableValue(value, null), field.type)

    def place(self, builder: ir.IRBuilder, record: ir.Value, name: str) -> ir.Value:
        """The offset of ``weight``, ``nulls`` or ``cell0``, ``cell1``..."""
        return self._struct.address(builder, record, name)

    def offset(self, place: int) -> int:
        """The offset of the cell of a field."""
        return self._struct.offset(f"cell{place}")

    def values(self, data: bytes, strings: StringDictionary) -> Row:
        """The row that lies in a record, in its inner form: for the report of an error."""
        (nulls,) = struct.unpack_from("<Q", data, 8)
        return tuple(
            None if nulls >> place & 1 else self._value(data, place, field.type, strings)
            for place, field in enumerate(self.fields)
        )

    def _value(self, data: bytes, place: int, type_: Type, strings: StringDictionary) -> Any:
        kind = _slot_type(type_)
        if kind == F64:
            return struct.unpack_from("<d", data, self.offset(place))[0]
        cell = data[self.offset(place) :][: kind.width // 8]
        return inner_value(int.from_bytes(cell, "little", signed=True), type_, strings.value)

    def packer(
        self, positions: Sequence[int], strings: StringDictionary
    ) -> Callable[[Iterable[tuple[Row, int]]], bytes]:
        """A function that packs weighted rows; ``positions`` says where a row has the fields."""
        form = struct.Struct("<qQ" + "".join(_FORMATS.get(str(_slot_type(f.type)), "q") for f in self.fields))
        converters = [_converter(f.type, strings) for f in self.fields]
        columns = list(zip(positions, converters, range(len(positions)), strict=True))

        def pack(pairs: Iterable[tuple[Row, int]]) -> bytes:
            records = []
            for row, weight in pairs:
                nulls = 0
                cells: list[float] = []
                for position, convert, place in columns:
                    value = row[position]
                    if value is None:
                        nulls |= 1 << place
                    cells += convert(value)
                records.append(form.pack(weight, nulls, *cells))
            return b"".join(records)

        return pack


_FORMATS = {"i128": "Qq", "double": "d"}


def _slot_type(type_: Type) -> ir.Type:
    kind = cell_type(type_)
    return kind if kind in (I128, F64) else I64


def _converter(type_: Type, strings: StringDictionary) -> Callable[[Any], Sequence[float]]:
    """From an inner value to the words of its cell; NULL becomes 0."""
    if is_interned(type_):
        return lambda value: (0 if value is None else strings.intern(value),)
    if cell_type(type_) == I128:
        wide = number_converter(type_)
        return lambda value: (0, 0) if value is None else _halves(int(wide(value)))
    if isinstance(type_, t.Integral | t.Floating):
        return lambda value: (0 if value is None else value,)
    number = number_converter(type_)
    return lambda value: (0 if value is None else number(value),)


def _halves(number: int) -> tuple[int, int]:
    return number & (1 << 64) - 1, number >> 64
