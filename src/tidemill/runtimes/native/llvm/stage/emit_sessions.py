"""Sessions as code: ``sessions.add`` adds to the sums at an instant, and moves the sessions around it.

After each call the map of sessions has exactly the sessions of the instants of positive weight. What a call changes
depends on whether its instant was there before and is there now:

- an instant that stays changes the sums of its session;
- one that is new lengthens the session before it, begins the one after it earlier, joins both, or is one of its own;
- one that goes shortens its session, splits it where its neighbours are more than a gap apart, or takes it away.

Both maps have an order of the entries that are present, so neighbours are found, and the sums of the second half of a
session that splits, in O(log n).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from llvmlite import ir

from tidemill.model import types as t
from tidemill.program.maps import Map
from tidemill.program.stages import SessionEmission, Stage
from tidemill.program.statements import Replace
from tidemill.runtimes.native.llvm.codegen.control_flow import IRValue, Local, number
from tidemill.runtimes.native.llvm.codegen.frame import FunctionFrame, NotCompiled
from tidemill.runtimes.native.llvm.codegen.layout import I64, I128, NULL_POINTER
from tidemill.runtimes.native.llvm.containers.key_cells import KeyCells
from tidemill.runtimes.native.llvm.containers.sort_keys import to_sort_key
from tidemill.runtimes.native.llvm.maps.map_code import OrderColumns
from tidemill.runtimes.native.llvm.maps.ordered_index import minus
from tidemill.runtimes.native.llvm.maps.ring_values import EntryNumbers
from tidemill.runtimes.native.llvm.queries import MapGlobal
from tidemill.runtimes.native.llvm.scalars.conversions import instant
from tidemill.runtimes.native.llvm.scalars.time_windows import MAX_SPAN
from tidemill.runtimes.native.llvm.scalars.wide_integers import WideInteger

BeginFunction = Callable[[str, Sequence[ir.Type], bool], FunctionFrame]
"""Begins a function of a name, for arguments of such types; it may be exported."""


def check_sessions(stage: Stage, sessions: SessionEmission) -> None:
    """Refuse sessions whose sums are not exact, or whose instants are computed as a whole."""
    (source,) = [map_ for map_ in stage.maps if map_.name == sessions.source]
    if any(isinstance(value.type, t.Double) for value in source.values):
        raise NotCompiled("sums of DOUBLE over sessions")
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
        _SessionMove(frame, self._instants, self._kept, self._gap, keys).emit(addend)
        return frame.function


class _SessionMove:
    """The body of ``sessions.add`` for the instant that ``keys`` end with."""

    def __init__(self, frame: FunctionFrame, instants: MapGlobal, kept: MapGlobal, gap: int, keys: KeyCells) -> None:
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
            self._add(start, number(0), self._minus(new, old))
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
        """Whether a session begins at the instant or before, and where the last of them does; and the same after it."""
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
        length, *sums = numbers.integers()
        return builder.add(start, builder.trunc(length, I64)), EntryNumbers(numbers.weight, tuple(sums))

    def _add(self, start: IRValue, length: IRValue, sums: EntryNumbers) -> None:
        """Add to the session that begins at ``start``: so much to its length, and to its sums."""
        builder = self._builder
        numbers = EntryNumbers(sums.weight, (builder.sext(length, I128), *sums.values))
        self._frame.check(self._kept.add(builder, self._kept_handle, self._session_keys(start), numbers))

    def _remove(self, start: IRValue, end: IRValue, sums: EntryNumbers) -> None:
        """Take a session away, given its end and its sums."""
        builder = self._builder
        self._add(start, builder.sub(start, end), self._minus(None, sums))

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
            for part, value in zip(sums, numbers.flat(), strict=True):
                part.set(builder.add(part.get(), value))
            self._remove(after, until, numbers)
        with builder.if_then(has_before, likely=True):
            until, _ = self._session(before)
            with builder.if_then(builder.icmp_signed("<=", self._at, until), likely=True):
                later = builder.icmp_signed(">", until, end.get())
                end.set(builder.select(later, until, end.get()))
                start.set(before)
                held.set(builder.sub(until, before))
        length = builder.sub(builder.sub(end.get(), start.get()), held.get())
        self._add(start.get(), length, self._of_flat([part.get() for part in sums]))
        self._frame.done()

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
                self._add(beside.after, builder.sub(end, beside.after), self._minus(sums, old))
            self._frame.done()
        shorter = builder.sub(builder.add(beside.before, self._gap), end)
        with builder.if_then(is_last):
            self._add(start, shorter, self._minus(None, old))
            self._frame.done()
        distance = builder.sub(beside.after, beside.before)
        with builder.if_then(builder.icmp_signed("<=", distance, self._gap), likely=True):
            self._add(start, number(0), self._minus(None, old))
            self._frame.done()
        right = self._sum_from(beside.after, last)
        self._add(start, shorter, self._minus(self._minus(None, old), right))
        self._add(beside.after, builder.sub(end, beside.after), right)
        self._frame.done()

    def _sum_from(self, first: IRValue, last: IRValue) -> EntryNumbers:
        """The sums over the instants from ``first`` to ``last``."""
        builder, order = self._builder, self._instants.present
        assert order is not None
        prefix, _ = order.split(builder, self._keys)
        among = order.find(builder, self._instants_handle, prefix)
        low, high = (to_sort_key(builder, one) for one in (first, last))
        until = order.sum_until(builder, self._instants_handle, among, high, number(1, ir.IntType(1)))
        before = order.sum_until(builder, self._instants_handle, among, low, number(0, ir.IntType(1)))
        found = minus(builder, until, before)
        return EntryNumbers(found.weight, found.values)

    # -- sums ---------------------------------------------------------------------------------------------------

    def _minus(self, one: EntryNumbers | None, other: EntryNumbers) -> EntryNumbers:
        """The difference of two sums; None stands for zeros."""
        builder = self._builder
        parts = [number(0, part.type) for part in other.flat()] if one is None else one.flat()
        return self._of_flat([builder.sub(a, b) for a, b in zip(parts, other.flat(), strict=True)])

    def _of_flat(self, parts: Sequence[IRValue]) -> EntryNumbers:
        weight, *values = parts
        return EntryNumbers(weight, tuple(values))
