"""Column buffers: rows behind each other in columns of one piece of memory, as code.

A piece of memory has room for ``capacity`` rows, column after column; the widest cells come first, so that all are
aligned. Weights come last but for the bytes that say where a column is NULL.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from llvmlite import ir

from tidemill.model.types import Field
from tidemill.runtimes.native.llvm.codegen import memory
from tidemill.runtimes.native.llvm.codegen.control_flow import IRValue, Local, check, define, number
from tidemill.runtimes.native.llvm.codegen.layout import (
    F64,
    I8,
    I32,
    I64,
    NULL_POINTER,
    PTR,
    NullableValue,
    StructLayout,
    at,
    cell_type,
    size_of,
)

COLUMN_BUFFER = StructLayout()
"""``some`` and ``all`` are the bits that some weight has and that all have; ``wanted`` is what is likely needed."""
COLUMN_BUFFER.field("account", PTR)
COLUMN_BUFFER.field("data", PTR)
for _name in ("count", "capacity", "wanted", "some", "all"):
    COLUMN_BUFFER.field(_name, I64)

FIRST_CAPACITY = 1024

LANES = 8
"""Rows that are written at once."""

LARGE_WEIGHT = -128
"""Stands for a weight of more than a byte."""


@dataclass(frozen=True, slots=True)
class ColumnLayout:
    """Columns behind each other in one piece of memory: for each its type, and the bytes of those before it per row."""

    types: Mapping[str, ir.Type]

    def offset(self, name: str) -> int:
        """The offset of a column, in bytes for each row of the capacity."""
        names = list(self.types)
        return sum(size_of(self.types[other]) for other in names[: names.index(name)])

    @property
    def width(self) -> int:
        """The bytes of a row."""
        return sum(map(size_of, self.types.values()))

    def first(self, builder: ir.IRBuilder, data: IRValue, capacity: IRValue, name: str) -> IRValue:
        """The first cell of a column."""
        return at(builder, data, builder.mul(capacity, number(self.offset(name))))

    def cell(self, builder: ir.IRBuilder, data: IRValue, capacity: IRValue, name: str, place: IRValue) -> IRValue:
        """One cell of a column, to be loaded or stored."""
        first = self.first(builder, data, capacity, name)
        return at(builder, first, builder.mul(place, number(size_of(self.types[name]))))

    def load(self, builder: ir.IRBuilder, data: IRValue, capacity: IRValue, name: str, place: IRValue) -> IRValue:
        """Read one cell."""
        type_ = self.types[name]
        found = self.cell(builder, data, capacity, name, place)
        return builder.load(found, typ=type_, align=min(size_of(type_), 8))

    def store(
        self, builder: ir.IRBuilder, data: IRValue, capacity: IRValue, name: str, place: IRValue, cell: IRValue
    ) -> None:
        """Write one cell."""
        found = self.cell(builder, data, capacity, name, place)
        builder.store(cell, found, align=min(size_of(self.types[name]), 8))


def null_column(name: str) -> str:
    """The column of bytes that says where another one is NULL."""
    return f"{name} is null"


def aligned_columns(cells: Mapping[str, ir.Type]) -> ColumnLayout:
    """Columns in an order in which all cells are aligned."""
    return ColumnLayout(dict(sorted(cells.items(), key=lambda pair: -size_of(pair[1]))))


def cell_types(fields: Mapping[str, Field]) -> dict[str, ir.Type]:
    """The columns that hold some fields, and say where they are NULL."""
    cells: dict[str, ir.Type] = {}
    for name, field in fields.items():
        cells[name] = cell_type(field.type)
        if field.nullable:
            cells[null_column(name)] = I8
    return cells


class ColumnBufferCode:
    """Rows behind each other in columns that grow, as code; ``cells`` are the types of the columns."""

    def __init__(self, module: ir.Module, cells: Mapping[str, ir.Type]) -> None:
        self._module = module
        self.columns = aligned_columns(cells)

    def reserve(self, builder: ir.IRBuilder, buffer: IRValue, rows: IRValue) -> None:
        """Make room for more rows, or return the status of the failure."""
        needed = builder.add(COLUMN_BUFFER.load(builder, buffer, "count"), rows)
        short = builder.icmp_unsigned(">", needed, COLUMN_BUFFER.load(builder, buffer, "capacity"))
        with builder.if_then(short, likely=False):
            check(builder, builder.call(self._grow(), [buffer, needed]))

    def ends(self, builder: ir.IRBuilder, buffer: IRValue) -> dict[str, IRValue]:
        """The address of the next row, in each column."""
        data, capacity, count = (COLUMN_BUFFER.load(builder, buffer, name) for name in ("data", "capacity", "count"))
        return {name: self.columns.cell(builder, data, capacity, name, count) for name in self.columns.types}

    def put(
        self, builder: ir.IRBuilder, buffer: IRValue, cells: Mapping[str, NullableValue], numbers: Mapping[str, IRValue]
    ) -> None:
        """Append one row for which there is room: cells, each with its flag where it has one, and plain numbers."""
        ends = self.ends(builder, buffer)
        written = dict(numbers)
        for name, cell in cells.items():
            written[name] = value_or_zero(builder, cell)
            if null_column(name) in ends:
                written[null_column(name)] = null_flag(builder, cell)
        for name, value in written.items():
            builder.store(value, ends[name], align=min(size_of(self.columns.types[name]), 8))
        self.extend(builder, buffer, number(1))

    def extend(self, builder: ir.IRBuilder, buffer: IRValue, rows: IRValue) -> None:
        """Count rows that were written after the others."""
        COLUMN_BUFFER.store(builder, buffer, "count", builder.add(COLUMN_BUFFER.load(builder, buffer, "count"), rows))

    def note(self, builder: ir.IRBuilder, buffer: IRValue, some: IRValue, all_: IRValue) -> None:
        """Take notice of weights: the bits that some have, and those that all have."""
        COLUMN_BUFFER.store(builder, buffer, "some", builder.or_(COLUMN_BUFFER.load(builder, buffer, "some"), some))
        COLUMN_BUFFER.store(builder, buffer, "all", builder.and_(COLUMN_BUFFER.load(builder, buffer, "all"), all_))

    def _grow(self) -> ir.Function:
        """``grow(buffer, rows)``: have room for so many rows at least, twice as many as before, and as last time."""

        def body(builder: ir.IRBuilder, arguments: tuple[IRValue, ...]) -> None:
            buffer, needed = arguments
            names = "account", "data", "count", "capacity", "wanted"
            account, old, count, capacity, wanted = (COLUMN_BUFFER.load(builder, buffer, name) for name in names)
            room = Local(builder, number(FIRST_CAPACITY))
            for least in (needed, wanted, builder.mul(capacity, number(2))):
                room.set(builder.select(builder.icmp_unsigned(">", least, room.get()), least, room.get()))
            # A whole number of cache lines: then every column begins at one.
            more = builder.and_(builder.add(room.get(), number(63)), number(-64))
            width = number(self.columns.width)
            data = memory.resize(builder, account, NULL_POINTER, number(0), builder.mul(more, width))
            memory.check_granted(builder, account, data)
            for name, type_ in self.columns.types.items():
                source, target = (
                    self.columns.first(builder, place, space, name) for place, space in ((old, capacity), (data, more))
                )
                memory.copy(builder, target, source, builder.mul(count, number(size_of(type_))))
            memory.release(builder, account, old, builder.mul(capacity, width))
            COLUMN_BUFFER.store(builder, buffer, "data", data)
            COLUMN_BUFFER.store(builder, buffer, "capacity", more)
            builder.ret(number(0, I32))

        shape = ".".join(map(str, self.columns.types.values()))
        return define(self._module, f"column_buffer.grow.{shape}", I32, [PTR, I64], body, "noinline", "cold")


def null_flag(builder: ir.IRBuilder, cell: NullableValue) -> IRValue:
    """A byte that says whether a cell is NULL."""
    return number(0, I8) if cell.is_null is None else builder.zext(cell.is_null, I8)


def value_or_zero(builder: ir.IRBuilder, cell: NullableValue) -> IRValue:
    """The value of a cell, 0 where it is NULL."""
    if cell.is_null is None:
        return cell.value
    return builder.select(cell.is_null, ir.Constant(cell.value.type, 0.0 if cell.value.type == F64 else 0), cell.value)
