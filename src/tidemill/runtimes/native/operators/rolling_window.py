"""A sliding window that is maintained like a view: the next one is this one plus new rows minus expired ones.

This serves aggregates without partial sums, such as a median: each group's values are kept in order, and adding or
removing a row costs O(log n). Only the window computed last is kept, and it can be recomputed from its rows at any
time. So nothing of it is stored, and late rows need no special treatment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from tidemill.changes.zset import Row, WeightedRow, ZSet

GroupRows = Sequence[tuple[Row, Row | None]]
"""Keys of groups with their rows, or None for a group that has none."""

ApplyToQuery = Callable[[Iterable[WeightedRow]], GroupRows]
"""Applies a change of the window's rows to a query; returns the touched groups."""


class RollingWindow:
    """The rows of a query over the partitions ``held`` of a map, which it observes.

    ``start`` gives the query over no rows at all, and ``nothing`` the row that it then has, if any. Changes of the held
    partitions, including those of a rollback, are deferred until the window is next read.
    """

    def __init__(self, start: Callable[[], ApplyToQuery], nothing: Mapping[Row, int]) -> None:
        self._start = start
        self._nothing = nothing
        self._begin()

    def _begin(self) -> None:
        self._follow = self._start()
        self._rows: dict[Row, Row] = dict(zip([()], self._nothing, strict=False))
        self._held = range(0)
        self._waiting: dict[Row, int] = {}

    def fill(self, entries: Iterable[WeightedRow]) -> None:
        """Add rows that are new; rows fetched from files are never in a held partition."""
        for row, weight in entries:
            self.move(row, 0, weight)

    def move(self, row: Row, old: int | None, new: int | None) -> None:
        """Change the weight of a row."""
        if row[0] in self._held:
            self._waiting[row] = self._waiting.get(row, 0) + (new or 0) - (old or 0)

    def over(self, numbers: range, rows_of: Mapping[int, Iterable[WeightedRow]]) -> Mapping[Row, int]:
        """The rows of the query over the partitions ``numbers``; ``rows_of`` has the current rows of partitions."""
        come, gone = _without(numbers, self._held), _without(self._held, numbers)
        if len(come) + len(gone) > len(numbers):
            self._begin()
            come, gone = [*numbers], []
        # One change for all: between adding and removing, an intermediate sum could overflow that is no result.
        change = [pair for pair in self._waiting.items() if pair[1]]
        change += [pair for number in come for pair in rows_of.get(number, ())]
        change += [(row, -weight) for number in gone for row, weight in rows_of.get(number, ())]
        self._held, self._waiting = numbers, {}
        try:
            for key, row in self._follow(change):
                if row is None:
                    self._rows.pop(key, None)
                else:
                    self._rows[key] = row
        except BaseException:
            self._begin()
            raise
        return ZSet.of(self._rows.values())


def _without(numbers: range, others: range) -> list[int]:
    return [number for number in numbers if number not in others]
