"""State that has missed epochs: what others have committed since is read from the store and added to it.

A large epoch runs on Spark, and leaves the native state as of the epoch before. Loading it again costs its size, adding
the missed changes costs the size of the change. So it is kept, with the number of its epoch, until it is next used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from tidemill.model.errors import EpochGone
from tidemill.model.schema import EPOCH
from tidemill.model.types import DOUBLE, Field
from tidemill.program.maps import Map
from tidemill.storage.store import ReadableStore

COLUMN_ROWS = 16
"""Number of rows that can be read as columns at the cost of turning one into a tuple in a dictionary."""


class MissedEpochs:
    """Relations and stages that have missed epochs, each with the epoch that its state shows."""

    def __init__(self, store: ReadableStore) -> None:
        self._store = store
        self.shown: dict[str, int] = {}
        """The epoch that each of them shows."""

    def __contains__(self, name: str) -> bool:
        return name in self.shown

    def names(self) -> list[str]:
        """The names of all that has missed epochs."""
        return list(self.shown)

    def note(self, names: Iterable[str]) -> None:
        """Note that the state under ``names`` shows the last epoch, and misses those that follow."""
        for name in names:
            self.shown.setdefault(name, self._store.epoch)

    def forget(self, name: str) -> None:
        """Remove a name that is released or up to date."""
        self.shown.pop(name, None)

    def clear(self) -> None:
        """Remove all names."""
        self.shown.clear()

    def take(self, name: str, maps: Mapping[str, Sequence[Field]]) -> dict[str, pa.Table] | None:
        """The changes that ``name`` has missed in some stored ``maps``, after which it is up to date; None if
        unknown."""
        return read_missed(self._store, self.shown.pop(name), maps)


def read_missed(store: ReadableStore, since: int, maps: Mapping[str, Sequence[Field]]) -> dict[str, pa.Table] | None:
    """The stored changes of some maps after epoch ``since``; None if the store no longer distinguishes them."""
    try:
        return {name: store.read(name, fields, since=since) for name, fields in maps.items()}
    except EpochGone:
        return None


def is_cheaper_to_add(changed: float, stored: float) -> bool:
    """True if adding so many missed rows costs less than loading all stored ones.

    An added row updates indexes one by one, which a load fills in bulk.

    >>> is_cheaper_to_add(10, 100), is_cheaper_to_add(60, 100)
    (True, False)
    """
    return 2 * changed <= stored


def in_epoch_order(table: pa.Table, map_: Map) -> pa.Table:
    """Stored changes of a map, in order of epochs if its sums depend on it."""
    return table.sort_by(EPOCH) if any(value.type == DOUBLE for value in map_.values) else table
