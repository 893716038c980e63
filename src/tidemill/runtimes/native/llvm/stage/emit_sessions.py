"""Sessions as code: ``sessions.add`` adds to the sums at an instant, and moves the sessions around it.

After each call the map of sessions has exactly the sessions of the instants of positive weight. What a call changes
depends on whether its instant was there before and is there now:

- an instant that stays changes the sums of its session;
- one that is new lengthens the session before it, begins the one after it earlier, joins both, or is one of its own;
- one that goes shortens its session, splits it where its neighbours are more than a gap apart, or takes it away.

Both maps have an order of the entries that are present, so neighbours are found, and the sums of the second half of a
session that splits, in O(log n). Sums of DOUBLE are not in orders, so with one the parts of a session
are added up again when an instant goes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from llvmlite import ir

from tidemill.model import types as t
from tidemill.program.maps import Map
from tidemill.program.stages import SessionEmission, Stage
from tidemill.program.statements import Replace
from tidemill.runtimes.native.llvm.codegen.control_flow import IRValue, Local, escape, forever, number, on_stack
from tidemill.runtimes.native.llvm.codegen.frame import FunctionFrame, NotCompiled
from tidemill.runtimes.native.llvm.codegen.layout import I64, I128, NULL_POINTER, PTR, DoubleSum
from tidemill.runtimes.native.llvm.containers.key_cells import KeyCells
from tidemill.runtimes.native.llvm.containers.sort_keys import to_sort_key
from tidemill.runtimes.native.llvm.maps.map_code import OrderColumns
from tidemill.runtimes.native.llvm.maps.ordered_index import minus
from tidemill.runtimes.native.llvm.maps.ring_values import EntryNumbers, return_status
from tidemill.runtimes.native.llvm.queries import MapGlobal
from tidemill.runtimes.native.llvm.scalars import double_sums
from tidemill.runtimes.native.llvm.scalars.conversions import instant
from tidemill.runtimes.native.llvm.scalars.time_windows import MAX_SPAN
from tidemill.runtimes.native.llvm.scalars.wide_integers import WideInteger

BeginFunction = Callable[[str, Sequence[ir.Type], bool], FunctionFrame]
"""Begins a function of a name, for arguments of such types; it may be exported."""


def check_sessions(stage: Stage, sessions: SessionEmission) -> None:
    """Refuse sessions whose instants are computed as a whole."""
    statements = [statement for trigger in stage.triggers for statement in trigger.statements]
    if stage.reader is not None or any(isinstance(statement, Replace) for statement in statements):
        raise NotCompiled("sessions that are recomputed")
    if sessions.gap > MAX_SPAN:
        raise NotCompiled("a gap of thousands of years")


def session_order(sessions: SessionEmission | None, map_: Map) -> OrderColumns | None:
    """The order of the entries that are present, where ``map_`` has instants or sessions."""
    if sessions is None or map_.name not in (sessions.source, sessions.kept):
        return None
    *prefix, last = (f.name for f in map_.keys)
    return tuple(prefix), last


class SessionCode:
    """Emits ``sessions.add``, and the calls of it."""

    def __init__(self, sessions: SessionEmission, maps: Mapping[str, MapGlobal], begin: BeginFunction) -> None:
        self.source = sessions.source
        self._gap = sessions.gap
        self._instants, self._kept = maps[sessions.source], maps[sessions.kept]
        doubles = any(isinstance(value.type, t.Double) for value in self._instants.map.values)
        self._sum = self._emit_sum(begin) if doubles else None
        self._function = self._emit(begin)

    def add(self, builder: ir.IRBuilder, keys: KeyCells, numbers: EntryNumbers) -> IRValue:
        """Add to the sums at an instant; gives a status."""
        return builder.call(self._function, [*keys.arguments(), *numbers.flat()])

    def _emit(self, begin: BeginFunction) -> ir.Function:
        code = self._instants.code.changing
        frame = begin("sessions.add", [*code.keys.types(), *code.rings.types()], False)
        frame.function.attributes.add("noinline")
        arguments, split = list(frame.function.args), len(code.keys.types())
        keys, addend = code.keys.of_arguments(arguments[:split]), code.rings.of_flat(arguments[split:])
        _SessionMove(frame, self._instants, self._kept, self._gap, keys, self._sum).emit(addend)
        return frame.function

    def _emit_sum(self, begin: BeginFunction) -> ir.Function:
        """``sessions.sum(keys..., first, last, sums)``: add up the instants from one to another, and write the sums.

        Orders have no sums of DOUBLE. What is left of one after a subtraction may have lost bits, so sums of parts of a
        session are made anew.
        """
        code, order = self._instants.code.changing, self._instants.code.changing.present
        assert order is not None
        frame = begin("sessions.sum", [*code.keys.types(), I64, I64, PTR], False)
        frame.function.attributes.add("noinline")
        builder, (*given, first, last, target) = frame.builder, frame.function.args
        handle, known = self._instants.handle(builder), code.keys.of_arguments(given)
        at, sums = Local(builder, first), [Local(builder, zero) for zero in code.rings.none().flat()]
        with forever(builder) as ended:
            keys = KeyCells((*known.cells[:-1], at.get()), known.nulls)
            held = code.rings.load(builder, code.find(builder, handle, keys))
            total, faults = code.rings.plus(builder, code.rings.of_flat([part.get() for part in sums]), held)
            return_status(builder, faults)
            for part, value in zip(sums, total.flat(), strict=True):
                part.set(value)
            escape(builder, builder.icmp_signed("==", at.get(), last), ended)
            at.set(order.neighbours(builder, handle, keys).after)
        code.rings.store(builder, target, code.rings.of_flat([part.get() for part in sums]))
        frame.done()
        return frame.function


class _SessionMove:
    """The body of ``sessions.add`` for the instant that ``keys`` end with."""

    def __init__(
        self,
        frame: FunctionFrame,
        instants: MapGlobal,
        kept: MapGlobal,
        gap: int,
        keys: KeyCells,
        sum_: ir.Function | None,
    ) -> None:
        """``sum_`` adds up instants where their order does not have the sums."""
        self._sum = sum_
        self._frame, self._builder = frame, frame.builder
        self._instants, self._kept = instants.code.changing, kept.code.changing
        self._instants_handle, self._kept_handle = instants.handle(frame.builder), kept.handle(frame.builder)
        self._gap, self._keys, self._at = number(gap), keys, keys.cells[-1]

    def emit(self, addend: EntryNumbers) -> None:
        builder, code = self._builder, self._instants
        old = self._held()
        self._frame.check(code.add(builder, self._instants_handle, self._keys, addend))
        new, _ = code.rings.plus(builder, old, addend)
        was, is_ = (builder.icmp_signed(">", numbers.weight, number(0)) for numbers in (old, new))
        with builder.if_then(builder.not_(builder.or_(was, is_)), likely=False):
            self._frame.done()
        before, start, has_after, after = self._sessions_around()
        with builder.if_then(builder.and_(was, is_)):
            self._change(start, addend)
            self._frame.done()
        with builder.if_then(is_, likely=True):
            self._enter(before, start, has_after, after, new)
        self._leave(start, old)

    def _held(self) -> EntryNumbers:
        """The numbers of the instant before the call, zeros where it has none."""
        builder, code = self._builder, self._instants
        entry = code.find(builder, self._instants_handle, self._keys)
        parts = [Local(builder, zero) for zero in code.rings.none().flat()]
        with builder.if_then(builder.icmp_unsigned("!=", entry, NULL_POINTER)):
            for part, value in zip(parts, code.rings.load(builder, entry).flat(), strict=True):
                part.set(value)
        return code.rings.of_flat([part.get() for part in parts])

    def _sessions_around(self) -> tuple[IRValue, IRValue, IRValue, IRValue]:
        """The last session that begins at the instant or before, as a flag and its start, and the next one after it."""
        assert self._kept.present is not None
        found = self._kept.present.neighbours(self._builder, self._kept_handle, self._keys)
        return found.has_before, found.before, found.has_after, found.after

    # -- one session --------------------------------------------------------------------------------------------

    def _session_keys(self, start: IRValue) -> KeyCells:
        return KeyCells((*self._keys.cells[:-1], start), self._keys.nulls)

    def _session(self, start: IRValue) -> tuple[IRValue, EntryNumbers]:
        """The end of a session, a gap after its last instant, and its sums."""
        builder = self._builder
        entry = self._kept.find(builder, self._kept_handle, self._session_keys(start))
        numbers = self._kept.rings.load(builder, entry)
        length, *sums = numbers.values
        return builder.add(start, builder.trunc(length, I64)), EntryNumbers(numbers.weight, tuple(sums))

    def _add(self, start: IRValue, length: IRValue, sums: EntryNumbers) -> None:
        """Add to the session that begins at ``start``: so much to its length, and to its sums."""
        builder = self._builder
        numbers = EntryNumbers(sums.weight, (builder.sext(length, I128), *sums.values))
        self._frame.check(self._kept.add(builder, self._kept_handle, self._session_keys(start), numbers))

    def _remove(self, start: IRValue, end: IRValue, sums: EntryNumbers) -> None:
        """Take a session away, given its end and its sums."""
        builder = self._builder
        self._add(start, builder.sub(start, end), self._negated(sums))

    # -- one instant --------------------------------------------------------------------------------------------

    def _enter(
        self, has_before: IRValue, before: IRValue, has_after: IRValue, after: IRValue, new: EntryNumbers
    ) -> None:
        """The instant is new."""
        builder = self._builder
        last = instant(builder, WideInteger(builder.add(self._at, self._gap), 63))
        assert last.failed is not None and last.fault is not None
        self._frame.refuse(last.failed, last.fault)
        start, end = Local(builder, self._at), Local(builder, last.value)
        sums = [Local(builder, part) for part in new.flat()]
        held = Local(builder, number(0))
        joins = builder.and_(has_after, builder.icmp_signed("<=", after, last.value))
        with builder.if_then(joins):
            until, numbers = self._session(after)
            end.set(until)
            self._add_to(sums, numbers)
            self._remove(after, until, numbers)
        with builder.if_then(has_before, likely=True):
            until, _ = self._session(before)
            with builder.if_then(builder.icmp_signed("<=", self._at, until), likely=True):
                later = builder.icmp_signed(">", until, end.get())
                end.set(builder.select(later, until, end.get()))
                start.set(before)
                held.set(builder.sub(until, before))
        length = builder.sub(builder.sub(end.get(), start.get()), held.get())
        self._add(start.get(), length, self._sums_in(sums))
        self._frame.done()

    def _change(self, start: IRValue, addend: EntryNumbers) -> None:
        """The instant has other sums than before."""
        if self._sum is None:
            self._add(start, number(0), addend)
            return
        builder = self._builder
        with builder.if_else(builder.icmp_signed("<", addend.weight, number(0)), likely=False) as (less, more):
            with less:
                end, sums = self._session(start)
                self._remove(start, end, sums)
                self._add(start, builder.sub(end, start), self._sum_from(start, builder.sub(end, self._gap)))
            with more:
                self._add(start, number(0), addend)

    def _leave(self, start: IRValue, old: EntryNumbers) -> None:
        """The instant has gone from the session that begins at ``start``."""
        builder = self._builder
        end, sums = self._session(start)
        last = builder.sub(end, self._gap)
        assert self._instants.present is not None
        beside = self._instants.present.neighbours(builder, self._instants_handle, self._keys)
        is_first, is_last = (builder.icmp_signed("==", self._at, one) for one in (start, last))
        with builder.if_then(is_first):
            self._remove(start, end, sums)
            with builder.if_then(builder.not_(is_last)):
                self._add_part(beside.after, last, sums, old)
            self._frame.done()
        with builder.if_then(is_last):
            self._cut(start, end, sums, beside.before, old)
            self._frame.done()
        distance = builder.sub(beside.after, beside.before)
        with builder.if_then(builder.icmp_signed("<=", distance, self._gap), likely=True):
            self._cut(start, end, sums, last, old)
            self._frame.done()
        right = self._sum_from(beside.after, last)
        self._cut(start, end, sums, beside.before, self._plus(old, right))
        self._add(beside.after, builder.sub(end, beside.after), right)
        self._frame.done()

    def _cut(self, start: IRValue, end: IRValue, sums: EntryNumbers, last: IRValue, gone: EntryNumbers) -> None:
        """End a session at the instant ``last``, without what has ``gone`` from it."""
        builder = self._builder
        if self._sum is None:
            self._add(start, builder.sub(builder.add(last, self._gap), end), self._negated(gone))
        else:
            self._remove(start, end, sums)
            self._add_part(start, last, sums, gone)

    def _add_part(self, first: IRValue, last: IRValue, whole: EntryNumbers, gone: EntryNumbers) -> None:
        """Add a session from one instant to another, with the sums ``whole`` without what has ``gone``."""
        builder = self._builder
        left = self._plus(whole, self._negated(gone)) if self._sum is None else self._sum_from(first, last)
        self._add(first, builder.sub(builder.add(last, self._gap), first), left)

    def _sum_from(self, first: IRValue, last: IRValue) -> EntryNumbers:
        """The sums over the instants from ``first`` to ``last``."""
        builder, order = self._builder, self._instants.present
        assert order is not None
        if self._sum is not None:
            record = on_stack(builder, self._instants.record.payload)
            self._frame.check(builder.call(self._sum, [*self._keys.arguments(), first, last, record]))
            return self._instants.rings.load(builder, record)
        prefix, _ = order.split(builder, self._keys)
        among = order.find(builder, self._instants_handle, prefix)
        low, high = (to_sort_key(builder, one) for one in (first, last))
        until = order.sum_until(builder, self._instants_handle, among, high, number(1, ir.IntType(1)))
        before = order.sum_until(builder, self._instants_handle, among, low, number(0, ir.IntType(1)))
        found = minus(builder, until, before)
        return EntryNumbers(found.weight, found.values)

    # -- sums ---------------------------------------------------------------------------------------------------

    def _sums_in(self, parts: Sequence[Local]) -> EntryNumbers:
        return self._instants.rings.of_flat([part.get() for part in parts])

    def _add_to(self, parts: Sequence[Local], numbers: EntryNumbers) -> None:
        for part, value in zip(parts, self._plus(self._sums_in(parts), numbers).flat(), strict=True):
            part.set(value)

    def _plus(self, one: EntryNumbers, other: EntryNumbers) -> EntryNumbers:
        """The sum, whose faults are found where it is added to a map."""
        return self._instants.rings.plus(self._builder, one, other)[0]

    def _negated(self, numbers: EntryNumbers) -> EntryNumbers:
        builder = self._builder
        values = tuple(
            double_sums.negated(builder, value) if isinstance(value, DoubleSum) else builder.neg(value)
            for value in numbers.values
        )
        return EntryNumbers(builder.neg(numbers.weight), values)
