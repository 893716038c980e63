"""Stored rows by key, read from the files of the store: for the first lookups, which are not worth reading all rows.

A lookup skips the row groups whose statistics exclude its keys, and reads the key columns of the others. Reading all
rows of a relation into dictionaries costs as much as hundreds of lookups, and into columns as much as dozens. So
relations and maps stay in the store until so many lookups have been made that reading them would have been as cheap.
Under a memory budget, those that do not fit stay there however many lookups are made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import pyarrow as pa

from tidemill.changes.arrow import from_arrow, plain_array
from tidemill.changes.zset import Row
from tidemill.model.schema import EPOCH
from tidemill.model.types import BigInt, Date, Decimal, Field, Int, String, Timestamp
from tidemill.runtimes.native.state.snapshot import ColumnPositions, ColumnSnapshot, exact_rows
from tidemill.runtimes.native.state_room import StateRoom, StateSize, column_bytes
from tidemill.storage.store import ColumnValues, ReadableStore

LOOKUP_ROWS = 1_000
"""Number of stored rows that take as long to be read into dictionaries as one lookup; fewer are read at once."""

MAX_LOOKUPS = 32
"""Lookups after which all rows of a relation are read, however many it has: columns are read faster than tuples."""

MAX_KEYS = 1_000
"""Number of keys above which a lookup reads all rows."""


KEY_TYPES = (Int, BigInt, Decimal, String, Date, Timestamp)
"""Types whose values are equal in Arrow if they are in SQL; others narrow no lookup down."""


class StoredLookups:
    """Counts the lookups that were made in the store, by relation or map; ``room`` is that for state in memory."""

    def __init__(self, store: ReadableStore, room: StateRoom) -> None:
        self._store = store
        self._room = room
        self._made: Counter[str] = Counter()

    def are_cheaper(self, name: str) -> bool:
        """True if the next lookup in a relation or map should read the store, and not all rows."""
        return self._made[name] < min(self._store.rows(name) // LOOKUP_ROWS, MAX_LOOKUPS)

    def are_needed(self, name: str, columns: int, *, bytes_of: StateSize = column_bytes) -> bool:
        """True if a relation or map of so many columns must stay in the store, because there is no room for it."""
        rows = self._store.rows(name)
        return rows >= LOOKUP_ROWS and not self._room.fits(bytes_of(rows, columns))

    def snapshot(
        self, name: str, fields: Sequence[Field], *, until: int | None = None, in_order: bool = False
    ) -> LookupSnapshot:
        """A snapshot of a relation or map that counts its lookups here."""
        return LookupSnapshot(self, self._store, name, fields, until=until, in_order=in_order)

    def note(self, name: str) -> None:
        """Count a lookup."""
        self._made[name] += 1


class LookupSnapshot:
    """Rows that are left in the store: as of epoch ``until``, or as of the last epoch whenever they are looked up.

    The latter is for maps. Entries that were loaded are kept up to date, and are never loaded again; all others are the
    same in every epoch, since nothing has touched them.
    """

    remote = False

    def __init__(
        self,
        lookups: StoredLookups,
        store: ReadableStore,
        name: str,
        fields: Sequence[Field],
        *,
        until: int | None,
        in_order: bool,
    ) -> None:
        """``in_order`` asks for rows in order of epochs, which sums of DOUBLE need."""
        self._lookups = lookups
        self._store = store
        self._name = name
        self._fields = tuple(fields)
        self._in_order = in_order
        self.until = until
        self._whole: ColumnSnapshot | None = None

    @property
    def is_read(self) -> bool:
        """True once all rows have been read into columns, because there were many lookups."""
        return self._whole is not None

    def fetch(
        self, positions: ColumnPositions, keys: Collection[Row], columns: ColumnPositions
    ) -> list[tuple[Row, int]]:
        """The rows whose columns at ``positions`` are one of ``keys``. A NULL in a key finds the NULLs."""
        return exact_rows(self.table(positions, keys, columns), self._fields, positions, keys, columns) if keys else []

    def table(self, positions: ColumnPositions, keys: Collection[Row], columns: ColumnPositions) -> pa.Table:
        """The rows under ``keys``, perhaps with others, as columns."""
        where = None if self.is_read else self._bounds(positions, keys)
        if where is None or self._should_be_read(len(keys)):
            return self._columns().table(positions, keys, columns)
        self._lookups.note(self._name)
        return self._read([self._fields[i] for i in columns], where)

    def _should_be_read(self, keys: int) -> bool:
        """True if a lookup of so many keys had better read all rows, and there is room for them."""
        if keys <= MAX_KEYS and self._lookups.are_cheaper(self._name):
            return False
        return not self._lookups.are_needed(self._name, len(self._fields))

    def holders(self, position: int, elements: Collection[Any]) -> list[tuple[Row, int]]:
        """The rows whose array at ``position`` has one of ``elements``, each once."""
        return self._columns().holders(position, elements)

    def pairs(self) -> list[tuple[Row, int]]:
        """All rows, with their weights."""
        return self._whole.pairs() if self._whole is not None else from_arrow(self.whole(), self._fields)

    def whole(self) -> pa.Table:
        """All rows as columns."""
        return self._read(self._fields, None)

    def _bounds(self, positions: ColumnPositions, keys: Collection[Row]) -> ColumnValues | None:
        """The values to look for in each column, as far as the store can; None if it cannot in any."""
        where = {}
        for place, values in zip(positions, zip(*keys, strict=True), strict=True):
            field = self._fields[place]
            found = plain_array(list(set(values)), field.type) if isinstance(field.type, KEY_TYPES) else None
            if found is not None:
                where[field.name] = found
        return where if where or not positions else None

    def _read(self, fields: Sequence[Field], where: ColumnValues | None) -> pa.Table:
        table = self._store.read(self._name, fields, until=self.until, where=where or None)
        return (table.sort_by(EPOCH) if self._in_order else table).drop_columns([EPOCH])

    def _columns(self) -> ColumnSnapshot:
        """All rows in columns; they are kept for later lookups if there is room for them."""
        if self._whole is not None:
            return self._whole
        whole = ColumnSnapshot(self.whole(), self._fields)
        if not self._lookups.are_needed(self._name, len(self._fields)):
            self._whole = whole
        return whole
