"""State in this process: dictionaries that remember what an epoch touched.

Each map keeps a *journal*: for every key that the epoch has touched, its entry as it was before. The journal says
which rows may have changed (``emit``), by how much a map changed (``commit``) and how to undo it (``rollback``), so all
three cost O(|change|) and nothing else need be written down.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Generic, TypeVar

from tidemill.changes.zset import Row
from tidemill.model.types import DOUBLE
from tidemill.program.maps import SPECIALS, Map, map_fields
from tidemill.runtimes.native import doubles
from tidemill.runtimes.native.base import Base

E = TypeVar("E")

Pairs = Iterable[tuple[Row, int]]
Sums = Mapping[Row, Any]
"""What a statement adds to a map: for each key its weight, or a list of the weight and the sums of the values."""

Entry = tuple[Any, ...]
"""A key's weight and ring values; a DOUBLE value takes three places (``doubles.Parts``)."""


BULK = 64
"""From so many rows on it is worth to ask first whether they are all new."""


class Journaled(Generic[E]):
    """Entries by key, and the journal of the epoch under way."""

    def __init__(self) -> None:
        self.entries: dict[Row, E] = {}
        self.journal: dict[Row, E | None] = {}

    def set(self, key: Row, entry: E | None) -> None:
        """Give ``key`` a new entry, or none."""
        self.journal.setdefault(key, self.entries.get(key))
        self._put(key, entry)

    def _put(self, key: Row, entry: E | None) -> None:
        if entry is None:
            self.entries.pop(key, None)
        else:
            self.entries[key] = entry

    def touched(self) -> Iterator[tuple[Row, E | None, E | None]]:
        """Each key of the journal with its entry before the epoch and now."""
        for key, old in self.journal.items():
            yield key, old, self.entries.get(key)

    def settle(self) -> None:
        """Take the entries as they are for the state from which the next epoch starts."""
        self.journal.clear()

    def rollback(self) -> None:
        """Put every touched entry back."""
        for key, old in self.journal.items():
            self._put(key, old)
        self.journal.clear()


class Contents(Journaled[int]):
    """The rows of a relation with their weights, and the indexes that lookups have asked for.

    >>> orders = Contents()
    >>> orders.absorb([((1, "ann"), 1), ((2, "bob"), 1), ((3, "ann"), 1)])
    >>> sorted(orders.index((1,))["ann"])
    [((1, 'ann'), 1), ((3, 'ann'), 1)]
    >>> orders.rollback(); orders.entries, orders.index((1,))
    ({}, {})
    """

    def __init__(self) -> None:
        super().__init__()
        self._indexes: dict[tuple[int, ...], Index] = {}

    def index(self, positions: tuple[int, ...]) -> Mapping[Any, Pairs]:
        """The weighted rows by their values at ``positions``: built once, then kept in step at O(1) a row."""
        index = self._indexes.get(positions)
        if index is None:
            index = self._indexes[positions] = Index(positions)
            index.extend(self.entries.items())
        return index.pairs

    def restore(self, stored: Pairs) -> None:
        """Fill the empty contents from stored changes. There is nothing to undo, so nothing is written down."""
        entries = self.entries
        for row, weight in stored:
            entries[row] = entries.get(row, 0) + weight
        for row in [row for row, weight in entries.items() if not weight]:
            del entries[row]

    def add(self, sums: Mapping[Row, int]) -> None:
        """Add to each row of ``sums`` its weight."""
        if len(sums) >= BULK and not self.journal and 0 not in sums.values() and self.entries.keys().isdisjoint(sums):
            self._extend(sums)
        else:
            self.absorb(sums.items())

    def absorb(self, pairs: Pairs) -> None:
        """Add weighted rows, of which some may be equal."""
        entries, journal, indexes = self.entries, self.journal, tuple(self._indexes.values())
        for row, weight in pairs:
            old = entries.get(row)
            if row not in journal:
                journal[row] = old
            new = weight if old is None else old + weight
            if new:
                entries[row] = new
            elif old is not None:
                del entries[row]
            for index in indexes:
                index.set(row, new)

    def _extend(self, sums: Mapping[Row, int]) -> None:
        """Add rows none of which is there yet: what a first load does, several times as fast as row by row."""
        self.entries.update(sums)
        self.journal.update(dict.fromkeys(sums))
        for index in self._indexes.values():
            index.extend(sums.items())

    def replace(self, sums: Mapping[Row, int]) -> None:
        """Hold exactly ``sums`` from now on; entries that stay the same are not touched."""
        for row in [row for row in self.entries if not sums.get(row)]:
            self.set(row, None)
        for row, weight in sums.items():
            if weight and self.entries.get(row) != weight:
                self.set(row, weight)

    def changes(self) -> list[tuple[Row, int]]:
        """The epoch's net change."""
        net = ((row, (new or 0) - (old or 0)) for row, old, new in self.touched())
        return [(row, weight) for row, weight in net if weight]

    def _put(self, key: Row, entry: int | None) -> None:
        super()._put(key, entry)
        for index in self._indexes.values():
            index.set(key, entry or 0)


class Index:
    """Weighted rows by some of their columns. A row with NULL in one of them is left out: NULL equals nothing.

    ``pairs`` gives the ``(row, weight)`` pairs of a key. Most keys have one row, and its pair costs half of a
    dictionary; further rows make it the items of a dictionary, which change in O(1) however many there are.
    """

    def __init__(self, positions: tuple[int, ...]) -> None:
        self.pairs: dict[Any, Pairs] = {}
        self._many: dict[Any, dict[Row, int]] = {}
        self._key_of: Callable[[Row], Any] = itemgetter(*positions)
        self._single = len(positions) == 1

    def extend(self, new: Pairs) -> None:
        """Take in rows that are not there yet."""
        pairs, key_of, single = self.pairs, self._key_of, self._single
        for pair in new:
            key = key_of(pair[0])
            if key in pairs:
                self.set(*pair)
            elif key is not None if single else None not in key:
                pairs[key] = (pair,)

    def set(self, row: Row, weight: int) -> None:
        """Let ``row`` have ``weight``; 0 removes it."""
        key = self._key_of(row)
        if key is None if self._single else None in key:
            return
        held = self.pairs.get(key)
        if held is None:
            if weight:
                self.pairs[key] = ((row, weight),)
        elif isinstance(held, tuple):
            self._set_beside_one(key, held[0], row, weight)
        else:
            self._set_among_many(key, row, weight)

    def _set_beside_one(self, key: Any, held: tuple[Row, int], row: Row, weight: int) -> None:
        if held[0] == row:
            if weight:
                self.pairs[key] = ((row, weight),)
            else:
                del self.pairs[key]
        elif weight:
            bucket = self._many[key] = {held[0]: held[1], row: weight}
            self.pairs[key] = bucket.items()

    def _set_among_many(self, key: Any, row: Row, weight: int) -> None:
        bucket = self._many[key]
        if weight:
            bucket[row] = weight
        else:
            bucket.pop(row, None)
            if not bucket:
                del self._many[key], self.pairs[key]


class RingMap(Journaled[Entry]):
    """Groups: a weight and ring values for each key. A key of weight 0 has no entry, so its sums start again from 0.

    ``combine`` adds what a statement has summed for a key to the key's entry; it is generated for the map's values
    (see ``python.py``), and ``zero`` is the entry of a key that is not there.
    """

    def __init__(self, map_: Map, zero: Entry, combine: Callable[[Entry, Sequence[Any]], Entry]) -> None:
        super().__init__()
        self._keys = len(map_.keys)
        self._doubles = tuple(value.type == DOUBLE for value in map_.values)
        self._zero = zero
        self._combine = combine
        self._base: Base | None = None
        self._stored = tuple(range(len(map_fields(map_))))
        self._filled: set[Row] = set()

    def add(self, sums: Sums) -> None:
        """Add to each key of ``sums`` what was summed for it."""
        self.fill(sums)
        entries, journal, zero, combine = self.entries, self.journal, self._zero, self._combine
        for key, addend in sums.items():
            old = entries.get(key)
            if key not in journal:
                journal[key] = old
            new = combine(zero if old is None else old, addend)
            if new[0]:
                entries[key] = new
            elif old is not None:
                del entries[key]

    def replace(self, sums: Sums) -> None:
        """Hold exactly ``sums`` from now on; entries that stay the same are not touched."""
        fresh = {key: entry for key, addend in sums.items() if (entry := self._combine(self._zero, addend))[0]}
        for key in [key for key in self.entries if key not in fresh]:
            self.set(key, None)
        for key, entry in fresh.items():
            if self.entries.get(key) != entry:
                self.set(key, entry)

    def restore(self, stored: Pairs) -> None:
        """Fill the empty map from stored changes, oldest first."""
        self.entries.update(self._summed(stored))

    def stand_on(self, base: Base) -> None:
        """Leave the stored entries where they are, and take each one in when a change first touches its key."""
        self._base = base

    def fill(self, keys: Iterable[Row]) -> None:
        """Take in the stored entries of ``keys`` that are not here yet."""
        if self._base is not None:
            missing = {key for key in keys if key not in self._filled}
            self._filled |= missing
            self.entries.update(self._summed(self._base.fetch(tuple(range(self._keys)), missing, self._stored)))

    def _summed(self, stored: Pairs) -> dict[Row, Entry]:
        """The entries that stored changes add up to. Changes may come in any order, so none is judged on the way."""
        entries: dict[Row, Entry] = {}
        for row, weight in stored:
            key = row[: self._keys]
            entries[key] = self._combine(entries.get(key, self._zero), self._addend(row, weight))
        return {key: entry for key, entry in entries.items() if entry[0]}

    def changes(self) -> list[tuple[Row, int]]:
        """The epoch's net change, in the columns of ``map_fields``: old entries and it give exactly the new ones."""
        result: list[tuple[Row, int]] = []
        for key, old, new in self.touched():
            if old != new:
                result += self._filed(key, old or self._zero, new or self._zero)
        return result

    def _filed(self, key: Row, old: Entry, new: Entry) -> list[tuple[Row, int]]:
        parts: list[Any] = []
        for (before, after), is_double in zip(self._values(old, new), self._doubles, strict=True):
            if not is_double:
                parts.append(after - before)
            elif (change := doubles.difference(after, before)) is not None:
                parts += [change[0], change[1], *doubles.unpack(change[2])]
            else:
                # The two sums are too far apart for their difference: take the old entry back, then bring the new one.
                return [*self._filed(key, old, self._zero), *self._filed(key, self._zero, new)]
        return [((*key, *parts), new[0] - old[0])]

    def _values(self, *entries: Entry) -> Iterator[tuple[Any, ...]]:
        """The ring values of entries beside each other, a DOUBLE value as its three parts."""
        place = 1
        for is_double in self._doubles:
            width = 3 if is_double else 1
            yield tuple(entry[place : place + 3] if is_double else entry[place] for entry in entries)
            place += width

    def _addend(self, row: Row, weight: int) -> list[Any]:
        """A stored change as a statement would have summed it."""
        addend: list[Any] = [weight]
        stored = iter(row[self._keys :])
        for is_double in self._doubles:
            if is_double:
                addend.append([next(stored), next(stored)])
                counts = [next(stored) for _ in SPECIALS]
                addend.append(list(zip((math.nan, math.inf, -math.inf), counts, strict=True)) if any(counts) else [])
            else:
                addend.append(next(stored))
        return addend
