"""Plain folders of Parquet, CSV or JSON files: files that appear, disappear or change are the change.

A folder has no history, so its position is a listing of its files. Files that were added since are read alone. The rows
of a file that is gone, or was other rows before, can no longer be read: then all files are, and the difference from the
rows that are kept is the change.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from functools import cached_property
from hashlib import sha256
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from tidemill.model.errors import HistoryGone, SourceLost, Unsupported
from tidemill.model.schema import Table
from tidemill.sources.ingest.files import file_batches
from tidemill.sources.lake.folder_files import ListedFile, Listing, open_folder
from tidemill.sources.lake.lake_table import LakeChange

__all__ = ["FolderTable"]

MOST_FILES = 50_000
"""Largest number of files of a folder: their listing is a part of every commit that changes it."""


class FolderTable:
    """A folder of files of one format, as it is now."""

    HAS_HISTORY: ClassVar[bool] = False
    HAS_SCHEMA: ClassVar[bool] = False

    def __init__(self, location: str, format: str) -> None:
        self._location, self._format = location, format
        self._files = open_folder(location)
        self._known: Listing = {}

    def schema(self) -> pa.Schema:
        """The columns of the first file, if it is Parquet and there are no partitions; else none can be told."""
        names = self._files.names()
        if self._format != "parquet" or not names or any("=" in name for name in names):
            raise Unsupported(
                "the columns of the table must be declared",
                where=self._location,
                detail=f"{'Partitions' if self._format == 'parquet' and names else 'These files'} do not tell types.",
                hint=f"CREATE TABLE name (column type, ...) USING {self._format} LOCATION '...'",
            )
        try:
            with self._files.local(names[0]) as file:
                return pq.read_schema(file)
        except (OSError, pa.ArrowException) as error:
            raise SourceLost("a data file cannot be read", where=names[0], detail=str(error)) from error

    def is_newer(self, since: str) -> bool:
        """True if a file appeared, disappeared or changed. One whose time alone changed did not."""
        self._known = _listing_of(since)
        return _checksums(self._listing) != _checksums(self._known)

    @property
    def position(self) -> str:
        """A checksum of the listing, and the listing."""
        listed = {path: [one.size, one.time, one.checksum] for path, one in sorted(self._listing.items())}
        told = [(path, one.checksum) for path, one in sorted(self._listing.items())]
        version = sha256(json.dumps(told).encode()).hexdigest()[:12]
        return f"{version} {b64encode(zlib.compress(json.dumps(listed).encode())).decode()}"

    def contents(self, table: Table) -> LakeChange:
        """All rows of all files."""
        return self._read(list(self._listing), table, whole=True)

    def contents_at(self, table: Table, position: str) -> pa.Table:
        """All rows, if the files are still those of the position: a folder has no history."""
        if self.is_newer(position):
            raise HistoryGone("the folder has changed since", where=self._location)
        return self.contents(table).rows

    def change(self, table: Table, since: str) -> LakeChange:
        """The rows of new files, or all rows if a file is gone or has changed."""
        before = self._known = _listing_of(since)
        if any(self._listing.get(path, _NONE).checksum != one.checksum for path, one in before.items()):
            return self.contents(table)
        return self._read([path for path in self._listing if path not in before], table, whole=False)

    def _read(self, paths: Sequence[str], table: Table, *, whole: bool) -> LakeChange:
        how = "all files" if whole else "new files"
        return LakeChange(table, self._parts(paths, table), self.position, how, whole=whole, files=len(paths))

    def _parts(self, paths: Sequence[str], table: Table) -> Iterator[pa.Table]:
        """The rows of files, some at a time; refused at the end if the folder has changed meanwhile."""
        for path in paths:
            with self._files.local(path, self._listing[path]) as file:
                yield from (batch.changes.arrow() for batch in file_batches(table, file, self._format))
        listed = self._listing
        del self._listing
        self._known = listed
        if _checksums(self._listing) != _checksums(listed):
            raise SourceLost(
                "the folder changes while it is read",
                where=self._location,
                hint="Write files under a name that begins with a dot, and rename them when they are whole.",
            )

    @cached_property
    def _listing(self) -> Listing:
        """The files as they are now. Those that are as they were known to be are not read for their checksums."""
        names = self._files.names()
        if len(names) > MOST_FILES:
            raise Unsupported(
                f"the folder has more than {MOST_FILES:,} files", where=self._location, hint="Use a Delta table."
            )
        return self._files.listing(names, self._known)


_NONE = ListedFile(0, 0, "")


def _checksums(listing: Listing) -> dict[str, str]:
    return {path: one.checksum for path, one in listing.items()}


def _listing_of(position: str) -> Listing:
    """The listing that a position holds."""
    listed = json.loads(zlib.decompress(b64decode(position.partition(" ")[2])))
    return {path: ListedFile(*values) for path, values in listed.items()}
