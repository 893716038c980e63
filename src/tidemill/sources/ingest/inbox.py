"""A folder that receives files, each of which is to be taken in once.

Whoever writes there *renames*: a file is whole as soon as it has its name. What comes in several files is a folder of
them, renamed likewise, or written by Spark, whose ``_temporary`` in it goes when it is whole. Names that begin with
``.`` or ``_`` are not looked at, nor are files with endings that nobody reads. Symbolic links are not followed: who may
put files here need not be allowed to read what they lead to.

What was taken in is moved to ``_taken`` and what cannot be is moved to ``_aside``, with a text beside it that says why.
Moving is safe on disk before anything else happens, so at any moment the folder knows all but the last name.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidemill.model.errors import Corrupt, DataError, SetupError
from tidemill.sources.ingest.file_listing import is_hidden
from tidemill.sources.ingest.files import FORMATS
from tidemill.storage.filesystem.durable_files import fault, sync_file, sync_folder
from tidemill.storage.filesystem.symlinks import create_file

__all__ = ["ASIDE", "TAKEN", "InboxFolder"]

TAKEN = "_taken"
"""Where files are moved that were taken in: their names are not taken in again."""

ASIDE = "_aside"
"""Where files are moved that were refused."""

REASON = ".reason"
"""The ending of the text that says why a file was refused."""


class InboxFolder:
    """What has come to ``folder`` and waits there. ``format`` is that of all files; without it, their endings tell."""

    def __init__(self, folder: Path, format: str | None = None) -> None:
        self.folder = folder
        self._format = format

    def waiting(self) -> list[Path]:
        """The files, and folders of files, that are whole, in the order of their names; numbers count as such."""
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
        return not is_hidden(file.name) and (self._format is not None or file.suffix.lower() in FORMATS)

    def refuse_links(self, item: Path) -> None:
        """Refuse what came as a symbolic link, or has one in it."""
        for path in (item, *(item.rglob("*") if item.is_dir() and not item.is_symlink() else ())):
            if path.is_symlink():
                raise DataError(
                    "a symbolic link is not followed",
                    where=str(path),
                    detail="Who may put files into the folder of a feed need not be allowed to read what it leads to.",
                    hint="Put the file itself there.",
                )

    def is_known(self, name: str) -> bool:
        """Whether something of that name was taken in before."""
        return os.path.lexists(self.folder / TAKEN / name)

    def archive(self, name: str) -> None:
        """Move what was taken in out of the way, unless that is done already."""
        if Path(name).name != name:
            raise Corrupt(f"{name!r} is not the name of a file of a feed", where=str(self.folder))
        if os.path.lexists(self.folder / name) and not self.is_known(name):
            self._move(name, self._own(TAKEN) / name)

    def set_aside(self, name: str, reason: str) -> None:
        """Move what was refused out of the way; why is written before, so that it is never missing."""
        target = _free(self._own(ASIDE) / name)
        text = target.with_name(target.name + REASON)
        create_file(text, f"{reason}\n".encode())
        sync_file(text)
        fault("set-aside")
        self._move(name, target)

    def aside(self) -> list[str]:
        """The names that were refused and wait for somebody to look at them."""
        folder = self.folder / ASIDE
        return sorted(one.name for one in folder.iterdir() if one.suffix != REASON) if folder.is_dir() else []

    def _own(self, name: str) -> Path:
        """The folder of that name beside the files, made where it is not there."""
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
    """By name, with numbers as numbers: ``part-2`` comes before ``part-10``."""
    words = re.findall(r"\d+|\D+", item.name)
    return [(int(word), "") if word.isdecimal() else (-1, word) for word in words], item.name


def _free(path: Path) -> Path:
    """``path``, or one like it that nothing has."""
    number, free = 1, path
    while os.path.lexists(free):
        number += 1
        free = path.with_name(f"{path.name}~{number}")
    return free
