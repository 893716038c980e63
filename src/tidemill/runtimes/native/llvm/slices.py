"""A list as a walk has found it: its items one by one, and some of a column at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from llvmlite import ir

from tidemill.runtimes.native.llvm.blocks import Local, Value, number
from tidemill.runtimes.native.llvm.layout import I8, I64, Cell
from tidemill.runtimes.native.llvm.outbox import LANES, LARGE, null_of

if TYPE_CHECKING:
    from tidemill.runtimes.native.llvm.lists import ListCode


@dataclass(frozen=True, slots=True)
class Slice:
    """A list as a walk has found it: ``rows`` items from ``data`` on, none where there is no such list."""

    code: ListCode
    slot: Value
    data: Value
    capacity: Value
    rows: Value
    cells: tuple[Value, ...]

    def key(self, builder: ir.IRBuilder, place: Value, key: int) -> Cell:
        """A key column of an item: one that was looked up, or its own."""
        if key in self.code.places:
            return Cell(self.cells[self.code.places.index(key)])
        name = f"key{key}"
        null = None
        if null_of(name) in self.code.columns.types:
            null = builder.icmp_unsigned("!=", self.load(builder, place, null_of(name)), number(0, I8))
        return Cell(self.load(builder, place, name), null)

    def load(self, builder: ir.IRBuilder, place: Value, column: str) -> Value:
        """What an item has in a column."""
        return self.code.columns.load(builder, self.data, self.capacity, column, place)

    def store(self, builder: ir.IRBuilder, place: Value, column: str, cell: Value) -> None:
        """Let an item have something else in a column."""
        self.code.columns.store(builder, self.data, self.capacity, column, place, cell)

    def weight(self, builder: ir.IRBuilder, place: Value, record: Callable[[Value], Value]) -> Value:
        """The weight of an item; ``record`` gives the record of an id."""
        small = self.load(builder, place, "weight")
        found = Local(builder, builder.sext(small, I64))
        with builder.if_then(builder.icmp_signed("==", small, number(LARGE, I8)), likely=False):
            entry = record(self.load(builder, place, "id"))
            found.set(self.code.record.load(builder, entry, "weight"))
        return found.get()

    def lanes(self, builder: ir.IRBuilder, column: str, place: Value) -> Value:
        """A column of ``LANES`` items from one on, with noise where there are no more."""
        type_ = self.code.columns.types[column]
        found = self.code.columns.cell(builder, self.data, self.capacity, column, place)
        return builder.load(found, typ=ir.VectorType(type_, LANES), align=1)

    def flag_column(self, column: str) -> Value | str:
        """The column that says where another one is NULL; noughts in all lanes where it never is."""
        if null_of(column) in self.code.columns.types:
            return null_of(column)
        return ir.Constant(ir.VectorType(I8, LANES), None)
