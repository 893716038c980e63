"""The rows of a relation with their weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidemill.changes.zset import Row, WeightedRow
from tidemill.runtimes.native.state.indexes import ElementIndex
from tidemill.runtimes.native.state.journaled_map import JournaledMap

BULK_ROWS = 64
"""Row count from which it pays to test first whether all rows are new."""


class RowMap(JournaledMap[int]):
    """The rows of a relation with their weights, and the indexes that lookups use.

    >>> orders = RowMap()
    >>> orders.absorb([((1, "ann"), 1), ((2, "bob"), 1), ((3, "ann"), 1)])
    >>> sorted(orders.index((1,))["ann"])
    [((1, 'ann'), 1), ((3, 'ann'), 1)]
    >>> orders.rollback(); orders.entries, orders.index((1,))
    ({}, {})
    """

    def numbers_of(self, entry: int) -> tuple[int]:
        """The weight; a relation has no sums."""
        return (entry,)

    def _summed(self, stored: Iterable[WeightedRow]) -> dict[Row, int]:
        entries: dict[Row, int] = {}
        for row, weight in stored:
            entries[row] = entries.get(row, 0) + weight
        for row in [row for row, weight in entries.items() if not weight]:
            del entries[row]
        return entries

    def catch_up(self, stored: Iterable[WeightedRow]) -> None:
        """Add stored changes that others have made."""
        self.settle()
        for row, weight in self._summed(stored).items():
            self._put(row, self.entries.get(row, 0) + weight or None)

    def _key_of(self, stored: Row) -> Row:
        return stored

    def add(self, sums: Mapping[Row, int]) -> None:
        """Add the weight of each row of ``sums``."""
        if self._snapshot is not None:
            self.fill(sums)
        if len(sums) >= BULK_ROWS and not self.journal and 0 not in sums.values() and self._has_none(sums):
            self._extend(sums)
        else:
            self.absorb(sums.items())

    def absorb(self, pairs: Iterable[WeightedRow]) -> None:
        """Add weighted rows, some of which may be equal."""
        self._came = None
        entries, journal, followers = self.entries, self.journal, self._followers
        for row, weight in pairs:
            old = entries.get(row)
            if row not in journal:
                journal[row] = old
            new = weight if old is None else old + weight
            if new:
                entries[row] = new
            elif old is not None:
                del entries[row]
            for follower in followers:
                follower.move(row, old, new)

    def _has_none(self, sums: Mapping[Row, int]) -> bool:
        """True if no row of ``sums`` exists: either their first columns are all new, or each is looked up."""
        by_first = self._indexes.get((0,))
        if by_first is not None:
            firsts = {row[0] for row in sums}
            if None not in firsts and by_first.pairs.keys().isdisjoint(firsts):
                return True
        return self.entries.keys().isdisjoint(sums)

    def _extend(self, sums: Mapping[Row, int]) -> None:
        """Add rows that are all new, as a first load does: several times as fast as row by row.

        They are the whole change so far, and ``sums`` is not modified any more.
        """
        self._came = sums
        self.entries.update(sums)
        self.journal.update(dict.fromkeys(sums))
        for follower in self._followers:
            follower.fill(sums.items())

    def replace(self, sums: Mapping[Row, int]) -> None:
        """Set the contents to exactly ``sums``; entries that stay the same are not touched."""
        for row in [row for row in self.entries if not sums.get(row)]:
            self.set(row, None)
        for row, weight in sums.items():
            if weight and self.entries.get(row) != weight:
                self.set(row, weight)

    def elements(self, position: int) -> ElementIndex:
        """The rows by the elements of their array at ``position``."""
        return self.states(("elements", position), lambda: ElementIndex(position))

    def changes(self) -> list[tuple[Row, int]]:
        """The epoch's net change."""
        if self._came is not None and len(self._came) == len(self.journal):
            return list(self._came.items())
        get = self.entries.get
        return [(row, weight) for row, old in self.journal.items() if (weight := get(row, 0) - (old or 0))]
