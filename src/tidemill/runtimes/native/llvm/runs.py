"""Runs: rows that differ in the columns of one list alone, as code. What they share is written once for all of them.

A walk ends in a list whose items make a row each, and all else that these rows show was bound before: the tweet that a
hundred followers get. So the items' own columns are copied into one tray, and the rest goes to another, once, with the
number of items up to there. That is Arrow's run-end encoding, so the trays are handed on as they lie. A row of five
columns takes the eight bytes of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from llvmlite import ir

from tidemill.model.schema import WEIGHT
from tidemill.model.types import Field
from tidemill.runtimes.native.llvm.blocks import Value, number
from tidemill.runtimes.native.llvm.layout import I64, PTR, Cell, size_of
from tidemill.runtimes.native.llvm.memory import copy, fill
from tidemill.runtimes.native.llvm.trays import TRAY, TrayCode, cell_types, null_of

if TYPE_CHECKING:
    from tidemill.runtimes.native.llvm.slices import Slice

END = "end"
"""The column of how many items there are up to the end of a run."""

LEAST = 4
"""Fewer rows than that are written as such: they would save nothing."""


class RunsCode:
    """Appends runs of rows of ``fields`` of which those at the places ``own`` are the items'."""

    def __init__(self, module: ir.Module, fields: Sequence[Field], own: tuple[int, ...]) -> None:
        named = {f"cell{i}": field for i, field in enumerate(fields)}
        self.own = tuple(f"cell{i}" for i in own)
        self.items = TrayCode(module, cell_types({name: named[name] for name in self.own}))
        shared = {name: field for name, field in named.items() if name not in self.own}
        self.shared = TrayCode(module, {WEIGHT: I64, END: I64, **cell_types(shared)})

    def pour(
        self,
        builder: ir.IRBuilder,
        items: Value,
        shared: Value,
        cells: Sequence[Cell | str],
        slice_: Slice,
        weight: Value,
    ) -> None:
        """Append a run: a row of that weight for every item of a list, with cells that all have or the items' own."""
        self.items.reserve(builder, items, slice_.rows)
        self.shared.reserve(builder, shared, number(1))
        once: dict[str, Cell] = {}
        for i, cell in enumerate(cells):
            if isinstance(cell, str):
                self._copy(builder, items, f"cell{i}", slice_, cell)
            else:
                once[f"cell{i}"] = cell
        self.items.extend(builder, items, slice_.rows)
        self.shared.put(builder, shared, once, {WEIGHT: weight, END: TRAY.load(builder, items, "count")})
        self.shared.note(builder, shared, weight, weight)

    def _copy(self, builder: ir.IRBuilder, items: Value, name: str, slice_: Slice, column: str) -> None:
        ends = self.items.ends(builder, items)
        size = size_of(self.items.columns.types[name])
        copy(builder, ends[name], slice_.first(builder, column), builder.mul(slice_.rows, number(size)))
        if null_of(name) not in ends:
            return
        if slice_.has(null_of(column)):
            copy(builder, ends[null_of(name)], slice_.first(builder, null_of(column)), slice_.rows)
        else:
            fill(builder, ends[null_of(name)], 0, slice_.rows)


@dataclass(frozen=True, slots=True)
class PostedRuns:
    """Runs of one form in the module: their code, and the globals that will hold the two trays."""

    code: RunsCode
    items: ir.GlobalVariable
    shared: ir.GlobalVariable

    @classmethod
    def within(cls, module: ir.Module, fields: Sequence[Field], own: tuple[int, ...]) -> PostedRuns:
        """Runs whose rows have the columns at the places ``own`` for themselves."""
        form = ".".join(map(str, own))
        places = [ir.GlobalVariable(module, PTR, f"runs.{form}.{part}") for part in ("items", "shared")]
        for place in places:
            place.initializer = ir.Constant(PTR, None)
        return cls(RunsCode(module, fields, own), *places)

    def pour(self, builder: ir.IRBuilder, cells: Sequence[Cell | str], slice_: Slice, weight: Value) -> None:
        """Append a run."""
        items, shared = (builder.load(place, typ=PTR) for place in (self.items, self.shared))
        self.code.pour(builder, items, shared, cells, slice_, weight)
