"""Ordered groups: the entries of a map by their first keys, ordered within each group, for multisets and partitions.

A group before the epoch differs from the group after it only in the entries of the journal: so both versions are
available at once, without a copy.
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
"""The position of an entry in its group: a tuple that sorts as the group does; its last item is the entry's key."""

SortKeyOf = Callable[[Row], SortKey]

AddendsOf = Callable[[Row], WeightAndSums]
"""The addends of an entry of weight 1 to the sums of its group."""

WeightedSortKeys = Iterator[tuple[SortKey, int]]
"""Entries in order, each with its weight."""

WeightChange = tuple[Row, int | None, int | None]
"""The key of an entry that an epoch has touched, and its weight before and now."""

ChangedSortKey = tuple[SortKey, WeightAndSums, WeightAndSums]
"""A sort key at which an epoch has changed something, and the numbers there before and after."""

LIST_LIMIT = 64
"""Size up to which a group is one list: most are small, and blocks of entries take space and time."""


class SmallOrderedSums:
    """A few entries in order, with the numbers of each. Has the interface of ``OrderedSums``."""

    __slots__ = ("_pairs", "_zeros")

    def __init__(self, zeros: WeightAndSums) -> None:
        self._pairs: list[tuple[SortKey, WeightAndSums]] = []
        self._zeros = zeros

    def __len__(self) -> int:
        return len(self._pairs)

    def fill(self, pairs: Iterable[tuple[SortKey, WeightAndSums]]) -> None:
        """Add entries to an empty group."""
        self._pairs = sorted(pairs, key=_sort_key)

    def move(self, sort_key: SortKey, old: WeightAndSums | None, new: WeightAndSums | None) -> None:
        """Change the numbers of an entry; None stands for no entry."""
        at = bisect_left(self._pairs, sort_key, key=_sort_key)
        if old is not None:
            del self._pairs[at]
        if new is not None:
            self._pairs.insert(at, (sort_key, new))

    def all(self) -> list[tuple[SortKey, WeightAndSums]]:
        """Every entry, in order."""
        return self._pairs

    def ascending(self, lower: SortKey | None = None) -> WeightedSortKeys:
        """Every entry from ``lower`` on, in order."""
        start = 0 if lower is None else bisect_left(self._pairs, lower, key=_sort_key)
        return ((sort_key, numbers[0]) for sort_key, numbers in self._pairs[start:])

    def descending(self, upper: SortKey | None = None) -> WeightedSortKeys:
        """Every entry before ``upper``, the last one first."""
        end = len(self._pairs) if upper is None else bisect_left(self._pairs, upper, key=_sort_key)
        return ((sort_key, numbers[0]) for sort_key, numbers in reversed(self._pairs[:end]))

    def select(self, count: int) -> SortKey:
        """The sort key of the row that has ``count`` rows before it."""
        for sort_key, numbers in self._pairs:
            count -= numbers[0]
            if count < 0:
                return sort_key
        raise IndexError("row number out of range")

    def before(self, upper: SortKey | None) -> WeightAndSums:
        """The sums over the entries before ``upper``; over all if it is None."""
        return self._first(len(self._pairs) if upper is None else bisect_left(self._pairs, upper, key=_sort_key))

    def through(self, prefix: tuple[Any, ...]) -> WeightAndSums:
        """The sums over the entries whose sort keys begin with at most ``prefix``."""
        width = len(prefix)
        return self._first(bisect_right(self._pairs, prefix, key=lambda pair: pair[0][:width]))

    def _first(self, end: int) -> WeightAndSums:
        columns = zip(self._zeros, *(numbers for _, numbers in self._pairs[:end]), strict=True)
        return tuple([sum(rest, zero) for zero, *rest in columns])


_sort_key: Callable[[tuple[SortKey, WeightAndSums]], SortKey] = itemgetter(0)
GroupEntries = SmallOrderedSums | OrderedSums


class OrderedGroupIndex:
    """Observes a map without values. NULLs among the first ``width`` keys are equal, as in a GROUP BY.

    Entries of negative weight are left out: a row deleted before it is inserted is in no group yet. ``addends_of``
    gives the amounts that are summed besides the weights, and ``zeros`` are the sums of nothing.
    """

    def __init__(
        self, width: int, sort_key_of: SortKeyOf, addends_of: AddendsOf | None = None, zeros: WeightAndSums = ()
    ) -> None:
        self._width = width
        self._sort_key_of = sort_key_of
        self._addends_of = addends_of
        self._zeros = (0, *zeros)
        self._groups: dict[Row, GroupEntries] = {}

    def fill(self, entries: Iterable[tuple[Row, int]]) -> None:
        """Add entries that are new."""
        found: dict[Row, list[tuple[SortKey, WeightAndSums]]] = {}
        for key, weight in entries:
            numbers = self._numbers(key, weight)
            if numbers is not None:
                found.setdefault(key[: self._width], []).append((self._sort_key_of(key), numbers))
        for prefix, pairs in found.items():
            if prefix in self._groups:
                for sort_key, numbers in pairs:
                    self._move(prefix, sort_key, None, numbers)
            else:
                group: GroupEntries = (
                    SmallOrderedSums(self._zeros) if len(pairs) <= LIST_LIMIT else OrderedSums(self._zeros)
                )
                group.fill(pairs)
                self._groups[prefix] = group

    def move(self, key: Row, old: int | None, new: int | None) -> None:
        """Change the weight of an entry."""
        before, after = self._numbers(key, old), self._numbers(key, new)
        if before is not None or after is not None:
            self._move(key[: self._width], self._sort_key_of(key), before, after)

    def _move(self, prefix: Row, sort_key: SortKey, old: WeightAndSums | None, new: WeightAndSums | None) -> None:
        group = self._groups.get(prefix)
        if group is None:
            group = self._groups[prefix] = SmallOrderedSums(self._zeros)
        group.move(sort_key, old, new)
        if not len(group):
            del self._groups[prefix]
        elif isinstance(group, SmallOrderedSums) and len(group) > LIST_LIMIT:
            larger = self._groups[prefix] = OrderedSums(self._zeros)
            larger.fill(group.all())

    def _numbers(self, key: Row, weight: int | None) -> WeightAndSums | None:
        if weight is None or weight <= 0:
            return None
        if self._addends_of is None:
            return (weight,)
        amounts = self._addends_of(key)
        return (weight, *(amounts if weight == 1 else [amount * weight for amount in amounts]))

    def end(self, prefix: Row, *, least: bool) -> SortKey | None:
        """The least or greatest sort key of a group; None if it is empty."""
        group = self._groups.get(prefix)
        found = None if group is None else next(group.ascending() if least else group.descending(), None)
        return None if found is None else found[0]

    def changed_groups(self, touched: Iterable[WeightChange]) -> Iterator[tuple[Row, OrderedGroup]]:
        """The groups that an epoch has touched, given the changed weights."""
        found: dict[Row, list[WeightChange]] = {}
        for move in touched:
            found.setdefault(move[0][: self._width], []).append(move)
        return ((prefix, self.group(prefix, moves)) for prefix, moves in found.items())

    def all(self) -> Iterator[OrderedGroup]:
        """Every group in its current version."""
        return (self.group(prefix) for prefix in list(self._groups))

    def group(self, prefix: Row, moves: Sequence[WeightChange] = ()) -> OrderedGroup:
        """The group under ``prefix``, before and after these changes."""
        touched = [
            (self._sort_key_of(key), self._numbers(key, old), self._numbers(key, new)) for key, old, new in moves
        ]
        changed = sorted(
            (sort_key, old or self._zeros, new or self._zeros) for sort_key, old, new in touched if old != new
        )
        return OrderedGroup(self._groups.get(prefix) or SmallOrderedSums(self._zeros), changed)


class GroupVersion(ABC):
    """A group before the epoch or after it."""

    @abstractmethod
    def ascending(self, lower: SortKey | None = None) -> WeightedSortKeys:
        """The entries from ``lower`` on, in order."""

    @abstractmethod
    def descending(self, upper: SortKey | None = None) -> WeightedSortKeys:
        """The entries before ``upper``, the last one first."""

    @abstractmethod
    def sums(self, upper: SortKey | None = None) -> WeightAndSums:
        """The weight and the sums of all entries before ``upper``."""

    @abstractmethod
    def sums_through(self, prefix: tuple[Any, ...]) -> WeightAndSums:
        """The weight and the sums of all entries whose sort keys begin with at most ``prefix``."""

    @abstractmethod
    def select(self, count: int) -> SortKey:
        """The sort key of the row that has ``count`` rows before it; there must be more than ``count``."""


class NewGroup(GroupVersion):
    """The current version of a group."""

    def __init__(self, entries: GroupEntries) -> None:
        self._entries = entries

    def ascending(self, lower: SortKey | None = None) -> WeightedSortKeys:
        return self._entries.ascending(lower)

    def descending(self, upper: SortKey | None = None) -> WeightedSortKeys:
        return self._entries.descending(upper)

    def sums(self, upper: SortKey | None = None) -> WeightAndSums:
        return self._entries.before(upper)

    def sums_through(self, prefix: tuple[Any, ...]) -> WeightAndSums:
        return self._entries.through(prefix)

    def select(self, count: int) -> SortKey:
        sort_key: SortKey = self._entries.select(count)
        return sort_key


class OldGroup(GroupVersion):
    """A group before the epoch: the current version with the few touched entries reverted."""

    def __init__(self, entries: GroupEntries, changed: Sequence[ChangedSortKey]) -> None:
        self._now = entries
        self._sort_keys = [sort_key for sort_key, _, _ in changed]
        self._touched = {sort_key[-1] for sort_key in self._sort_keys}
        self._gone = [(sort_key, old[0]) for sort_key, old, _ in changed if old[0]]
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
        changed = len(self._sort_keys) if upper is None else bisect_left(self._sort_keys, upper)
        return self._reverted(self._now.before(upper), changed)

    def sums_through(self, prefix: tuple[Any, ...]) -> WeightAndSums:
        width = len(prefix)
        changed = bisect_right(self._sort_keys, prefix, key=lambda sort_key: sort_key[:width])
        return self._reverted(self._now.through(prefix), changed)

    def _reverted(self, now: WeightAndSums, changed: int) -> WeightAndSums:
        """The sums before the epoch, given those after it and how many changed entries are among them."""
        back = self._back[changed]
        return tuple([n + b for n, b in zip(now, back, strict=True)]) if back else now

    def select(self, count: int) -> SortKey:
        # Between two changed sort keys both versions have the same entries; only the sums before them differ.
        changed = bisect_right(self._sort_keys, count, key=lambda sort_key: self.sums(sort_key)[0])
        if changed:
            sort_key = self._sort_keys[changed - 1]
            if count < self.sums(sort_key)[0] + self._weight(sort_key):
                return sort_key
        back = self._back[changed]
        found: SortKey = self._now.select(count - back[0] if back else count)
        return found

    def _weight(self, sort_key: SortKey) -> int:
        at = bisect_left(self._gone, sort_key, key=itemgetter(0))
        return self._gone[at][1] if at < len(self._gone) and self._gone[at][0] == sort_key else 0


def _added(total: list[Any], move: list[Any]) -> list[Any]:
    return [t + m for t, m in zip(total, move, strict=True)] if total else move


class OrderedGroup:
    """Both versions of a group. ``changed`` are the sort keys at which they differ, with the old and new numbers."""

    def __init__(self, entries: GroupEntries, changed: Sequence[ChangedSortKey]) -> None:
        self.changed = changed
        self.new: GroupVersion = NewGroup(entries)
        self.old: GroupVersion = OldGroup(entries, changed) if changed else self.new
