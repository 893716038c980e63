"""A sliding window that is kept like a view: the next one is this one, with what comes and without what leaves.

That serves aggregates of which no partials can be kept, such as a median: each group's values stand in order, and a row
that comes or leaves costs the logarithm of how many they are. Just one window is kept, the one that was made last, and
it can be recomputed from its rows at any time. So nothing of it is stored, and a late row need not be looked for in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from tidemill.changes.zset import Row, WeightedRow, ZSet

GroupRows = Sequence[tuple[Row, Row | None]]
"""Keys of groups with their rows, or None for one that has none."""

ApplyToQuery = Callable[[Iterable[WeightedRow]], GroupRows]
"""The groups of a query that a change of the rows of its window touches."""


class RollingWindow:
    """The rows of a query over the partitions ``held`` of a map, which it follows.

    ``start`` gives the query over no rows at all, and ``nothing`` the row that it then has, if any. What changes in the
    partitions that are held, be it that an epoch is undone, waits until the window is next asked for.
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
        """Take in rows that are not there yet; what is fetched from files is never of a partition that is held."""
        for row, weight in entries:
            self.move(row, 0, weight)

    def move(self, row: Row, old: int | None, new: int | None) -> None:
        """Change the weight of a row."""
        if row[0] in self._held:
            self._waiting[row] = self._waiting.get(row, 0) + (new or 0) - (old or 0)

    def over(self, numbers: range, rows_of: Mapping[int, Iterable[WeightedRow]]) -> Mapping[Row, int]:
        """The rows of the query over the partitions ``numbers``; ``rows_of`` has the rows of partitions as they are."""
        come, gone = _without(numbers, self._held), _without(self._held, numbers)
        if len(come) + len(gone) > len(numbers):
            self._begin()
            come, gone = [*numbers], []
        # Both at once: a sum that is too large between coming and leaving is none that anybody asked for.
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
