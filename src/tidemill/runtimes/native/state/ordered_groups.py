"""The entries of a map by their first keys, and in order under each: what bags and parts are read from.

Entries that share their first keys are a *pile*. How a pile was before the epoch is how it is now, but for the entries
of the journal: so both *sides* of an epoch are there at once, and nothing is copied.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import merge
from itertools import accumulate
from operator import itemgetter
from typing import Any

from tidemill.changes.zset import Row
from tidemill.runtimes.native.state.ordered_sums import OrderedSums, WeightAndSums

SortKey = tuple[Any, ...]
"""Where an entry stands: a tuple that sorts as its pile does, with the key of the entry as its last item."""

SortKeyOf = Callable[[Row], SortKey]

AddendsOf = Callable[[Row], WeightAndSums]
"""What an entry of weight 1 adds to the sums of its pile."""

WeightedSortKeys = Iterator[tuple[SortKey, int]]
"""Entries in order, each with its weight."""

WeightChange = tuple[Row, int | None, int | None]
"""The key of an entry that an epoch has touched, and its weight before and now."""

ChangedSortKey = tuple[SortKey, WeightAndSums, WeightAndSums]
"""A place at which an epoch has changed something, and the numbers there before and now."""

SMALL = 64
"""A pile of so few entries is one list: most are small, and blocks of entries take room and time."""


class SmallOrderedSums:
    """A few entries in order, with the numbers of each. It answers as ``OrderedSums`` does."""

    __slots__ = ("_pairs", "_zeros")

    def __init__(self, zeros: WeightAndSums) -> None:
        self._pairs: list[tuple[SortKey, WeightAndSums]] = []
        self._zeros = zeros

    def __len__(self) -> int:
        return len(self._pairs)

    def fill(self, pairs: Iterable[tuple[SortKey, WeightAndSums]]) -> None:
        """Take in entries while there are none yet."""
        self._pairs = sorted(pairs, key=_sort_key)

    def move(self, place: SortKey, old: WeightAndSums | None, new: WeightAndSums | None) -> None:
        """Let an entry have other numbers; None where it is none."""
        at = bisect_left(self._pairs, place, key=_sort_key)
        if old is not None:
            del self._pairs[at]
        if new is not None:
            self._pairs.insert(at, (place, new))

    def all(self) -> list[tuple[SortKey, WeightAndSums]]:
        """Every entry, in order."""
        return self._pairs

    def ascending(self, lower: SortKey | None = None) -> WeightedSortKeys:
        """Every entry that does not stand before ``lower``, in order."""
        start = 0 if lower is None else bisect_left(self._pairs, lower, key=_sort_key)
        return ((place, numbers[0]) for place, numbers in self._pairs[start:])

    def descending(self, upper: SortKey | None = None) -> WeightedSortKeys:
        """Every entry that stands before ``upper``, the last one first."""
        end = len(self._pairs) if upper is None else bisect_left(self._pairs, upper, key=_sort_key)
        return ((place, numbers[0]) for place, numbers in reversed(self._pairs[:end]))

    def select(self, count: int) -> SortKey:
        """The place of the row that has ``count`` rows before it."""
        for place, numbers in self._pairs:
            count -= numbers[0]
            if count < 0:
                return place
        raise IndexError("there are not so many rows")

    def before(self, upper: SortKey | None) -> WeightAndSums:
        """The sums over the entries that stand before ``upper``; over all where it is None."""
        end = len(self._pairs) if upper is None else bisect_left(self._pairs, upper, key=_sort_key)
        columns = zip(self._zeros, *(numbers for _, numbers in self._pairs[:end]), strict=True)
        return tuple([sum(rest, zero) for zero, *rest in columns])


_sort_key: Callable[[tuple[SortKey, WeightAndSums]], SortKey] = itemgetter(0)
GroupEntries = SmallOrderedSums | OrderedSums


class OrderedGroupIndex:
    """Follows a map without values. NULLs among the first ``width`` keys are equal, as in a GROUP BY.

    Entries of negative weight are left out: a row that has left before it came is nowhere yet. ``amounts_of`` says
    what is summed beside the weights, and ``zeros`` are the sums of nothing.
    """

    def __init__(
        self, width: int, place_of: SortKeyOf, amounts_of: AddendsOf | None = None, zeros: WeightAndSums = ()
    ) -> None:
        self._width = width
        self._place_of = place_of
        self._amounts_of = amounts_of
        self._zeros = (0, *zeros)
        self._piles: dict[Row, GroupEntries] = {}

    def fill(self, entries: Iterable[tuple[Row, int]]) -> None:
        """Take in entries that are not there yet."""
        found: dict[Row, list[tuple[SortKey, WeightAndSums]]] = {}
        for key, weight in entries:
            numbers = self._numbers(key, weight)
            if numbers is not None:
                found.setdefault(key[: self._width], []).append((self._place_of(key), numbers))
        for prefix, pairs in found.items():
            if prefix in self._piles:
                for place, numbers in pairs:
                    self._move(prefix, place, None, numbers)
            else:
                pile: GroupEntries = SmallOrderedSums(self._zeros) if len(pairs) <= SMALL else OrderedSums(self._zeros)
                pile.fill(pairs)
                self._piles[prefix] = pile

    def move(self, key: Row, old: int | None, new: int | None) -> None:
        """Let an entry have another weight."""
        before, after = self._numbers(key, old), self._numbers(key, new)
        if before is not None or after is not None:
            self._move(key[: self._width], self._place_of(key), before, after)

    def _move(self, prefix: Row, place: SortKey, old: WeightAndSums | None, new: WeightAndSums | None) -> None:
        pile = self._piles.get(prefix)
        if pile is None:
            pile = self._piles[prefix] = SmallOrderedSums(self._zeros)
        pile.move(place, old, new)
        if not len(pile):
            del self._piles[prefix]
        elif isinstance(pile, SmallOrderedSums) and len(pile) > SMALL:
            larger = self._piles[prefix] = OrderedSums(self._zeros)
            larger.fill(pile.all())

    def _numbers(self, key: Row, weight: int | None) -> WeightAndSums | None:
        if weight is None or weight <= 0:
            return None
        if self._amounts_of is None:
            return (weight,)
        amounts = self._amounts_of(key)
        return (weight, *(amounts if weight == 1 else [amount * weight for amount in amounts]))

    def moved(self, touched: Iterable[WeightChange]) -> Iterator[tuple[Row, OrderedGroup]]:
        """The piles in which an epoch has touched something, given what it has touched."""
        found: dict[Row, list[WeightChange]] = {}
        for move in touched:
            found.setdefault(move[0][: self._width], []).append(move)
        return ((prefix, self.pile(prefix, moves)) for prefix, moves in found.items())

    def all(self) -> Iterator[OrderedGroup]:
        """Every pile, as it is."""
        return (self.pile(prefix) for prefix in list(self._piles))

    def pile(self, prefix: Row, moves: Sequence[WeightChange] = ()) -> OrderedGroup:
        """The pile under ``prefix``, and what an epoch has done to it."""
        touched = [(self._place_of(key), self._numbers(key, old), self._numbers(key, new)) for key, old, new in moves]
        changed = sorted((place, old or self._zeros, new or self._zeros) for place, old, new in touched if old != new)
        return OrderedGroup(self._piles.get(prefix) or SmallOrderedSums(self._zeros), changed)


class GroupVersion(ABC):
    """A pile before the epoch or after it."""

    @abstractmethod
    def ascending(self, lower: SortKey | None = None) -> WeightedSortKeys:
        """The entries that do not stand before ``lower``, in order."""

    @abstractmethod
    def descending(self, upper: SortKey | None = None) -> WeightedSortKeys:
        """The entries that stand before ``upper``, the last one first."""

    @abstractmethod
    def sums(self, upper: SortKey | None = None) -> WeightAndSums:
        """The weight and the sums of all entries that stand before ``upper``."""

    @abstractmethod
    def select(self, count: int) -> SortKey:
        """The place of the row that has ``count`` rows before it; there must be more than so many."""


class NewGroup(GroupVersion):
    """A pile as it is."""

    def __init__(self, entries: GroupEntries) -> None:
        self._entries = entries

    def ascending(self, lower: SortKey | None = None) -> WeightedSortKeys:
        return self._entries.ascending(lower)

    def descending(self, upper: SortKey | None = None) -> WeightedSortKeys:
        return self._entries.descending(upper)

    def sums(self, upper: SortKey | None = None) -> WeightAndSums:
        return self._entries.before(upper)

    def select(self, count: int) -> SortKey:
        place: SortKey = self._entries.select(count)
        return place


class OldGroup(GroupVersion):
    """A pile as it was: as it is, but for the entries that were touched, of which there are few."""

    def __init__(self, entries: GroupEntries, changed: Sequence[ChangedSortKey]) -> None:
        self._now = entries
        self._places = [place for place, _, _ in changed]
        self._touched = {place[-1] for place in self._places}
        self._gone = [(place, old[0]) for place, old, _ in changed if old[0]]
        moves = ([o - n for o, n in zip(old, new, strict=True)] for _, old, new in changed)
        self._back: list[list[Any]] = list(accumulate(moves, _added, initial=[]))

    def ascending(self, lower: SortKey | None = None) -> WeightedSortKeys:
        start = 0 if lower is None else bisect_left(self._gone, lower, key=itemgetter(0))
        gone = (self._gone[at] for at in range(start, len(self._gone)))
        return merge(self._untouched(self._now.ascending(lower)), gone)

    def descending(self, upper: SortKey | None = None) -> WeightedSortKeys:
        end = len(self._gone) if upper is None else bisect_left(self._gone, upper, key=itemgetter(0))
        gone = (self._gone[at] for at in range(end - 1, -1, -1))
        return merge(self._untouched(self._now.descending(upper)), gone, reverse=True)

    def _untouched(self, entries: WeightedSortKeys) -> WeightedSortKeys:
        return (pair for pair in entries if pair[0][-1] not in self._touched)

    def sums(self, upper: SortKey | None = None) -> WeightAndSums:
        changed = len(self._places) if upper is None else bisect_left(self._places, upper)
        now, back = self._now.before(upper), self._back[changed]
        return tuple([n + b for n, b in zip(now, back, strict=True)]) if back else now

    def select(self, count: int) -> SortKey:
        # Between two changed places both sides have the same entries; only what comes before has another weight.
        changed = bisect_right(self._places, count, key=lambda place: self.sums(place)[0])
        if changed:
            place = self._places[changed - 1]
            if count < self.sums(place)[0] + self._weight(place):
                return place
        back = self._back[changed]
        found: SortKey = self._now.select(count - back[0] if back else count)
        return found

    def _weight(self, place: SortKey) -> int:
        at = bisect_left(self._gone, place, key=itemgetter(0))
        return self._gone[at][1] if at < len(self._gone) and self._gone[at][0] == place else 0


def _added(total: list[Any], move: list[Any]) -> list[Any]:
    return [t + m for t, m in zip(total, move, strict=True)] if total else move


class OrderedGroup:
    """Both sides of a pile. ``changed`` are the places at which they differ, with the numbers before and now."""

    def __init__(self, entries: GroupEntries, changed: Sequence[ChangedSortKey]) -> None:
        self.changed = changed
        self.now: GroupVersion = NewGroup(entries)
        self.before: GroupVersion = OldGroup(entries, changed) if changed else self.now
