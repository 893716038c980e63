"""A list as a walk has found it: its items one by one, and some of a column at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llvmlite import ir

from tidemill.runtimes.native.llvm.codegen.control_flow import IRValue, Local, loop_while, number
from tidemill.runtimes.native.llvm.codegen.layout import I8, I64, MapRecord, NullableValue, at
from tidemill.runtimes.native.llvm.containers.column_buffer import LANES, LARGE_WEIGHT, ColumnLayout, null_column


@dataclass(frozen=True, slots=True)
class ListLayout:
    """The layout of the lists of an index: the key columns that are looked up, and the columns of an item."""

    places: tuple[int, ...]
    columns: ColumnLayout
    record: MapRecord


@dataclass(frozen=True, slots=True)
class ListSlice:
    """A list as a walk has found it: ``rows`` items from ``data`` on, none where there is no such list."""

    layout: ListLayout
    slot: IRValue
    data: IRValue
    capacity: IRValue
    rows: IRValue
    cells: tuple[IRValue, ...]

    def key(self, builder: ir.IRBuilder, place: IRValue, key: int) -> NullableValue:
        """A key column of an item: one that was looked up, or its own."""
        if key in self.layout.places:
            return NullableValue(self.cells[self.layout.places.index(key)])
        name = f"key{key}"
        null = None
        if null_column(name) in self.layout.columns.types:
            null = builder.icmp_unsigned("!=", self.load(builder, place, null_column(name)), number(0, I8))
        return NullableValue(self.load(builder, place, name), null)

    def load(self, builder: ir.IRBuilder, place: IRValue, column: str) -> IRValue:
        """The value of an item in a column."""
        return self.layout.columns.load(builder, self.data, self.capacity, column, place)

    def store(self, builder: ir.IRBuilder, place: IRValue, column: str, cell: IRValue) -> None:
        """Store the value of an item in a column."""
        self.layout.columns.store(builder, self.data, self.capacity, column, place, cell)

    def weight(self, builder: ir.IRBuilder, place: IRValue, record: Callable[[IRValue], IRValue]) -> IRValue:
        """The weight of an item; ``record`` gives the record of an id."""
        small = self.load(builder, place, "weight")
        found = Local(builder, builder.sext(small, I64))
        with builder.if_then(builder.icmp_signed("==", small, number(LARGE_WEIGHT, I8)), likely=False):
            entry = record(self.load(builder, place, "id"))
            found.set(self.layout.record.load(builder, entry, "weight"))
        return found.get()

    def common_weight(self, builder: ir.IRBuilder) -> tuple[IRValue, IRValue]:
        """The weight of the first item, and an i1: whether all have it, and none is too large to be told by a byte."""
        small = self.load(builder, number(0), "weight")
        same = builder.mul(builder.zext(small, I64), number(0x0101010101010101))
        weights, other, place = self.first(builder, "weight"), Local(builder, number(0)), Local(builder, number(0))
        with loop_while(builder, lambda: builder.icmp_unsigned("<", place.get(), self.rows)):
            eight = builder.load(at(builder, weights, place.get()), typ=I64, align=1)
            behind = builder.sub(number(LANES), builder.sub(self.rows, place.get()))
            noise = builder.select(builder.icmp_signed(">", behind, number(0)), behind, number(0))
            # Bytes behind the last item are shifted out.
            other.set(builder.or_(other.get(), builder.shl(builder.xor(eight, same), builder.mul(noise, number(8)))))
            place.set(builder.add(place.get(), number(LANES)))
        told = builder.icmp_signed("!=", small, number(LARGE_WEIGHT, I8))
        alike = builder.and_(told, builder.icmp_unsigned("==", other.get(), number(0)))
        return builder.sext(small, I64), alike

    def first(self, builder: ir.IRBuilder, column: str) -> IRValue:
        """The address of the first value of a column."""
        return self.layout.columns.first(builder, self.data, self.capacity, column)

    def has(self, column: str) -> bool:
        """True if items have such a column."""
        return column in self.layout.columns.types

    def lanes(self, builder: ir.IRBuilder, column: str, place: IRValue) -> IRValue:
        """A column of ``LANES`` items from one on, with noise where there are no more."""
        type_ = self.layout.columns.types[column]
        found = self.layout.columns.cell(builder, self.data, self.capacity, column, place)
        return builder.load(found, typ=ir.VectorType(type_, LANES), align=1)

    def flag_column(self, column: str) -> IRValue | str:
        """The column that says where another one is NULL; noughts in all lanes where it never is."""
        if self.has(null_column(column)):
            return null_column(column)
        return ir.Constant(ir.VectorType(I8, LANES), None)
