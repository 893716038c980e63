"""State in this process: dictionaries that record what an epoch touched.

Each map keeps a *journal*: for every key that the epoch has touched, its entry before the epoch. The journal gives the
rows that may have changed (``emit``), the change of the map (``commit``) and the way to undo it (``rollback``), so all
three cost O(|change|) and nothing else is recorded.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, Generic, TypeVar, cast

from tidemill.changes.zset import Row, WeightedRow
from tidemill.model.errors import ArithmeticFault
from tidemill.model.types import BIGINT, DOUBLE, Decimal, Type
from tidemill.program.maps import SPECIALS, Map
from tidemill.program.state_expiry import ExpiredEntries
from tidemill.runtimes.native.state import double_sums
from tidemill.runtimes.native.state.indexes import (
    ElementIndex,
    HashIndex,
    LeadingColumnIndex,
    MapObserver,
    NegativeCount,
)
from tidemill.runtimes.native.state.ordered_groups import AddendsOf, OrderedGroupIndex, SortKeyOf
from tidemill.runtimes.native.state.ordered_sums import OrderedIndex
from tidemill.runtimes.native.state.snapshot import (
    ColumnPositions,
    RelationSnapshot,
    extend_snapshot,
    part_count,
)

E = TypeVar("E")
F = TypeVar("F", bound=MapObserver)

MapSums = Mapping[Row, Any]
"""The amounts that a statement adds to a map: for each key its weight, or a list of the weight and the sums."""

RingEntry = tuple[Any, ...]
"""A key's weight and ring values; a DOUBLE value takes three places (``double_sums.DoubleSumState``)."""


_NOTHING: frozenset[Row] = frozenset()

BULK_ROWS = 64
"""Row count from which it pays to test first whether all rows are new."""


class JournaledMap(ABC, Generic[E]):
    """Entries by key, the journal of the current epoch, and the indexes that statements use.

    ``zeros`` are the weight and the exact sums of nothing, and ``numbers_of`` gives those of an entry. If an epoch has
    only added new entries, in one step, they are in ``_came``: looking them up one by one would dominate the cost.
    """

    def __init__(self, zeros: tuple[Any, ...] = (0,)) -> None:
        self.entries: dict[Row, E] = {}
        self.journal: dict[Row, E | None] = {}
        self._came: Mapping[Row, E] | None = None
        self.zeros = zeros
        self._indexes: dict[tuple[int, ...], HashIndex] = {}
        self._orders: dict[tuple[tuple[int, ...], int], OrderedIndex] = {}
        self._negatives: dict[int, NegativeCount] = {}
        self._ordered_groups: dict[tuple[int, SortKeyOf], OrderedGroupIndex] = {}
        self._firsts: LeadingColumnIndex | None = None
        self._states: dict[object, MapObserver] = {}
        self._followers: tuple[MapObserver, ...] = ()
        self._snapshot: RelationSnapshot | None = None
        self._width = 0
        self._columns: ColumnPositions = ()
        self._filled: dict[ColumnPositions, set[Row]] = {}
        self._known: set[Row] = set()

    @abstractmethod
    def numbers_of(self, entry: E) -> tuple[Any, ...]:
        """The weight and the exact sums of an entry."""

    @abstractmethod
    def _summed(self, stored: Iterable[WeightedRow]) -> dict[Row, E]:
        """The sum of stored changes by key. They may come in any order, so intermediate sums are not checked."""

    def restore(self, stored: Iterable[WeightedRow]) -> None:
        """Fill the empty map from stored changes, oldest first. There is nothing to undo, so no journal is kept."""
        self.entries.update(self._summed(stored))

    @abstractmethod
    def catch_up(self, stored: Iterable[WeightedRow]) -> None:
        """Add stored changes that others have made since the last epoch, oldest first; between epochs, without
        journal."""

    @abstractmethod
    def _key_of(self, stored: Row) -> Row:
        """The key of a stored row."""

    def attach_snapshot(self, snapshot: RelationSnapshot, width: int, columns: int) -> None:
        """Leave stored entries in a snapshot, and load them when a change first touches their first ``width`` keys.

        They are stored in so many ``columns``. Entries that loops look up are loaded by ``bring``.
        """
        self._snapshot = snapshot
        self._width = width
        self._columns = tuple(range(columns))

    def extend_snapshot(self, part: RelationSnapshot) -> None:
        """Add stored changes that others have made since to the snapshot, and to the entries that are loaded.

        Lookups that statements have made may find more entries now, so they are made again.
        """
        assert self._snapshot is not None
        near = part.fetch(self.first, {key[: self._width] for key in self._known}, self._columns)
        known = self._known
        here = [pair for pair in near if pair[0][: self._width] in known or self._key_of(pair[0]) in known]
        self.catch_up(here)
        known.update([self._key_of(row) for row, _ in here])
        self._filled.clear()
        self._snapshot = extend_snapshot(self._snapshot, part)

    @property
    def parts(self) -> int:
        """The number of parts of the snapshot; 0 if all entries are loaded."""
        return 0 if self._snapshot is None else part_count(self._snapshot)

    @property
    def changed(self) -> bool:
        """True if the epoch has touched the map, or may have."""
        return bool(self.journal) or self._came is not None

    @property
    def is_partial(self) -> bool:
        """True if stored entries that no change has touched are not loaded."""
        return self._snapshot is not None

    def fill(self, keys: Iterable[Row]) -> None:
        """Load the stored entries that share their first keys with ``keys``, unless they are loaded."""
        if self._snapshot is not None:
            self.bring(self.first, {key[: self._width] for key in keys})

    @property
    def first(self) -> ColumnPositions:
        """The positions of the keys by which touched entries are loaded."""
        return self._columns[: self._width]

    def bring(self, positions: ColumnPositions, keys: Collection[Row]) -> None:
        """Load the stored entries whose keys at ``positions`` are among ``keys``, unless they are loaded."""
        if missing := self.missing(positions, keys):
            self.keep(positions, missing, None, self.fetch(positions, missing))

    def missing(
        self, positions: ColumnPositions, keys: Collection[Row], columns: ColumnPositions | None = None
    ) -> set[Row]:
        """Those of ``keys`` whose stored entries are not loaded yet."""
        asked = set(keys) - self._filled.get(positions, _NOTHING)
        return asked - self._known if positions == self.first else asked

    def fetch(
        self, positions: ColumnPositions, keys: Collection[Row], columns: ColumnPositions | None = None
    ) -> list[tuple[Row, int]]:
        """The stored changes under ``keys``. Changes no state, so threads may fetch in parallel."""
        assert self._snapshot is not None
        return self._snapshot.fetch(positions, keys, self._columns)

    def keep(
        self,
        positions: ColumnPositions,
        keys: Collection[Row],
        columns: ColumnPositions | None,
        rows: Iterable[WeightedRow],
    ) -> None:
        """Load fetched entries: ``rows`` are all that is stored under ``keys``.

        An entry that was loaded by another key before may have changed since, and is kept as it is.
        """
        found = {key: entry for key, entry in self._summed(rows).items() if key not in self._known}
        self._filled.setdefault(positions, set()).update(keys)
        self._known.update(found)
        if positions == self.first:
            self._known.update(keys)
        self.entries.update(found)
        for follower in self._followers:
            follower.fill(found.items())

    def index(self, positions: tuple[int, ...]) -> Mapping[Any, Iterable[tuple[Row, E]]]:
        """Index of the entries by their keys at ``positions``: built once, then maintained in O(1) per change."""
        if positions not in self._indexes:
            self._indexes[positions] = self._followed(HashIndex(positions))
        return self._indexes[positions].pairs

    def order(self, positions: tuple[int, ...], column: int, floats: bool) -> OrderedIndex:
        """Index of the entries by their keys at ``positions``, ordered by the key at ``column`` (``floats``: a
        DOUBLE)."""
        if (positions, column) not in self._orders:
            ordered = OrderedIndex(positions, column, self.numbers_of, self.zeros, floats)
            self._orders[positions, column] = self._followed(ordered)
        return self._orders[positions, column]

    def negatives(self, number: int) -> int:
        """The number of entries with a negative weight (number 0), or exact sum of that number."""
        if number not in self._negatives:
            self._negatives[number] = self._followed(NegativeCount(lambda entry: self.numbers_of(entry)[number]))
        return self._negatives[number].count

    def ordered_groups(
        self, width: int, sort_key_of: SortKeyOf, addends_of: AddendsOf | None = None, zeros: tuple[Any, ...] = ()
    ) -> OrderedGroupIndex:
        """The entries by their first ``width`` keys and in the order of ``sort_key_of``; see ``OrderedGroupIndex``."""
        if (width, sort_key_of) not in self._ordered_groups:
            self._ordered_groups[width, sort_key_of] = self._followed(
                OrderedGroupIndex(width, sort_key_of, addends_of, zeros)
            )
        return self._ordered_groups[width, sort_key_of]

    def states(self, name: object, make: Callable[[], F]) -> F:
        """The observer of the entries called ``name``, created when it is first used."""
        if name not in self._states:
            self._states[name] = self._followed(make())
        return cast("F", self._states[name])

    def leading_columns(self) -> Mapping[Row, tuple[Any, ...]]:
        """The first keys of each row of all other keys."""
        if self._firsts is None:
            self._firsts = self._followed(LeadingColumnIndex())
        return self._firsts.of

    def _followed(self, follower: F) -> F:
        follower.fill(self.entries.items())
        self._followers = (*self._followers, follower)
        return follower

    def set(self, key: Row, entry: E | None) -> None:
        """Set the entry of ``key``, or remove it."""
        self.journal.setdefault(key, self.entries.get(key))
        self._put(key, entry)

    def _put(self, key: Row, entry: E | None) -> None:
        self._came = None
        old = self.entries.get(key)
        if entry is None:
            self.entries.pop(key, None)
        else:
            self.entries[key] = entry
        for follower in self._followers:
            follower.move(key, old, entry)

    def forget(self, forgotten: ExpiredEntries) -> None:
        """Release entries that will not be read again; between epochs, so there is nothing to undo."""
        gone = [key for key in self.entries if forgotten(key)]
        if forgotten.ends:
            there = [key for key in gone if self.numbers_of(self.entries[key])[0] > 0]
            gone = sorted(set(gone) - {min(there), max(there)}) if there else gone
        for key in gone:
            self._put(key, None)

    def touched(self) -> Iterator[tuple[Row, E | None, E | None]]:
        """Each key of the journal with its entry before the epoch and now."""
        if self._came is not None and len(self._came) == len(self.journal):
            return zip(self._came, repeat(None), self._came.values(), strict=False)
        return zip(self.journal, self.journal.values(), map(self.entries.get, self.journal), strict=True)

    def settle(self) -> None:
        """Make the current entries the state from which the next epoch starts."""
        self._came = None
        self.journal.clear()

    def rollback(self) -> None:
        """Restore every touched entry."""
        for key, old in self.journal.items():
            self._put(key, old)
        self.journal.clear()


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

    def elements(self, position: int) -> Mapping[Any, Mapping[Row, int]]:
        """The rows by the elements of their array at ``position``."""
        return self.states(("elements", position), lambda: ElementIndex(position)).rows

    def changes(self) -> list[tuple[Row, int]]:
        """The epoch's net change."""
        if self._came is not None and len(self._came) == len(self.journal):
            return list(self._came.items())
        return [(row, weight) for row, old, new in self.touched() if (weight := (new or 0) - (old or 0))]


class RingMap(JournaledMap[RingEntry]):
    """Groups: a weight and ring values for each key. A key of weight 0 has no entry, so its sums start again from 0.

    ``combine`` adds the sums of a statement for a key to the key's entry; it is generated for the map's values (see
    ``python.compile``), and ``zero`` is the entry of a missing key.
    """

    def __init__(self, map_: Map, zero: RingEntry, combine: Callable[[RingEntry, Sequence[Any]], RingEntry]) -> None:
        self._exact = exact_places(map_)
        self._whole = len(self._exact) == 1 + len(map_.values)
        super().__init__(tuple(zero[place] for place in self._exact))
        self._map = map_
        self._keys = len(map_.keys)
        self._doubles = tuple(value.type == DOUBLE for value in map_.values)
        self._plain = bool(map_.values) and all(value.type == BIGINT for value in map_.values)
        self._zero = zero
        self._combine = combine

    def numbers_of(self, entry: RingEntry) -> tuple[Any, ...]:
        """The weight and all sums but those of DOUBLE, in the order of the map's values."""
        return entry if self._whole else tuple([entry[place] for place in self._exact])

    def add(self, sums: MapSums) -> None:
        """Add to each key of ``sums`` the sums of a statement."""
        self.fill(sums)
        if self._plain and not (self.entries or self.journal or self._followers):
            # As in a first load: integer sums added to nothing are the entry itself.
            self._came = {key: tuple(addend) for key, addend in sums.items() if addend[0]}
            self.journal.update(dict.fromkeys(sums))
            self.entries.update(self._came)
            return
        self._came = None
        entries, journal, zero, combine = self.entries, self.journal, self._zero, self._combine
        followers = self._followers
        for key, addend in sums.items():
            old = entries.get(key)
            if key not in journal:
                journal[key] = old
            new = combine(zero if old is None else old, addend)
            if new[0]:
                entries[key] = new
            elif old is not None:
                del entries[key]
            for follower in followers:
                follower.move(key, old, new if new[0] else None)

    def replace(self, sums: MapSums) -> None:
        """Set the contents to exactly ``sums``; entries that stay the same are not touched."""
        fresh = {key: entry for key, addend in sums.items() if (entry := self._combine(self._zero, addend))[0]}
        for key in [key for key in self.entries if key not in fresh]:
            self.set(key, None)
        for key, entry in fresh.items():
            if self.entries.get(key) != entry:
                self.set(key, entry)

    def _summed(self, stored: Iterable[WeightedRow]) -> dict[Row, RingEntry]:
        entries: dict[Row, RingEntry] = {}
        for row, weight in stored:
            key = row[: self._keys]
            entries[key] = self._combine(entries.get(key, self._zero), self._addend(row, weight))
        return {key: entry for key, entry in entries.items() if entry[0]}

    def catch_up(self, stored: Iterable[WeightedRow]) -> None:
        """Add stored changes that others have made. Only their total is checked, as in ``_summed``."""
        self.settle()
        moved: dict[Row, RingEntry] = {}
        for row, weight in stored:
            key = self._key_of(row)
            old = moved.get(key) or self.entries.get(key, self._zero)
            moved[key] = self._combine(old, self._addend(row, weight))
        for key, entry in moved.items():
            self._put(key, entry if entry[0] else None)

    def _key_of(self, stored: Row) -> Row:
        return stored[: self._keys]

    def changes(self) -> list[tuple[Row, int]]:
        """The epoch's net change, in the columns of ``map_fields``: added to the old entries it gives exactly the new
        ones."""
        result: list[tuple[Row, int]] = []
        for key, old, new in self.touched():
            if old != new:
                result += self._stored_change(key, old or self._zero, new or self._zero)
        return result

    def _stored_change(self, key: Row, old: RingEntry, new: RingEntry) -> list[tuple[Row, int]]:
        parts: list[Any] = []
        for (before, after), value in zip(self._values(old, new), self._map.values, strict=True):
            change = _difference(before, after, value.type)
            if change is None:
                if self._zero in (old, new):
                    raise ArithmeticFault(
                        f"a sum does not fit {value.type}: {after}", where=f"{self._map.name} {key!r}"
                    )
                # The difference of the two sums is not representable: retract the old entry, then insert the new one.
                return [*self._stored_change(key, old, self._zero), *self._stored_change(key, self._zero, new)]
            parts += change
        return [((*key, *parts), new[0] - old[0])]

    def _values(self, *entries: RingEntry) -> Iterator[tuple[Any, ...]]:
        """The ring values of several entries side by side, a DOUBLE value as its three parts."""
        place = 1
        for is_double in self._doubles:
            width = 3 if is_double else 1
            yield tuple(entry[place : place + 3] if is_double else entry[place] for entry in entries)
            place += width

    def _addend(self, row: Row, weight: int) -> list[Any]:
        """A stored change in the form in which a statement sums."""
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


def exact_places(map_: Map) -> tuple[int, ...]:
    """The positions of the weight and of the exact sums in an entry; a DOUBLE, which is none, takes three.

    >>> from tidemill.model.types import BIGINT
    >>> from tidemill.program.maps import RingField
    >>> exact_places(Map("m", (), (RingField("n", BIGINT), RingField("x", DOUBLE), RingField("m", BIGINT))))
    (0, 1, 5)
    """
    places, place = [0], 1
    for value in map_.values:
        if value.type == DOUBLE:
            place += 3
        else:
            places.append(place)
            place += 1
    return tuple(places)


def _difference(before: Any, after: Any, type_: Type) -> Sequence[Any] | None:
    """The stored columns of a change of a ring value; None if it is not representable in them."""
    if type_ == DOUBLE:
        change = double_sums.difference(after, before)
        return None if change is None else (change[0], change[1], *double_sums.unpack(change[2]))
    moved = after - before
    if isinstance(type_, Decimal):
        fits = moved.adjusted() < type_.precision - type_.scale
    else:
        fits = -(1 << 63) <= moved < 1 << 63
    return (moved,) if fits else None
