"""Disks of this machine, as a file system of warehouses: ``file_system.FileSystem`` says what each method promises."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from tidemill.storage.filesystem.durable_files import make_folder, sync_file, sync_folder, write_new, write_over
from tidemill.storage.filesystem.small_writes import pwrite
from tidemill.storage.filesystem.symlinks import read_file, refuse_links
from tidemill.storage.filesystem.writer_lock import WriterLock

__all__ = ["Disk", "DiskLog", "DiskMark"]


class DiskLog:
    """A log on disk: an appended file, synced by ``fdatasync``."""

    def __init__(self, file: Path, *, new: bool) -> None:
        make_folder(file.parent)
        self._handle = os.open(file, os.O_WRONLY | os.O_CREAT | (os.O_EXCL if new else 0), 0o644)
        sync_folder(file.parent)

    def write(self, content: bytes, at: int) -> None:
        """Write to the page cache."""
        while content:
            written = pwrite(self._handle, content, at)
            content, at = content[written:], at + written

    def truncate(self, length: int) -> None:
        """Cut off what is after byte ``length``."""
        os.ftruncate(self._handle, length)

    def sync(self) -> None:
        """Sync the file to the disk."""
        os.fdatasync(self._handle)

    def close(self) -> None:
        """Close the file."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)


class DiskMark:
    """A short file on disk that is overwritten in place, in the page cache."""

    def __init__(self, file: Path) -> None:
        self._handle = os.open(file, os.O_WRONLY | os.O_NOFOLLOW)

    def write(self, content: bytes) -> None:
        """Overwrite it, unless it is closed."""
        if self._handle >= 0:
            pwrite(self._handle, content, 0)

    def close(self) -> None:
        """Close the file."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


class Disk:
    """A disk of this machine, or one that is mounted here."""

    IN_PLACE = True

    def read(self, file: Path) -> bytes:
        """The content of a file that is not a link."""
        return read_file(file)

    def create(self, file: Path, content: bytes) -> None:
        """Link a synced draft to its name."""
        write_new(file, content)

    def replace(self, file: Path, content: bytes) -> None:
        """Rename a synced draft."""
        write_over(file, content)

    def move(self, file: Path, target: Path) -> None:
        """Rename a file."""
        make_folder(target.parent)
        os.rename(file, target)
        sync_folder(target.parent)

    def make_folder(self, folder: Path) -> None:
        """Create a folder and sync its parent."""
        make_folder(folder)

    def sync_folder(self, folder: Path) -> None:
        """Sync the folder's entries."""
        sync_folder(folder)

    def refuse_links(self, root: Path, names: Iterable[str], folders: Iterable[Path]) -> None:
        """Look at each entry."""
        refuse_links(root, names, folders)

    def entries(self, folder: Path) -> list[Path]:
        """List the folder."""
        return list(folder.iterdir()) if folder.is_dir() else []

    def files_below(self, folder: Path) -> list[Path]:
        """Files, and links to anything."""
        return [file for file in folder.rglob("*") if file.is_file() or file.is_symlink()]

    def delete_empty_folders(self, folder: Path) -> None:
        """Delete them one by one."""
        for entry in folder.iterdir():
            if entry.is_dir() and not any(entry.iterdir()):
                entry.rmdir()

    def staging(self, root: Path) -> Path:
        """A folder of the warehouse, so that staged files can be linked."""
        return root / "staging"

    def mapped(self, root: Path) -> Path:
        """A folder of the warehouse, for all processes that read it."""
        return root / "mapped"

    def open_log(self, file: Path, *, new: bool) -> DiskLog:
        """Open the file."""
        return DiskLog(file, new=new)

    def end_log(self, file: Path) -> bool:
        """Do nothing: the lock keeps others out."""
        return False

    def is_ended(self, file: Path) -> bool:
        """False: the lock keeps others out."""
        return False

    def open_mark(self, file: Path) -> DiskMark:
        """Open the file."""
        return DiskMark(file)

    def lock(self, root: Path, floor: Callable[[], int]) -> WriterLock:
        """Take the lock of the system."""
        return WriterLock.acquire(root, floor)

    def new_local(self, file: Path) -> Path:
        """The file itself."""
        make_folder(file.parent)
        return file

    def store(self, local: Path, file: Path) -> None:
        """Sync the file."""
        sync_file(local)

    def adopt(self, staged: Path, file: Path) -> None:
        """Link the file, which needs no copy."""
        make_folder(file.parent)
        os.link(staged, file)
        sync_file(file)

    def copy_from(self, source: object, file: Path) -> bool:
        """False: files of a disk are linked or copied by this process."""
        return False

    def local_copy(self, file: Path) -> Path:
        """The file itself."""
        return file

    def has_copy(self, file: Path) -> bool:
        """True: it is the file itself."""
        return True

    def drop_copy(self, file: Path) -> bool:
        """False: there are no copies."""
        return False

    def access(self) -> None:
        """None: only machines that share the disk can read it."""
