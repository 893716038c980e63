"""Trays: rows behind each other in columns of one piece of memory, as code.

A piece of memory has room for ``capacity`` rows, column after column; the widest cells come first, so that all are
aligned. Weights come last but for the bytes that say where a column is NULL.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from llvmlite import ir

from tidemill.model.types import Field
from tidemill.runtimes.native.llvm import memory
from tidemill.runtimes.native.llvm.blocks import Local, Value, check, define, number
from tidemill.runtimes.native.llvm.layout import F64, I8, I32, I64, PTR, Cell, Struct, at, cell_type, size_of

TRAY = Struct()
"""``some`` and ``all`` are the bits that some weight has and that all have; ``wanted`` is what is likely needed."""
TRAY.field("account", PTR)
TRAY.field("data", PTR)
for _name in ("count", "capacity", "wanted", "some", "all"):
    TRAY.field(_name, I64)

FIRST_CAPACITY = 1024


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns behind each other in one piece of memory: for each its type, and the bytes of those before it per row."""

    types: Mapping[str, ir.Type]

    def offset(self, name: str) -> int:
        """Where a column begins, in bytes for each row that there is room for."""
        names = list(self.types)
        return sum(size_of(self.types[other]) for other in names[: names.index(name)])

    @property
    def width(self) -> int:
        """The bytes of a row."""
        return sum(map(size_of, self.types.values()))

    def first(self, builder: ir.IRBuilder, data: Value, capacity: Value, name: str) -> Value:
        """The first cell of a column."""
        return at(builder, data, builder.mul(capacity, number(self.offset(name))))

    def cell(self, builder: ir.IRBuilder, data: Value, capacity: Value, name: str, place: Value) -> Value:
        """One cell of a column, to be loaded or stored."""
        first = self.first(builder, data, capacity, name)
        return at(builder, first, builder.mul(place, number(size_of(self.types[name]))))

    def load(self, builder: ir.IRBuilder, data: Value, capacity: Value, name: str, place: Value) -> Value:
        """Read one cell."""
        type_ = self.types[name]
        found = self.cell(builder, data, capacity, name, place)
        return builder.load(found, typ=type_, align=min(size_of(type_), 8))

    def store(self, builder: ir.IRBuilder, data: Value, capacity: Value, name: str, place: Value, cell: Value) -> None:
        """Write one cell."""
        found = self.cell(builder, data, capacity, name, place)
        builder.store(cell, found, align=min(size_of(self.types[name]), 8))


def null_of(name: str) -> str:
    """The column of bytes that says where another one is NULL."""
    return f"{name} is null"


def columns_of(cells: Mapping[str, ir.Type]) -> Columns:
    """Columns in an order in which all cells are aligned."""
    return Columns(dict(sorted(cells.items(), key=lambda pair: -size_of(pair[1]))))


def cell_types(fields: Mapping[str, Field]) -> dict[str, ir.Type]:
    """The columns that hold some fields, and say where they are NULL."""
    cells: dict[str, ir.Type] = {}
    for name, field in fields.items():
        cells[name] = cell_type(field.type)
        if field.nullable:
            cells[null_of(name)] = I8
    return cells


class TrayCode:
    """Rows behind each other in columns that grow, as code; ``cells`` are the types of the columns."""

    def __init__(self, module: ir.Module, cells: Mapping[str, ir.Type]) -> None:
        self._module = module
        self.columns = columns_of(cells)

    def reserve(self, builder: ir.IRBuilder, tray: Value, rows: Value) -> None:
        """See to it that so many rows more have room, or return the status that says why not."""
        needed = builder.add(TRAY.load(builder, tray, "count"), rows)
        short = builder.icmp_unsigned(">", needed, TRAY.load(builder, tray, "capacity"))
        with builder.if_then(short, likely=False):
            check(builder, builder.call(self._grow(), [tray, needed]))

    def ends(self, builder: ir.IRBuilder, tray: Value) -> dict[str, Value]:
        """Where the next row goes, in each column."""
        data, capacity, count = (TRAY.load(builder, tray, name) for name in ("data", "capacity", "count"))
        return {name: self.columns.cell(builder, data, capacity, name, count) for name in self.columns.types}

    def put(self, builder: ir.IRBuilder, tray: Value, cells: Mapping[str, Cell], numbers: Mapping[str, Value]) -> None:
        """Append one row for which there is room: cells, each with its flag where it has one, and plain numbers."""
        ends = self.ends(builder, tray)
        written = dict(numbers)
        for name, cell in cells.items():
            written[name] = value_of(builder, cell)
            if null_of(name) in ends:
                written[null_of(name)] = flag_of(builder, cell)
        for name, value in written.items():
            builder.store(value, ends[name], align=min(size_of(self.columns.types[name]), 8))
        self.extend(builder, tray, number(1))

    def extend(self, builder: ir.IRBuilder, tray: Value, rows: Value) -> None:
        """Let so many rows count that were written behind the others."""
        TRAY.store(builder, tray, "count", builder.add(TRAY.load(builder, tray, "count"), rows))

    def note(self, builder: ir.IRBuilder, tray: Value, some: Value, all_: Value) -> None:
        """Take notice of weights: the bits that some have, and those that all have."""
        TRAY.store(builder, tray, "some", builder.or_(TRAY.load(builder, tray, "some"), some))
        TRAY.store(builder, tray, "all", builder.and_(TRAY.load(builder, tray, "all"), all_))

    def _grow(self) -> ir.Function:
        """``grow(tray, rows)``: have room for so many rows at least, twice as many as before, and as last time."""

        def body(builder: ir.IRBuilder, arguments: tuple[Value, ...]) -> None:
            tray, needed = arguments
            names = "account", "data", "count", "capacity", "wanted"
            account, old, count, capacity, wanted = (TRAY.load(builder, tray, name) for name in names)
            room = Local(builder, number(FIRST_CAPACITY))
            for least in (needed, wanted, builder.mul(capacity, number(2))):
                room.set(builder.select(builder.icmp_unsigned(">", least, room.get()), least, room.get()))
            # A whole number of cache lines: then every column begins at one.
            more = builder.and_(builder.add(room.get(), number(63)), number(-64))
            width = number(self.columns.width)
            data = memory.resize(builder, account, ir.Constant(PTR, None), number(0), builder.mul(more, width))
            memory.check_granted(builder, account, data)
            for name, type_ in self.columns.types.items():
                source, target = (
                    self.columns.first(builder, place, space, name) for place, space in ((old, capacity), (data, more))
                )
                memory.copy(builder, target, source, builder.mul(count, number(size_of(type_))))
            memory.release(builder, account, old, builder.mul(capacity, width))
            TRAY.store(builder, tray, "data", data)
            TRAY.store(builder, tray, "capacity", more)
            builder.ret(number(0, I32))

        shape = ".".join(map(str, self.columns.types.values()))
        return define(self._module, f"tray.grow.{shape}", I32, [PTR, I64], body, "noinline", "cold")


def flag_of(builder: ir.IRBuilder, cell: Cell) -> Value:
    """A byte that says whether a cell is NULL."""
    return number(0, I8) if cell.is_null is None else builder.zext(cell.is_null, I8)


def value_of(builder: ir.IRBuilder, cell: Cell) -> Value:
    """The value of a cell, 0 where it is NULL."""
    if cell.is_null is None:
        return cell.value
    return builder.select(cell.is_null, ir.Constant(cell.value.type, 0.0 if cell.value.type == F64 else 0), cell.value)
