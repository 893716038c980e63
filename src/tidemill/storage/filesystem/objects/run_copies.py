"""Copies of runs on this machine, for Arrow, DuckDB and Spark to read.

Runs never change, and manifests have their checksums, with which copies are compared as files on disk are. So a copy
is never out of date, and one that is damaged is fetched again. Copies are kept from one process to the next, below
``TIDEMILL_CACHE`` (by default in the user's cache folder), up to ``TIDEMILL_CACHE_BYTES`` bytes for each warehouse:
those that were not read for the longest time are deleted first, and none that was read within the last hour. Processes
of a machine share them: of two that want the same copy one fetches it, and the other waits.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp
from threading import Lock
from zlib import crc32

from tidemill.model.errors import SetupError
from tidemill.storage.filesystem.durable_files import TemporaryFolder, make_folder

__all__ = ["RunCopies"]

DEFAULT_BYTES = 20 << 30
"""Bytes of copies of a warehouse if nothing else is said."""

IN_USE_SECONDS = 3600.0
"""Seconds after its last use in which a copy is not deleted: a query may be reading it."""


FETCHING_LOCKS = 64
"""Number of files by which processes that fetch copies wait for each other."""


class RunCopies:
    """Copies of a warehouse's runs by their names, and a folder for new ones."""

    def __init__(self, address: str) -> None:
        self._folder = _cache_folder().resolve() / hashlib.sha256(address.encode()).hexdigest()[:20]
        self._most = _most_bytes()
        self._guard = Lock()
        self._fetched = 0
        self._staging: TemporaryFolder | None = None

    @property
    def staging(self) -> Path:
        """A folder of this process for files of the next epoch; on the disk of the copies, so that they are linked."""
        if self._staging is None or not self._staging.path.is_dir():  # anybody may delete copies
            make_folder(self._folder)
            self._staging = TemporaryFolder(self._folder)
        return self._staging.path

    @property
    def mapped(self) -> Path:
        """The folder for what is derived from copies."""
        return self._folder / ".mapped"

    def path(self, name: str) -> Path:
        """Where the copy of a run is or would be."""
        return self._folder / name

    def new(self, name: str) -> Path:
        """Where a new run is written, before it is put under its name."""
        file = self.path(name)
        make_folder(file.parent)
        return file

    def get(self, name: str, fetch: Callable[[Path], None]) -> Path:
        """The copy of a run, fetched unless it is there."""
        file = self.path(name)
        try:
            # Only when it was read is noted: by when it was written a file is known to have been compared.
            os.utime(file, ns=(time.time_ns(), os.stat(file).st_mtime_ns))
        except FileNotFoundError:
            self._fetch(file, fetch)
        return file

    def is_there(self, name: str) -> bool:
        """True if there is a copy of a run."""
        return self.path(name).exists()

    def _fetch(self, file: Path, fetch: Callable[[Path], None]) -> None:
        make_folder(file.parent)
        with self._alone(file):
            if file.exists():
                return
            draft = Path(mkdtemp(dir=self.staging)) / file.name
            try:
                fetch(draft)
                size = draft.stat().st_size
                os.replace(draft, file)
            finally:
                shutil.rmtree(draft.parent, ignore_errors=True)
        with self._guard:
            self._fetched += size
            if self._fetched * 8 > self._most:  # looked at now and then: it lists all copies
                self._fetched = 0
                self._delete_oldest()

    @contextmanager
    def _alone(self, file: Path) -> Iterator[None]:
        """Wait until no other process or thread fetches this file. The lock ends with its process."""
        make_folder(self._folder / ".fetching")
        number = crc32(os.fsencode(file)) % FETCHING_LOCKS
        with (self._folder / ".fetching" / f"{number:02}").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _delete_oldest(self) -> None:
        own = self.staging
        files = [file for file in self._folder.rglob("*") if file.is_file() and not file.is_relative_to(own)]
        known = sorted((status.st_atime, status.st_size, file) for file in files for status in [file.stat()])
        over = sum(size for _, size, _ in known) - self._most
        for used, size, file in known:
            if over <= 0 or time.time() - used < IN_USE_SECONDS:
                return
            with suppress(OSError):
                file.unlink()
            over -= size

    def adopt(self, staged: Path, name: str) -> None:
        """Make a staged file the copy of a run."""
        file = self.new(name)
        try:
            os.link(staged, file)
        except OSError:  # another disk
            shutil.copyfile(staged, file)

    def drop(self, name: str) -> bool:
        """Delete a copy; False if there was none."""
        try:
            self.path(name).unlink()
        except FileNotFoundError:
            return False
        return True


def _most_bytes() -> int:
    given = os.environ.get("TIDEMILL_CACHE_BYTES", str(DEFAULT_BYTES))
    if not given.isdigit():
        raise SetupError(
            "TIDEMILL_CACHE_BYTES is not a number of bytes", where=given, hint="Write one such as 20000000000."
        )
    return int(given)


def _cache_folder() -> Path:
    """The folder of all copies: the given one, or that of the user, who may have none where Spark's tasks run."""
    given = os.environ.get("TIDEMILL_CACHE")
    if given:
        return Path(given)
    usual = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "tidemill"
    nearest = next(folder for folder in (usual, *usual.parents) if folder.is_dir())
    return usual if os.access(nearest, os.W_OK) else Path.cwd() / ".tidemill-cache"
