"""Observers of a map's entries: each is notified of every change of an entry, and updates itself in O(1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Protocol

from tidemill.changes.zset import Row
from tidemill.model.array_tree import ArrayTree, splices

_ITEMS: type = type({}.items())


class MapObserver(Protocol):
    """Notified of every change of an entry. A false value (None, or the weight 0) stands for no entry."""

    def fill(self, entries: Iterable[tuple[Row, Any]]) -> None:
        """Add entries that are new."""

    def move(self, key: Row, old: Any, new: Any) -> None:
        """Change the entry of ``key``."""


class HashIndex:
    """Entries by some of their columns. A row with NULL in one of them is left out: NULL equals nothing.

    ``pairs`` gives the ``(row, entry)`` pairs of a key; for a relation the entry of a row is its weight. Most keys have
    one row, whose pair takes half the space of a dictionary; with further rows it becomes the items of a dictionary,
    which change in O(1) however many there are.
    """

    def __init__(self, positions: tuple[int, ...]) -> None:
        self.pairs: dict[Any, Iterable[tuple[Row, Any]]] = {}
        self._many: dict[Any, dict[Row, Any]] = {}
        self._key_of: Callable[[Row], Any] = itemgetter(*positions)
        self._single = len(positions) == 1

    def fill(self, entries: Iterable[tuple[Row, Any]]) -> None:
        """Add rows that are new."""
        pairs, many, key_of, single = self.pairs, self._many, self._key_of, self._single
        if isinstance(entries, _ITEMS) and self._fill_one(entries):
            return
        for pair in entries:
            key = key_of(pair[0])
            if key in many:
                many[key][pair[0]] = pair[1]
            elif key in pairs:
                self.move(pair[0], None, pair[1])
            elif key is not None if single else None not in key:
                pairs[key] = (pair,)

    def _fill_one(self, items: Any) -> bool:
        """Add rows that share one new key, such as those of a new partition; False if they do not."""
        keys = map(self._key_of, items.mapping)
        first = next(keys, None)
        if first is None or first in self.pairs or (not self._single and None in first):
            return False
        if len(items) == 1 or any(key != first for key in keys):
            return False
        bucket = self._many[first] = items.mapping.copy()  # copied, so that nothing is hashed again
        self.pairs[first] = bucket.items()
        return True

    def move(self, row: Row, old: Any, new: Any) -> None:
        """Change or remove the entry of ``row``."""
        key = self._key_of(row)
        if key is None if self._single else None in key:
            return
        held = self.pairs.get(key)
        if held is None:
            if new:
                self.pairs[key] = ((row, new),)
        elif isinstance(held, tuple):
            self._set_beside_one(key, held[0], row, new)
        else:
            self._set_among_many(key, row, new)

    def _set_beside_one(self, key: Any, held: tuple[Row, Any], row: Row, entry: Any) -> None:
        if held[0] == row:
            if entry:
                self.pairs[key] = ((row, entry),)
            else:
                del self.pairs[key]
        elif entry:
            bucket = self._many[key] = {held[0]: held[1], row: entry}
            self.pairs[key] = bucket.items()

    def _set_among_many(self, key: Any, row: Row, entry: Any) -> None:
        bucket = self._many[key]
        if entry:
            bucket[row] = entry
        else:
            bucket.pop(row, None)
            if not bucket:
                del self._many[key], self.pairs[key]


class ElementIndex:
    """Rows by the elements of the array in one of their columns, each row once for each distinct element.

    Elements of large arrays lead to the other columns of their row, and these to the row: so a row that takes the place
    of one with the same other columns costs what the arrays do not share.

    >>> held = ElementIndex(1)
    >>> held.fill([((1, (7, 7, 8)), 1), ((2, (8,)), 1)]); held.move((1, (7, 7, 8)), 1, None)
    >>> held.holding(8), held.holding(7)
    ({(2, (8,)): 1}, {})
    """

    def __init__(self, position: int) -> None:
        self._rows: dict[Any, dict[Row, Any]] = {}
        self._position = position
        self._large: dict[Row, tuple[Row, Any]] = {}
        """Rows with large arrays and their entries by their other columns; one that has left has no entry."""
        self._left: set[Row] = set()
        """The other columns of rows that have left, while their elements are still counted."""
        self._counts: dict[Any, dict[Row, int]] = {}
        """Counts of elements in the arrays of ``_large``."""
        self._others: set[Row] = set()
        """Rows with large arrays that are not there, because another one has the same other columns."""

    def fill(self, entries: Iterable[tuple[Row, Any]]) -> None:
        """Add rows that are new."""
        for row, entry in entries:
            self.move(row, None, entry)

    def move(self, row: Row, old: Any, new: Any) -> None:
        """Change or remove the entry of ``row``."""
        if isinstance(row[self._position], ArrayTree) and self._moves_large(row, new):
            return
        for element in set(row[self._position] or ()):
            if new:
                self._rows.setdefault(element, {})[row] = new
            elif element in self._rows:
                self._rows[element].pop(row, None)
                if not self._rows[element]:
                    del self._rows[element]

    def holding(self, element: Any) -> Mapping[Row, Any]:
        """The rows with an element, and their entries."""
        for other in self._left:
            self._count(other, self._large.pop(other)[0][self._position], -1)
        self._left.clear()
        found = self._rows.get(element, {})
        large = [self._large[other] for other in self._counts.get(element, ())]
        return {**found, **dict(large)} if large else found

    def _moves_large(self, row: Row, new: Any) -> bool:
        """True if a row with a large array is the one that is known by its other columns, or becomes it."""
        place = self._position
        other = row[:place] + row[place + 1 :]
        known, entry = self._large.get(other, (None, None))
        if row in self._others:
            if not new:
                self._others.discard(row)
            return False
        if not new:
            if known is None or known != row:
                return False
            self._large[other] = row, None
            self._left.add(other)
            return True
        if known is None:
            self._count(other, row[place], 1)
        elif entry is None or known == row:
            for splice in splices(known[place], row[place]):
                self._count(other, splice.new, 1)
                self._count(other, splice.old, -1)
        else:
            self._others.add(row)
            return False
        self._large[other] = row, new
        self._left.discard(other)
        return True

    def _count(self, other: Row, elements: Iterable[Any], sign: int) -> None:
        for element in elements:
            counts = self._counts.setdefault(element, {})
            counts[other] = counts.get(other, 0) + sign
            if not counts[other]:
                del counts[other]
                if not counts:
                    del self._counts[element]


class LeadingColumnIndex:
    """The first columns of entries by the row of all others, in which NULL is a value like any other.

    >>> firsts = LeadingColumnIndex()
    >>> firsts.fill([((1, "a", None), 1), ((2, "a", None), 1)]); firsts.move((1, "a", None), 1, None); firsts.of
    {('a', None): (2,)}
    """

    def __init__(self) -> None:
        self.of: dict[Row, tuple[Any, ...]] = {}

    def fill(self, entries: Iterable[tuple[Row, Any]]) -> None:
        """Add entries that are new."""
        for key, entry in entries:
            self.move(key, None, entry)

    def move(self, key: Row, old: Any, new: Any) -> None:
        """Add or remove an entry; an update does not change its columns."""
        if bool(old) == bool(new):
            return
        row = key[1:]
        held = self.of.get(row, ())
        rest = (*held, key[0]) if new else tuple([first for first in held if first != key[0]])
        if rest:
            self.of[row] = rest
        else:
            del self.of[row]


class NegativeCount:
    """The number of entries with a negative number; ``number_of`` picks it from an entry.

    >>> below = NegativeCount(lambda entry: entry[1])
    >>> below.fill([((1,), (1, -5)), ((2,), (1, 5))]); below.move((1,), (1, -5), (1, 0)); below.count
    0
    """

    def __init__(self, number_of: Callable[[Any], Any]) -> None:
        self.count = 0
        self._number_of = number_of

    def fill(self, entries: Iterable[tuple[Row, Any]]) -> None:
        """Count the negative ones of some new entries."""
        self.count += sum(self._number_of(entry) < 0 for _, entry in entries)

    def move(self, key: Row, old: Any, new: Any) -> None:
        """Change an entry."""
        before = bool(old) and self._number_of(old) < 0
        self.count += (bool(new) and self._number_of(new) < 0) - before


def values_at(positions: Sequence[int]) -> Callable[[Row], Row]:
    """The function that gives the values of a row at these positions.

    >>> values_at([2, 0])("abc"), values_at([1])("abc"), values_at([])("abc")
    (('c', 'a'), ('b',), ())
    """
    if len(positions) > 1:
        return itemgetter(*positions)
    return lambda row: tuple([row[position] for position in positions])
