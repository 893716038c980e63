"""Paths of a warehouse's files: the part of ``pathlib.Path`` that the store uses, whatever the file system is."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath
from typing import Protocol, Self

__all__ = ["FilePath", "FileSize"]


class FileSize(Protocol):
    """The size of a file, as ``os.stat_result`` has it."""

    @property
    def st_size(self) -> int:
        """Length in bytes."""


class FilePath(Protocol):
    """The name of a file or folder of a warehouse: the part of ``pathlib.Path`` that the store uses."""

    @property
    def name(self) -> str:
        """The last part of the path."""

    @property
    def parent(self) -> Self:
        """The folder that it is in."""

    def __truediv__(self, part: str, /) -> Self: ...

    def with_name(self, name: str) -> Self:
        """The path beside it with this name."""

    def relative_to(self, other: Self, /) -> PurePath:
        """The path as seen from the folder ``other``."""

    def exists(self) -> bool:
        """True if there is such a file."""

    def is_dir(self) -> bool:
        """True if there is such a folder."""

    def iterdir(self) -> Iterable[Self]:
        """The files and folders of the folder."""

    def unlink(self, missing_ok: bool = False) -> None:
        """Delete the file."""

    def stat(self) -> FileSize:
        """The size of the file."""

    def lstat(self) -> FileSize:
        """The size of the file; that of a link itself."""
