"""Files that survive a crash: written whole, synced with their folder, never overwritten.

A file is written and synced before a manifest references it; a manifest is written under a temporary name and then
linked to its own. So a crash at any point leaves either the old state or the new one, and at most some unreferenced
files. Calls of ``fault`` are the points at which the crash tests kill the process.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import weakref
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp

from tidemill.model.errors import Corrupt, StorageError
from tidemill.storage.filesystem.file_path import FilePath
from tidemill.storage.filesystem.symlinks import create_file

FAULT_VARIABLE = "TIDEMILL_FAULT"
"""Environment variable that names a fault point to die at: ``before-manifest``, or ``before-manifest:3`` for its third
pass."""

CHUNK = 1 << 20

UNCHANGED_HINT = "Nothing was changed. Make room or fix rights."

_deaths: dict[str, int] = {}
"""The armed fault points, and how many passes of each are left."""


def arm(death: str) -> None:
    """Arm one fault point, written as in ``FAULT_VARIABLE``, and disarm all others."""
    point, _, passing = death.partition(":")
    _deaths.clear()
    _deaths[point] = int(passing or 1)


arm(os.environ.get(FAULT_VARIABLE, ""))


def fault(point: str) -> None:
    """Kill this process with SIGKILL if this pass of this fault point is armed."""
    if point in _deaths:
        _deaths[point] -= 1
        if not _deaths[point]:
            os.kill(os.getpid(), signal.SIGKILL)


def armed(point: str) -> bool:
    """True if this process is to die at this point."""
    return point in _deaths


def sync_file(file: Path) -> None:
    """Sync the file's content to the disk."""
    handle = os.open(file, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Sync the folder's entries to the disk: without it a synced file may lose its name."""
    sync_file(folder)


def make_folder(folder: Path) -> None:
    """Create the folder durably unless it exists."""
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        sync_folder(folder.parent)


def write_new(file: Path, content: bytes) -> None:
    """Create ``file`` with all of ``content`` or not at all; ``FileExistsError`` if it exists."""
    with _draft_of(file, content) as draft:
        os.link(draft, file)
    sync_folder(file.parent)


def write_over(file: Path, content: bytes) -> None:
    """Replace ``file`` by ``content`` atomically."""
    with _draft_of(file, content) as draft:
        os.replace(draft, file)
    sync_folder(file.parent)


@contextmanager
def _draft_of(file: Path, content: bytes) -> Iterator[Path]:
    draft = file.with_name(f".{file.name}.{os.getpid()}.draft")
    try:
        create_file(draft, content)
        sync_file(draft)
        yield draft
    finally:
        with suppress(OSError):  # a vacuum deletes it
            draft.unlink(missing_ok=True)


def checksum(file: Path) -> int:
    """The CRC-32 of a file; zlib reads about 3 GB a second, so it costs less than writing the file did."""
    crc = 0
    with file.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            crc = zlib.crc32(chunk, crc)
    return crc


class TemporaryFolder:
    """A temporary folder that is deleted at exit by the process that created it, and not by forks of it."""

    def __init__(self, parent: Path | None = None) -> None:
        self.path = Path(mkdtemp(prefix="tidemill-", dir=parent))
        self._delete = weakref.finalize(self, _delete, self.path, os.getpid())

    def cleanup(self) -> None:
        """Delete the folder now."""
        self._delete()


def _delete(folder: Path, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


RESTORE_HINT = (
    "Run `tidemill check` to see all that is damaged. Restore it from a backup of the warehouse, or run "
    "`tidemill repair`, which rebuilds views and says what else would be lost."
)


class OutcomeUnknown(OSError):
    """A write that got no answer: it may have been made, or still be made."""


def damaged(file: FilePath, detail: str, hint: str = RESTORE_HINT) -> Corrupt:
    """The error for a file whose content is not what was written."""
    return Corrupt(f"{file.name} is damaged", where=str(file), detail=detail, hint=hint)


def missing(file: FilePath, detail: str, hint: str = RESTORE_HINT) -> Corrupt:
    """The error for a missing file."""
    return Corrupt(f"{file.name} is missing", where=str(file), detail=detail, hint=hint)


def is_disk_full(error: StorageError) -> bool:
    """True if the system refused because the disk is full."""
    return isinstance(error.__cause__, OSError) and error.__cause__.errno in (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def translate_os_errors(doing: str, where: FilePath, hint: str = UNCHANGED_HINT) -> Iterator[None]:
    """Raise errors of the operating system (a full disk, a missing permission) as errors with the usual fields."""
    try:
        yield
    except OSError as refused:
        raise storage_error_of(doing, where, refused, hint) from refused


def storage_error_of(doing: str, where: FilePath, refused: OSError, hint: str = UNCHANGED_HINT) -> StorageError:
    """The error for what the operating system refuses."""
    return StorageError(
        f"cannot {doing}", where=str(where), detail=f"The system says: {refused.strerror or refused}.", hint=hint
    )
