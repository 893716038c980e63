"""Iceberg tables that views are published as, in a catalog.

Each snapshot has the epoch that the table shows, and whose it is, as properties. They are read before anything is
written, and again before a commit that came after another one is repeated, so an epoch is published once.
"""

from __future__ import annotations

from tidemill.sources.lake.publication.file_tiers import WORN_SHARE
from tidemill.sources.lake.publication.iceberg_writer import OURS, IcebergWriter, Said
from tidemill.sources.lake.publication.key_index import KeyIndex
from tidemill.sources.lake.publication.lake_publication import (
    MERGE_ON_READ,
    CatalogPlace,
    CommittedBy,
    Place,
    Shown,
    another_view_is_there,
    somebody_elses_table_is_there,
)

__all__ = ["IcebergPublication"]

OWNER = f"{OURS}owner"
EPOCH = f"{OURS}epoch"


class IcebergPublication(CommittedBy[Said]):
    """The Iceberg table that the view ``name`` is published as; ``owner`` tells its snapshots from those of others."""

    def __init__(
        self,
        place: Place,
        catalog: CatalogPlace,
        name: str,
        owner: str,
        keys: KeyIndex | None,
        write: str = MERGE_ON_READ,
    ) -> None:
        self._place, self._name, self._owner = place, name, owner
        self._writer = IcebergWriter(place.location, catalog, keys, marks=write == MERGE_ON_READ)
        super().__init__(self._writer)

    def shown(self) -> Shown | None:
        """The epoch that the table shows; None if the view was never published there."""
        found = self._writer.said()
        if found is None:
            return None
        said, version = found
        ours = [one for one in said if OWNER in one]
        if not ours:
            raise somebody_elses_table_is_there(self._name, self._place)
        if ours[0][OWNER] == self._owner:
            return Shown(int(ours[0][EPOCH]), version, _is_worn(said[0]))
        if any(one[OWNER] == self._owner for one in ours):
            raise another_view_is_there(self._name, self._place)
        return None

    def _at(self, epoch: int) -> Said:
        return {OWNER: self._owner, EPOCH: str(epoch)}


def _is_worn(said: Said) -> bool:
    return int(said.get("total-position-deletes", 0)) > WORN_SHARE * int(said.get("total-records", 0))
