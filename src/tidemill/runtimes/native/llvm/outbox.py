"""Rows on their way out, as code: columns of one piece of memory that walks append to.

What a join finds is handed on and not looked up again, so it is not hashed: it is written behind what is there. A
piece of memory has room for ``capacity`` rows, column after column; the widest cells come first, so that all are
aligned. Weights come last but for the bytes that say where a column is NULL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from llvmlite import ir

from tidemill.model.schema import WEIGHT
from tidemill.model.types import Field
from tidemill.program.maps import Map
from tidemill.runtimes.native.llvm import memory
from tidemill.runtimes.native.llvm.blocks import Local, Value, check, define, external, loop_while, number
from tidemill.runtimes.native.llvm.layout import F64, I1, I8, I32, I64, PTR, Cell, Struct, at, cell_type, size_of

if TYPE_CHECKING:
    from tidemill.runtimes.native.llvm.slices import Slice

OUTBOX = Struct()
"""``some`` and ``all`` are the bits that some weight has and that all have; ``wanted`` is what was needed last."""
OUTBOX.field("account", PTR)
OUTBOX.field("data", PTR)
for _name in ("count", "capacity", "wanted", "some", "all"):
    OUTBOX.field(_name, I64)

FIRST_CAPACITY = 1024

LANES = 8
"""So many rows are written at once."""

LARGE = -128
"""Stands for a weight of more than a byte."""


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


def wide(builder: ir.IRBuilder, value: Value) -> Value:
    """The same value in all lanes."""
    kind = ir.VectorType(value.type, LANES)
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), value, number(0, I32))
    return builder.shuffle_vector(one, ir.Constant(kind, ir.Undefined), ir.Constant(ir.VectorType(I32, LANES), None))


class Gathered:
    """What is found out about weights while they are written: the bits that some have, and those that all have."""

    def __init__(self, builder: ir.IRBuilder, times: Value) -> None:
        self._builder, self._times = builder, times
        self._wide = wide(builder, times)
        zero, ones = (wide(builder, number(bits)) for bits in (0, -1))
        self._some, self._all = Local(builder, zero), Local(builder, ones)
        self._large = Local(builder, ir.Constant(ir.VectorType(I1, LANES), None))
        self._zero, self._ones = zero, ones

    def take(self, small: Value, left: Value) -> Value:
        """The weights of items, as bytes, times the others; only the first ``left`` lanes are more than noise."""
        builder = self._builder
        order = ir.Constant(ir.VectorType(I64, LANES), list(range(LANES)))
        counts = builder.icmp_unsigned("<", order, wide(builder, left))
        large = builder.icmp_signed("==", small, wide(builder, number(LARGE, I8)))
        self._large.set(builder.or_(self._large.get(), builder.and_(large, counts)))
        weights = builder.mul(builder.sext(small, ir.VectorType(I64, LANES)), self._wide)
        self._some.set(builder.or_(self._some.get(), builder.select(counts, weights, self._zero)))
        self._all.set(builder.and_(self._all.get(), builder.select(counts, weights, self._ones)))
        return weights

    def ended(self) -> tuple[Value, Value, Value]:
        """The bits of some, those of all, and an i1: whether there was a weight too large to be told by a byte."""
        builder = self._builder
        some, all_ = (self._folded(name, local.get()) for name, local in (("or", self._some), ("and", self._all)))
        narrow = builder.ashr(builder.shl(self._times, number(8)), number(8))  # with a byte it makes 64 bits at most
        any_large = builder.icmp_unsigned("!=", builder.bitcast(self._large.get(), I8), number(0, I8))
        return some, all_, builder.or_(any_large, builder.icmp_unsigned("!=", narrow, self._times))

    def _folded(self, name: str, lanes: Value) -> Value:
        kind = ir.VectorType(I64, LANES)
        return self._builder.call(
            external(self._builder.module, f"llvm.vector.reduce.{name}.v{LANES}i64", I64, [kind]), [lanes]
        )


class OutboxCode:
    """Appends rows of ``fields`` to an outbox."""

    def __init__(self, module: ir.Module, fields: Sequence[Field]) -> None:
        self._module = module
        self.fields = tuple(fields)
        self.names = [f"cell{i}" for i in range(len(self.fields))]
        cells: dict[str, ir.Type] = {WEIGHT: I64}
        for name, field in zip(self.names, self.fields, strict=True):
            cells[name] = cell_type(field.type)
            if field.nullable:
                cells[null_of(name)] = I8
        self.columns = columns_of(cells)

    def add(self, builder: ir.IRBuilder, outbox: Value, cells: Sequence[Cell], weight: Value) -> None:
        """Append one row, unless its weight is 0; returns from the function where memory is refused."""
        with builder.if_then(builder.icmp_unsigned("!=", weight, number(0)), likely=True):
            self.reserve(builder, outbox, number(1))
            data, capacity, count = (OUTBOX.load(builder, outbox, name) for name in ("data", "capacity", "count"))
            for name, field, cell in zip(self.names, self.fields, cells, strict=True):
                self.columns.store(builder, data, capacity, name, count, _value(builder, cell))
                if field.nullable:
                    self.columns.store(builder, data, capacity, null_of(name), count, _flag(builder, cell))
            self.columns.store(builder, data, capacity, WEIGHT, count, weight)
            self._note(builder, outbox, weight, weight)
            OUTBOX.store(builder, outbox, "count", builder.add(count, number(1)))

    def pour(
        self, builder: ir.IRBuilder, outbox: Value, cells: Sequence[Cell | str], slice_: Slice, times: Value
    ) -> Value:
        """Append a row for every item of a list that is not empty: a cell that all have, or the items' own column.

        Each has the weight of its item ``times`` this, which is not 0. Rows are written ``LANES`` at a time, without
        branches; the last of them may be too many, and lie behind the end. Gives an i1: whether a weight may be wrong,
        because it is too large to be told this way.
        """
        self.reserve(builder, outbox, builder.add(slice_.rows, number(LANES)))
        data, capacity, count = (OUTBOX.load(builder, outbox, name) for name in ("data", "capacity", "count"))
        moves: list[tuple[Value | str, Value, int]] = []
        for name, field, cell in zip(self.names, self.fields, cells, strict=True):
            size = size_of(self.columns.types[name])
            target = self.columns.cell(builder, data, capacity, name, count)
            moves.append((cell if isinstance(cell, str) else wide(builder, _value(builder, cell)), target, size))
            if field.nullable:
                flags = self.columns.cell(builder, data, capacity, null_of(name), count)
                nulls = slice_.flag_column(cell) if isinstance(cell, str) else wide(builder, _flag(builder, cell))
                moves.append((nulls, flags, 1))
        weights = self.columns.cell(builder, data, capacity, WEIGHT, count)
        gathered = Gathered(builder, times)
        place = Local(builder, number(0))
        with loop_while(builder, lambda: builder.icmp_unsigned("<", place.get(), slice_.rows)):
            now = place.get()
            for source, target, size in moves:
                lanes = slice_.lanes(builder, source, now) if isinstance(source, str) else source
                builder.store(lanes, at(builder, target, builder.mul(now, number(size))), align=1)
            weighed = gathered.take(slice_.lanes(builder, "weight", now), builder.sub(slice_.rows, now))
            builder.store(weighed, at(builder, weights, builder.mul(now, number(8))), align=1)
            place.set(builder.add(now, number(LANES)))
        some, all_, doubtful = gathered.ended()
        self._note(builder, outbox, some, all_)
        OUTBOX.store(builder, outbox, "count", builder.add(count, slice_.rows))
        return doubtful

    def latest_weights(self, builder: ir.IRBuilder, outbox: Value, rows: Value) -> Value:
        """The weights of the last rows."""
        data, capacity, count = (OUTBOX.load(builder, outbox, name) for name in ("data", "capacity", "count"))
        return self.columns.cell(builder, data, capacity, WEIGHT, builder.sub(count, rows))

    def note(self, builder: ir.IRBuilder, outbox: Value, weight: Value) -> None:
        """Take notice of a weight that was written by somebody else."""
        self._note(builder, outbox, weight, weight)

    def reserve(self, builder: ir.IRBuilder, outbox: Value, rows: Value) -> None:
        """See to it that so many rows more have room, or return the status that says why not."""
        needed = builder.add(OUTBOX.load(builder, outbox, "count"), rows)
        short = builder.icmp_unsigned(">", needed, OUTBOX.load(builder, outbox, "capacity"))
        with builder.if_then(short, likely=False):
            check(builder, builder.call(self._grow(), [outbox, needed]))

    def _note(self, builder: ir.IRBuilder, outbox: Value, some: Value, all_: Value) -> None:
        OUTBOX.store(builder, outbox, "some", builder.or_(OUTBOX.load(builder, outbox, "some"), some))
        OUTBOX.store(builder, outbox, "all", builder.and_(OUTBOX.load(builder, outbox, "all"), all_))

    def _grow(self) -> ir.Function:
        """``grow(outbox, rows)``: have room for so many rows at least, twice as many as before, and as last time."""

        def body(builder: ir.IRBuilder, arguments: tuple[Value, ...]) -> None:
            outbox, needed = arguments
            names = "account", "data", "count", "capacity", "wanted"
            account, old, count, capacity, wanted = (OUTBOX.load(builder, outbox, name) for name in names)
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
            OUTBOX.store(builder, outbox, "data", data)
            OUTBOX.store(builder, outbox, "capacity", more)
            builder.ret(number(0, I32))

        shape = ".".join(map(str, self.columns.types.values()))
        return define(self._module, f"outbox.grow.{shape}", I32, [PTR, I64], body, "noinline", "cold")


@dataclass(frozen=True, slots=True)
class Posted:
    """An outbox in the module: its code, and the global that will hold its handle. ``map`` has its fields as keys."""

    map: Map
    code: OutboxCode
    place: ir.GlobalVariable

    def handle(self, builder: ir.IRBuilder) -> Value:
        """The outbox."""
        return builder.load(self.place, typ=PTR)


def _flag(builder: ir.IRBuilder, cell: Cell) -> Value:
    return number(0, I8) if cell.is_null is None else builder.zext(cell.is_null, I8)


def _value(builder: ir.IRBuilder, cell: Cell) -> Value:
    """The value of a cell, 0 where it is NULL."""
    if cell.is_null is None:
        return cell.value
    return builder.select(cell.is_null, ir.Constant(cell.value.type, 0.0 if cell.value.type == F64 else 0), cell.value)
