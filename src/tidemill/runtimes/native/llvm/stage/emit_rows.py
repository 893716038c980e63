"""Rows out of a map, as code: what an epoch has changed of them goes to an output, without a row of Python.

It says the same as the generated ``finish`` function, which is asked where an epoch has touched few keys, and where
something is wrong: then it finds out once more what that is, and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from llvmlite import ir

from tidemill.algebra.expressions.scalars import Column
from tidemill.algebra.relational.walk import columns_in
from tidemill.model import types as t
from tidemill.model.schema import WEIGHT, names_of
from tidemill.model.types import Field
from tidemill.program.maps import Map
from tidemill.program.maps import RingField as MapValue
from tidemill.program.stages import GroupEmission, Stage
from tidemill.runtimes.native.llvm.codegen.control_flow import PER_EPOCH, IRValue, Local, check, number, on_stack
from tidemill.runtimes.native.llvm.codegen.frame import FunctionFrame, NotCompiled, RowFault
from tidemill.runtimes.native.llvm.codegen.layout import (
    I1,
    I8,
    I32,
    I64,
    I128,
    NULL_POINTER,
    PTR,
    NullableValue,
    StructLayout,
    cell_type,
)
from tidemill.runtimes.native.llvm.containers.column_buffer import null_column, null_flag, value_or_zero
from tidemill.runtimes.native.llvm.containers.key_cells import equal
from tidemill.runtimes.native.llvm.io.output_code import OutputCode, OutputGlobal
from tidemill.runtimes.native.llvm.queries import MapGlobal
from tidemill.runtimes.native.llvm.scalars.conversions import as_key, from_stored, to_stored
from tidemill.runtimes.native.llvm.scalars.expressions import LlvmExpressions
from tidemill.runtimes.native.llvm.stage.multiset_groups import MultisetGroupCode, MultisetSides

BeginFunction = Callable[[str, Sequence[ir.Type], bool], FunctionFrame]
"""Begins a function of a name, for arguments of such types; it may be exported."""

INVALID_ROW = RowFault("a row of a view")
"""A row that is not valid; the generated Python reports why."""


FUNCTIONS = ("emit", "emit.row", "emit.changed")

MACHINE_CODE_KEYS = 32
"""Touched keys from which machine code is faster than Python, whose rows need not come out of columns."""


def emit_rows(
    module: ir.Module, begin: BeginFunction, stage: Stage, maps: Mapping[str, MapGlobal]
) -> OutputGlobal | None:
    """Emit ``emit()`` into the module of ``stage``; gives where its rows go.

    None where some keys may give more than one row, or an expression has no native form.
    """
    finish = _plain(stage)
    if finish is None:
        return None
    place = ir.GlobalVariable(module, PTR, "emitted")
    place.initializer = NULL_POINTER
    output = OutputGlobal(Map(stage.name, stage.output), OutputCode(module, stage.output), place)
    try:
        OutputRowCode(begin, finish, maps, output).emit()
    except NotCompiled:
        for name in (place.name, *FUNCTIONS):
            module.globals.pop(name, None)
        return None
    for function in map(module.globals.__getitem__, FUNCTIONS):
        for attribute in PER_EPOCH:
            function.attributes.add(attribute)
    return output


def _plain(stage: Stage) -> GroupEmission | None:
    finish = stage.finish
    if not isinstance(finish, GroupEmission) or finish.always or (finish.times is not None and not repeats_keys(stage)):
        return None
    (source,) = [map_ for map_ in stage.maps if map_.name == finish.source]
    condition = () if finish.condition is None else (finish.condition,)
    read = set().union(*map(columns_in, (*condition, *(output.scalar for output in finish.outputs))))
    # What rounding leaves out of a DOUBLE is known to Python alone.
    known = {WEIGHT, *names_of(source.keys), *(value.name for value in source.values)}
    known |= {read.call.name for read in finish.multiset_reads}
    whole = bool(source.keys) and read <= known
    return finish if whole and not any(isinstance(f.type, t.Void) for f in stage.output) else None


def repeats_keys(stage: Stage) -> bool:
    """True if each key gives a row that follows from its own columns, as often as its weight says."""
    finish = stage.finish
    assert isinstance(finish, GroupEmission)
    (source,) = [map_ for map_ in stage.maps if map_.name == finish.source]
    above = () if finish.condition is None else (finish.condition,)
    read = set().union(*map(columns_in, (*above, *(output.scalar for output in finish.outputs))))
    weighted = isinstance(finish.times, Column) and finish.times.name == WEIGHT
    return weighted and read <= set(names_of(source.keys)) and not finish.multiset_reads


def shows_keys(stage: Stage) -> bool:
    """True if the rows of different keys are never equal, because they have these."""
    finish = stage.finish
    assert isinstance(finish, GroupEmission)
    (source,) = [map_ for map_ in stage.maps if map_.name == finish.source]
    shown = {output.scalar.name for output in finish.outputs if isinstance(output.scalar, Column)}
    return set(names_of(source.keys)) <= shown


class OutputRowCode:
    """Emits ``emit()``: the rows that touched keys of ``held`` gave and no longer give, and those that they give now.

    Gives a status. Whatever it is, the next call emits all touched keys again.
    """

    def __init__(
        self, begin: BeginFunction, finish: GroupEmission, maps: Mapping[str, MapGlobal], output: OutputGlobal
    ) -> None:
        self._begin, self._finish, self._held, self._output = begin, finish, maps[finish.source], output
        self._groups = MultisetGroupCode(finish, maps)
        self._row = StructLayout()
        self._row.field("there", I8)
        for name, field in zip(output.code.names, output.code.fields, strict=True):
            self._row.field(name, cell_type(field.type))
            if field.nullable:
                self._row.field(null_column(name), I8)

    def emit(self) -> None:
        """Emit it all, or raise ``NotCompiled``."""
        row = self._emit_row()
        changed = self._emit_changed(row)
        frame = self._begin("emit", [], True)
        builder = frame.builder
        status = Local(builder, number(0, I32))

        def tell(old: IRValue, entry: IRValue | None, sides: MultisetSides) -> None:
            # Nothing returns from here: a key that was emitted has a mark until all are.
            entries = [old, NULL_POINTER if entry is None else entry]
            found = builder.call(changed, [*entries, *sides.before, *sides.after])
            failed = builder.icmp_unsigned("!=", found, number(0, I32))
            status.set(builder.select(failed, found, status.get()))

        self._groups.each(builder, tell)
        builder.ret(status.get())

    def _emit_row(self) -> ir.Function:
        """``emit.row(record, row, ends...)``: the row of a record and its multisets, if there is one."""
        frame = self._begin("emit.row", [PTR, PTR, *self._ends()], False)
        builder, (record, row, *ends) = frame.builder, frame.function.args
        self._row.store(builder, row, "there", number(0, I8))
        absent = builder.icmp_signed("<=", self._held.code.weight(builder, record), number(0))
        with builder.if_then(absent):
            frame.done()
        expressions = LlvmExpressions(frame, self._bindings(frame, record, ends))
        if self._finish.condition is not None:
            with builder.if_then(builder.not_(expressions.holds(self._finish.condition))):
                frame.done()
        for name, field, output in zip(
            self._output.code.names, self._output.code.fields, self._finish.outputs, strict=True
        ):
            self._write(frame, row, name, field, expressions.cell(output.scalar), output.scalar.type)
        self._row.store(builder, row, "there", number(1, I8))
        frame.done()
        return frame.function

    def _ends(self) -> list[ir.Type]:
        """For each multiset the place of its ends, as an argument of functions."""
        return [PTR for _ in self._groups.indexes]

    def _bindings(self, frame: FunctionFrame, record: IRValue, ends: Sequence[IRValue]) -> dict[str, NullableValue]:
        """The cells of a record, for expressions. Sums must fit their types, whether they are output or not."""
        builder, code, map_ = frame.builder, self._held.code, self._held.map
        found = {WEIGHT: NullableValue(code.weight(builder, record))}
        for place, key in enumerate(map_.keys):
            found[key.name] = from_stored(builder, code.key(builder, record, place), key.type)
        for place, value in enumerate(map_.values):
            found[value.name] = NullableValue(fitting(frame, value, code.value(builder, record, place)))
        for read, cell in zip(self._finish.multiset_reads, self._groups.values(builder, ends), strict=True):
            found[read.call.name] = from_stored(builder, cell, read.call.of)
        return found

    def _write(
        self, frame: FunctionFrame, row: IRValue, name: str, field: Field, cell: NullableValue, type_: t.Type
    ) -> None:
        builder = frame.builder
        narrow, misfit = as_key(builder, cell, type_, field.type)
        if misfit is not None:
            frame.refuse(misfit, INVALID_ROW)
        stored = to_stored(builder, narrow, field.type)
        self._row.store(builder, row, name, value_or_zero(builder, stored))
        if field.nullable:
            self._row.store(builder, row, null_column(name), null_flag(builder, stored))
        elif stored.is_null is not None:
            frame.refuse(stored.is_null, INVALID_ROW)

    def _emit_changed(self, row: ir.Function) -> ir.Function:
        """``emit.changed(old, new, ends...)``: post the row of one record with weight -1, of the other with 1.

        Where both are the same nothing is; ``new`` may be null.
        """
        frame = self._begin("emit.changed", [PTR, PTR, *self._ends() * 2], False)
        builder, (old, new, *ends) = frame.builder, frame.function.args
        olds, news = ends[: len(ends) // 2], ends[len(ends) // 2 :]
        before, after = (on_stack(builder, self._row.size) for _ in range(2))
        self._row.store(builder, after, "there", number(0, I8))
        check(builder, builder.call(row, [old, before, *olds]))
        with builder.if_then(builder.icmp_unsigned("!=", new, NULL_POINTER)):
            check(builder, builder.call(row, [new, after, *news]))
        was, is_ = (self._is_there(builder, place) for place in (before, after))
        if self._finish.times is not None:
            self._post_difference(frame, old, new, before, after)
            return frame.function
        same = Local(builder, builder.icmp_unsigned("==", was, is_))
        with builder.if_then(builder.and_(was, is_)):
            same.set(self._equal(builder, before, after))
        with builder.if_then(same.get()):
            frame.done()
        for there, place, weight in ((was, before, -1), (is_, after, 1)):
            with builder.if_then(there):
                self._post(builder, place, number(weight))
        frame.done()
        return frame.function

    def _post_difference(
        self, frame: FunctionFrame, old: IRValue, new: IRValue, before: IRValue, after: IRValue
    ) -> None:
        """Post the row of a key, which is the same in both records, with the difference of their weights."""
        builder = frame.builder
        weights = []
        for record, place in ((old, before), (new, after)):
            weight = Local(builder, number(0))
            with builder.if_then(self._is_there(builder, place)):
                weight.set(self._held.code.weight(builder, record))
            weights.append(weight.get())
        moved = builder.sub(weights[1], weights[0])
        for place, chosen in ((after, self._is_there(builder, after)), (before, number(1, I1))):
            with builder.if_then(builder.and_(chosen, builder.icmp_unsigned("!=", moved, number(0)))):
                self._post(builder, place, moved)
                frame.done()
        frame.done()

    def _is_there(self, builder: ir.IRBuilder, row: IRValue) -> IRValue:
        return builder.trunc(self._row.load(builder, row, "there"), I1)

    def _equal(self, builder: ir.IRBuilder, one: IRValue, other: IRValue) -> IRValue:
        code = self._output.code
        names = [*code.names, *(null_column(n) for n, f in zip(code.names, code.fields, strict=True) if f.nullable)]
        return equal(builder, *([self._row.load(builder, row, name) for name in names] for row in (one, other)))

    def _post(self, builder: ir.IRBuilder, row: IRValue, weight: IRValue) -> None:
        code = self._output.code
        cells = []
        for name, field in zip(code.names, code.fields, strict=True):
            null = builder.trunc(self._row.load(builder, row, null_column(name)), I1) if field.nullable else None
            cells.append(NullableValue(self._row.load(builder, row, name), null))
        code.add(builder, self._output.handle(builder), cells, weight)


def fitting(frame: FunctionFrame, value: MapValue, found: IRValue, fault: RowFault = INVALID_ROW) -> IRValue:
    """A sum that fits its type; where it does not the row is refused."""
    builder = frame.builder
    if isinstance(value.type, t.Decimal):
        limit = 10**value.type.precision
        above = builder.icmp_signed(">=", found, number(limit, I128))
        frame.refuse(builder.or_(above, builder.icmp_signed("<=", found, number(-limit, I128))), fault)
        return found
    if isinstance(value.type, t.Double):
        return found
    narrow = builder.trunc(found, I64)
    frame.refuse(builder.icmp_signed("!=", builder.sext(narrow, I128), found), fault)
    return narrow
