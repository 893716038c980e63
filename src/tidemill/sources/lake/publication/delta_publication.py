"""Delta tables that views are published as.

Each commit has the epoch that the table shows as the version of an application transaction. It is read before anything
is written, so an epoch is published once, also if the process ends between its own commit and that of the table.
"""

from __future__ import annotations

from hashlib import sha256

import pyarrow as pa

from tidemill.model.errors import NameTaken
from tidemill.sources.lake.publication.delta_writer import Applications, DeltaWriter
from tidemill.sources.lake.publication.lake_publication import MERGE_ON_READ, Shown, Written

__all__ = ["DeltaPublication"]

PUBLISHED = "tidemill"
"""The application whose transaction tells which view is published at a location: its version is that of ``_mark``."""


class DeltaPublication:
    """The Delta table that the view ``name`` is published as; ``owner`` tells its transactions from those of others."""

    def __init__(self, location: str, name: str, owner: str, write: str = MERGE_ON_READ) -> None:
        self._location, self._name, self._owner = location, name, owner
        self._writer = DeltaWriter(location, marks=write == MERGE_ON_READ)

    def shown(self) -> Shown | None:
        """The epoch that the table shows; None if the view was never published there."""
        table = self._writer.table()
        if table is None:
            return None
        seen: int | None = table.transaction_version(self._owner)
        mark: int | None = table.transaction_version(PUBLISHED)
        if mark is None:
            raise NameTaken(
                f'view "{self._name}" cannot be published here',
                where=self._location,
                detail="There is a Delta table that was not published by Tidemill, and it would be overwritten.",
                hint="Give another location, or remove that table.",
            )
        if seen is not None and mark != _mark(self._owner):
            raise NameTaken(
                f'another view than "{self._name}" is published here now',
                where=self._location,
                hint="CREATE OR REPLACE one of them, with another location.",
            )
        return None if seen is None else Shown(seen, table.version(), self._writer.is_worn(table))

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

    def _at(self, epoch: int) -> Applications:
        return {self._owner: epoch, PUBLISHED: _mark(self._owner)}


def _mark(owner: str) -> int:
    """A number for an owner, different from those of others."""
    return int.from_bytes(sha256(owner.encode()).digest()[:7])
