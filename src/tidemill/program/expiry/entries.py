"""Expired entries: those of a stored map that no change can reach, by a column with their times and a bound."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tidemill.model.types import Field

Interval = tuple[int, int]
"""The time of an entry, and until when the next one may come that belongs together with it."""


@dataclass(frozen=True, slots=True)
class GroupTail:
    """Entries of each group that stay although they lie before the bound, since a change after it still reads them.

    A group is the entries that are equal in their first ``width`` keys, ``keys`` of the map. Of its entries before the
    bound the first and the last stay, so many different times of them as ``rows`` says, and what lies up to ``span``
    microseconds before the last of these. In a *chain* each entry belongs together with the one before if that begins
    at most ``link`` microseconds earlier: a chain that may go on at the bound stays. ``link`` is constant, or the name
    of a ring value.
    """

    keys: tuple[Field, ...]
    rows: int = 0
    span: int = 0
    link: int | str | None = None

    @property
    def width(self) -> int:
        """The number of keys that name a group."""
        return len(self.keys)

    def kept(self, intervals: Iterable[Interval], below: int) -> tuple[int, int]:
        """Of a group: the time up to which its first entries stay, and the one from which its last ones do.

        >>> GroupTail((), rows=1).kept([(10, 10), (20, 20), (30, 30)], below=100)
        (10, 30)
        >>> GroupTail((), link=5).kept([(10, 15), (20, 25), (24, 29), (40, 45)], below=27)
        (-1, 20)
        """
        before = sorted({one for one in intervals if one[0] < below})
        nothing = (before[0][0] if before else below) - 1
        if self.link is not None:
            return nothing, _chain_start(before, below)
        times = sorted({start for start, _ in before})
        if self.rows >= len(times):
            return nothing, nothing
        return (times[self.rows - 1], times[-self.rows] - self.span) if self.rows else (nothing, below)


def _chain_start(before: list[Interval], below: int) -> int:
    """The first entry of the chain that an entry at ``below`` would be in."""
    start = below
    for at, until in reversed(before):
        if until < start:
            break
        start = at
    return start


@dataclass(frozen=True, slots=True)
class ExpiredEntries:
    """The entries of a stored map that have expired: those whose column ``place`` is less than ``below``.

    That column has partition numbers, or instants in microseconds since 1970; or it is a struct, whose field of that
    name and place is ``part``. With ``ends`` the first and the last of them are kept, and with a ``tail`` some of each
    group.
    """

    map: str
    place: int
    column: str
    below: int
    ends: bool = False
    part: tuple[str, int] | None = None
    tail: GroupTail | None = None

    def __call__(self, row: tuple[Any, ...]) -> bool:
        """True if a row is before the bound."""
        at = self.time_of(row)
        return at is not None and at < self.below

    def time_of(self, row: tuple[Any, ...]) -> int | None:
        """The time of a row, as a number; None if it has none."""
        value = row[self.place]
        if value is not None and self.part is not None:
            value = value[self.part[1]]
        return None if value is None else number_of(value)

    def gone(self, links: Mapping[tuple[Any, ...], int]) -> Iterator[tuple[Any, ...]]:
        """The keys that expire, of those before the bound, which have positive weight.

        A key leads to how many microseconds later the next entry of its chain may begin, or to 0.
        """
        if self.tail is None:
            yield from sorted(links)[1:-1] if self.ends else links
            return
        groups: dict[tuple[Any, ...], dict[tuple[Any, ...], Interval]] = {}
        for key, link in links.items():
            at = self.time_of(key)
            assert at is not None
            groups.setdefault(key[: self.tail.width], {})[key] = at, at + link
        for group in groups.values():
            first, last = self.tail.kept(group.values(), self.below)
            yield from (key for key, (at, _) in group.items() if first < at < last)


def number_of(value: Any) -> int:
    """A partition number as it is, and an instant or a date in microseconds since 1970.

    >>> number_of(7), number_of(datetime(1970, 1, 2))
    (7, 86400000000)
    """
    if isinstance(value, int):
        return value
    moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
    return (moment.replace(tzinfo=None) - _FIRST) // timedelta(microseconds=1)


_FIRST = datetime(1970, 1, 1)
