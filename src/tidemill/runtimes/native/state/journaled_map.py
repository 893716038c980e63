"""State in this process: dictionaries that record what an epoch touched.

Each map keeps a *journal*: for every key that the epoch has touched, its entry before the epoch. The journal gives the
rows that may have changed (``emit``), the change of the map (``commit``) and the way to undo it (``rollback``), so all
three cost O(|change|) and nothing else is recorded.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, Generic, TypeVar, cast

from tidemill.changes.zset import Row, WeightedRow
from tidemill.model.types import Field
from tidemill.program.expiry.entries import ExpiredEntries
from tidemill.runtimes.native.state.column_order import ColumnOrder
from tidemill.runtimes.native.state.group_ends import find_ends
from tidemill.runtimes.native.state.indexes import (
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
    SnapshotLookup,
    extend_snapshot,
    part_count,
)
from tidemill.runtimes.native.state.stored_lookups import LookupSnapshot

E = TypeVar("E")
F = TypeVar("F", bound=MapObserver)

_NOTHING: frozenset[Row] = frozenset()


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
        self._fields: tuple[Field, ...] = ()
        self._columns: ColumnPositions = ()
        self._filled: dict[ColumnPositions, set[Row]] = {}
        self._known: set[Row] = set()
        self._ends: dict[Row, tuple[Any, Any]] | None = None
        """Where only ends of groups are read: for each group, the values between which there are others to load."""

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

    def attach_snapshot(
        self, snapshot: RelationSnapshot, width: int, fields: Sequence[Field], *, ends: bool = False
    ) -> None:
        """Leave stored entries in a snapshot, and load them when a change first touches their first ``width`` keys.

        ``fields`` are the columns in which they are stored. With ``ends``, only the touched entry is loaded then, and
        of its group the least and the greatest ones (``bring_ends``). Entries that loops look up are loaded by
        ``bring``.
        """
        self._snapshot = snapshot
        self._width = width
        self._fields = tuple(fields)
        self._columns = tuple(range(len(fields)))
        self._ends = {} if ends else None

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
        if self._ends is not None:
            self._ends.clear()  # there may be entries now that are nearer to an end than those that are loaded
        self._snapshot = extend_snapshot(self._snapshot, part)

    @property
    def parts(self) -> int:
        """The number of parts of the snapshot; 0 if all entries are loaded."""
        return 0 if self._snapshot is None else part_count(self._snapshot)

    @property
    def columns(self) -> int:
        """The number of columns of a stored entry, as far as there is one."""
        return len(self._fields) or len(next(iter(self.entries), ())) + len(self.zeros)

    @property
    def size(self) -> int:
        """The number of entries in dictionaries."""
        return len(self.entries)

    @property
    def changed(self) -> bool:
        """True if the epoch has touched the map, or may have."""
        return bool(self.journal) or self._came is not None

    @property
    def is_partial(self) -> bool:
        """True if stored entries that no change has touched are not loaded."""
        return self._snapshot is not None

    @property
    def stored(self) -> LookupSnapshot | None:
        """The snapshot, if it leaves entries in the store until they are looked up."""
        return self._snapshot if isinstance(self._snapshot, LookupSnapshot) else None

    def fill(self, keys: Iterable[Row]) -> None:
        """Load the stored entries under ``keys``, or all that share their first keys with them if these are read
        together, unless they are loaded."""
        if self._ends is not None:
            self.bring(self._columns, set(keys))
        elif self._snapshot is not None:
            self.bring(self.first, {key[: self._width] for key in keys})

    def fill_groups(self, groups: Collection[Row]) -> None:
        """Load the stored entries of groups, or as many at each end as are read, unless they are loaded."""
        if self._ends is None:
            self.fill(groups)
        elif missing := {group for group in groups if group not in self._ends and group not in self._known}:
            assert self._snapshot is not None
            found = find_ends(self._snapshot.table(self.first, missing, self._columns), self._fields, missing)
            for group, ends in found.items():
                self._load(ends.rows)
                if ends.between is None:
                    self._known.add(group)
                else:
                    self._ends[group] = ends.between

    @property
    def reads_ends(self) -> bool:
        """True if of groups only the ends are loaded."""
        return self._ends is not None

    def has_end(self, group: Row, value: Any, *, least: bool) -> bool:
        """True if ``value``, the least or greatest of the entries of a group that are loaded, is that of all."""
        between = None if self._ends is None or group in self._known else self._ends.get(group)
        if between is None:
            return True
        return value is not None and bool(value <= between[0] if least else value >= between[1])

    def fill_whole_group(self, group: Row) -> None:
        """Load all stored entries of a group, unless they are loaded."""
        self.bring(self.first, [group])

    @property
    def first(self) -> ColumnPositions:
        """The positions of the keys by which touched entries are loaded."""
        return self._columns[: self._width]

    def bring(self, positions: ColumnPositions, keys: Collection[Row]) -> None:
        """Load the stored entries whose keys at ``positions`` are among ``keys``, unless they are loaded."""
        if missing := self.missing(positions, keys):
            self.keep(positions, missing, None, self.planned(positions, missing).rows())

    def missing(
        self, positions: ColumnPositions, keys: Collection[Row], columns: ColumnPositions | None = None
    ) -> set[Row]:
        """Those of ``keys`` whose stored entries are not loaded yet."""
        asked = set(keys) - self._filled.get(positions, _NOTHING)
        if positions == self._columns and self._ends is not None:
            return {key for key in asked if not self._is_known(key)}
        return asked - self._known if positions == self.first else asked

    def _is_known(self, key: Row) -> bool:
        """True if an entry, or that there is none, has been read from the snapshot, and may have changed since."""
        return key in self._known or key[: self._width] in self._known

    def planned(
        self, positions: ColumnPositions, keys: Collection[Row], columns: ColumnPositions | None = None
    ) -> SnapshotLookup:
        """The fetch of the stored changes under ``keys``."""
        assert self._snapshot is not None
        return SnapshotLookup(self._snapshot, positions, keys, self._columns)

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
        self._load(rows)
        self._filled.setdefault(positions, set()).update(keys)
        if positions == self.first or (positions == self._columns and self._ends is not None):
            self._known.update(keys)

    def _load(self, rows: Iterable[WeightedRow]) -> None:
        found = {key: entry for key, entry in self._summed(rows).items() if not self._is_known(key)}
        self._known.update(found)
        self.entries.update(found)
        for follower in self._followers:
            follower.fill(found.items())

    def index(self, positions: tuple[int, ...]) -> Mapping[Any, Iterable[tuple[Row, E]]]:
        """Index of the entries by their keys at ``positions``: built once, then maintained in O(1) per change."""
        if positions not in self._indexes:
            self._indexes[positions] = self._followed(HashIndex(positions))
        return self._indexes[positions].pairs

    def has_index(self, positions: tuple[int, ...]) -> bool:
        """True if there is an index by the keys at ``positions``."""
        return positions in self._indexes

    def order(self, positions: tuple[int, ...], column: int, floats: bool) -> OrderedIndex:
        """Index of the entries by their keys at ``positions``, ordered by the key at ``column`` (``floats``: a
        DOUBLE)."""
        if (positions, column) not in self._orders:
            ordered = OrderedIndex(positions, column, self.numbers_of, self.zeros, floats)
            self._orders[positions, column] = self._followed(ordered)
        return self._orders[positions, column]

    def column_order(self, position: int) -> ColumnOrder:
        """The entries in the order of their keys at ``position``."""
        return self.states(("order", position), lambda: ColumnOrder(position))

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
        if forgotten.ends or forgotten.tail is not None:
            there = {key: self.numbers_of(self.entries[key]) for key in gone}
            dead = forgotten.gone({key: self._link(forgotten, n) for key, n in there.items() if n[0] > 0})
            gone = [*dead, *(key for key, numbers in there.items() if numbers[0] <= 0)]
        for key in gone:
            self._put(key, None)

    @staticmethod
    def _link(forgotten: ExpiredEntries, numbers: Sequence[Any]) -> int:
        """How long the chain of an entry goes on; of ring values the length is the first one."""
        link = None if forgotten.tail is None else forgotten.tail.link
        return int(numbers[1]) if isinstance(link, str) else link or 0

    def touched(self) -> Iterator[tuple[Row, E | None, E | None]]:
        """Each key of the journal with its entry before the epoch and now."""
        if self._came is not None and len(self._came) == len(self.journal):
            return zip(self._came, repeat(None), self._came.values(), strict=False)
        return zip(self.journal, self.journal.values(), map(self.entries.get, self.journal), strict=True)

    def settle(self) -> None:
        """Make the current entries the state from which the next epoch starts."""
        self._came = None
        self.journal = {}

    def rollback(self) -> None:
        """Restore every touched entry."""
        for key, old in self.journal.items():
            self._put(key, old)
        self.journal.clear()
