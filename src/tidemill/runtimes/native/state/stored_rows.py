"""Rows of large tables by key, read from the store: for the first few lookups, which are not worth loading a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

import pyarrow as pa

from tidemill.changes.arrow import arrow_type, from_arrow
from tidemill.changes.zset import Row
from tidemill.model.types import BigInt, Date, Field, Int, String
from tidemill.runtimes.native.state.snapshot import ColumnPositions
from tidemill.storage.store import ReadableStore

MAX_LOOKUPS = 8
"""Lookups in a relation after which it is loaded: each reads the key columns of all row groups that may have a key."""

MAX_KEYS = 100
"""Number of keys above which a relation is loaded at once."""

KEY_TYPES = (Int, BigInt, String, Date)
"""Types of key columns whose statistics tell which row groups can be skipped."""


class StoredRows:
    """Lookups in the files of a store. What was found is kept until the next epoch is stored."""

    def __init__(self, store: ReadableStore) -> None:
        self._store = store
        self._lookups: Counter[str] = Counter()
        self._epoch = -1
        self._found: dict[tuple[str, ColumnPositions, Row], list[tuple[Row, int]]] = {}

    def find(
        self, name: str, fields: Sequence[Field], positions: ColumnPositions, keys: Collection[Row]
    ) -> list[tuple[Row, int]] | None:
        """The weighted rows under ``keys``, not summed; None if the relation had better be loaded."""
        if len(keys) > MAX_KEYS or not all(isinstance(fields[i].type, KEY_TYPES) for i in positions):
            return None
        if self._store.epoch != self._epoch:
            self._epoch = self._store.epoch
            self._found.clear()
        missing = {key for key in keys if None not in key and (name, positions, key) not in self._found}
        if missing and self._lookups[name] >= MAX_LOOKUPS:
            return None
        if missing:
            self._lookups[name] += 1
            self._fetch(name, fields, positions, missing)
        return [pair for key in keys for pair in self._found.get((name, positions, key), ())]

    def forget(self) -> None:
        """Forget what was found: the store has removed or replaced rows."""
        self._found.clear()

    def _fetch(self, name: str, fields: Sequence[Field], positions: ColumnPositions, keys: set[Row]) -> None:
        columns = zip(positions, zip(*keys, strict=True), strict=True)
        where = {fields[i].name: pa.array(sorted(set(values)), arrow_type(fields[i].type)) for i, values in columns}
        table = self._store.read(name, fields, where=where)
        self._found.update({(name, positions, key): [] for key in keys})
        for pair in from_arrow(table, fields):
            under = self._found.get((name, positions, tuple([pair[0][i] for i in positions])))
            if under is not None:
                under.append(pair)
