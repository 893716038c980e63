"""The entries of a map in the order of one of their keys, to be found between two bounds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tidemill.changes.zset import Row
from tidemill.runtimes.native.state.ordered_sums import OrderedSums

ONE = (1,)
"""The number kept of each value of the key: they are ordered, and nothing is summed."""


class ColumnOrder:
    """Observes a map, and finds the entries whose key at ``position`` lies in a range. NULL lies in none.

    A range costs the entries that are found, and the square root of the number of values to find the first.

    >>> alarms = ColumnOrder(0)
    >>> alarms.fill([((7, "a"), 1), ((9, "b"), 1), ((9, "c"), 2)]); alarms.move((8, "d"), None, 1)
    >>> alarms.between(7, False, 9, True)
    [((8, 'd'), 1), ((9, 'b'), 1), ((9, 'c'), 2)]
    """

    def __init__(self, position: int) -> None:
        self._position = position
        self._values = OrderedSums((0,))
        self._entries: dict[Any, dict[Row, Any]] = {}

    def fill(self, entries: Iterable[tuple[Row, Any]]) -> None:
        """Add entries that are new."""
        if self._entries:
            for row, entry in entries:
                self.move(row, None, entry)
            return
        for row, entry in entries:
            if row[self._position] is not None:
                self._entries.setdefault(row[self._position], {})[row] = entry
        self._values.fill((value, ONE) for value in self._entries)

    def move(self, row: Row, old: Any, new: Any) -> None:
        """Change or remove the entry of ``row``."""
        value = row[self._position]
        if value is None:
            return
        found = self._entries.get(value)
        if new:
            if found is None:
                found = self._entries[value] = {}
                self._values.move(value, None, ONE)
            found[row] = new
        elif found is not None and found.pop(row, None) is not None and not found:
            del self._entries[value]
            self._values.move(value, ONE, None)

    def between(self, lower: Any, lower_closed: bool, upper: Any, upper_closed: bool) -> list[tuple[Row, Any]]:
        """The entries from one bound to the other, in order; None stands for no bound."""
        found: list[tuple[Row, Any]] = []
        for value, _ in self._values.ascending(lower):
            if upper is not None and (value > upper or (value == upper and not upper_closed)):
                break
            if lower_closed or value != lower:
                found += self._entries[value].items()
        return found
