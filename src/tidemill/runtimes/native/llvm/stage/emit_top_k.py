"""The rows of a top-k as code: of each touched partition the first rows as they are, less those that it had.

Both stand in order, so their difference is one pass over two short lists. A row is made again from its partition and
its sort key, which has all of its other columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from llvmlite import ir

from tidemill.algebra.relational.relations import TopK
from tidemill.program.maps import Map
from tidemill.program.stages import PartitionEmission, Stage
from tidemill.runtimes.native.llvm.codegen.control_flow import (
    IRValue,
    Local,
    escape,
    forever,
    number,
    on_stack,
)
from tidemill.runtimes.native.llvm.codegen.frame import FunctionFrame, NotCompiled
from tidemill.runtimes.native.llvm.codegen.layout import I64, NULL_POINTER, PTR
from tidemill.runtimes.native.llvm.io.output_code import OutputCode, OutputGlobal
from tidemill.runtimes.native.llvm.maps.group_order import GroupOrder
from tidemill.runtimes.native.llvm.maps.top_rows import TopRowsCode
from tidemill.runtimes.native.llvm.queries import MapGlobal
from tidemill.runtimes.native.llvm.scalars.conversions import as_key, from_stored, to_stored
from tidemill.runtimes.native.llvm.scalars.expressions import LlvmExpressions, may_fail
from tidemill.runtimes.native.llvm.windows.sort_terms import has_sort_key, sort_terms

BeginFunction = Callable[[str, Sequence[ir.Type], bool], FunctionFrame]

MAX_ROWS = 16
"""Largest top-k that is compiled: its rows are noted for each partition that an epoch touches."""


def top_k_order(stage: Stage, map_: Map) -> GroupOrder | None:
    """The order of the rows of each partition, where ``map_`` has those of a top-k."""
    finish = stage.finish
    if not isinstance(finish, PartitionEmission) or map_.name != finish.source or not isinstance(finish.rows, TopK):
        return None
    terms = sort_terms(map_, finish.width, finish.rows.order)
    return GroupOrder(finish.width, terms, finish.rows.limit, grows=finish.kept_rows is not None)


def check_top_k(stage: Stage, finish: PartitionEmission) -> None:
    """Refuse what is no plain top-k of few rows, and rows that may be an error."""
    rows = finish.rows
    assert isinstance(rows, TopK)
    if rows.limit is None or not 0 < rows.limit <= MAX_ROWS or rows.offset or rows.ties:
        raise NotCompiled("a top-k of many rows, with an offset or with ties")
    (source,) = [map_ for map_ in stage.maps if map_.name == finish.source]
    if not has_sort_key(source, finish.width, rows.order):
        raise NotCompiled("the order of a top-k by many columns or expressions")
    shown = [output.scalar for output in finish.outputs]
    if any(map(may_fail, shown if finish.condition is None else [*shown, finish.condition])):
        raise NotCompiled("rows of a top-k that may be an error")


def emit_top_k(module: ir.Module, begin: BeginFunction, stage: Stage, maps: Mapping[str, MapGlobal]) -> OutputGlobal:
    """Emit ``emit()`` into the module of ``stage``; gives where its rows go."""
    finish = stage.finish
    assert isinstance(finish, PartitionEmission)
    place = ir.GlobalVariable(module, PTR, "emitted")
    place.initializer = NULL_POINTER
    output = OutputGlobal(Map(stage.name, stage.output), OutputCode(module, stage.output), place)
    TopKRowCode(begin, finish, maps[finish.source], output).emit()
    return output


class TopKRowCode:
    """Emits ``emit()``: the change of the first rows of all touched partitions. Gives a status."""

    def __init__(self, begin: BeginFunction, finish: PartitionEmission, held: MapGlobal, output: OutputGlobal) -> None:
        self._begin, self._finish, self._held, self._output = begin, finish, held, output
        index = held.code.changing.ordered
        assert isinstance(index, TopRowsCode)
        self._index = index

    def emit(self) -> None:
        """Emit it all, or raise ``NotCompiled``."""
        row, index = self._emit_row(), self._index
        frame = self._begin("emit", [], True)
        builder = frame.builder
        after = on_stack(builder, index.version.size)
        handle = self._held.handle(builder)
        index.begin_emission(builder, handle)
        with index.each_untold(builder, handle) as (prefix, before):
            index.write(builder, handle, prefix, after)
            self._difference(frame, row, prefix, before, after)
        frame.done()

    def _difference(
        self, frame: FunctionFrame, row: ir.Function, prefix: Sequence[IRValue], before: IRValue, after: IRValue
    ) -> None:
        """Post what is in one list of a partition and not in the other, or with another weight."""
        builder, index = frame.builder, self._index
        sides = [(rows, Local(builder, number(0)), index.count(builder, rows)) for rows in (before, after)]
        greatest = number(-1, index.trees.key)
        with forever(builder) as ended:
            there = [builder.icmp_unsigned("<", place.get(), count) for _, place, count in sides]
            escape(builder, builder.not_(builder.or_(*there)), ended)
            keys = []
            for (rows, place, _), more in zip(sides, there, strict=True):
                safe = builder.select(more, place.get(), number(0))
                keys.append(builder.select(more, index.key(builder, rows, safe), greatest))
            first = builder.select(builder.icmp_unsigned("<", *keys), *keys)
            weights = []
            for (rows, place, _), more, key in zip(sides, there, keys, strict=True):
                here = builder.and_(more, builder.icmp_unsigned("==", key, first))
                safe = builder.select(more, place.get(), number(0))
                weights.append(builder.select(here, index.weight(builder, rows, safe), number(0)))
                place.set(builder.add(place.get(), builder.zext(here, I64)))
            change = builder.sub(weights[1], weights[0])
            with builder.if_then(builder.icmp_unsigned("!=", change, number(0))):
                frame.check(builder.call(row, [*prefix, first, change]))

    def _emit_row(self) -> ir.Function:
        """``emit.row(prefix..., key, weight)``: post the row of an entry, if it gives one."""
        index, code = self._index, self._output.code
        frame = self._begin("emit.row", [*index.prefix_types(), index.trees.key, I64], False)
        builder, (*prefix, key, weight) = frame.builder, frame.function.args
        fields = self._held.map.keys
        cells = {
            fields[place].name: from_stored(builder, cell, fields[place].type)
            for place, cell in index.cells(builder, prefix, key).items()
        }
        expressions = LlvmExpressions(frame, cells)
        if self._finish.condition is not None:
            with builder.if_then(builder.not_(expressions.holds(self._finish.condition))):
                frame.done()
        posted = []
        for field, output in zip(code.fields, self._finish.outputs, strict=True):
            narrow, misfit = as_key(builder, expressions.cell(output.scalar), output.scalar.type, field.type)
            if misfit is not None:
                raise NotCompiled("rows of a top-k that may be an error")
            posted.append(to_stored(builder, narrow, field.type))
        code.add(builder, self._output.handle(builder), posted, weight)
        frame.done()
        return frame.function
