"""Frames of window functions as code: from the number of a row and its sort key to the numbers of rows around it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime

from llvmlite import ir

from tidemill.algebra.relational.relations import Window
from tidemill.algebra.relational.windows import Frame
from tidemill.model import types as t
from tidemill.runtimes.native.llvm.codegen.control_flow import IRValue, Local, number
from tidemill.runtimes.native.llvm.codegen.frame import FALSE
from tidemill.runtimes.native.llvm.codegen.layout import I128
from tidemill.runtimes.native.llvm.scalars.conversions import inner_number
from tidemill.runtimes.native.llvm.windows.partitions import PartitionCode
from tidemill.runtimes.native.llvm.windows.reach import end_units

FrameSums = tuple[list[IRValue], list[IRValue]]
"""The sums over all rows before a frame, and over all rows until its end."""


class FrameCode:
    """Emits the frames of a window. The columns that it is ordered by are the first terms of sort keys."""

    def __init__(self, window: Window, partitions: PartitionCode) -> None:
        self._window, self._partitions = window, partitions
        terms = partitions.index.terms
        self._below = sum(term.bits for term in terms[len(window.order) :])
        """The bits of a sort key that come after those of the order."""

    # --------------------------------------------------------------------------------------------------------- peers

    def lowest(self, builder: ir.IRBuilder, key: IRValue) -> IRValue:
        """The least sort key of a peer of ``key``."""
        return builder.and_(key, number(-1 << self._below, key.type))

    def highest(self, builder: ir.IRBuilder, key: IRValue) -> IRValue:
        """The greatest sort key of a peer of ``key``."""
        return builder.or_(key, number((1 << self._below) - 1, key.type))

    def first_peer(
        self, builder: ir.IRBuilder, partition: IRValue, version: IRValue, place: IRValue, key: IRValue
    ) -> IRValue:
        """The number of the first peer of the row with that number and key."""
        least = self.lowest(builder, key)
        before = builder.sub(place, number(1))
        with self._unless_beside(builder, version, before, "<", least, place) as found:
            found.set(self._partitions.place_of(builder, partition, version, least, inclusive=False))
        return found.get()

    def last_peer(
        self, builder: ir.IRBuilder, partition: IRValue, version: IRValue, place: IRValue, key: IRValue
    ) -> IRValue:
        """The number of the row after the last peer of the row with that number and key."""
        greatest = self.highest(builder, key)
        following = builder.add(place, number(1))
        with self._unless_beside(builder, version, following, ">", greatest, following) as found:
            found.set(self._partitions.place_of(builder, partition, version, greatest, inclusive=True))
        return found.get()

    @contextmanager
    def _unless_beside(
        self, builder: ir.IRBuilder, version: IRValue, beside: IRValue, sign: str, bound: IRValue, known: IRValue
    ) -> Iterator[Local]:
        """A variable that is ``known`` if the row beside is laid out and no peer, else set by what is emitted within.

        Most rows have no peers, so nothing is searched for.
        """
        code, found = self._partitions, Local(builder, known)
        inside = builder.sub(beside, code.version.load(builder, version, "base"))
        is_peer = Local(builder, number(1, FALSE.type))
        count = code.version.load(builder, version, "count")
        with builder.if_then(builder.icmp_unsigned("<", inside, count)):
            held = code.row_key(builder, code.row(builder, version, inside))
            is_peer.set(builder.not_(builder.icmp_unsigned(sign, held, bound)))
        with builder.if_then(is_peer.get()):
            yield found

    def moved(self, builder: ir.IRBuilder, key: IRValue, offset: int) -> tuple[IRValue, IRValue]:
        """A sort key whose one term of the order is moved by ``offset``, and an i1: whether there is no such value.

        It has the last value in that direction then. The calendar has ends that are never passed. NULL stays NULL.
        """
        if not offset:
            return key, FALSE
        term = self._partitions.index.terms[0]
        bits = term.bits - (term.nulls_first is not None)
        mask = (1 << bits) - 1
        value = builder.and_(builder.lshr(key, number(self._below, key.type)), number(mask, key.type))
        ends, has_calendar = self._value_ends(bits)
        end = number(ends[offset > 0], key.type)
        room = builder.sub(end, value) if offset > 0 else builder.sub(value, end)
        beyond = builder.icmp_unsigned(">", number(min(abs(offset), mask + 1), _wider(key.type)), _wide(builder, room))
        by = number(abs(offset) & mask, key.type)
        target = builder.add(value, by) if offset > 0 else builder.sub(value, by)
        target = builder.shl(builder.select(beyond, end, target), number(self._below, key.type))
        found = builder.or_(builder.and_(key, number(~(mask << self._below), key.type)), target)
        passed = FALSE if has_calendar else beyond
        if term.nulls_first is None:
            return found, passed
        flag = builder.and_(key, number(1 << bits + self._below, key.type))
        is_set = builder.icmp_unsigned("!=", flag, number(0, key.type))
        # The flag is set in rows that come second: where NULLs are first, in all others.
        is_value = is_set if term.nulls_first else builder.not_(is_set)
        return builder.select(is_value, found, key), builder.and_(is_value, passed)

    def _value_ends(self, bits: int) -> tuple[tuple[int, int], bool]:
        """The bits of the first and of the last value of the order, and True if these are the ends of the calendar."""
        type_, descending = self._window.order[0].scalar.type, self._window.order[0].descending
        if not isinstance(type_, t.Date | t.Timestamp):
            return (0, (1 << bits) - 1), False
        moments = (date.min, date.max) if isinstance(type_, t.Date) else (datetime.min, datetime.max)
        first, last = (int(inner_number(moment, type_)) + (1 << bits - 1) for moment in moments)
        return ((1 << bits) - 1 - last, (1 << bits) - 1 - first) if descending else (first, last), True

    def first_from(
        self,
        builder: ir.IRBuilder,
        partition: IRValue,
        version: IRValue,
        place: IRValue,
        key: IRValue,
        offset: int,
    ) -> IRValue:
        """The number of the first row whose place in the order is at least that far away."""
        if not offset:
            return self.first_peer(builder, partition, version, place, key)
        moved, passed = self.moved(builder, key, offset)
        least = self.lowest(builder, moved)
        found = Local(builder, self._partitions.place_of(builder, partition, version, least, inclusive=False))
        if offset > 0:
            with builder.if_then(passed, likely=False):
                behind = self.highest(builder, moved)
                found.set(self._partitions.place_of(builder, partition, version, behind, inclusive=True))
        return found.get()

    def end_of(
        self,
        builder: ir.IRBuilder,
        partition: IRValue,
        version: IRValue,
        place: IRValue,
        key: IRValue,
        offset: int,
    ) -> IRValue:
        """The number of the row after the last whose place in the order is at most that far away."""
        if not offset:
            return self.last_peer(builder, partition, version, place, key)
        moved, passed = self.moved(builder, key, offset)
        greatest = self.highest(builder, moved)
        found = Local(builder, self._partitions.place_of(builder, partition, version, greatest, inclusive=True))
        if offset < 0:
            with builder.if_then(passed, likely=False):
                first = self.lowest(builder, moved)
                found.set(self._partitions.place_of(builder, partition, version, first, inclusive=False))
        return found.get()

    # -------------------------------------------------------------------------------------------------------- frames

    def span(
        self, builder: ir.IRBuilder, frame: Frame, partition: IRValue, version: IRValue, place: IRValue, key: IRValue
    ) -> tuple[IRValue, IRValue]:
        """The numbers of the first row of a frame and of the row after its last."""
        total = self._partitions.version.load(builder, version, "total")
        start, end = (end_units(one, frame, self._window) for one in (frame.start, frame.end))
        first: IRValue = number(0)
        behind: IRValue = total
        if start is not None:
            if frame.rows:
                first = _clamped(builder, builder.add(place, number(start)), total)
            else:
                first = self.first_from(builder, partition, version, place, key, start)
        if end is not None:
            if frame.rows:
                behind = _clamped(builder, builder.add(place, number(end + 1)), total)
            else:
                behind = self.end_of(builder, partition, version, place, key, end)
        return first, builder.select(builder.icmp_signed("<", behind, first), first, behind)

    def sums_at_ends(
        self, builder: ir.IRBuilder, frame: Frame, partition: IRValue, version: IRValue, start: IRValue, end: IRValue
    ) -> FrameSums:
        """The sums up to both ends of a frame."""
        code = self._partitions
        before = [number(0, I128)] * code.sums
        until = code.load_sums(builder, code.version, version, "total")
        if frame.start is not None:
            before = code.sums_before(builder, partition, version, start)
        if frame.end is not None:
            until = code.sums_before(builder, partition, version, end)
        return before, until


def _clamped(builder: ir.IRBuilder, place: IRValue, total: IRValue) -> IRValue:
    """A number of a row, or 0 or the number of all rows."""
    positive = builder.select(builder.icmp_signed("<", place, number(0)), number(0), place)
    return builder.select(builder.icmp_signed(">", positive, total), total, positive)


def _wider(type_: ir.Type) -> ir.Type:
    return ir.IntType(type_.width + 64)


def _wide(builder: ir.IRBuilder, value: IRValue) -> IRValue:
    return builder.zext(value, _wider(value.type))
