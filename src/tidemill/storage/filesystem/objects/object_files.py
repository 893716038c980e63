"""Objects as the files of a warehouse: ``file_system.FileSystem`` says what each method promises.

An object is written whole, and durable when the request is answered, so there is nothing to sync but the log, which is
a sequence of objects (``object_log``). Folders are parts of names. Runs are read from copies on this machine.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePosixPath

from tidemill.storage.filesystem.file_path import FilePath
from tidemill.storage.filesystem.file_system import FileSystem
from tidemill.storage.filesystem.objects.object_lock import ObjectLock
from tidemill.storage.filesystem.objects.object_log import MAX_END, LogPieces, ObjectLog
from tidemill.storage.filesystem.objects.requests import Objects, RepeatedRequests
from tidemill.storage.filesystem.objects.run_copies import RunCopies
from tidemill.storage.filesystem.objects.store_access import StoreAccess, access_from_here

__all__ = ["ObjectFiles", "ObjectPath"]

_LOG = ".log"

KEPT_LOGS = 4
"""Number of logs whose pieces are kept in memory: the newest, and those that a reader has just left."""


@dataclass(frozen=True, slots=True)
class ObjectSize:
    """The size of an object."""

    st_size: int


@dataclass(frozen=True, slots=True)
class ObjectPath:
    """The name of an object or a folder, relative to the address of the warehouse."""

    system: ObjectFiles = field(repr=False)
    key: str = ""

    def __str__(self) -> str:
        return f"{self.system.address}/{self.key}".rstrip("/")

    def __truediv__(self, part: str) -> ObjectPath:
        return ObjectPath(self.system, f"{self.key}/{part}".lstrip("/"))

    @property
    def name(self) -> str:
        """The last part of the name."""
        return str(self).rpartition("/")[2]

    @property
    def parent(self) -> ObjectPath:
        """The folder that it is in."""
        return ObjectPath(self.system, self.key.rpartition("/")[0])

    def with_name(self, name: str) -> ObjectPath:
        """The object beside it with this name."""
        return self.parent / name

    def relative_to(self, other: ObjectPath) -> PurePosixPath:
        """The name as seen from the folder ``other``."""
        return PurePosixPath(self.key).relative_to(other.key)

    def exists(self) -> bool:
        """True if there is such an object or log."""
        return self.system.exists(self)

    def is_dir(self) -> bool:
        """True if a listing has an object whose name begins so."""
        return bool(self.system.files_below(self))

    def iterdir(self) -> Iterator[ObjectPath]:
        """The objects and folders in the folder, as far as a listing has them."""
        return iter(self.system.entries(self))

    def unlink(self, missing_ok: bool = False) -> None:
        """Delete the object; there is no error if there is none."""
        self.system.delete(self)

    def stat(self) -> ObjectSize:
        """The size of the object or log."""
        return ObjectSize(self.system.size(self))

    lstat = stat


class ObjectMark:
    """A short object that is overwritten."""

    def __init__(self, requests: RepeatedRequests, key: str) -> None:
        self._requests = requests
        self._key = key

    def write(self, content: bytes) -> None:
        """Overwrite it."""
        self._requests.replace(self._key, content)

    def close(self) -> None:
        """Do nothing: nothing is open."""


class ObjectFiles(FileSystem[ObjectPath]):
    """The files of the warehouse at ``address``."""

    IN_PLACE = False

    def __init__(self, objects: Objects, address: str) -> None:
        self.address = address.rstrip("/")
        self._requests = RepeatedRequests(objects)
        self._copies = RunCopies(self.address)
        self._pieces: dict[str, LogPieces] = {}
        self._open: dict[str, ObjectLog] = {}
        self._listed: dict[str, int] = {}
        self._token = 0

    def __reduce__(self) -> tuple[object, ...]:
        return _files_elsewhere, (self._requests.objects, self.address)

    @property
    def root(self) -> ObjectPath:
        """The folder of the warehouse."""
        return ObjectPath(self)

    def read(self, file: ObjectPath) -> bytes:
        """The content of an object; of a log all pieces, and what waits to be synced in this process."""
        if not file.key.endswith(_LOG):
            return self._requests.get(file.key)
        opened = self._open.get(file.key)
        return opened.content() if opened is not None else b"".join(self._log(file).read().pieces)

    def _log(self, file: ObjectPath) -> LogPieces:
        if file.key not in self._pieces:
            while len(self._pieces) >= KEPT_LOGS:
                del self._pieces[next(iter(self._pieces))]
            self._pieces[file.key] = LogPieces(self._requests, file.key)
        return self._pieces[file.key]

    def exists(self, file: ObjectPath) -> bool:
        """True if there is such an object, or a piece of such a log."""
        try:
            return bool(self.read(file)) or not file.key.endswith(_LOG)
        except FileNotFoundError:
            return False

    def size(self, file: ObjectPath) -> int:
        """Bytes of an object or log, as listed; ``FileNotFoundError`` if it is not listed.

        An object never changes its size, so the last listing will do, which most callers have just asked for.
        """
        return self._listed_size(file) or self._listed_size(file, again=True)

    def _listed_size(self, file: ObjectPath, *, again: bool = False) -> int:
        if again:
            self.files_below(file.parent)
        if file.key.endswith(_LOG):
            return sum(
                size for name, size in self._listed.items() if name.startswith(f"{file.key}/") and size >= MAX_END
            )
        if file.key not in self._listed and again:
            raise FileNotFoundError(errno.ENOENT, "there is no such object", str(file))
        return self._listed.get(file.key, 0)

    def delete(self, file: ObjectPath) -> None:
        """Delete an object, with its copy, or all pieces of a log."""
        if file.key.endswith(_LOG):
            self._open.pop(file.key, None)
            self._log(file).delete()
        else:
            self._requests.delete(file.key)
            self._copies.drop(file.key)

    def create(self, file: ObjectPath, content: bytes) -> None:
        """Put an object if its name is free."""
        self._requests.create(file.key, content)

    def replace(self, file: ObjectPath, content: bytes) -> None:
        """Put an object."""
        self._requests.replace(file.key, content)

    def move(self, file: ObjectPath, target: ObjectPath) -> None:
        """Copy an object, or a whole log as one object, and delete it."""
        self._requests.replace(target.key, self.read(file))
        self.delete(file)

    def make_folder(self, folder: ObjectPath) -> None:
        """Do nothing: folders are parts of names."""

    def sync_folder(self, folder: ObjectPath) -> None:
        """Do nothing: an object is durable with its name."""

    def refuse_links(self, root: ObjectPath, names: Iterable[str], folders: Iterable[ObjectPath]) -> None:
        """Do nothing: there are no links."""

    def entries(self, folder: ObjectPath) -> list[ObjectPath]:
        """The next parts of the names that begin with the folder's."""
        keys = (file.key[len(folder.key) :].lstrip("/") for file in self.files_below(folder))
        return [folder / name for name in dict.fromkeys(key.partition("/")[0] for key in keys)]

    def files_below(self, folder: ObjectPath) -> list[ObjectPath]:
        """The objects whose names begin so; each log once, unless only its end is left."""
        found: dict[str, None] = {}
        self._listed = self._requests.sizes(folder.key)
        for key, size in self._listed.items():
            log, _, _ = key.rpartition("/")
            if not log.endswith(_LOG):
                found[key] = None
            elif size >= MAX_END:
                found[log] = None
        return [ObjectPath(self, key) for key in found]

    def delete_empty_folders(self, folder: ObjectPath) -> None:
        """Do nothing: a folder is there as long as a name has it."""

    def staging(self, root: ObjectPath) -> Path:
        """A folder beside the copies of runs."""
        return self._copies.staging

    def mapped(self, root: ObjectPath) -> Path:
        """A folder beside the copies of runs."""
        return self._copies.mapped

    def open_log(self, file: ObjectPath, *, new: bool) -> ObjectLog:
        """Read the pieces that there are, to go on after them."""
        opened = ObjectLog(self._log(file))
        if new and opened.length:
            raise FileExistsError(errno.EEXIST, "another writer has begun the log", str(file))
        self._open[file.key] = opened
        return opened

    def end_log(self, file: ObjectPath) -> bool:
        """Put the end of the log in the place of its next piece."""
        return self._log(file).end(str(self._token))

    def is_ended(self, file: ObjectPath) -> bool:
        """True if the end of the log is there."""
        return self._log(file).read().ended

    def open_mark(self, file: ObjectPath) -> ObjectMark:
        """Overwrite the object from now on."""
        return ObjectMark(self._requests, file.key)

    def lock(self, root: ObjectPath, floor: Callable[[], int]) -> ObjectLock:
        """Get the next token, which no other writer has."""
        lock = ObjectLock.acquire(self._requests, self.address, floor)
        self._token = lock.token
        return lock

    def new_local(self, file: ObjectPath) -> Path:
        """The place of the copy."""
        return self._copies.new(file.key)

    def store(self, local: Path, file: ObjectPath) -> None:
        """Put the file; its name has the token, so no other writer has it."""
        self._requests.replace(file.key, local)

    def adopt(self, staged: Path, file: ObjectPath) -> None:
        """Link the staged file as the copy, and put it."""
        self._copies.adopt(staged, file.key)
        self._requests.replace(file.key, staged)

    def copy_from(self, source: FilePath, file: ObjectPath) -> bool:
        """Have the store copy the object, if both are in one bucket."""
        return isinstance(source, ObjectPath) and self._requests.copy(str(source), file.key)

    def local_copy(self, file: ObjectPath) -> Path:
        """The copy, fetched if it is not there."""
        return self._copies.get(file.key, lambda target: self._requests.fetch(file.key, target))

    def has_copy(self, file: ObjectPath) -> bool:
        """True if the copy is there."""
        return self._copies.is_there(file.key)

    def drop_copy(self, file: ObjectPath) -> bool:
        """Delete the copy."""
        return self._copies.drop(file.key)

    def access(self) -> StoreAccess:
        """The variables of the environment that configure the store."""
        return access_from_here(self.address)


@lru_cache(maxsize=16)
def _files_elsewhere(objects: Objects, address: str) -> ObjectFiles:
    """The files of a warehouse that another process has opened."""
    return ObjectFiles(objects, address)
