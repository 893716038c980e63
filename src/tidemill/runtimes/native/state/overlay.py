"""A large relation in memory: a snapshot in columns, and a dictionary overlay of later changes."""

from __future__ import annotations

from collections.abc import Collection
from operator import itemgetter
from typing import Any

from tidemill.changes.zset import Row, ZSet
from tidemill.runtimes.native.state.row_map import RowMap
from tidemill.runtimes.native.state.snapshot import (
    ColumnPositions,
    RelationSnapshot,
    SnapshotLookup,
    extend_snapshot,
    part_count,
)
from tidemill.runtimes.native.state.stored_lookups import LookupSnapshot


class OverlaidRelation:
    """The sum of a snapshot and the changes since. Equal rows may be in both: loops are linear and need no sum.

    A snapshot is immutable, so fetched rows are cached.
    """

    def __init__(self, snapshot: RelationSnapshot, width: int) -> None:
        self._snapshot = snapshot
        self._width = width
        self._fetched: dict[tuple[ColumnPositions, ColumnPositions], dict[Any, list[tuple[Row, int]]]] = {}
        self._rows = 0
        self.since = RowMap()

    @property
    def remote(self) -> bool:
        """True if each fetch runs a job."""
        return self._snapshot.remote

    @property
    def stored(self) -> LookupSnapshot | None:
        """The snapshot, if it leaves rows in the store until they are looked up."""
        return self._snapshot if isinstance(self._snapshot, LookupSnapshot) else None

    @property
    def columns(self) -> int:
        """The number of columns of a row."""
        return self._width

    @property
    def size(self) -> int:
        """The number of rows in dictionaries."""
        return self._rows + len(self.since.entries)

    @property
    def parts(self) -> int:
        """The number of parts of the snapshot."""
        return part_count(self._snapshot)

    def extend(self, part: RelationSnapshot) -> None:
        """Add what others have committed since, also to the rows that are cached."""
        self.since.settle()
        self._snapshot = extend_snapshot(self._snapshot, part)
        for (positions, columns), held in self._fetched.items():
            key_of, one = itemgetter(*positions), len(positions) == 1
            added: dict[Any, list[tuple[Row, int]]] = {}
            for pair in part.fetch(positions, [(key,) if one else key for key in held], columns):
                added.setdefault(key_of(pair[0]), []).append(pair)
            # New lists, because dictionaries of fewer columns share those of more.
            held.update({key: [*held[key], *rows] for key, rows in added.items()})
            self._rows += sum(map(len, added.values()))

    def lookup(
        self, positions: ColumnPositions, keys: Collection[Row], columns: ColumnPositions | None = None
    ) -> dict[Any, list[tuple[Row, int]]]:
        """The weighted rows under each of ``keys``, in the form of an index: the key of one column is its bare value.

        If ``columns`` are given, only these need be right in rows of the snapshot.
        """
        sought = {key for key in keys if None not in key}
        held = self._from_snapshot(positions, sought, columns)
        changed = self.since.index(positions)
        found = {}
        for key in map(index_key, sought):
            rows = held.get(key, _NONE)
            found[key] = [*rows, *changed[key]] if key in changed else rows
        return found

    def _from_snapshot(
        self, positions: ColumnPositions, keys: set[Row], columns: ColumnPositions | None
    ) -> dict[Any, list[tuple[Row, int]]]:
        if missing := self.missing(positions, keys, columns):
            self.keep(positions, missing, columns, self.planned(positions, missing, columns).rows())
        return self._held(positions, columns)

    def missing(
        self, positions: ColumnPositions, keys: Collection[Row], columns: ColumnPositions | None = None
    ) -> set[Row]:
        """Those of ``keys`` whose rows are not cached yet, neither with these columns nor with more."""
        held, wanted = self._held(positions, columns), set(self._wanted(positions, columns))
        wider = [rows for (by, has), rows in self._fetched.items() if by == positions and wanted < set(has)]
        missing = set()
        for key in keys:
            name = index_key(key)
            if name not in held and None not in key:
                known = next((rows[name] for rows in wider if name in rows), None)
                if known is None:
                    missing.add(key)
                else:
                    held[name] = known
        return missing

    def planned(
        self, positions: ColumnPositions, keys: Collection[Row], columns: ColumnPositions | None = None
    ) -> SnapshotLookup:
        """The fetch of the rows of the snapshot under ``keys``."""
        return SnapshotLookup(self._snapshot, positions, keys, self._wanted(positions, columns))

    def keep(
        self,
        positions: ColumnPositions,
        keys: Collection[Row],
        columns: ColumnPositions | None,
        rows: Collection[tuple[Row, int]],
    ) -> None:
        """Cache fetched rows: ``rows`` are all that the snapshot has under ``keys``."""
        held, key_of = self._held(positions, columns), itemgetter(*positions)
        held.update({index_key(key): [] for key in keys})
        for pair in rows:
            held[key_of(pair[0])].append(pair)
        self._rows += len(rows) + len(keys)

    def _held(self, positions: ColumnPositions, columns: ColumnPositions | None) -> dict[Any, list[tuple[Row, int]]]:
        return self._fetched.setdefault((positions, self._wanted(positions, columns)), {})

    def _wanted(self, positions: ColumnPositions, columns: ColumnPositions | None) -> ColumnPositions:
        """The columns to fetch: the requested ones, or all if None, and the key by which rows are found."""
        return tuple(sorted({*(range(self._width) if columns is None else columns), *positions}))

    def weights(self, rows: Collection[Row]) -> ZSet:
        """The weight of each of ``rows``."""
        everywhere = tuple(range(self._width))
        net = ZSet.summed(self._snapshot.fetch(everywhere, rows, everywhere))
        net.update_by(ZSet({row: self.since.entries[row] for row in rows if row in self.since.entries}))
        return net

    def holders(self, position: int, elements: Collection[Any]) -> list[tuple[Row, int]]:
        """The weighted rows whose array at ``position`` has one of ``elements``."""
        changed = self.since.elements(position)
        return [
            *self._snapshot.holders(position, elements),
            *{row: weight for element in elements for row, weight in changed.holding(element).items()}.items(),
        ]

    def pairs(self) -> list[tuple[Row, int]]:
        """All weighted rows. A list, because an inner loop runs over them once for each row of the loop around it."""
        return [*self._snapshot.pairs(), *self.since.entries.items()]


_NONE: list[tuple[Row, int]] = []


def index_key(key: Row) -> Any:
    """A key in the form that generated code looks up.

    >>> index_key((7,)), index_key((7, "a"))
    (7, (7, 'a'))
    """
    return key[0] if len(key) == 1 else key
