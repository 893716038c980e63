"""The writer's lock: one writer at a time, with a fencing token.

The lock is an advisory lock of the operating system on the file ``lock``, so it ends with the process that holds it,
also when that is killed. The file names the holder. Each holder gets the next *fencing token* and puts it into
everything that it writes; if the advisory lock fails (some network disks have none), a writer that was superseded is
refused at its next commit.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol
from weakref import WeakSet

from tidemill.model.errors import LockHeld, StorageError
from tidemill.storage.filesystem.symlinks import read_file

LOCK_FILE = "lock"

WRITERS_FOLDER = "writers"
"""Folder of the tokens of writers where the system has no locks: in object stores."""

_WIDTH = 512
"""Minimum length of the lock file in bytes: its JSON is padded with spaces."""


@dataclass(frozen=True, slots=True)
class LockOwner:
    """The process that holds the lock, or held it last."""

    token: int
    pid: int
    host: str
    since: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, since {self.since}"


class WriterLock:
    """The lock, held from ``acquire`` to ``release`` or to the end of the process."""

    def __init__(self, file: Path, handle: int, owner: LockOwner) -> None:
        self._file = file
        self._path = str(file)
        self._handle = handle
        self._seen = _trace(os.fstat(handle))
        self.token = owner.token
        self.forked = False
        """True if this process was forked from the one that holds the lock."""
        hold(self)

    @property
    def log_token(self) -> int:
        """The token in the names of its logs."""
        return self.token

    @classmethod
    def acquire(cls, folder: Path, floor: Callable[[], int] = int) -> WriterLock:
        """Take the lock, or raise ``LockHeld``. The token is greater than every earlier one, and than ``floor()``,
        which is called with the lock held: the highest token in the folder, in case the lock file was lost."""
        file = folder / LOCK_FILE
        handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        try:
            _lock(handle, file)
            last = read_owner(file)
            token = max(floor(), last.token if last else 0) + 1
            owner = LockOwner(token, os.getpid(), socket.gethostname(), f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC")
            # Same length as the previous content, so that it needs no space on a full disk.
            content = json.dumps(asdict(owner)).ljust(_WIDTH).encode()
            os.pwrite(handle, content, 0)
            os.ftruncate(handle, len(content))
            os.fsync(handle)
            return cls(file, handle, owner)
        except BaseException:
            os.close(handle)
            raise

    def check(self) -> None:
        """Check that no other process has taken the lock since; one stat of the file, a microsecond."""
        self.require_own()
        try:
            if _trace(os.stat(self._path)) == self._seen:
                return
        except FileNotFoundError:
            pass
        owner = read_owner(self._file)
        if owner is None or owner.token != self.token:
            detail = f"It is now {owner}." if owner else "The lock file was removed or written over."
            raise taken_over(self._path, detail)

    def confirm(self) -> None:
        """Do nothing: what was checked before a manifest was written still holds."""

    def require_own(self) -> None:
        """Refuse to write in a process that was forked from the holder of the lock, which may still be writing."""
        if self.forked:
            raise forked_writer(self._path)

    def successor(self) -> str | None:
        """The process that the lock file names."""
        owner = read_owner(self._file)
        return str(owner) if owner and owner.token != self.token else None

    def release(self) -> None:
        """Release the lock."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def forked_writer(where: str) -> StorageError:
    """The error for a process that was forked from the writer's."""
    return StorageError(
        "a process that was forked cannot write",
        where=where,
        detail="The warehouse was opened before the fork, and belongs to the process that opened it.",
        hint="Open the warehouse after the fork, or give the changes to the process that has it.",
    )


def taken_over(where: str, detail: str) -> LockHeld:
    """The error for a writer that another one has superseded."""
    return LockHeld(
        "another writer has taken over the warehouse",
        where=where,
        detail=detail,
        hint="Nothing was written. Open the warehouse again.",
    )


class ForkedLock(Protocol):
    """A lock that belongs to the process that took it."""

    forked: bool

    def release(self) -> None:
        """Release it."""


_held: WeakSet[ForkedLock] = WeakSet()


def hold(lock: ForkedLock) -> None:
    """Release a lock in processes that are forked from this one."""
    _held.add(lock)


def _disown() -> None:
    """Release all locks in a process that was just forked: they belong to the parent."""
    for lock in _held:
        lock.forked = True
        lock.release()


os.register_at_fork(after_in_child=_disown)


def read_owner(file: Path) -> LockOwner | None:
    """The owner written in the lock file; None if there is none or it cannot be read."""
    try:
        owner = LockOwner(**json.loads(read_file(file)))
    except (OSError, StorageError, ValueError, TypeError):
        return None
    return owner if type(owner.token) is int else None


def _lock(handle: int, file: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = read_owner(file)
        raise LockHeld(
            "the warehouse has another writer",
            where=str(file),
            detail=f"It is {owner}." if owner else None,
            hint="Close it there or wait for it, or open with read_only=True.",
        ) from None
    except OSError as fault:
        raise StorageError(
            "the folder cannot be locked",
            where=str(file),
            detail=f"The system says: {fault.strerror}.",
            hint="Put the warehouse on a disk with file locks, or open with read_only=True.",
        ) from fault


def _trace(status: os.stat_result) -> tuple[int, int]:
    return status.st_ino, status.st_mtime_ns
