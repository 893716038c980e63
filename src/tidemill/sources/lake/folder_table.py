"""Plain folders of Parquet, CSV or JSON files: files that appear, disappear or change are the change.

A folder has no history, so its position is a listing of its files. Files that were added since are read alone. The rows
of a file that is gone, or was other rows before, can no longer be read: then all files are, and the difference from the
rows that are kept is the change.
"""

from __future__ import annotations

import json
import time
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from hashlib import file_digest, sha256
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from tidemill.model.errors import SetupError, SourceLost, Unsupported
from tidemill.model.schema import Table
from tidemill.sources.ingest.file_listing import files_below
from tidemill.sources.ingest.files import read_files
from tidemill.sources.lake.data_files import together
from tidemill.sources.lake.lake_table import LakeChange

__all__ = ["FolderTable", "ListedFile"]

SETTLED_NS = 2_000_000_000
"""Age of a file in nanoseconds from which on its time tells that it has not changed: clocks of disks are coarse."""

MOST_FILES = 50_000
"""Largest number of files of a folder: their listing is a part of every commit that changes it."""

IN_PROGRESS = "_temporary"
"""The folder that Spark has in one that it is writing."""


@dataclass(frozen=True)
class ListedFile:
    """A file as it was read: its size, its time in nanoseconds, 0 if that was too recent to tell, and its checksum."""

    size: int
    time: int
    checksum: str


Listing = Mapping[str, ListedFile]
"""Files by their path in the folder."""


class FolderTable:
    """A folder of files of one format, as it is now."""

    HAS_SCHEMA: ClassVar[bool] = False

    def __init__(self, location: str, format: str) -> None:
        self._root, self._format = Path(location), format
        self._known: Listing = {}
        with _translated(self._root):
            if not self._root.is_dir():
                raise SetupError("there is no such folder", where=location)

    def schema(self) -> pa.Schema:
        """The columns of the first file, if it is Parquet and there are no partitions; else none can be told."""
        files = self._files()
        if self._format != "parquet" or not files or any("=" in str(file) for file in files):
            raise Unsupported(
                "the columns of the table must be declared",
                where=str(self._root),
                detail=f"{'Partitions' if self._format == 'parquet' and files else 'These files'} do not tell types.",
                hint=f"CREATE TABLE name (column type, ...) USING {self._format} LOCATION '...'",
            )
        try:
            return pq.read_schema(self._root / files[0])
        except (OSError, pa.ArrowException) as error:
            raise SourceLost("a data file cannot be read", where=str(files[0]), detail=str(error)) from error

    def is_newer(self, since: str) -> bool:
        """True if a file appeared, disappeared or changed. One whose time alone changed did not."""
        self._known = _listing_of(since)
        return _checksums(self._listing) != _checksums(self._known)

    @property
    def _position(self) -> str:
        """A checksum of the listing, and the listing."""
        listed = {path: [one.size, one.time, one.checksum] for path, one in sorted(self._listing.items())}
        told = [(path, one.checksum) for path, one in sorted(self._listing.items())]
        version = sha256(json.dumps(told).encode()).hexdigest()[:12]
        return f"{version} {b64encode(zlib.compress(json.dumps(listed).encode())).decode()}"

    def contents(self, table: Table) -> LakeChange:
        """All rows of all files."""
        return self._read(list(self._listing), table, whole=True)

    def change(self, table: Table, since: str) -> LakeChange:
        """The rows of new files, or all rows if a file is gone or has changed."""
        before = self._known = _listing_of(since)
        if any(self._listing.get(path, _NONE).checksum != one.checksum for path, one in before.items()):
            return self.contents(table)
        return self._read([path for path in self._listing if path not in before], table, whole=False)

    def _read(self, paths: Sequence[str], table: Table, *, whole: bool) -> LakeChange:
        files = [self._root / path for path in paths]
        parts = [read_files(table, files, format=self._format).change.arrow()] if files else []
        listed = self._listing
        del self._listing
        self._known = listed
        if _checksums(self._listing) != _checksums(listed):
            raise SourceLost(
                "the folder changes while it is read",
                where=str(self._root),
                hint="Write files under a name that begins with a dot, and rename them when they are whole.",
            )
        how = "all files" if whole else "new files"
        return LakeChange(table, together(parts, table), self._position, how, whole=whole, files=len(files))

    @cached_property
    def _listing(self) -> Listing:
        """The files as they are now. Those that are as they were known to be are not read for their checksums."""
        files = self._files()
        if len(files) > MOST_FILES:
            raise Unsupported(
                f"the folder has more than {MOST_FILES:,} files", where=str(self._root), hint="Use a Delta table."
            )
        with _translated(self._root):
            return {str(file): self._listed(file) for file in files}

    def _files(self) -> list[Path]:
        if (self._root / IN_PROGRESS).exists():
            raise SourceLost(
                "the folder is being written", where=str(self._root), detail=f"There is {IN_PROGRESS}, of Spark."
            )
        with _translated(self._root):
            return [file.relative_to(self._root) for file in files_below(self._root)]

    def _listed(self, file: Path) -> ListedFile:
        found, known = (self._root / file).stat(), self._known.get(str(file))
        if known is not None and known.time and (known.size, known.time) == (found.st_size, found.st_mtime_ns):
            return known
        settled = time.time_ns() - found.st_mtime_ns > SETTLED_NS
        with (self._root / file).open("rb") as content:
            checksum = file_digest(content, "sha256").hexdigest()
        return ListedFile(found.st_size, found.st_mtime_ns if settled else 0, checksum)


_NONE = ListedFile(0, 0, "")


@contextmanager
def _translated(root: Path) -> Iterator[None]:
    """Context in which errors of the disk become ours: of a file that is gone again, or that may not be read."""
    try:
        yield
    except OSError as error:
        raise SourceLost(
            "the folder cannot be read", where=str(error.filename or root), detail=error.strerror or str(error)
        ) from error


def _checksums(listing: Listing) -> dict[str, str]:
    return {path: one.checksum for path, one in listing.items()}


def _listing_of(position: str) -> Listing:
    """The listing that a position holds."""
    listed = json.loads(zlib.decompress(b64decode(position.partition(" ")[2])))
    return {path: ListedFile(*values) for path, values in listed.items()}
