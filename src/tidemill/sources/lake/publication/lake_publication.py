"""Protocol of a lake table that a view is published as: the epoch that it shows, and commits with epochs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import pyarrow as pa

from tidemill.model.errors import NameTaken

__all__ = [
    "COPY_ON_WRITE",
    "MERGE_ON_READ",
    "WRITES",
    "CatalogPlace",
    "CommittedBy",
    "LakePublication",
    "Place",
    "Shown",
    "Written",
    "another_view_is_there",
    "somebody_elses_table_is_there",
]

MERGE_ON_READ = "merge-on-read"
COPY_ON_WRITE = "copy-on-write"

WRITES = {
    MERGE_ON_READ: "deleted rows are marked, and files stay",
    COPY_ON_WRITE: "files with deleted rows are written anew",
}
"""The ways in which rows of a published table are deleted."""


CatalogPlace = tuple[str | None, str]
"""An Iceberg catalog: the path of an SQLite file, or None for one of pyiceberg's configuration, and its name."""


@dataclass(frozen=True)
class Place:
    """Where a table is published: a location of a format, for Iceberg a name in a catalog."""

    format: str
    location: str
    catalog: CatalogPlace | None = None

    def beside(self, name: str) -> Place:
        """The place of another table in the same folder or namespace.

        >>> Place("delta", "s3://lake/sales/spend").beside("visits").location
        's3://lake/sales/visits'
        """
        parent, between, _ = self.location.rpartition("." if self.catalog else "/")
        return Place(self.format, f"{parent}{between}{name}", self.catalog)


@dataclass(frozen=True)
class Shown:
    """The epoch that a table shows, and its newest version.

    A table is ``worn`` if so many of its rows are marked as deleted that writing all rows is cheaper to read.
    """

    epoch: int
    version: int
    worn: bool = False


@dataclass(frozen=True)
class Written:
    """Totals of commits: the rows that changed, all bytes that were written for them, and the version after it."""

    rows: int
    bytes: int
    version: int

    def then(self, later: Written | None) -> Written:
        """Both, of which one came after the other."""
        return self if later is None else Written(self.rows + later.rows, self.bytes + later.bytes, later.version)


class LakePublication(Protocol):
    """A lake table that shows what a view shows at an epoch. Every method that writes is one commit."""

    def shown(self) -> Shown | None:
        """The epoch that the table shows; None if the view was never published there."""

    def replace(self, rows: pa.Table, epoch: int) -> Written:
        """Replace all rows, and the columns."""

    def append(self, rows: pa.Table, epoch: int) -> Written:
        """Add rows."""

    def merge(self, gone: pa.Table, come: pa.Table, epoch: int) -> Written | None:
        """Delete the rows with the keys ``gone``, each of which has one, and add ``come``.

        None if some are not there: then somebody else has changed the table, and nothing is written.
        """

    def compact(self, files: int) -> Written | None:
        """Write small files of similar size as one, if there are so many; the rows and the epoch stay."""

    def vacuum(self, seconds: float) -> None:
        """Delete the files of versions that are no longer shown for so many seconds."""


Said = TypeVar("Said")
"""Record of a commit in the log of its table."""

Told = TypeVar("Told", contravariant=True)


class TableWriter(Protocol[Told]):
    """Commits to a lake table."""

    def replace(self, rows: pa.Table, said: Told) -> Written:
        """Replace all rows, and the columns."""

    def append(self, rows: pa.Table, said: Told) -> Written:
        """Add rows."""

    def merge(self, gone: pa.Table, come: pa.Table, said: Told) -> Written | None:
        """Delete the rows with the keys ``gone``, and add ``come``; None if some of them are not there."""

    def compact(self, files: int) -> Written | None:
        """Write small files of similar size as one, if there are so many."""

    def vacuum(self, seconds: float) -> None:
        """Delete the files of versions that are no longer shown for so many seconds."""


class CommittedBy(ABC, Generic[Said]):
    """The part of a publication that writes: commits by a writer, each of which says its epoch by ``_at``."""

    def __init__(self, writer: TableWriter[Said]) -> None:
        self._commits = writer

    @abstractmethod
    def _at(self, epoch: int) -> Said:
        """The note of a commit of an epoch."""

    def replace(self, rows: pa.Table, epoch: int) -> Written:
        """Replace all rows, and the columns."""
        return self._commits.replace(rows, self._at(epoch))

    def append(self, rows: pa.Table, epoch: int) -> Written:
        """Add rows."""
        return self._commits.append(rows, self._at(epoch))

    def merge(self, gone: pa.Table, come: pa.Table, epoch: int) -> Written | None:
        """Delete the rows with the keys ``gone``, and add ``come``; None if some of them are not there."""
        return self._commits.merge(gone, come, self._at(epoch))

    def compact(self, files: int) -> Written | None:
        """Write small files of similar size as one, if there are so many; the rows and the epoch stay."""
        return self._commits.compact(files)

    def vacuum(self, seconds: float) -> None:
        """Delete the files of versions that are no longer shown for so many seconds."""
        self._commits.vacuum(seconds)


def somebody_elses_table_is_there(view: str, place: Place) -> NameTaken:
    """The error for a table that would be overwritten."""
    return NameTaken(
        f'view "{view}" cannot be published here',
        where=place.location,
        detail=f"There is a table of {place.format.title()} that Tidemill did not publish. It would be overwritten.",
        hint="Give another location, or remove that table.",
    )


def another_view_is_there(view: str, place: Place) -> NameTaken:
    """The error for a table whose rows are now those of another view."""
    return NameTaken(
        f'another view than "{view}" is published here now',
        where=place.location,
        hint="CREATE OR REPLACE one of them, with another location.",
    )
