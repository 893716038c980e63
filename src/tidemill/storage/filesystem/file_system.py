"""File systems that a warehouse can be on, and which of them has a path.

The store speaks of paths: ``Path`` on a disk of this machine, ``ObjectPath`` in an object store. What pathlib has
(names, folders, deleting) a path does itself. Whatever must be durable, exclusive or local goes through its file
system: the methods of ``FileSystem``, which ``disk.Disk`` and ``object_files.ObjectFiles`` implement.

>>> system_of(Path("warehouse")) is DISK
True
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol, TypeVar, cast

from tidemill.storage.filesystem.disk import Disk
from tidemill.storage.filesystem.file_path import FilePath

__all__ = ["DISK", "Access", "AppendedFile", "FilePath", "FileSystem", "MarkFile", "WriterToken", "system_of"]


P = TypeVar("P", bound=FilePath)


class AppendedFile(Protocol):
    """A file that grows at its end: the log."""

    def write(self, content: bytes, at: int) -> None:
        """Write at byte ``at``, which is the end. Readers in this process see it, a crash may lose it."""

    def truncate(self, length: int) -> None:
        """Cut off what is after byte ``length``, which was not synced."""

    def sync(self) -> None:
        """Make everything durable. ``FileExistsError`` if another writer has ended the file."""

    def close(self) -> None:
        """Close the file; it stays."""


class MarkFile(Protocol):
    """A short file that is overwritten as a whole."""

    def write(self, content: bytes) -> None:
        """Overwrite it; it need not be durable."""

    def close(self) -> None:
        """Close the file; it stays."""


class WriterToken(Protocol):
    """The right to write, from when a warehouse is opened until it is closed or another writer takes over."""

    token: int
    """Greater than that of every writer before."""

    forked: bool
    """True in a process that was forked from the writer's."""

    @property
    def log_token(self) -> int:
        """The token in the names of its logs: its own, or 0 where all writers share names, which then exclude each
        other."""

    def check(self) -> None:
        """Refuse if another writer is known to have taken over, before something is written."""

    def confirm(self) -> None:
        """``CommitUnknown`` if another writer may not have seen the manifest that was just written."""

    def require_own(self) -> None:
        """Refuse in a process that was forked."""

    def successor(self) -> str | None:
        """The writer that has taken over, in words; None if that is unknown."""

    def release(self) -> None:
        """Give the right up."""


class Access(Protocol):
    """Everything that a process of another machine needs to open the files of a warehouse."""

    def grant(self) -> None:
        """Open them so in this process from now on."""


class FileSystem(Protocol[P]):
    """Operations that depend on where a warehouse is."""

    IN_PLACE: bool
    """True if a few bytes can be overwritten in place at next to no cost, and outlive the process before a sync."""

    def read(self, file: P) -> bytes:
        """The content of a file; ``FileNotFoundError`` if there is none."""

    def create(self, file: P, content: bytes) -> None:
        """Create a file durably with all of ``content`` or not at all; ``FileExistsError`` if it exists."""

    def replace(self, file: P, content: bytes) -> None:
        """Replace a file by ``content``, durably and atomically."""

    def move(self, file: P, target: P) -> None:
        """Give a file another name, in another folder."""

    def make_folder(self, folder: P) -> None:
        """Create a folder durably unless it exists."""

    def sync_folder(self, folder: P) -> None:
        """Make the names of the files in a folder durable."""

    def refuse_links(self, root: P, names: Iterable[str], folders: Iterable[P]) -> None:
        """Refuse symbolic links among these names and the entries of these folders."""

    def entries(self, folder: P) -> list[P]:
        """The files and folders of a folder; none if there is no such folder."""

    def files_below(self, folder: P) -> list[P]:
        """All files below a folder, in any order."""

    def delete_empty_folders(self, folder: P) -> None:
        """Delete the empty folders in a folder."""

    def staging(self, root: P) -> Path:
        """The folder of this machine for files of the next epoch and of queries."""

    def mapped(self, root: P) -> Path:
        """The folder of this machine for what is derived from runs."""

    def open_log(self, file: P, *, new: bool) -> AppendedFile:
        """Open a log for appending; ``FileExistsError`` if it is to be ``new`` and exists."""

    def end_log(self, file: P) -> bool:
        """Keep earlier writers from appending to a log; False if nothing could be appended anyway."""

    def is_ended(self, file: P) -> bool:
        """True if nothing can be appended to a log any more."""

    def open_mark(self, file: P) -> MarkFile:
        """Open an existing short file to overwrite it."""

    def lock(self, root: P, floor: Callable[[], int]) -> WriterToken:
        """Become the writer, with a token above ``floor()`` and all earlier ones; or ``LockHeld``."""

    def new_local(self, file: P) -> Path:
        """Where on this machine the content of a new file is written before ``store``."""

    def store(self, local: Path, file: P) -> None:
        """Make a file that was written at ``new_local(file)`` durable under its name, but for its folder's sync."""

    def adopt(self, staged: Path, file: P) -> None:
        """The same for a file that was written elsewhere, and stays there."""

    def copy_from(self, source: FilePath, file: P) -> bool:
        """Copy a file of another warehouse without moving its bytes through this machine; False if that cannot be."""

    def local_copy(self, file: P) -> Path:
        """The file itself, or a copy on this machine, to be compared with its checksum.

        ``FileNotFoundError`` if there is none."""

    def has_copy(self, file: P) -> bool:
        """True if the file is on this machine, or a copy of it."""

    def drop_copy(self, file: P) -> bool:
        """Forget a copy, so that the file itself is read next; False if there is none."""

    def access(self) -> Access | None:
        """Access for processes of other machines, to read and write files; None if they need the same disk."""


DISK: FileSystem[Path] = Disk()
"""The file system of all paths of this machine."""


def system_of(path: P) -> FileSystem[P]:
    """The file system that has a path."""
    return cast("FileSystem[P]", getattr(path, "system", DISK))
