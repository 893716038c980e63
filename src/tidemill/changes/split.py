"""Splitting a change by a key, which pairs each new row with the old row that it replaces."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter

from tidemill.changes.zset import Row, WeightedRow, ZSet

SplitRows = tuple[Collection[WeightedRow], Collection[WeightedRow]]
"""The rows of a change that stay, and those that arrive."""


@dataclass(frozen=True, slots=True)
class SplitColumns:
    """Positions of the key of a row, of the columns that must be equal for it to stay, and of all columns read."""

    key: tuple[int, ...]
    fixed: tuple[int, ...]
    seen: tuple[int, ...]


class ChangeSplitter:
    """Splits changes of a relation by some columns.

    Most changes are one row in place of another, or one row alone: these are told apart without a dictionary.
    """

    __slots__ = ("_fixed_of", "_key_of", "_seen_of")

    def __init__(self, places: SplitColumns) -> None:
        self._key_of, self._fixed_of, self._seen_of = map(_picker, (places.key, places.fixed, places.seen))

    def split(self, pairs: Collection[WeightedRow]) -> SplitRows:
        """The rows that stay, and those that arrive (see ``program.statements.Split``).

        A row that replaces one with equal values in the columns read is in neither of them, and nor is that other one.
        """
        if len(pairs) == 2:
            (old, left), (new, came) = pairs
            if left == -1 and came == 1:
                if self._key_of(old) != self._key_of(new) or self._fixed_of(old) != self._fixed_of(new):
                    return [(old, -1)], [(new, 1)]
                return ((), ()) if self._seen_of(old) == self._seen_of(new) else (pairs, ())
        elif len(pairs) == 1:
            ((_, weight),) = pairs
            return (pairs, ()) if weight < 0 else ((), pairs)
        return self._split_many(pairs)

    def _split_many(self, pairs: Collection[WeightedRow]) -> SplitRows:
        net = ZSet.summed(pairs)
        key_of, fixed_of, seen_of = self._key_of, self._fixed_of, self._seen_of
        left = {key_of(row): row for row, weight in net.items() if weight < 0}
        alike = set()
        staying: list[WeightedRow] = []
        arriving: list[WeightedRow] = []
        for row, weight in net.items():
            if weight < 0:
                continue
            before = left.get(key_of(row))
            if before is None or fixed_of(before) != fixed_of(row):
                arriving.append((row, weight))
            elif seen_of(before) == seen_of(row):
                alike.add(before)
            else:
                staying.append((row, weight))
        return [(row, weight) for row, weight in net.items() if weight < 0 and row not in alike] + staying, arriving


@lru_cache(maxsize=1024)
def splitter(places: SplitColumns) -> ChangeSplitter:
    """The splitter by these columns.

    >>> moved = [((1, "a"), -1), ((1, "b"), 1), ((2, "c"), 1)]
    >>> splitter(SplitColumns((0,), (), (0, 1))).split(moved)
    ([((1, 'a'), -1), ((1, 'b'), 1)], [((2, 'c'), 1)])
    >>> splitter(SplitColumns((0,), (1,), (0, 1))).split(moved)
    ([((1, 'a'), -1)], [((1, 'b'), 1), ((2, 'c'), 1)])
    >>> splitter(SplitColumns((0,), (1,), (0, 1))).split(moved[:2])
    ([((1, 'a'), -1)], [((1, 'b'), 1)])
    """
    return ChangeSplitter(places)


def _picker(places: tuple[int, ...]) -> Callable[[Row], object]:
    """A function that picks these values of a row; without positions all rows are equal."""
    return itemgetter(*places) if places else _nothing


def _nothing(row: Row) -> tuple[()]:
    return ()
