"""Iceberg tables that views are published as, in a catalog.

Each snapshot has the epoch that the table shows, and whose it is, as properties. They are read before anything is
written, and again before a commit that came after another one is repeated, so an epoch is published once.
"""

from __future__ import annotations

import pyarrow as pa

from tidemill.model.errors import NameTaken
from tidemill.sources.lake.publication.file_tiers import WORN_SHARE
from tidemill.sources.lake.publication.iceberg_writer import OURS, IcebergWriter, Said
from tidemill.sources.lake.publication.lake_publication import MERGE_ON_READ, Shown, Written

__all__ = ["IcebergPublication"]

OWNER = f"{OURS}owner"
EPOCH = f"{OURS}epoch"


class IcebergPublication:
    """The Iceberg table that the view ``name`` is published as; ``owner`` tells its snapshots from those of others."""

    def __init__(
        self, location: str, catalog: tuple[str, str], name: str, owner: str, write: str = MERGE_ON_READ
    ) -> None:
        self._location, self._name, self._owner = location, name, owner
        self._writer = IcebergWriter(location, catalog, marks=write == MERGE_ON_READ)

    def shown(self) -> Shown | None:
        """The epoch that the table shows; None if the view was never published there."""
        found = self._writer.said()
        if found is None:
            return None
        said, version = found
        ours = [one for one in said if OWNER in one]
        if not ours:
            raise NameTaken(
                f'view "{self._name}" cannot be published here',
                where=self._location,
                detail="There is an Iceberg table that was not published by Tidemill, and it would be overwritten.",
                hint="Give another location, or remove that table.",
            )
        if ours[0][OWNER] == self._owner:
            return Shown(int(ours[0][EPOCH]), version, _is_worn(said[0]))
        if any(one[OWNER] == self._owner for one in ours):
            raise NameTaken(
                f'another view than "{self._name}" is published here now',
                where=self._location,
                hint="CREATE OR REPLACE one of them, with another location.",
            )
        return None

    def replace(self, rows: pa.Table, epoch: int) -> Written:
        """Replace all rows, and the columns."""
        return self._writer.replace(rows, self._at(epoch))

    def append(self, rows: pa.Table, epoch: int) -> Written:
        """Add rows."""
        return self._writer.append(rows, self._at(epoch))

    def merge(self, gone: pa.Table, come: pa.Table, epoch: int) -> Written | None:
        """Delete the rows with the keys ``gone``, and add ``come``; None if some of them are not there."""
        return self._writer.merge(gone, come, self._at(epoch))

    def compact(self, files: int) -> Written | None:
        """Write small files of similar size as one, if there are so many; the rows and the epoch stay."""
        return self._writer.compact(files)

    def vacuum(self, seconds: float) -> None:
        """Delete the files of versions that are no longer shown for so many seconds."""
        self._writer.vacuum(seconds)

    def _at(self, epoch: int) -> Said:
        return {OWNER: self._owner, EPOCH: str(epoch)}


def _is_worn(said: Said) -> bool:
    return int(said.get("total-position-deletes", 0)) > WORN_SHARE * int(said.get("total-records", 0))
