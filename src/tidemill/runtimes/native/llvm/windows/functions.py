"""The values of window functions for one row of a version of its partition, as code.

Each is found from the number of the row, the rows at other numbers, and the sums up to them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.partial_sums import PartialSum
from tidemill.algebra.aggregates.registry import AGGREGATE_FUNCTIONS, finalize, partial_sums
from tidemill.algebra.expressions.scalars import Column, Literal, Scalar
from tidemill.algebra.relational.relations import Window
from tidemill.algebra.relational.windows import OFFSETS, RANKINGS, VALUES, WindowCall
from tidemill.model import types as t
from tidemill.model.types import BIGINT, Type
from tidemill.program.maps import Map
from tidemill.runtimes.native.llvm.codegen.control_flow import IRValue, number
from tidemill.runtimes.native.llvm.codegen.frame import FunctionFrame, NotCompiled
from tidemill.runtimes.native.llvm.codegen.layout import F64, I8, I64, I128, NullableValue, StructLayout, cell_type
from tidemill.runtimes.native.llvm.containers.column_buffer import null_flag, value_or_zero
from tidemill.runtimes.native.llvm.scalars.conversions import as_key, from_stored, null_of, to_stored
from tidemill.runtimes.native.llvm.scalars.exact_numbers import any_of, out_of_range
from tidemill.runtimes.native.llvm.scalars.expressions import LlvmExpressions, may_fail
from tidemill.runtimes.native.llvm.windows.folds import FoldCode, folds_of
from tidemill.runtimes.native.llvm.windows.frames import FrameCode
from tidemill.runtimes.native.llvm.windows.partitions import PartitionCode
from tidemill.runtimes.native.llvm.windows.reach import FOLDS, place_of, reach_of, row_offset

MAX_DIGITS = 20
"""Digits of a DECIMAL whose sums are kept: a weight of any size times such a number has fewer than 128 bits."""


def sums_of(window: Window) -> list[PartialSum]:
    """The sums that the functions of a window need, each once."""
    return list(dict.fromkeys(part for call in window.calls if _is_summed(call) for part in partial_sums(_total(call))))


def _is_summed(call: WindowCall) -> bool:
    function = AGGREGATE_FUNCTIONS.get(call.function)
    return function is not None and function.sums is not None and not function.sums.reads_low


def _total(call: WindowCall) -> AggregateCall:
    """The aggregate that is taken over each frame."""
    argument = call.arguments[0] if call.arguments else None
    return AggregateCall(call.name, call.function, argument, call.of, others=call.arguments[1:], filter=call.filter)


def check_functions(window: Window) -> None:
    """Refuse functions that have no native form, and arguments that may be an error."""
    for call in window.calls:
        _check(call)
        reach_of(call, window)
    for part in sums_of(window):
        of = part.argument.type
        if isinstance(of, t.Double):
            raise NotCompiled("a sum of DOUBLE over a frame")
        if isinstance(of, t.Decimal) and of.precision > MAX_DIGITS:
            raise NotCompiled(f"a sum of {of} over a frame")
        if may_fail(part.argument):
            raise NotCompiled("arguments of a window function that may be an error")


def _check(call: WindowCall) -> None:
    name = call.function
    if name not in RANKINGS | OFFSETS | VALUES and name not in FOLDS and not _is_summed(call):
        raise NotCompiled(f"the window function {name.upper()}")
    if call.ignore_nulls:
        raise NotCompiled(f"{name.upper()} that ignores NULLs")
    if name == "ntile":
        _buckets(call)
    read = call.arguments if call.filter is None else (*call.arguments, call.filter)
    if not _is_summed(call) and any(map(may_fail, read)):
        raise NotCompiled("arguments of a window function that may be an error")


def _buckets(call: WindowCall) -> int:
    match call.arguments:
        case (Literal(value=int(count)),) if 0 < count < 1 << 31:
            return count
    raise NotCompiled("NTILE of a number that is no constant")


class FunctionCode:
    """Emits the values of all functions of a window; they lie in the form of ``values``."""

    def __init__(self, window: Window, map_: Map, partitions: PartitionCode) -> None:
        self.window, self._map, self._partitions = window, map_, partitions
        self._frames = FrameCode(window, partitions)
        self._sums = sums_of(window)
        self.values = StructLayout()
        for i, call in enumerate(window.calls):
            self.values.field(f"value{i}", cell_type(call.of))
        for i in range(len(window.calls)):
            self.values.field(f"null{i}", I8)

    # ----------------------------------------------------------------------------------------------- rows and values

    def bindings(self, builder: ir.IRBuilder, prefix: Sequence[IRValue], key: IRValue) -> dict[str, NullableValue]:
        """The columns of a row of the map, for expressions."""
        fields, index = self._map.keys, self._partitions.index
        return {
            fields[place].name: from_stored(builder, cell, fields[place].type)
            for place, cell in index.cells(builder, prefix, key).items()
        }

    def value(self, builder: ir.IRBuilder, values: IRValue, place: int) -> NullableValue:
        """The value of a function, for expressions."""
        cell, null = (self.values.load(builder, values, f"{name}{place}") for name in ("value", "null"))
        flag = builder.icmp_unsigned("!=", null, number(0, I8))
        call = self.window.calls[place]
        return from_stored(builder, NullableValue(cell, flag if call.field.nullable else None), call.of)

    def emit_addends(self, frame: FunctionFrame) -> None:
        """Emit ``addends(prefix..., key, target)``: what one row adds to each sum."""
        builder, (*prefix, key, target) = frame.builder, frame.function.args
        expressions = LlvmExpressions(frame, self.bindings(builder, prefix, key))
        layout = StructLayout()
        for i, part in enumerate(self._sums):
            layout.field(str(i), I128)
            layout.store(builder, target, str(i), _addend(builder, expressions.cell(part.argument)))
        frame.done()

    def emit_values(self, frame: FunctionFrame) -> None:
        """Emit ``values(partition, version, place, key, target)``: the value of each function for a row."""
        partition, version, place, key, target = frame.function.args
        row = _Row(self, frame, partition, version, place, key, target)
        for i, call in enumerate(self.window.calls):
            row.emit(i, call)
        frame.done()

    def sum_columns(self, call: WindowCall) -> list[tuple[int, Column]]:
        """The sums that a call needs: which of all they are, and as which column expressions see them."""
        parts = partial_sums(_total(call))
        return [(self._sums.index(part), Column(f"sum {i}", part.of, nullable=False)) for i, part in enumerate(parts)]

    @property
    def partitions(self) -> PartitionCode:
        """The code of partitions."""
        return self._partitions

    @property
    def frames(self) -> FrameCode:
        """The code of frames."""
        return self._frames


class _Row:
    """Emits the values for one row of a version."""

    def __init__(
        self,
        code: FunctionCode,
        frame: FunctionFrame,
        partition: IRValue,
        version: IRValue,
        place: IRValue,
        key: IRValue,
        target: IRValue,
    ) -> None:
        self._code, self._frame, self._target = code, frame, target
        self._partition, self._version, self._place, self._key = partition, version, place, key
        self._partitions = code.partitions
        self._prefix = self._partitions.prefix(frame.builder, partition)
        self._total = self._partitions.version.load(frame.builder, version, "total")

    def emit(self, number_: int, call: WindowCall) -> None:
        """Emit the value of a call."""
        if call.function in RANKINGS:
            self._store(number_, call, NullableValue(self._rankings()[call.function](call)), _ranking_type(call))
        elif call.function in OFFSETS:
            self._emit_offset(number_, call)
        elif call.function in VALUES:
            self._emit_picked(number_, call)
        elif call.function in FOLDS:
            self._emit_fold(number_, call)
        else:
            self._emit_total(number_, call)

    def _store(self, number_: int, call: WindowCall, cell: NullableValue, type_: Type) -> None:
        builder, layout = self._frame.builder, self._code.values
        narrow, misfit = as_key(builder, cell, type_, call.of)
        if misfit is not None:
            known = misfit if narrow.is_null is None else builder.and_(misfit, builder.not_(narrow.is_null))
            self._frame.refuse(known, out_of_range(call.of))
        stored = to_stored(builder, narrow, call.of)
        layout.store(builder, self._target, f"value{number_}", value_or_zero(builder, stored))
        layout.store(builder, self._target, f"null{number_}", null_flag(builder, stored))

    # ------------------------------------------------------------------------------------------------------- rankings

    def _rankings(self) -> dict[str, Callable[[WindowCall], IRValue]]:
        return {
            "row_number": lambda call: self._frame.builder.add(self._place, number(1)),
            "rank": lambda call: self._frame.builder.add(self._first_peer(), number(1)),
            "dense_rank": self._dense_rank,
            "percent_rank": self._percent_rank,
            "cume_dist": self._cume_dist,
            "ntile": self._ntile,
        }

    def _first_peer(self) -> IRValue:
        return self._code.frames.first_peer(self._frame.builder, self._partition, self._version, self._place, self._key)

    def _dense_rank(self, call: WindowCall) -> IRValue:
        """One more than the row before has, unless they are peers; rows are asked for in order, from the first on."""
        builder, version = self._frame.builder, self._partitions.version
        is_first = builder.icmp_signed("==", self._first_peer(), self._place)
        known = version.load(builder, self._version, "rank")
        found = builder.add(known, builder.zext(is_first, I64))
        version.store(builder, self._version, "rank", found)
        return found

    def _percent_rank(self, call: WindowCall) -> IRValue:
        builder = self._frame.builder
        others = builder.sub(self._total, number(1))
        alone = builder.icmp_signed("==", others, number(0))
        divisor = builder.select(alone, number(1), others)
        return self._fraction(self._first_peer(), divisor)

    def _cume_dist(self, call: WindowCall) -> IRValue:
        end = self._code.frames.last_peer(self._frame.builder, self._partition, self._version, self._place, self._key)
        return self._fraction(end, self._total)

    def _fraction(self, one: IRValue, other: IRValue) -> IRValue:
        builder = self._frame.builder
        return builder.fdiv(*(builder.sitofp(part, F64) for part in (one, other)))

    def _ntile(self, call: WindowCall) -> IRValue:
        """Buckets of equal size; the first ones have one row more if the size is not divisible."""
        builder, count = self._frame.builder, number(_buckets(call))
        size, larger = builder.sdiv(self._total, count), builder.srem(self._total, count)
        wide = builder.add(size, number(1))
        within = builder.mul(larger, wide)
        in_larger = builder.sdiv(self._place, wide)
        divisor = builder.select(builder.icmp_signed("==", size, number(0)), number(1), size)
        behind = builder.add(larger, builder.sdiv(builder.sub(self._place, within), divisor))
        is_in_larger = builder.icmp_signed("<", self._place, within)
        return builder.add(builder.select(is_in_larger, in_larger, behind), number(1))

    # ---------------------------------------------------------------------------------------------------- other rows

    def _argument(self, key: IRValue, scalar: Scalar) -> NullableValue:
        """An expression over the row with that sort key."""
        return LlvmExpressions(self._frame, self._code.bindings(self._frame.builder, self._prefix, key)).cell(scalar)

    def _emit_offset(self, number_: int, call: WindowCall) -> None:
        builder = self._frame.builder
        read, _, default = call.arguments
        other = builder.add(self._place, number(row_offset(call)))
        with builder.if_else(builder.icmp_unsigned("<", other, self._total)) as (inside, outside):
            with inside:
                key = self._partitions.key_at(builder, self._partition, self._version, other)
                self._store(number_, call, self._argument(key, read), read.type)
            with outside:
                self._store(number_, call, self._argument(self._key, default), default.type)

    def _emit_picked(self, number_: int, call: WindowCall) -> None:
        """FIRST_VALUE, LAST_VALUE and NTH_VALUE: the argument in a row of the frame, NULL where it is not there."""
        builder, partitions = self._frame.builder, self._partitions
        start, end = self._code.frames.span(builder, call.frame, self._partition, self._version, self._place, self._key)
        last = call.function == "last_value"
        place = builder.sub(end, number(1)) if last else builder.add(start, number(place_of(call) - 1))
        there = builder.and_(builder.icmp_signed(">=", place, start), builder.icmp_signed("<", place, end))
        with builder.if_else(there) as (inside, outside):
            with inside:
                if last and call.frame.end is None:
                    key = partitions.last_key(builder, self._partition, self._version)
                elif not last and call.frame.start is None:
                    key = partitions.first_keys(builder, self._partition, self._version, place)
                else:
                    key = partitions.key_at(builder, self._partition, self._version, place)
                argument = call.arguments[0]
                self._store(number_, call, self._argument(key, argument), argument.type)
            with outside:
                self._store(number_, call, null_of(call.of), call.of)

    # ---------------------------------------------------------------------------------------------------- aggregates

    def _emit_fold(self, number_: int, call: WindowCall) -> None:
        builder, argument = self._frame.builder, call.arguments[0]
        span = self._code.frames.span(builder, call.frame, self._partition, self._version, self._place, self._key)
        fold = FoldCode(self._frame, self._partitions, self._version, folds_of(self._code.window, call))

        def read(key: IRValue) -> NullableValue:
            expressions = LlvmExpressions(self._frame, self._code.bindings(builder, self._prefix, key))
            cell = expressions.cell(argument)
            if call.filter is None:
                return cell
            left_out = builder.not_(expressions.holds(call.filter))
            return NullableValue(cell.value, any_of(builder, cell.is_null, left_out))

        self._store(number_, call, fold.value(*span, read), argument.type)

    def _emit_total(self, number_: int, call: WindowCall) -> None:
        """An aggregate from the sums up to the end of the frame, less those up to its start."""
        builder, frames = self._frame.builder, self._code.frames
        start, end = frames.span(builder, call.frame, self._partition, self._version, self._place, self._key)
        ends = frames.sums_at_ends(builder, call.frame, self._partition, self._version, start, end)
        weight = Column("weight", BIGINT, nullable=False)
        bound = {weight.name: NullableValue(builder.sub(end, start))}
        columns = self._code.sum_columns(call)
        for place, column in columns:
            bound[column.name] = NullableValue(builder.sub(ends[1][place], ends[0][place]))
        value = finalize(_total(call), [column for _, column in columns], weight)
        self._store(number_, call, LlvmExpressions(self._frame, bound).cell(value), value.type)


def _ranking_type(call: WindowCall) -> Type:
    return call.of if isinstance(call.of, t.Double) else BIGINT


def _addend(builder: ir.IRBuilder, cell: NullableValue) -> IRValue:
    """The addend of a value to a sum; NULL adds nothing."""
    wide = cell.value if cell.value.type == I128 else builder.sext(cell.value, I128)
    return wide if cell.is_null is None else builder.select(cell.is_null, number(0, I128), wide)
