"""Runs: rows that differ in the columns of one list alone, as code. What they share is written once for all of them.

A walk ends in a list whose items make a row each, and all else that these rows show was bound before: the tweet that a
hundred followers get. So the items' own columns are copied into one column buffer, and the rest goes to another, once,
with the number of items up to there. That is Arrow's run-end encoding, so the column buffers are handed on as they lie.
A row of five columns takes the eight bytes of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llvmlite import ir

from tidemill.model.schema import WEIGHT
from tidemill.model.types import Field
from tidemill.runtimes.native.llvm.codegen.control_flow import IRValue, number
from tidemill.runtimes.native.llvm.codegen.layout import I64, NULL_POINTER, PTR, NullableValue, size_of
from tidemill.runtimes.native.llvm.codegen.memory import copy, fill
from tidemill.runtimes.native.llvm.containers.column_buffer import (
    COLUMN_BUFFER,
    ColumnBufferCode,
    cell_types,
    null_column,
)
from tidemill.runtimes.native.llvm.containers.slices import ListSlice

RUN_END = "end"
"""The column of how many items there are up to the end of a run."""

MIN_RUN = 4
"""Fewer rows than that are written as such: they would save nothing."""


class RunEndCode:
    """Appends runs of rows of ``fields`` of which those at the places ``own`` are the items'."""

    def __init__(self, module: ir.Module, fields: Sequence[Field], own: tuple[int, ...]) -> None:
        named = {f"cell{i}": field for i, field in enumerate(fields)}
        self.own = tuple(f"cell{i}" for i in own)
        self.items = ColumnBufferCode(module, cell_types({name: named[name] for name in self.own}))
        shared = {name: field for name, field in named.items() if name not in self.own}
        self.shared = ColumnBufferCode(module, {WEIGHT: I64, RUN_END: I64, **cell_types(shared)})

    def append_slice(
        self,
        builder: ir.IRBuilder,
        items: IRValue,
        shared: IRValue,
        cells: Sequence[NullableValue | str],
        slice_: ListSlice,
        weight: IRValue,
    ) -> None:
        """Append a run: a row of that weight for every item of a list, with cells that all have or the items' own."""
        self.items.reserve(builder, items, slice_.rows)
        self.shared.reserve(builder, shared, number(1))
        once: dict[str, NullableValue] = {}
        for i, cell in enumerate(cells):
            if isinstance(cell, str):
                self._copy(builder, items, f"cell{i}", slice_, cell)
            else:
                once[f"cell{i}"] = cell
        self.items.extend(builder, items, slice_.rows)
        self.shared.put(builder, shared, once, {WEIGHT: weight, RUN_END: COLUMN_BUFFER.load(builder, items, "count")})
        self.shared.note(builder, shared, weight, weight)

    def _copy(self, builder: ir.IRBuilder, items: IRValue, name: str, slice_: ListSlice, column: str) -> None:
        ends = self.items.ends(builder, items)
        size = size_of(self.items.columns.types[name])
        copy(builder, ends[name], slice_.first(builder, column), builder.mul(slice_.rows, number(size)))
        if null_column(name) not in ends:
            return
        if slice_.has(null_column(column)):
            copy(builder, ends[null_column(name)], slice_.first(builder, null_column(column)), slice_.rows)
        else:
            fill(builder, ends[null_column(name)], 0, slice_.rows)


@dataclass(frozen=True, slots=True)
class RunsGlobal:
    """Runs of one form in the module: their code, and the globals that will hold the two column buffers."""

    code: RunEndCode
    items: ir.GlobalVariable
    shared: ir.GlobalVariable

    @classmethod
    def within(cls, module: ir.Module, fields: Sequence[Field], own: tuple[int, ...]) -> RunsGlobal:
        """Runs whose rows have the columns at the places ``own`` for themselves."""
        form = ".".join(map(str, own))
        places = [ir.GlobalVariable(module, PTR, f"runs.{form}.{part}") for part in ("items", "shared")]
        for place in places:
            place.initializer = NULL_POINTER
        return cls(RunEndCode(module, fields, own), *places)

    def append_slice(
        self, builder: ir.IRBuilder, cells: Sequence[NullableValue | str], slice_: ListSlice, weight: IRValue
    ) -> None:
        """Append a run."""
        items, shared = (builder.load(place, typ=PTR) for place in (self.items, self.shared))
        self.code.append_slice(builder, items, shared, cells, slice_, weight)
