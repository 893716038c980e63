"""Sessions from sums at instants: those that a change touches are lengthened, joined, shortened or split.

Instants that are new or have other sums are taken in first: they need to know of the sessions around them alone. Those
that have gone are taken out in the order of time, so that the instants after one of them are those that are left and
those that are yet to be taken out.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from datetime import datetime, timedelta
from functools import partial, reduce
from itertools import accumulate, takewhile
from typing import Any, NamedTuple

from tidemill.changes.zset import Row
from tidemill.program.maps import Map
from tidemill.program.stages import SessionEmission
from tidemill.runtimes.native.state import double_sums
from tidemill.runtimes.native.state.journaled_map import JournaledMap
from tidemill.runtimes.native.state.ordered_sums import OrderedSums
from tidemill.runtimes.native.state.ring_map import exact_places

Numbers = tuple[Any, ...]
"""The weight and the ring values of an entry, as the map of sessions has them after the length."""

MICROSECOND = timedelta(microseconds=1)


class SumArithmetic(NamedTuple):
    """Addition of the numbers of entries. ``exact`` says that nothing is rounded, so that sums can be taken back."""

    plus: Callable[[Numbers, Numbers], Numbers]
    minus: Callable[[Numbers, Numbers], Numbers]
    exact: bool


class Move(NamedTuple):
    """An instant whose entry has changed; None stands for no entry of positive weight."""

    at: datetime
    old: Numbers | None
    new: Numbers | None


class SessionStarts:
    """The first instants of sessions in order, by the other keys of their map."""

    def __init__(self) -> None:
        self.of: dict[Row, list[datetime]] = {}

    def fill(self, entries: Iterable[tuple[Row, Any]]) -> None:
        """Add sessions that are new."""
        for key, _ in entries:
            self.of.setdefault(key[:-1], []).append(key[-1])
        for starts in self.of.values():
            starts.sort()

    def move(self, key: Row, old: Any, new: Any) -> None:
        """Add or remove a session."""
        if bool(old) == bool(new):
            return
        starts = self.of.setdefault(key[:-1], [])
        if new:
            insort(starts, key[-1])
            return
        del starts[bisect_left(starts, key[-1])]
        if not starts:
            del self.of[key[:-1]]


class InstantSums:
    """The instants of positive weight in order, with their exact sums, by the other keys of their map."""

    def __init__(self, numbers_of: Callable[[Any], Numbers], zeros: Numbers) -> None:
        self._numbers_of, self._zeros = numbers_of, zeros
        self.of: dict[Row, OrderedSums] = {}

    def fill(self, entries: Iterable[tuple[Row, Any]]) -> None:
        """Add instants that are new."""
        found: dict[Row, list[tuple[datetime, Numbers]]] = {}
        for key, entry in entries:
            if (numbers := self._numbers_of(entry))[0] > 0:
                if key[:-1] in self.of:
                    self.of[key[:-1]].move(key[-1], None, numbers)
                else:
                    found.setdefault(key[:-1], []).append((key[-1], numbers))
        for prefix, instants in found.items():
            self.of[prefix] = OrderedSums(self._zeros)
            self.of[prefix].fill(instants)

    def move(self, key: Row, old: Any, new: Any) -> None:
        """Change the entry of an instant."""
        before, after = self._present(old), self._present(new)
        if before is None and after is None:
            return
        instants = self.of.get(key[:-1])
        if instants is None:
            instants = self.of[key[:-1]] = OrderedSums(self._zeros)
        instants.move(key[-1], before, after)
        if not len(instants):
            del self.of[key[:-1]]

    def _present(self, entry: Any) -> Numbers | None:
        numbers = self._numbers_of(entry) if entry else None
        return None if numbers is None or numbers[0] <= 0 else numbers


def settle_sessions(emission: SessionEmission, maps: Mapping[str, Any], source: Map) -> None:
    """Bring the map of sessions to where the epoch has brought the map of instants.

    It begins with the sessions from before the epoch, so it may run any number of times in one. ``source`` declares
    the map of instants.
    """
    arithmetic = sum_arithmetic(source)
    instants, kept = maps[emission.source], maps[emission.kept]
    kept.rollback()
    moves: dict[Row, list[Move]] = {}
    for key, before, after in instants.touched():
        old, new = _numbers(before), _numbers(after)
        if old != new:
            moves.setdefault(key[:-1], []).append(Move(key[-1], old, new))
    if kept.is_partial:
        kept.fill_groups(moves.keys())
    starts = kept.states("starts", SessionStarts)
    gap = timedelta(microseconds=emission.gap)
    for prefix, found in moves.items():
        _SessionsOfKey(prefix, (instants, kept), starts, gap, arithmetic).take(found)


def _numbers(entry: Any) -> Numbers | None:
    """The numbers of an instant that counts."""
    if entry is None:
        return None
    numbers = entry if isinstance(entry, tuple) else (entry,)
    return numbers if numbers[0] > 0 else None


class _SessionsOfKey:
    """The sessions that are equal in the keys ``prefix``, while the changes of an epoch are taken in."""

    def __init__(
        self,
        prefix: Row,
        maps: tuple[JournaledMap[Any], JournaledMap[Any]],
        starts: SessionStarts,
        gap: timedelta,
        arithmetic: SumArithmetic,
    ) -> None:
        self._prefix, self._starts, self._gap, self._arithmetic = prefix, starts, gap, arithmetic
        self._instants, self._kept = maps
        self._leaving = _Leaving((), arithmetic)

    def take(self, moves: Sequence[Move]) -> None:
        """Take in all changes of an epoch."""
        self._leaving = _Leaving([move for move in moves if move.new is None], self._arithmetic)
        for at, old, new in moves:
            if old is None and new is not None:
                self._enter(at, new)
        for at, old, new in moves:
            if old is not None and new is not None:
                self._change(at, old, new)
        for at, old in self._leaving.each():
            self._leave(at, old)

    # -- one session --------------------------------------------------------------------------------------------

    def _around(self, at: datetime) -> tuple[datetime | None, datetime | None]:
        """The starts of the last session that begins at ``at`` or before, and of the first one after that."""
        starts = self._starts.of.get(self._prefix, ())
        place = bisect_right(starts, at)
        return starts[place - 1] if place else None, starts[place] if place < len(starts) else None

    def _containing(self, at: datetime) -> datetime:
        """The start of the session of an instant."""
        start, _ = self._around(at)
        assert start is not None, "an instant is in a session"
        return start

    def _session(self, start: datetime) -> tuple[datetime, Numbers]:
        """The end of a session, a gap after its last instant, and its sums."""
        weight, length, *sums = self._kept.entries[(*self._prefix, start)]
        return start + timedelta(microseconds=length), (weight, *sums)

    def _set(self, start: datetime, end: datetime, numbers: Numbers) -> None:
        self._kept.set((*self._prefix, start), (numbers[0], (end - start) // MICROSECOND, *numbers[1:]))

    def _remove(self, start: datetime) -> None:
        self._kept.set((*self._prefix, start), None)

    # -- one instant --------------------------------------------------------------------------------------------

    def _enter(self, at: datetime, new: Numbers) -> None:
        """An instant is new: it is in the session before it, in the one after it, in both or in one of its own."""
        plus, start, end = self._arithmetic.plus, at, at + self._gap
        before, after = self._around(at)
        if after is not None and after <= end:
            end, numbers = self._session(after)
            new = plus(new, numbers)
            self._remove(after)
        if before is not None:
            until, numbers = self._session(before)
            if at <= until:
                start, end, new = before, max(end, until), plus(numbers, new)
        self._set(start, end, new)

    def _change(self, at: datetime, old: Numbers, new: Numbers) -> None:
        """An instant has other sums."""
        start = self._containing(at)
        end, numbers = self._session(start)
        if self._arithmetic.exact:
            self._set(start, end, self._arithmetic.plus(self._arithmetic.minus(numbers, old), new))
        else:
            self._set(start, end, self._sum(start, end - self._gap))

    def _leave(self, at: datetime, old: Numbers) -> None:
        """An instant has gone: its session is shorter, falls into two parts, or has gone as well."""
        start = self._containing(at)
        end, numbers = self._session(start)
        last = end - self._gap
        before = None if at == start else self._instant_before(at)
        after = None if at == last else self._instant_after(at)
        if before is None:
            self._remove(start)
            if after is not None:
                self._set(after, end, self._less(numbers, old, after, last))
        elif after is None:
            self._set(start, before + self._gap, self._less(numbers, old, start, before))
        elif after <= before + self._gap:
            self._set(start, end, self._less(numbers, old, start, last))
        else:
            right = self._sum(after, last)
            gone = self._arithmetic.plus(old, right)
            self._set(start, before + self._gap, self._less(numbers, gone, start, before))
            self._set(after, end, right)

    def _less(self, numbers: Numbers, gone: Numbers, first: datetime, last: datetime) -> Numbers:
        """The sums without what has gone, which are those of the instants from ``first`` to ``last``."""
        if self._arithmetic.exact:
            return self._arithmetic.minus(numbers, gone)
        return self._sum(first, last)

    # -- the instants -------------------------------------------------------------------------------------------

    def _ordered(self) -> OrderedSums:
        """The instants that are left after the epoch."""
        held = self._instants
        index = held.states("instants", lambda: InstantSums(held.numbers_of, held.zeros))
        return index.of.get(self._prefix) or OrderedSums(held.zeros)

    def _instant_before(self, at: datetime) -> datetime:
        """The instant before one that is not the first of its session. Those before it have all been taken out."""
        found: datetime = next(self._ordered().descending(at))[0]
        return found

    def _instant_after(self, at: datetime) -> datetime:
        """The instant after one that is not the last of its session."""
        left = next(self._ordered().ascending(at), None)
        leaving = self._leaving.next
        if left is None or (leaving is not None and leaving < left[0]):
            assert leaving is not None
            return leaving
        found: datetime = left[0]
        return found

    def _sum(self, first: datetime, last: datetime) -> Numbers:
        """The sums over the instants from ``first`` to ``last``: those left, and those still to be taken out."""
        leaving = self._leaving.sum(first, last)
        left = self._left_sum(first, last)
        if left is None or leaving is None:
            found = left or leaving
            assert found is not None, "a session has an instant"
            return found
        return self._arithmetic.plus(left, leaving)

    def _left_sum(self, first: datetime, last: datetime) -> Numbers | None:
        ordered = self._ordered()
        if self._arithmetic.exact:
            sums = ordered.between(tuple(range(len(self._instants.zeros))), first, True, last, True)
            return sums if sums[0] else None
        instants = takewhile(lambda at: at <= last, (at for at, _ in ordered.ascending(first)))
        entries: list[Numbers] = [self._instants.entries[(*self._prefix, at)] for at in instants]
        return reduce(self._arithmetic.plus, entries) if entries else None


class _Leaving:
    """The instants that have gone in the order of time, and how many of them have been taken out of their sessions."""

    def __init__(self, moves: Sequence[Move], arithmetic: SumArithmetic) -> None:
        self._moves = sorted(moves, key=_moment)
        self._plus, self._minus, self._exact = arithmetic
        self._done = 0
        self._running: list[Numbers] | None = None

    def each(self) -> Iterator[tuple[datetime, Numbers]]:
        """Each of them with its sums; it counts as taken out from then on."""
        for at, old, _ in self._moves:
            assert old is not None
            self._done += 1
            yield at, old

    @property
    def next(self) -> datetime | None:
        """The first one that is not taken out yet."""
        return self._moves[self._done].at if self._done < len(self._moves) else None

    def sum(self, first: datetime, last: datetime) -> Numbers | None:
        """The sums over those from ``first`` to ``last`` that are not taken out yet; None if there are none."""
        start = bisect_left(self._moves, first, lo=self._done, key=_moment)
        end = bisect_right(self._moves, last, lo=start, key=_moment)
        if start == end:
            return None
        if not self._exact:
            return reduce(self._plus, (move.old for move in self._moves[start:end] if move.old is not None))
        if self._running is None:
            self._running = list(accumulate((move.old for move in self._moves if move.old is not None), self._plus))
        return self._running[end - 1] if not start else self._minus(self._running[end - 1], self._running[start - 1])


def _moment(move: Move) -> datetime:
    return move.at


def sum_arithmetic(map_: Map) -> SumArithmetic:
    """Addition of the entries of ``map_``; a DOUBLE value takes three places."""
    places = exact_places(map_)
    if len(places) == 1 + len(map_.values):
        return SumArithmetic(_plus, _minus, exact=True)
    return SumArithmetic(partial(_plus_with_doubles, frozenset(places)), _minus, exact=False)


def _plus(one: Numbers, other: Numbers) -> Numbers:
    return tuple([a + b for a, b in zip(one, other, strict=True)])


def _minus(one: Numbers, other: Numbers) -> Numbers:
    return tuple([a - b for a, b in zip(one, other, strict=True)])


def _plus_with_doubles(exact: Set[int], one: Numbers, other: Numbers) -> Numbers:
    found: list[Any] = []
    while len(found) < len(one):
        place = len(found)
        if place in exact:
            found.append(one[place] + other[place])
        else:
            found += double_sums.combine(one[place : place + 3], other[place : place + 3])
    return tuple(found)
