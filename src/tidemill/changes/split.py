"""A change parted by what becomes of its rows, where a key tells which row takes the place of which."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import itemgetter

from tidemill.changes.zset import Row, ZSet

WeightedRows = list[tuple[Row, int]]


@dataclass(frozen=True, slots=True)
class SplitColumns:
    """Where rows have their key, what must be the same for a row to stay, and all else that somebody looks at."""

    key: tuple[int, ...]
    fixed: tuple[int, ...]
    seen: tuple[int, ...]


def split_change(pairs: Iterable[tuple[Row, int]], places: SplitColumns) -> tuple[WeightedRows, WeightedRows]:
    """The rows that stay, and those that arrive (see ``program.statements.Split``).

    A row that comes in place of one that looks the same is in neither of them, and nor is that other one.

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
    staying: WeightedRows = []
    arriving: WeightedRows = []
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
    """What picks these values of a row; with none there is nothing to tell rows apart by."""
    return itemgetter(*places) if places else _nothing


def _nothing(row: Row) -> tuple[()]:
    return ()
