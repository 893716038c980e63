"""Sums over ranges: the entries of a map ordered by one key column, in blocks that have sums.

Entries are in blocks of about the square root of their number, and each block has its sums. A range sum adds up whole
blocks and parts of two; a seek adds up blocks until its condition changes and then searches one: both visit O(sqrt n)
numbers, and Python's ``sum`` over a list runs at the speed of C. Inserting or deleting an entry changes one block.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, islice
from math import isqrt
from operator import itemgetter
from typing import Any

from tidemill.changes.arrow import NAN
from tidemill.changes.zset import Row

MIN_BLOCK = 32
"""Length at which a block is split: summing a few more numbers costs less than a search."""

WeightAndSums = tuple[Any, ...]
"""A weight and sums."""

SumPositions = tuple[int, ...]
"""Positions of the numbers that are summed: 0 is the weight."""

SumCondition = Callable[..., Any]
"""Takes the requested numbers as arguments; any false value counts as false."""


class OrderedSums:
    """Numbers by key, in the order of the keys. ``zeros`` are the numbers of nothing.

    >>> bids = OrderedSums((0, 0))
    >>> for price, volume in ((10, 5), (12, 1), (11, 4)):
    ...     bids.move(price, (0, 0), (1, volume))
    >>> bids.between((0, 1), 11, False, None, False), bids.between((1,), 10, True, 12, False)
    ((1, 1), (9,))
    >>> bids.first((1,), lambda volume: volume <= 4), bids.last((1,), lambda volume: volume <= 4)
    (11, 10)
    """

    def __init__(self, zeros: WeightAndSums) -> None:
        self._zeros = zeros
        self._lasts: list[Any] = []
        self._blocks: list[_SumBlock] = []
        # The sums of the blocks, a list for each number: contiguous, because they are added up most.
        self._sums: list[list[Any]] = [[] for _ in zeros]
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def fill(self, numbers: Iterable[tuple[Any, WeightAndSums]]) -> None:
        """Add the numbers of many keys to an empty structure."""
        entries = sorted(numbers, key=itemgetter(0))
        self._size = len(entries)
        length = max(MIN_BLOCK, isqrt(self._size))
        for start in range(0, self._size, length):
            keys, rows = zip(*entries[start : start + length], strict=True)
            self._insert_block(
                len(self._blocks), _SumBlock(list(keys), [list(column) for column in zip(*rows, strict=True)])
            )

    def move(self, key: Any, old: WeightAndSums | None, new: WeightAndSums | None) -> None:
        """Change the numbers of ``key`` from ``old`` to ``new``; None stands for no entry."""
        at = min(bisect_left(self._lasts, key), len(self._blocks) - 1)
        if at < 0:
            self._insert_block(0, _SumBlock([], [[] for _ in self._zeros]))
            at = 0
        block = self._blocks[at]
        before, after = old or self._zeros, new or self._zeros
        change = [n - o for n, o in zip(after, before, strict=True)]
        self._size += block.add(key, change, leaves=new is None)
        for sums, number in zip(self._sums, change, strict=True):
            sums[at] += number
        if not block.keys:
            self._remove_block(at)
            return
        self._lasts[at] = block.keys[-1]
        self._balance(at)

    def between(
        self, numbers: SumPositions, lower: Any, lower_closed: bool, upper: Any, upper_closed: bool
    ) -> WeightAndSums:
        """The sums over the keys from ``lower`` to ``upper``; None stands for no bound."""
        first = self._place(lower, not lower_closed) if lower is not None else (0, 0)
        last = self._place(upper, upper_closed) if upper is not None else (len(self._blocks), 0)
        if first >= last:
            return tuple([self._zeros[number] for number in numbers])
        return tuple([self._sum(number, first, last) for number in numbers])

    def before(self, upper: Any) -> WeightAndSums:
        """The sums of all numbers over the keys less than ``upper``; over all keys if it is None."""
        return self.between(tuple(range(len(self._zeros))), None, False, upper, False)

    def through(self, prefix: tuple[Any, ...]) -> WeightAndSums:
        """The sums of all numbers over the keys, tuples, whose first items are at most ``prefix``.

        >>> pairs = OrderedSums((0,))
        >>> pairs.fill([((1, "a"), (1,)), ((2, "b"), (1,)), ((2, "c"), (1,)), ((3, "d"), (1,))])
        >>> pairs.through((2,)), pairs.through((0,))
        ((3,), (0,))
        """
        first = itemgetter(slice(len(prefix)))
        block = bisect_right(self._lasts, prefix, key=first)
        offset = bisect_right(self._blocks[block].keys, prefix, key=first) if block < len(self._blocks) else 0
        return tuple([self._sum(number, (0, 0), (block, offset)) for number in range(len(self._zeros))])

    def select(self, count: Any) -> Any:
        """The key at which the running sum of the first numbers exceeds ``count``: for weights, the key of that row."""
        return self.last((0,), lambda before: before <= count)

    def ascending(self, lower: Any = None) -> Iterator[tuple[Any, Any]]:
        """Every key that is not less than ``lower`` with its first number, in order; None stands for no bound."""
        first, place = self._place(lower, False) if lower is not None else (0, 0)
        for block in islice(self._blocks, first, None):
            yield from zip(block.keys[place:], block.numbers[0][place:], strict=True)
            place = 0

    def descending(self, upper: Any = None) -> Iterator[tuple[Any, Any]]:
        """Every key that is less than ``upper`` with its first number, the last one first."""
        last, place = self._place(upper, False) if upper is not None else (len(self._blocks), 0)
        if place:
            block = self._blocks[last]
            yield from zip(reversed(block.keys[:place]), reversed(block.numbers[0][:place]), strict=True)
        for block in reversed(self._blocks[:last]):
            yield from zip(reversed(block.keys), reversed(block.numbers[0]), strict=True)

    def first(self, numbers: SumPositions, condition: SumCondition) -> Any:
        """The first key for which the sums over all later keys meet ``condition``, which is monotone: so do all after
        it."""
        totals = self._running(numbers, reverse=True)
        blocks = len(self._blocks)
        # totals[i] are the sums after the last key of the i-th block from the end.
        held = _count(blocks, lambda i: condition(*totals[i]))
        if not held:
            return None
        block, after = self._blocks[blocks - held], totals[held - 1]
        return block.first(numbers, condition, after)

    def last(self, numbers: SumPositions, condition: SumCondition) -> Any:
        """The last key for which the sums over all earlier keys meet ``condition``, which is monotone: so do all before
        it."""
        totals = self._running(numbers, reverse=False)
        held = _count(len(self._blocks), lambda i: condition(*totals[i]))
        if not held:
            return None
        return self._blocks[held - 1].last(numbers, condition, totals[held - 1])

    def _running(self, numbers: SumPositions, reverse: bool) -> list[WeightAndSums]:
        """The sums before the first block, before the second one, and so on, or the same from the other end."""
        sums = [self._sums[number] for number in numbers]
        zeros = [self._zeros[number] for number in numbers]
        columns = (accumulate(reversed(s) if reverse else s, initial=z) for s, z in zip(sums, zeros, strict=True))
        return list(zip(*columns, strict=True))

    def _each(self) -> Iterator[tuple[list[Any], Any]]:
        return zip(self._sums, self._zeros, strict=True)

    def _place(self, key: Any, beyond: bool) -> tuple[int, int]:
        """Block and offset of the first key that is not less than ``key``; or that is greater, if ``beyond``."""
        bisect = bisect_right if beyond else bisect_left
        block = bisect(self._lasts, key)
        return block, bisect(self._blocks[block].keys, key) if block < len(self._blocks) else 0

    def _sum(self, number: int, first: tuple[int, int], last: tuple[int, int]) -> Any:
        zero = self._zeros[number]
        if first[0] == last[0]:
            return sum(self._blocks[first[0]].numbers[number][first[1] : last[1]], zero)
        total = sum(self._sums[number][first[0] : last[0]], zero)
        total -= sum(self._blocks[first[0]].numbers[number][: first[1]], zero)
        return total + sum(self._blocks[last[0]].numbers[number][: last[1]], zero) if last[1] else total

    def _insert_block(self, at: int, block: _SumBlock) -> None:
        self._blocks.insert(at, block)
        self._lasts.insert(at, block.keys[-1] if block.keys else None)
        for place, (sums, zero) in enumerate(self._each()):
            sums.insert(at, sum(block.numbers[place], zero))

    def _remove_block(self, at: int) -> None:
        for column in (self._blocks, self._lasts, *self._sums):
            del column[at]

    def _balance(self, at: int) -> None:
        """Split a block that is too long, and join a short one with the next."""
        longest = max(MIN_BLOCK, 2 * isqrt(self._size))
        length = len(self._blocks[at].keys)
        if length > longest:
            self._split(at)
        elif at + 1 < len(self._blocks) and length + len(self._blocks[at + 1].keys) < longest // 2:
            self._blocks[at].join(self._blocks[at + 1])
            self._lasts[at] = self._lasts[at + 1]
            for sums in self._sums:
                sums[at] += sums[at + 1]
            self._remove_block(at + 1)

    def _split(self, at: int) -> None:
        upper = self._blocks[at].split()
        self._insert_block(at + 1, upper)
        self._lasts[at] = self._blocks[at].keys[-1]
        for sums, moved in zip(self._sums, [sums[at + 1] for sums in self._sums], strict=True):
            sums[at] -= moved


class _SumBlock:
    """Some adjacent keys, and a list of each of their numbers."""

    __slots__ = ("keys", "numbers")

    def __init__(self, keys: list[Any], numbers: list[list[Any]]) -> None:
        self.keys = keys
        self.numbers = numbers

    def add(self, key: Any, change: Sequence[Any], leaves: bool) -> int:
        """Add to the numbers of a key, which is inserted if it is new; returns the change of the number of keys."""
        place = bisect_left(self.keys, key)
        known = place < len(self.keys) and self.keys[place] == key
        if not known:
            if leaves:
                return 0
            self.keys.insert(place, key)
            for numbers, number in zip(self.numbers, change, strict=True):
                numbers.insert(place, number)
            return 1
        if leaves:
            for column in (self.keys, *self.numbers):
                del column[place]
            return -1
        for numbers, number in zip(self.numbers, change, strict=True):
            numbers[place] += number
        return 0

    def split(self) -> _SumBlock:
        """Split off the upper half."""
        middle = len(self.keys) // 2
        upper = _SumBlock(self.keys[middle:], [numbers[middle:] for numbers in self.numbers])
        for column in (self.keys, *self.numbers):
            del column[middle:]
        return upper

    def join(self, upper: _SumBlock) -> None:
        """Append the next block."""
        self.keys += upper.keys
        for own, theirs in zip(self.numbers, upper.numbers, strict=True):
            own += theirs

    def first(self, numbers: SumPositions, condition: SumCondition, after: WeightAndSums) -> Any:
        """The first key that meets ``condition`` with the sums after it; ``after`` are those after the block."""
        asked = [self.numbers[number] for number in numbers]
        columns = [list(accumulate(reversed(n), initial=a)) for n, a in zip(asked, after, strict=True)]
        held = _count(len(self.keys), lambda i: condition(*(column[i] for column in columns)))
        return self.keys[len(self.keys) - held]

    def last(self, numbers: SumPositions, condition: SumCondition, before: WeightAndSums) -> Any:
        """The last key that meets ``condition`` with the sums before it."""
        asked = [self.numbers[number] for number in numbers]
        columns = [list(accumulate(n, initial=b)) for n, b in zip(asked, before, strict=True)]
        return self.keys[_count(len(self.keys), lambda i: condition(*(column[i] for column in columns))) - 1]


def _count(size: int, holds: Callable[[int], Any]) -> int:
    """The number of integers below ``size`` for which a monotone condition holds, by binary search."""
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            low = middle + 1
        else:
            high = middle
    return low


class OrderedIndex:
    """The entries of a map by some of their keys, ordered by another key within these.

    ``numbers_of`` gives the weight and the sums of an entry. An entry with NULL in one of these keys is left out: NULL
    equals nothing and lies in no range. ``floats`` says that the ordering keys are DOUBLEs, of which NaN is the
    greatest.
    """

    def __init__(
        self,
        positions: tuple[int, ...],
        column: int,
        numbers_of: Callable[[Any], WeightAndSums],
        zeros: WeightAndSums,
        floats: bool = False,
    ) -> None:
        self._prefix_of: Callable[[Row], Any] = itemgetter(*positions) if positions else _nothing
        self._column = column
        self._numbers_of = numbers_of
        self._zeros = zeros
        self._sortable = _sortable_float if floats else _as_it_is
        self._original = _original_float if floats else _as_it_is
        self._single = len(positions) == 1
        self._under: dict[Any, OrderedSums] = {}

    def fill(self, entries: Iterable[tuple[Row, Any]]) -> None:
        """Add the entries of a map in bulk."""
        under: dict[Any, list[tuple[Any, WeightAndSums]]] = {}
        for key, entry in entries:
            prefix, place = self._prefix_of(key), key[self._column]
            if not self._is_null(prefix, place):
                under.setdefault(prefix, []).append((self._sortable(place), self._numbers_of(entry)))
        for prefix, numbers in under.items():
            ordered = self._under[prefix] = OrderedSums(self._zeros)
            ordered.fill(numbers)

    def move(self, key: Row, old: Any, new: Any) -> None:
        """Change an entry; a false value stands for none."""
        prefix, place = self._prefix_of(key), key[self._column]
        if self._is_null(prefix, place):
            return
        ordered = self._under.get(prefix)
        if ordered is None:
            ordered = self._under[prefix] = OrderedSums(self._zeros)
        numbers_of = self._numbers_of
        ordered.move(self._sortable(place), numbers_of(old) if old else None, numbers_of(new) if new else None)
        if not len(ordered):
            del self._under[prefix]

    def between(
        self, prefix: Any, numbers: SumPositions, lower: Any, lower_closed: bool, upper: Any, upper_closed: bool
    ) -> WeightAndSums:
        """The sums under ``prefix`` from one bound to the other; None stands for no bound."""
        ordered = self._under.get(prefix)
        if ordered is None:
            return tuple([self._zeros[number] for number in numbers])
        low = None if lower is None else self._sortable(lower)
        high = None if upper is None else self._sortable(upper)
        return ordered.between(numbers, low, lower_closed, high, upper_closed)

    def first(self, prefix: Any, numbers: SumPositions, condition: SumCondition) -> Any:
        """As ``OrderedSums.first``, for the entries under ``prefix``; None if there is no such key."""
        ordered = self._under.get(prefix)
        found = None if ordered is None else ordered.first(numbers, condition)
        return None if found is None else self._original(found)

    def last(self, prefix: Any, numbers: SumPositions, condition: SumCondition) -> Any:
        """As ``OrderedSums.last``, for the entries under ``prefix``; None if there is no such key."""
        ordered = self._under.get(prefix)
        found = None if ordered is None else ordered.last(numbers, condition)
        return None if found is None else self._original(found)

    def _is_null(self, prefix: Any, place: Any) -> bool:
        return place is None or (prefix is None if self._single else None in prefix)


def _nothing(row: Row) -> Row:
    return ()


def _as_it_is(key: Any) -> Any:
    return key


def _sortable_float(key: float) -> tuple[bool, float]:
    return (True, 0.0) if key != key else (False, key)


def _original_float(key: tuple[bool, float]) -> float:
    return NAN if key[0] else key[1]
