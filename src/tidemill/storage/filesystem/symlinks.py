"""Symbolic links below a warehouse folder are refused, never followed.

A link placed in a warehouse could otherwise make its writer read, overwrite or delete files elsewhere. The folder
itself may be reached by a link: it is resolved once, when it is opened. From there on every folder is checked when a
warehouse is opened, and every file when it is read or written.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from tidemill.model.errors import StorageError

__all__ = ["create_file", "read_file", "refuse_link", "refuse_links", "size_of"]

_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC


def refuse_links(root: Path, names: Iterable[str], folders: Iterable[Path]) -> None:
    """Refuse links among the entries ``names`` of ``root``, and among all entries of those ``folders`` that exist."""
    for name in names:
        refuse_link(root / name)
    for folder in folders:
        refuse_link(folder)
        if folder.is_dir():
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_symlink():
                        raise _refused(Path(entry.path))


def refuse_link(path: Path) -> None:
    """Refuse a path that is a link; a path that does not exist is accepted."""
    if path.is_symlink():
        raise _refused(path)


def read_file(file: Path) -> bytes:
    """The content of a file that is not a link."""
    try:
        handle = os.open(file, os.O_RDONLY | _FLAGS)
    except OSError as refused:
        raise _explained(refused, file) from refused
    with open(handle, "rb") as stream:
        return stream.read()


def create_file(file: Path, content: bytes) -> None:
    """Write a new file; an existing file or link of that name is removed first."""
    file.unlink(missing_ok=True)
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o644)
    with open(handle, "wb") as stream:
        stream.write(content)


def size_of(file: Path) -> int:
    """The size of a regular file in bytes; ``FileNotFoundError`` if it does not exist, and a link is refused."""
    status = os.lstat(file)
    if stat.S_ISLNK(status.st_mode):
        raise _refused(file)
    return status.st_size


def _explained(refused: OSError, file: Path) -> Exception:
    return _refused(file) if refused.errno == errno.ELOOP else refused


def _refused(path: Path) -> StorageError:
    return StorageError(
        "a symbolic link in a warehouse is not followed",
        where=str(path),
        detail="What it leads to is not part of the warehouse, and would be read, written or deleted as if it were.",
        hint="Put the file or folder itself in its place. The warehouse folder as a whole may be reached by a link.",
    )
