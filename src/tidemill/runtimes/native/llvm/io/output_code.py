"""Rows on their way out, as code: a column buffer that walks append to.

What a join finds is handed on and not looked up again, so it is not hashed: it is written behind what is there. Rows
that have most of their cells in common may be written as ``runs``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llvmlite import ir

from tidemill.model.schema import WEIGHT
from tidemill.model.types import Field
from tidemill.program.maps import Map
from tidemill.runtimes.native.llvm.codegen.control_flow import IRValue, Local, external, loop_while, number
from tidemill.runtimes.native.llvm.codegen.layout import I1, I8, I32, I64, PTR, NullableValue, at, size_of
from tidemill.runtimes.native.llvm.containers.column_buffer import (
    COLUMN_BUFFER,
    LANES,
    LARGE_WEIGHT,
    ColumnBufferCode,
    cell_types,
    null_column,
    null_flag,
    value_or_zero,
)
from tidemill.runtimes.native.llvm.containers.slices import ListSlice
from tidemill.runtimes.native.llvm.io.run_end_encoding import RunsGlobal


def wide(builder: ir.IRBuilder, value: IRValue) -> IRValue:
    """The same value in all lanes."""
    kind = ir.VectorType(value.type, LANES)
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), value, number(0, I32))
    return builder.shuffle_vector(one, ir.Constant(kind, ir.Undefined), ir.Constant(ir.VectorType(I32, LANES), None))


class WeightBits:
    """Bits of weights, collected while they are written: those that some have, and those that all have."""

    def __init__(self, builder: ir.IRBuilder, times: IRValue) -> None:
        self._builder, self._times = builder, times
        self._wide = wide(builder, times)
        zero, ones = (wide(builder, number(bits)) for bits in (0, -1))
        self._some, self._all = Local(builder, zero), Local(builder, ones)
        self._large = Local(builder, ir.Constant(ir.VectorType(I1, LANES), None))
        self._zero, self._ones = zero, ones

    def take(self, small: IRValue, left: IRValue) -> IRValue:
        """The weights of items, as bytes, times the others; only the first ``left`` lanes are more than noise."""
        builder = self._builder
        order = ir.Constant(ir.VectorType(I64, LANES), list(range(LANES)))
        counts = builder.icmp_unsigned("<", order, wide(builder, left))
        large = builder.icmp_signed("==", small, wide(builder, number(LARGE_WEIGHT, I8)))
        self._large.set(builder.or_(self._large.get(), builder.and_(large, counts)))
        weights = builder.mul(builder.sext(small, ir.VectorType(I64, LANES)), self._wide)
        self._some.set(builder.or_(self._some.get(), builder.select(counts, weights, self._zero)))
        self._all.set(builder.and_(self._all.get(), builder.select(counts, weights, self._ones)))
        return weights

    def ended(self) -> tuple[IRValue, IRValue, IRValue]:
        """The bits of some, those of all, and an i1: whether there was a weight too large to be told by a byte."""
        builder = self._builder
        some, all_ = (self._folded(name, local.get()) for name, local in (("or", self._some), ("and", self._all)))
        narrow = builder.ashr(builder.shl(self._times, number(8)), number(8))  # with a byte it makes 64 bits at most
        any_large = builder.icmp_unsigned("!=", builder.bitcast(self._large.get(), I8), number(0, I8))
        return some, all_, builder.or_(any_large, builder.icmp_unsigned("!=", narrow, self._times))

    def _folded(self, name: str, lanes: IRValue) -> IRValue:
        kind = ir.VectorType(I64, LANES)
        return self._builder.call(
            external(self._builder.module, f"llvm.vector.reduce.{name}.v{LANES}i64", I64, [kind]), [lanes]
        )


class OutputCode(ColumnBufferCode):
    """Appends rows of ``fields`` to an output."""

    def __init__(self, module: ir.Module, fields: Sequence[Field]) -> None:
        self.fields = tuple(fields)
        self.names = [f"cell{i}" for i in range(len(self.fields))]
        named = dict(zip(self.names, self.fields, strict=True))
        super().__init__(module, {WEIGHT: I64, **cell_types(named)})

    def add(self, builder: ir.IRBuilder, output: IRValue, cells: Sequence[NullableValue], weight: IRValue) -> None:
        """Append one row, unless its weight is 0; returns from the function where memory is refused."""
        with builder.if_then(builder.icmp_unsigned("!=", weight, number(0)), likely=True):
            self.reserve(builder, output, number(1))
            self.put(builder, output, dict(zip(self.names, cells, strict=True)), {WEIGHT: weight})
            self.note(builder, output, weight, weight)

    def append_slice(
        self,
        builder: ir.IRBuilder,
        output: IRValue,
        cells: Sequence[NullableValue | str],
        slice_: ListSlice,
        times: IRValue,
    ) -> IRValue:
        """Append a row for every item of a list that is not empty: a cell that all have, or the items' own column.

        Each has the weight of its item ``times`` this, which is not 0. Rows are written ``LANES`` at a time, without
        branches; the last of them may be too many, and lie behind the end. Gives an i1: whether a weight may be wrong,
        because it is too large to be told this way.
        """
        self.reserve(builder, output, builder.add(slice_.rows, number(LANES)))
        ends = self.ends(builder, output)
        moves: list[tuple[IRValue | str, IRValue, int]] = []
        for name, field, cell in zip(self.names, self.fields, cells, strict=True):
            size = size_of(self.columns.types[name])
            moves.append(
                (cell if isinstance(cell, str) else wide(builder, value_or_zero(builder, cell)), ends[name], size)
            )
            if field.nullable:
                nulls = slice_.flag_column(cell) if isinstance(cell, str) else wide(builder, null_flag(builder, cell))
                moves.append((nulls, ends[null_column(name)], 1))
        gathered = WeightBits(builder, times)
        place = Local(builder, number(0))
        with loop_while(builder, lambda: builder.icmp_unsigned("<", place.get(), slice_.rows)):
            now = place.get()
            for source, target, size in moves:
                lanes = slice_.lanes(builder, source, now) if isinstance(source, str) else source
                builder.store(lanes, at(builder, target, builder.mul(now, number(size))), align=1)
            weighed = gathered.take(slice_.lanes(builder, "weight", now), builder.sub(slice_.rows, now))
            builder.store(weighed, at(builder, ends[WEIGHT], builder.mul(now, number(8))), align=1)
            place.set(builder.add(now, number(LANES)))
        some, all_, doubtful = gathered.ended()
        self.note(builder, output, some, all_)
        self.extend(builder, output, slice_.rows)
        return doubtful

    def latest_weights(self, builder: ir.IRBuilder, output: IRValue, rows: IRValue) -> IRValue:
        """The weights of the last rows."""
        data, capacity, count = (COLUMN_BUFFER.load(builder, output, name) for name in ("data", "capacity", "count"))
        return self.columns.cell(builder, data, capacity, WEIGHT, builder.sub(count, rows))


@dataclass(frozen=True, slots=True)
class OutputGlobal:
    """An output in the module: its code, and the global that will hold its handle. ``map`` has its fields as keys.

    ``runs`` are those that walks have asked for so far, by the places of their own columns; None where all rows are
    written as such.
    """

    map: Map
    code: OutputCode
    place: ir.GlobalVariable
    runs: dict[tuple[int, ...], RunsGlobal] | None = None

    def handle(self, builder: ir.IRBuilder) -> IRValue:
        """The output."""
        return builder.load(self.place, typ=PTR)

    def runs_of(self, module: ir.Module, cells: Sequence[NullableValue | str]) -> RunsGlobal | None:
        """The output of runs of such rows: cells that all have, or the items' own columns. None for no runs."""
        own = tuple(i for i, cell in enumerate(cells) if isinstance(cell, str))
        if self.runs is None or not own or len(own) == len(cells):
            return None
        if own not in self.runs:
            self.runs[own] = RunsGlobal.within(module, self.code.fields, own)
        return self.runs[own]
