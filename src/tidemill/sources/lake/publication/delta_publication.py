"""Delta tables that views are published as.

Each commit has the epoch that the table shows as the version of an application transaction. It is read before anything
is written, so an epoch is published once, also if the process ends between its own commit and that of the table.
"""

from __future__ import annotations

from hashlib import sha256

from tidemill.sources.lake.publication.delta_writer import Applications, DeltaWriter
from tidemill.sources.lake.publication.key_index import KeyIndex
from tidemill.sources.lake.publication.lake_publication import (
    MERGE_ON_READ,
    CommittedBy,
    Place,
    Shown,
    another_view_is_there,
    somebody_elses_table_is_there,
)

__all__ = ["DeltaPublication"]

PUBLISHED = "tidemill"
"""The application whose transaction tells which view is published at a location: its version is that of ``_mark``."""


class DeltaPublication(CommittedBy[Applications]):
    """The Delta table that the view ``name`` is published as; ``owner`` tells its transactions from those of others."""

    def __init__(self, place: Place, name: str, owner: str, keys: KeyIndex | None, write: str = MERGE_ON_READ) -> None:
        self._place, self._name, self._owner = place, name, owner
        self._writer = DeltaWriter(place.location, keys, marks=write == MERGE_ON_READ)
        super().__init__(self._writer)

    def shown(self) -> Shown | None:
        """The epoch that the table shows; None if the view was never published there."""
        table = self._writer.table()
        if table is None:
            return None
        seen: int | None = table.transaction_version(self._owner)
        mark: int | None = table.transaction_version(PUBLISHED)
        if mark is None:
            raise somebody_elses_table_is_there(self._name, self._place)
        if seen is not None and mark != _mark(self._owner):
            raise another_view_is_there(self._name, self._place)
        return None if seen is None else Shown(seen, table.version(), self._writer.is_worn(table))

    def _at(self, epoch: int) -> Applications:
        return {self._owner: epoch, PUBLISHED: _mark(self._owner)}


def _mark(owner: str) -> int:
    """A number for an owner, different from those of others."""
    return int.from_bytes(sha256(owner.encode()).digest()[:7])
