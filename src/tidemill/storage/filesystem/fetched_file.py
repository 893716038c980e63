"""Files of a warehouse as any process opens them: on an object store, copies that are fetched when they are opened.

A path of this machine says nothing to a task on another one. Objects of this module do: pickled they are the name of a
file in its warehouse, and the machine that opens one has a copy of its own, compared with the checksum.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from tidemill.model.errors import Corrupt
from tidemill.storage.filesystem.checksums import MISSING_DETAIL, UNREAD_HINT, compare_checksum
from tidemill.storage.filesystem.durable_files import damaged, missing, storage_error_of
from tidemill.storage.filesystem.file_path import FilePath
from tidemill.storage.filesystem.file_system import system_of

__all__ = ["DerivedPlace", "FetchedFile", "compare_copy", "is_at_hand", "local_file"]


@dataclass(frozen=True)
class FetchedFile(os.PathLike[str]):
    """A file that never changes, with its length, its checksum and its number of rows. ``holds`` says in an error which
    rows are missed without it."""

    path: FilePath
    length: int
    checksum: int
    rows: int
    holds: str = field(default="", repr=False)

    def __fspath__(self) -> str:
        """The file on this machine, whole: fetched if it is not there, or not what was written."""
        wrong = compare_copy(self.path, self.length, self.checksum)
        if wrong is not None:
            raise (missing if wrong == MISSING_DETAIL else damaged)(self.path, f"{wrong} {self.holds}".strip())
        return str(local_file(self.path))

    def __str__(self) -> str:
        return str(self.path)


@dataclass(frozen=True)
class DerivedPlace(os.PathLike[str]):
    """A path in the folder for what is derived from runs, wherever the machine that opens it has that."""

    root: FilePath
    name: str

    def __fspath__(self) -> str:
        return str(system_of(self.root).mapped(self.root) / self.name)


def is_at_hand(file: os.PathLike[str]) -> bool:
    """True unless a file would have to be fetched to be opened."""
    return not isinstance(file, FetchedFile) or system_of(file.path).has_copy(file.path)


def local_file(path: FilePath, holds: str = "") -> Path:
    """The file on this machine, fetched if it is not there yet; not compared with its checksum."""
    try:
        return system_of(path).local_copy(path)
    except FileNotFoundError:
        raise missing(path, f"{MISSING_DETAIL} {holds}".strip()) from None
    except OSError as refused:
        raise storage_error_of("read a run", path, refused, UNREAD_HINT) from refused


def compare_copy(path: FilePath, length: int, checksum: int, *, again: bool = False) -> str | None:
    """Describe how a file differs from its length and checksum, as a sentence; None if it does not.

    A copy that differs is fetched again. For one that was compared before, only its status is compared, unless
    ``again`` is set.
    """
    try:
        wrong = compare_checksum(local_file(path), length, checksum, again=again)
        if wrong is not None and system_of(path).drop_copy(path):
            wrong = compare_checksum(local_file(path), length, checksum)
    except Corrupt:
        return MISSING_DETAIL
    return wrong
