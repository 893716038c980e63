"""Splitting a change by a key, which pairs each new row with the old row that it replaces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter

from tidemill.changes.zset import Row, WeightedRow, WeightedRows, ZSet


@dataclass(frozen=True, slots=True)
class SplitColumns:
    """Positions of the key of a row, of the columns that must be equal for it to stay, and of all columns read."""

    key: tuple[int, ...]
    fixed: tuple[int, ...]
    seen: tuple[int, ...]


def split_change(pairs: WeightedRows, places: SplitColumns) -> tuple[list[WeightedRow], list[WeightedRow]]:
    """The rows that stay, and those that arrive (see ``program.statements.Split``).

    A row that replaces one with equal values in the columns read is in neither of them, and nor is that other one.

    >>> moved = [((1, "a"), -1), ((1, "b"), 1), ((2, "c"), 1)]
    >>> split_change(moved, SplitColumns((0,), (), (0, 1)))
    ([((1, 'a'), -1), ((1, 'b'), 1)], [((2, 'c'), 1)])
    >>> split_change(moved, SplitColumns((0,), (1,), (0, 1)))
    ([((1, 'a'), -1)], [((1, 'b'), 1), ((2, 'c'), 1)])
    """
    net = ZSet.summed(pairs)
    key_of, fixed_of, seen_of = map(_picker, (places.key, places.fixed, places.seen))
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


def _picker(places: tuple[int, ...]) -> Callable[[Row], object]:
    """A function that picks these values of a row; without positions all rows are equal."""
    return itemgetter(*places) if places else _nothing


def _nothing(row: Row) -> tuple[()]:
    return ()
