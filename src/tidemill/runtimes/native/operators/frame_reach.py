"""Frame reach: how far window functions read along their partition. Only rows that reach a change are recomputed.

A *reach* answers two questions about a sort key of a partition. Which rows read the row at this key? Their values may
change when it is inserted or deleted. And which rows does a row at this key read? These are needed to compute its
value. None stands for the beginning of the partition, or for its end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tidemill.algebra.expressions.ordering import SortOrder, sort_key
from tidemill.algebra.kernels.frames import moved
from tidemill.algebra.relational.windows import Frame
from tidemill.changes.zset import Row
from tidemill.runtimes.native.state.ordered_groups import GroupVersion, SortKey, WeightedSortKeys

WALKED_ROWS = 32
"""Distance in rows up to which the entries between are read; a row farther away is found by its number."""

SortKeyBound = SortKey | None
OrderValueOf = Callable[[Row], Any]


class FrameReach(ABC):
    """The rows that reach a sort key, and those that are reached from it. A superset is always correct."""

    running = False
    """True if a value depends on all rows before: a change then propagates until another one cancels it."""

    @abstractmethod
    def first_reaching(self, side: GroupVersion, key: SortKey) -> SortKeyBound:
        """The first row that reaches ``key``."""

    @abstractmethod
    def last_reaching(self, side: GroupVersion, key: SortKey) -> SortKeyBound:
        """The last row that reaches ``key``."""

    @abstractmethod
    def first_reached(self, side: GroupVersion, key: SortKey) -> SortKeyBound:
        """The first row that a row at ``key`` reaches."""

    @abstractmethod
    def last_reached(self, side: GroupVersion, key: SortKey) -> SortKeyBound:
        """The last row that a row at ``key`` reaches."""


@dataclass(frozen=True)
class PartitionReach(FrameReach):
    """Every row reaches every other one."""

    def first_reaching(self, side: GroupVersion, key: SortKey) -> SortKeyBound:
        return None

    last_reaching = first_reached = last_reached = first_reaching


@dataclass(frozen=True)
class RowsReach(FrameReach):
    """A row reaches those from ``start`` to ``end`` rows away from it."""

    start: int
    end: int

    def first_reaching(self, side: GroupVersion, key: SortKey) -> SortKeyBound:
        return _rows_before(side, key, self.end)

    def last_reaching(self, side: GroupVersion, key: SortKey) -> SortKeyBound:
        return _rows_after(side, key, -self.start)

    def first_reached(self, side: GroupVersion, key: SortKey) -> SortKeyBound:
        return _rows_before(side, key, -self.start)

    def last_reached(self, side: GroupVersion, key: SortKey) -> SortKeyBound:
        return _rows_after(side, key, self.end)


@dataclass(frozen=True)
class PeerReach(FrameReach):
    """A row reaches the adjacent rows that are linked with it, one to the next: its peers, or its session."""

    linked: Callable[[SortKey, SortKey], bool]

    def first_reaching(self, side: GroupVersion, key: SortKey) -> SortKeyBound:
        return _followed(side.descending(key), key, lambda one, other: self.linked(other, one))

    def last_reaching(self, side: GroupVersion, key: SortKey) -> SortKeyBound:
        return _followed(_after(side, key), key, self.linked)

    first_reached, last_reached = first_reaching, last_reaching


@dataclass(frozen=True)
class RangeReach(FrameReach):
    """A row reaches those whose value of the one term of the order is within an offset of its own."""

    frame: Frame
    order: SortOrder
    value: OrderValueOf

    def first_reaching(self, side: GroupVersion, key: SortKey) -> SortKeyBound:
        here = self._rank(key)
        return _while(side.descending(key), key, lambda row: self._rank(row, self.frame.end) >= here)

    def last_reaching(self, side: GroupVersion, key: SortKey) -> SortKeyBound:
        here = self._rank(key)
        return _while(_after(side, key), key, lambda row: self._rank(row, self.frame.start) <= here)

    def first_reached(self, side: GroupVersion, key: SortKey) -> SortKeyBound:
        start = self._rank(key, self.frame.start)
        return _while(side.descending(key), key, lambda row: self._rank(row) >= start)

    def last_reached(self, side: GroupVersion, key: SortKey) -> SortKeyBound:
        end = self._rank(key, self.frame.end)
        return _while(_after(side, key), key, lambda row: self._rank(row) <= end)

    def _rank(self, key: SortKey, offset: Any = 0) -> Any:
        value = self.value(key[-1])
        return sort_key((moved(value, offset, self.order) if offset else value,), (self.order,))


@dataclass(frozen=True)
class ExactRangeReach(FrameReach):
    """A row reaches those within an offset of its own value, of a type whose sums are exact: found by search.

    ``prefix`` gives the items of a sort key that come from a value of the one term of the order. At an end of the
    calendar, where nothing is farther away, rows read their peers.
    """

    frame: Frame
    order: SortOrder
    value: OrderValueOf
    prefix: Callable[[Any], tuple[Any, ...]]

    def first_reaching(self, side: GroupVersion, key: SortKey) -> SortKeyBound:
        return self._first(side, key, min(-self.frame.end, 0))

    def last_reaching(self, side: GroupVersion, key: SortKey) -> SortKeyBound:
        return self._last(side, key, max(-self.frame.start, 0))

    def first_reached(self, side: GroupVersion, key: SortKey) -> SortKeyBound:
        return self._first(side, key, self.frame.start)

    def last_reached(self, side: GroupVersion, key: SortKey) -> SortKeyBound:
        return self._last(side, key, self.frame.end)

    def _first(self, side: GroupVersion, key: SortKey, offset: Any) -> SortKey:
        """The first entry from the value at ``key`` moved by ``offset`` on, if that is before ``key``."""
        found = next(side.ascending(self._moved(key, offset)), None)
        return key if found is None else min(key, found[0])

    def _last(self, side: GroupVersion, key: SortKey, offset: Any) -> SortKey:
        """The last entry up to that value, if that is after ``key``."""
        rows = side.sums_through(self._moved(key, offset))[0]
        return max(key, side.select(rows - 1)) if rows else key

    def _moved(self, key: SortKey, offset: Any) -> tuple[Any, ...]:
        return self.prefix(moved(self.value(key[-1]), offset, self.order))


@dataclass(frozen=True)
class RunningReach(FrameReach):
    """A row reaches itself and all rows before it, by their sums; with ``peers`` all of its peers, too."""

    peers: PeerReach | None
    running = True

    def first_reaching(self, side: GroupVersion, key: SortKey) -> SortKeyBound:
        return key if self.peers is None else self.peers.first_reaching(side, key)

    def last_reaching(self, side: GroupVersion, key: SortKey) -> SortKeyBound:
        return key if self.peers is None else self.peers.last_reaching(side, key)

    first_reached, last_reached = first_reaching, last_reaching


@dataclass(frozen=True)
class FirstRowReach(FrameReach):
    """Every row reaches the first one of its partition."""

    def first_reaching(self, side: GroupVersion, key: SortKey) -> SortKeyBound:
        return key

    def last_reaching(self, side: GroupVersion, key: SortKey) -> SortKeyBound:
        return key if next(side.descending(key), None) else None

    def first_reached(self, side: GroupVersion, key: SortKey) -> SortKeyBound:
        return key

    last_reached = first_reached


def peers(terms: int) -> PeerReach:
    """Rows that are equal in the first ``terms`` items of their sort keys."""
    return PeerReach(lambda one, other: one[:terms] == other[:terms])


def session(moment_of: Callable[[Row], Any], gap: int) -> PeerReach:
    """Sessions: rows of which each comes at most ``gap`` microseconds after the one before.

    Where rows have gaps of their own it is the longest one: then these are several sessions, perhaps.
    """
    span = timedelta(microseconds=gap)

    def linked(one: SortKey, other: SortKey) -> bool:
        return bool(moment_of(other[-1]) <= moment_of(one[-1]) + span)

    return PeerReach(linked)


def _after(side: GroupVersion, key: SortKey) -> WeightedSortKeys:
    """The entries after ``key``."""
    return (pair for pair in side.ascending(key) if pair[0] != key)


def _rows_before(side: GroupVersion, key: SortKey, rows: int) -> SortKey:
    """The sort key ``rows`` rows before ``key``, or the first one."""
    if rows <= WALKED_ROWS:
        return _rows_on(side.descending(key), key, rows)
    before = side.sums(key)[0]
    return side.select(max(before - rows, 0)) if before else key


def _rows_after(side: GroupVersion, key: SortKey, rows: int) -> SortKey:
    """The sort key ``rows`` rows after ``key``, or the last one."""
    if rows <= WALKED_ROWS:
        return _rows_on(_after(side, key), key, rows)
    until, total = side.sums_through(key)[0], side.sums()[0]
    return side.select(min(until + rows, total) - 1) if until < total else key


def _rows_on(entries: WeightedSortKeys, key: SortKey, rows: int) -> SortKey:
    """The sort key that is ``rows`` rows after ``key`` in ``entries``, or the last one."""
    for at, weight in entries:
        if rows <= 0:
            break
        key = at
        rows -= weight
    return key


def _while(entries: WeightedSortKeys, key: SortKey, holds: Callable[[SortKey], Any]) -> SortKey:
    """The last sort key of the prefix of ``entries`` for which ``holds`` is true."""
    for at, _ in entries:
        if not holds(at):
            break
        key = at
    return key


def _followed(entries: WeightedSortKeys, key: SortKey, linked: Callable[[SortKey, SortKey], Any]) -> SortKey:
    """The last sort key that is linked to ``key`` through a chain of adjacent ones."""
    for at, _ in entries:
        if not linked(key, at):
            break
        key = at
    return key
