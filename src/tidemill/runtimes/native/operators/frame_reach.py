"""How far window functions see along their part: so only rows whose value can have changed are computed again.

A *sight* answers two questions about a place of a part. Which rows look at it? When something comes or goes there,
these may have another value. And which rows does a row at that place look at? These must be at hand to compute its
value. None stands for the beginning of the part, or for its end.
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

SortKeyBound = SortKey | None
OrderValueOf = Callable[[Row], Any]


class FrameReach(ABC):
    """The rows that look at a place, and those that are seen from it. Rows more than need be do no harm."""

    running = False
    """Whether values build upon all rows before: a change then goes on until something makes up for it."""

    @abstractmethod
    def first_reaching(self, side: GroupVersion, place: SortKey) -> SortKeyBound:
        """The first row that looks at ``place``."""

    @abstractmethod
    def last_reaching(self, side: GroupVersion, place: SortKey) -> SortKeyBound:
        """The last row that looks at ``place``."""

    @abstractmethod
    def first_reached(self, side: GroupVersion, place: SortKey) -> SortKeyBound:
        """The first row that a row at ``place`` looks at."""

    @abstractmethod
    def last_reached(self, side: GroupVersion, place: SortKey) -> SortKeyBound:
        """The last row that a row at ``place`` looks at."""


@dataclass(frozen=True)
class PartitionReach(FrameReach):
    """Every row looks at every other one."""

    def first_reaching(self, side: GroupVersion, place: SortKey) -> SortKeyBound:
        return None

    last_reaching = first_reached = last_reached = first_reaching


@dataclass(frozen=True)
class RowsReach(FrameReach):
    """A row looks at those from ``start`` to ``end`` places away from it."""

    start: int
    end: int

    def first_reaching(self, side: GroupVersion, place: SortKey) -> SortKeyBound:
        return _rows_on(side.descending(place), place, self.end)

    def last_reaching(self, side: GroupVersion, place: SortKey) -> SortKeyBound:
        return _rows_on(_after(side, place), place, -self.start)

    def first_reached(self, side: GroupVersion, place: SortKey) -> SortKeyBound:
        return _rows_on(side.descending(place), place, -self.start)

    def last_reached(self, side: GroupVersion, place: SortKey) -> SortKeyBound:
        return _rows_on(_after(side, place), place, self.end)


@dataclass(frozen=True)
class PeerReach(FrameReach):
    """A row looks at those around it that are linked with it, one to the next: its peers, or its session."""

    linked: Callable[[SortKey, SortKey], bool]

    def first_reaching(self, side: GroupVersion, place: SortKey) -> SortKeyBound:
        return _followed(side.descending(place), place, lambda one, other: self.linked(other, one))

    def last_reaching(self, side: GroupVersion, place: SortKey) -> SortKeyBound:
        return _followed(_after(side, place), place, self.linked)

    first_reached, last_reached = first_reaching, last_reaching


@dataclass(frozen=True)
class RangeReach(FrameReach):
    """A row looks at those whose value of the one term of the order is within an offset of its own."""

    frame: Frame
    order: SortOrder
    value: OrderValueOf

    def first_reaching(self, side: GroupVersion, place: SortKey) -> SortKeyBound:
        here = self._rank(place)
        return _while(side.descending(place), place, lambda row: self._rank(row, self.frame.end) >= here)

    def last_reaching(self, side: GroupVersion, place: SortKey) -> SortKeyBound:
        here = self._rank(place)
        return _while(_after(side, place), place, lambda row: self._rank(row, self.frame.start) <= here)

    def first_reached(self, side: GroupVersion, place: SortKey) -> SortKeyBound:
        start = self._rank(place, self.frame.start)
        return _while(side.descending(place), place, lambda row: self._rank(row) >= start)

    def last_reached(self, side: GroupVersion, place: SortKey) -> SortKeyBound:
        end = self._rank(place, self.frame.end)
        return _while(_after(side, place), place, lambda row: self._rank(row) <= end)

    def _rank(self, place: SortKey, offset: Any = 0) -> Any:
        value = self.value(place[-1])
        return sort_key((moved(value, offset, self.order) if offset else value,), (self.order,))


@dataclass(frozen=True)
class RunningReach(FrameReach):
    """A row looks at itself and all rows before it, of which sums are known; with ``peers`` at all of these, too."""

    peers: PeerReach | None
    running = True

    def first_reaching(self, side: GroupVersion, place: SortKey) -> SortKeyBound:
        return place if self.peers is None else self.peers.first_reaching(side, place)

    def last_reaching(self, side: GroupVersion, place: SortKey) -> SortKeyBound:
        return place if self.peers is None else self.peers.last_reaching(side, place)

    first_reached, last_reached = first_reaching, last_reaching


@dataclass(frozen=True)
class FirstRowReach(FrameReach):
    """Every row looks at the first one of its part."""

    def first_reaching(self, side: GroupVersion, place: SortKey) -> SortKeyBound:
        return place

    def last_reaching(self, side: GroupVersion, place: SortKey) -> SortKeyBound:
        return place if next(side.descending(place), None) else None

    def first_reached(self, side: GroupVersion, place: SortKey) -> SortKeyBound:
        return place

    last_reached = first_reached


def peers(terms: int) -> PeerReach:
    """Rows that are equal in the first ``terms`` items of their places."""
    return PeerReach(lambda one, other: one[:terms] == other[:terms])


def session(looks: Callable[[Row], Any]) -> PeerReach:
    """Rows of which each comes no later than a gap after the one before; ``looks`` gives moment and gap of a row."""

    def linked(one: SortKey, other: SortKey) -> bool:
        (moment, gap), (later, _) = looks(one[-1]), looks(other[-1])
        return bool(later <= moment + timedelta(microseconds=gap))

    return PeerReach(linked)


def _after(side: GroupVersion, place: SortKey) -> WeightedSortKeys:
    """The entries behind ``place``."""
    return (pair for pair in side.ascending(place) if pair[0] != place)


def _rows_on(entries: WeightedSortKeys, place: SortKey, rows: int) -> SortKey:
    """The place so many rows on from ``place``, or the last one on the way."""
    for at, weight in entries:
        if rows <= 0:
            break
        place = at
        rows -= weight
    return place


def _while(entries: WeightedSortKeys, place: SortKey, holds: Callable[[SortKey], Any]) -> SortKey:
    """The last place on the way up to which all hold."""
    for at, _ in entries:
        if not holds(at):
            break
        place = at
    return place


def _followed(entries: WeightedSortKeys, place: SortKey, linked: Callable[[SortKey, SortKey], Any]) -> SortKey:
    """The last place on the way that is linked with the one before it, and that with ``place``."""
    for at, _ in entries:
        if not linked(place, at):
            break
        place = at
    return place
