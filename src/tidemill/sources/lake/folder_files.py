"""The files of a folder, on a disk of this machine or in an object store: their listing, and how one is read.

A listing has for each file what is different when its content is: the checksum of a file on a disk, and the tag that an
object store has for each object.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from tidemill.model.errors import SetupError, SourceLost, TidemillError
from tidemill.model.paths import url_scheme
from tidemill.sources.ingest.file_listing import files_below, is_hidden
from tidemill.storage.filesystem.addresses import cloud_address
from tidemill.storage.filesystem.objects.bucket import TaggedObject, open_bucket
from tidemill.storage.filesystem.objects.requests import answered

__all__ = ["BucketFolder", "DiskFolder", "ListedFile", "Listing", "open_folder"]

SETTLED_NS = 2_000_000_000
"""Age of a file in nanoseconds from which on its time tells that it has not changed: clocks of disks are coarse."""

IN_PROGRESS = "_temporary"
"""The folder that Spark has in one that it is writing."""


@dataclass(frozen=True)
class ListedFile:
    """A file as it was read: its size, its time in nanoseconds, 0 if that tells nothing, and its checksum or tag."""

    size: int
    time: int
    checksum: str


Listing = Mapping[str, ListedFile]
"""Files by their path in the folder."""


class DiskFolder:
    """A folder of this machine. Files whose names say that they are no data are left out."""

    def __init__(self, root: Path) -> None:
        self._root = root
        with _translated(str(root)):
            if not root.is_dir():
                raise SetupError("there is no such folder", where=str(root))

    def names(self) -> list[str]:
        """Paths of all files below the folder, in order. Refused while Spark writes there."""
        with _translated(str(self._root)):
            _require_written(str(self._root), [IN_PROGRESS] if (self._root / IN_PROGRESS).exists() else [])
            return [str(file.relative_to(self._root)) for file in files_below(self._root)]

    def listing(self, names: Iterable[str], known: Listing) -> Listing:
        """The files with their checksums, of which those of the same size and time are known."""
        with _translated(str(self._root)):
            return {name: self._listed(name, known.get(name)) for name in names}

    def _listed(self, name: str, known: ListedFile | None) -> ListedFile:
        found = (self._root / name).stat()
        if known is not None and known.time and (known.size, known.time) == (found.st_size, found.st_mtime_ns):
            return known
        settled = time.time_ns() - found.st_mtime_ns > SETTLED_NS
        with (self._root / name).open("rb") as content:
            checksum = file_digest(content, "sha256").hexdigest()
        return ListedFile(found.st_size, found.st_mtime_ns if settled else 0, checksum)

    @contextmanager
    def local(self, name: str, listed: ListedFile | None = None) -> Iterator[Path]:
        """The file itself."""
        yield self._root / name


class BucketFolder:
    """A folder of an object store: the objects whose names begin with its path."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._objects = open_bucket(cloud_address(address))
        self._found: dict[str, TaggedObject] = {}

    def names(self) -> list[str]:
        """The objects of the folder. Those of no bytes are what some programs make in place of folders."""
        with _translated(self._address):
            found = answered(self._objects.tagged)
        if not found:
            raise SetupError(
                "there is no such folder", where=self._address, detail="No object has a name that begins so."
            )
        _require_written(self._address, {name.partition("/")[0] for name in found})
        self._found = {name: one for name, one in sorted(found.items()) if one.size and not _is_hidden(name)}
        return list(self._found)

    def listing(self, names: Iterable[str], known: Listing) -> Listing:
        """The objects with their tags, which the store has told with their names."""
        return {name: ListedFile(self._found[name].size, 0, self._tag(name)) for name in names}

    def _tag(self, name: str) -> str:
        tag = self._found[name].tag
        if tag is None:
            raise SourceLost("the object store does not tell if an object has changed", where=f"{self._address}/{name}")
        return tag

    @contextmanager
    def local(self, name: str, listed: ListedFile | None = None) -> Iterator[Path]:
        """A copy of the object, which is there as long as the context is; errors tell the object's address."""
        with TemporaryDirectory(prefix="tidemill-") as folder:
            # Folders of the address may be partitions, too, as they may in the path of a folder on a disk.
            copy = Path(folder, *PurePosixPath(f"{urlsplit(self._address).path}/{name}").parts[1:])
            copy.parent.mkdir(parents=True, exist_ok=True)
            tag = None if listed is None else listed.checksum
            with _translated(self._address):
                answered(lambda: self._objects.fetch(name, copy, tag=tag))
            try:
                yield copy
            except TidemillError as error:
                error.where = str(error.where).replace(str(copy), f"{self._address}/{name}") if error.where else None
                raise


def open_folder(location: str) -> DiskFolder | BucketFolder:
    """The folder at a location that was checked."""
    return DiskFolder(Path(location)) if url_scheme(location) is None else BucketFolder(location)


def _is_hidden(name: str) -> bool:
    return any(map(is_hidden, name.split("/")))


def _require_written(where: str, names: Iterable[str]) -> None:
    if IN_PROGRESS in names:
        raise SourceLost("the folder is being written", where=where, detail=f"There is {IN_PROGRESS}, of Spark.")


@contextmanager
def _translated(root: str) -> Iterator[None]:
    """Context in which errors of the disk become ours: of a file that is gone again, or that may not be read."""
    try:
        yield
    except OSError as error:
        file = str(error.filename or "")
        where = (file or root) if url_scheme(root) is None else f"{root}/{file}".rstrip("/")
        raise SourceLost("the folder cannot be read", where=where, detail=error.strerror or str(error)) from error
