"""How far window functions see along their part: so only rows whose value can have changed are computed again.

A *sight* answers two questions about a place of a part. Which rows look at it? When something comes or goes there,
these may have another value. And which rows does a row at that place look at? These must be at hand to compute its
value. None stands for the beginning of the part, or for its end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tidemill.algebra.frames import Frame, moved
from tidemill.algebra.ordering import Order, rank
from tidemill.changes.zset import Row
from tidemill.runtimes.native.piles import Place, Side

Bound = Place | None
Value = Callable[[Row], Any]


class Sight(ABC):
    """The rows that look at a place, and those that are seen from it. Rows more than need be do no harm."""

    running = False
    """Whether values build upon all rows before: a change then goes on until something makes up for it."""

    @abstractmethod
    def first_looking(self, side: Side, place: Place) -> Bound:
        """The first row that looks at ``place``."""

    @abstractmethod
    def last_looking(self, side: Side, place: Place) -> Bound:
        """The last row that looks at ``place``."""

    @abstractmethod
    def first_seen(self, side: Side, place: Place) -> Bound:
        """The first row that a row at ``place`` looks at."""

    @abstractmethod
    def last_seen(self, side: Side, place: Place) -> Bound:
        """The last row that a row at ``place`` looks at."""


@dataclass(frozen=True)
class Whole(Sight):
    """Every row looks at every other one."""

    def first_looking(self, side: Side, place: Place) -> Bound:
        return None

    last_looking = first_seen = last_seen = first_looking


@dataclass(frozen=True)
class Near(Sight):
    """A row looks at those from ``start`` to ``end`` places away from it."""

    start: int
    end: int

    def first_looking(self, side: Side, place: Place) -> Bound:
        return _walked(side.descending(place), place, self.end)

    def last_looking(self, side: Side, place: Place) -> Bound:
        return _walked(_after(side, place), place, -self.start)

    def first_seen(self, side: Side, place: Place) -> Bound:
        return _walked(side.descending(place), place, -self.start)

    def last_seen(self, side: Side, place: Place) -> Bound:
        return _walked(_after(side, place), place, self.end)


@dataclass(frozen=True)
class Linked(Sight):
    """A row looks at those around it that are linked with it, one to the next: its peers, or its session."""

    linked: Callable[[Place, Place], bool]

    def first_looking(self, side: Side, place: Place) -> Bound:
        return _followed(side.descending(place), place, lambda one, other: self.linked(other, one))

    def last_looking(self, side: Side, place: Place) -> Bound:
        return _followed(_after(side, place), place, self.linked)

    first_seen, last_seen = first_looking, last_looking


@dataclass(frozen=True)
class Within(Sight):
    """A row looks at those whose value of the one term of the order is within an offset of its own."""

    frame: Frame
    order: Order
    value: Value

    def first_looking(self, side: Side, place: Place) -> Bound:
        here = self._rank(place)
        return _while(side.descending(place), place, lambda row: self._rank(row, self.frame.end) >= here)

    def last_looking(self, side: Side, place: Place) -> Bound:
        here = self._rank(place)
        return _while(_after(side, place), place, lambda row: self._rank(row, self.frame.start) <= here)

    def first_seen(self, side: Side, place: Place) -> Bound:
        start = self._rank(place, self.frame.start)
        return _while(side.descending(place), place, lambda row: self._rank(row) >= start)

    def last_seen(self, side: Side, place: Place) -> Bound:
        end = self._rank(place, self.frame.end)
        return _while(_after(side, place), place, lambda row: self._rank(row) <= end)

    def _rank(self, place: Place, offset: Any = 0) -> Any:
        value = self.value(place[-1])
        return rank((moved(value, offset, self.order) if offset else value,), (self.order,))


@dataclass(frozen=True)
class Running(Sight):
    """A row looks at itself and all rows before it, of which sums are known; with ``peers`` at all of these, too."""

    peers: Linked | None
    running = True

    def first_looking(self, side: Side, place: Place) -> Bound:
        return place if self.peers is None else self.peers.first_looking(side, place)

    def last_looking(self, side: Side, place: Place) -> Bound:
        return place if self.peers is None else self.peers.last_looking(side, place)

    first_seen, last_seen = first_looking, last_looking


@dataclass(frozen=True)
class Opening(Sight):
    """Every row looks at the first one of its part."""

    def first_looking(self, side: Side, place: Place) -> Bound:
        return place

    def last_looking(self, side: Side, place: Place) -> Bound:
        return place if next(side.descending(place), None) else None

    def first_seen(self, side: Side, place: Place) -> Bound:
        return place

    last_seen = first_seen


def peers(terms: int) -> Linked:
    """Rows that are equal in the first ``terms`` items of their places."""
    return Linked(lambda one, other: one[:terms] == other[:terms])


def session(looks: Callable[[Row], Any]) -> Linked:
    """Rows of which each comes no later than a gap after the one before; ``looks`` gives moment and gap of a row."""

    def linked(one: Place, other: Place) -> bool:
        (moment, gap), (later, _) = looks(one[-1]), looks(other[-1])
        return bool(later <= moment + timedelta(microseconds=gap))

    return Linked(linked)


Entries = Iterator[tuple[Place, int]]


def _after(side: Side, place: Place) -> Entries:
    """The entries behind ``place``."""
    return (pair for pair in side.ascending(place) if pair[0] != place)


def _walked(entries: Entries, place: Place, rows: int) -> Place:
    """The place so many rows on from ``place``, or the last one on the way."""
    for at, weight in entries:
        if rows <= 0:
            break
        place = at
        rows -= weight
    return place


def _while(entries: Entries, place: Place, holds: Callable[[Place], Any]) -> Place:
    """The last place on the way up to which all hold."""
    for at, _ in entries:
        if not holds(at):
            break
        place = at
    return place


def _followed(entries: Entries, place: Place, linked: Callable[[Place, Place], Any]) -> Place:
    """The last place on the way that is linked with the one before it, and that with ``place``."""
    for at, _ in entries:
        if not linked(place, at):
            break
        place = at
    return place
