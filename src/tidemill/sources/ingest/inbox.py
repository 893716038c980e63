"""A folder that receives files, each of which is ingested once.

Writers must *rename* into it: a file is complete as soon as it has its name. A set of files is a folder, renamed
likewise, or written by Spark, which removes its ``_temporary`` from it when it is complete. Names that begin with ``.``
or ``_`` are ignored, as are files with unknown extensions. Symbolic links are not followed: whoever may put files here
need not be allowed to read what they point to.

Ingested files are moved to ``_taken`` and refused ones to ``_aside``, with a text beside them that gives the reason. A
move is durable before anything else happens, so at any moment at most one ingested file is not moved yet.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidemill.model.errors import Corrupt, DataError, SetupError
from tidemill.sources.ingest.file_formats import FORMATS, plain_suffix
from tidemill.sources.ingest.file_listing import is_hidden
from tidemill.storage.filesystem.durable_files import fault, sync_file, sync_folder
from tidemill.storage.filesystem.symlinks import create_file

__all__ = ["ASIDE", "TAKEN", "InboxFolder"]

TAKEN = "_taken"
"""Folder of ingested files: their names are not ingested again."""

ASIDE = "_aside"
"""Folder of refused files."""

REASON = ".reason"
"""The extension of the text that says why a file was refused."""


class InboxFolder:
    """The pending files in ``folder``. ``format`` is that of all files; without it, their extensions decide."""

    def __init__(self, folder: Path, format: str | None = None) -> None:
        self.folder = folder
        self._format = format

    def waiting(self) -> list[Path]:
        """The complete files, and folders of files, in the order of their names, with numbers in numeric order."""
        try:
            found = [item for item in self.folder.iterdir() if not is_hidden(item.name) and self._is_whole(item)]
        except OSError as error:
            reason = error.strerror or str(error)
            raise SetupError("the folder of a feed cannot be read", where=str(self.folder), detail=reason) from error
        return sorted(found, key=_in_order)

    def _is_whole(self, item: Path) -> bool:
        if item.is_symlink() or not item.is_dir():
            return self._is_read(item)
        if (item / "_temporary").exists():
            return False
        return any(self._is_read(one) for one in item.rglob("*") if one.is_symlink() or not one.is_dir())

    def _is_read(self, file: Path) -> bool:
        return not is_hidden(file.name) and (self._format is not None or plain_suffix(file) in FORMATS)

    def refuse_links(self, item: Path) -> None:
        """Refuse an item that is a symbolic link, or contains one."""
        for path in (item, *(item.rglob("*") if item.is_dir() and not item.is_symlink() else ())):
            if path.is_symlink():
                raise DataError(
                    "a symbolic link is not followed",
                    where=str(path),
                    detail="Who may put files into the folder of a feed need not be allowed to read what it leads to.",
                    hint="Put the file itself there.",
                )

    def is_known(self, name: str) -> bool:
        """True if something of that name was ingested before."""
        return os.path.lexists(self.folder / TAKEN / name)

    def archive(self, name: str) -> None:
        """Move an ingested item out of the way, unless that is done already."""
        if Path(name).name != name:
            raise Corrupt(f"{name!r} is not the name of a file of a feed", where=str(self.folder))
        if os.path.lexists(self.folder / name) and not self.is_known(name):
            self._move(name, self._own(TAKEN) / name)

    def set_aside(self, name: str, reason: str) -> None:
        """Move a refused item out of the way; the reason is written first, so that it is never missing."""
        target = _free(self._own(ASIDE) / name)
        text = target.with_name(target.name + REASON)
        create_file(text, f"{reason}\n".encode())
        sync_file(text)
        fault("set-aside")
        self._move(name, target)

    def aside(self) -> list[str]:
        """The names of refused items that are still there."""
        folder = self.folder / ASIDE
        return sorted(one.name for one in folder.iterdir() if one.suffix != REASON) if folder.is_dir() else []

    def _own(self, name: str) -> Path:
        """The folder of that name beside the files, created if it does not exist."""
        folder = self.folder / name
        with self._moving(folder):
            if folder.is_symlink():
                raise NotADirectoryError(errno.ENOTDIR, "A symbolic link is not followed")
            folder.mkdir(exist_ok=True)
        return folder

    def _move(self, name: str, target: Path) -> None:
        with self._moving(target.parent):
            (self.folder / name).rename(target)
            sync_folder(target.parent)
            sync_folder(self.folder)

    @contextmanager
    def _moving(self, to: Path) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise SetupError(
                "files of a feed cannot be moved",
                where=str(self.folder),
                detail=error.strerror or str(error),
                hint=f'The feed goes on once they can be moved to "{to}".',
            ) from error


def _in_order(item: Path) -> tuple[list[tuple[int, str]], str]:
    """Sort key by name, with numbers as numbers: ``part-2`` comes before ``part-10``."""
    words = re.findall(r"\d+|\D+", item.name)
    return [(int(word), "") if word.isdecimal() else (-1, word) for word in words], item.name


def _free(path: Path) -> Path:
    """``path``, or a similar one that does not exist."""
    number, free = 1, path
    while os.path.lexists(free):
        number += 1
        free = path.with_name(f"{path.name}~{number}")
    return free
