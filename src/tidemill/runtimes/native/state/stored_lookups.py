"""Stored rows by key, looked up in the store: for as many lookups as reading all rows would cost.

The store finds rows by an index once that pays (``storage/mapped``), so a lookup costs what it finds and some
milliseconds at most. Reading all rows of a relation costs as much as hundreds or thousands of lookups. So relations and
maps stay in the store until so many lookups have been made that reading them would have been as cheap. Under a memory
budget, those that do not fit stay there however many lookups are made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.changes.arrow import from_arrow, integer_array, plain_array
from tidemill.changes.zset import Row
from tidemill.model.schema import EPOCH
from tidemill.model.types import Date, Decimal, Field, Integral, String, Time, Timestamp
from tidemill.runtimes.native.state.snapshot import ColumnPositions, ColumnSnapshot, exact_rows
from tidemill.runtimes.native.state_room import StateRoom, StateSize, column_bytes
from tidemill.storage.store import ColumnValues, ReadableStore

LOOKUP_ROWS = 1_000
"""Number of stored rows that take as long to be read into memory as one lookup of few keys; fewer are read at once."""

KEY_ROWS = 1
"""Number of stored rows that take as long to be read as a further key to be looked up."""

MANY_FOUND, FEW_SOUGHT = 10_000, 4
"""Rows, and rows for each key, from which those that a lookup has found are compared with its keys in columns."""

KEY_TYPES = (Integral, Decimal, String, Date, Time, Timestamp)
"""Types whose values are equal in Arrow if they are in SQL; others narrow no lookup down."""


class StoredLookups:
    """Counts what lookups in the store have cost, by relation or map; ``room`` is that for state in memory."""

    def __init__(self, store: ReadableStore, room: StateRoom) -> None:
        self._store = store
        self._room = room
        self._spent: Counter[str] = Counter()

    def are_cheaper(self, name: str, keys: int = 0) -> bool:
        """True if the next lookup in a relation or map, of so many keys, should read the store, and not all rows."""
        return self._spent[name] + LOOKUP_ROWS + keys * KEY_ROWS <= self._store.rows(name)

    def are_needed(self, name: str, columns: int, *, bytes_of: StateSize = column_bytes) -> bool:
        """True if a relation or map of so many columns must stay in the store, because there is no room for it."""
        rows = self._store.rows(name)
        return rows >= LOOKUP_ROWS and not self._room.fits(bytes_of(rows, columns))

    def snapshot(
        self, name: str, fields: Sequence[Field], *, until: int | None = None, in_order: bool = False
    ) -> LookupSnapshot:
        """A snapshot of a relation or map that counts its lookups here."""
        return LookupSnapshot(self, self._store, name, fields, until=until, in_order=in_order)

    def note(self, name: str, keys: int, rows: int) -> None:
        """Count a lookup of so many keys, which has read so many rows."""
        self._spent[name] += LOOKUP_ROWS + max(keys * KEY_ROWS, rows)


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
        if not keys:
            return []
        table = self._near(self.table(positions, keys, columns), positions, keys)
        return exact_rows(table, self._fields, positions, keys, columns)

    def _near(self, table: pa.Table, positions: ColumnPositions, keys: Collection[Row]) -> pa.Table:
        """The rows under ``keys``, if these are few of many that were found by values of single columns."""
        if table.num_rows < MANY_FOUND or table.num_rows < FEW_SOUGHT * len(keys) or len(positions) < 2:
            return table
        bounds = self._bounds(positions, keys)
        if bounds is None or len(bounds) < len(positions) or any(None in key for key in keys):
            return table
        names = [self._fields[place].name for place in positions]
        sought = pa.table(
            [plain_array([key[i] for key in keys], self._fields[p].type) for i, p in enumerate(positions)], names=names
        )
        found = table.select(names).append_column("place", integer_array(np.arange(table.num_rows, dtype=np.int64)))
        try:
            near = found.join(sought.cast(found.select(names).schema), names, join_type="left semi")
        except pa.ArrowException:  # of a type that Arrow does not join
            return table
        return table.take(near.column("place").combine_chunks().sort())

    def table(self, positions: ColumnPositions, keys: Collection[Row], columns: ColumnPositions) -> pa.Table:
        """The rows under ``keys``, perhaps with others, as columns."""
        where = None if self.is_read else self._bounds(positions, keys)
        if where is None or self._should_be_read(len(keys)):
            return self._columns().table(positions, keys, columns)
        found = self._read([self._fields[i] for i in columns], where)
        self._lookups.note(self._name, len(keys), found.num_rows)
        return found

    def _should_be_read(self, keys: int) -> bool:
        """True if a lookup of so many keys had better read all rows, and there is room for them."""
        return not self._lookups.are_cheaper(self._name, keys) and not self._lookups.are_needed(
            self._name, len(self._fields)
        )

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
        """The keys as columns, as far as the store can look them up; None if it cannot by any column."""
        by = [i for i, place in enumerate(positions) if isinstance(self._fields[place].type, KEY_TYPES)]
        distinct = {tuple([key[i] for i in by]) for key in keys}
        where = {}
        for i, values in zip(by, zip(*distinct, strict=True), strict=True):
            field = self._fields[positions[i]]
            found = plain_array(values, field.type)
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
