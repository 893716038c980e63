"""A folder that receives files, each of which is to be taken in once.

Whoever writes there *renames*: a file is whole as soon as it has its name. What comes in several files is a folder of
them, renamed likewise, or written by Spark, whose ``_temporary`` in it goes when it is whole. Names that begin with
``.`` or ``_`` are not looked at, nor are files with endings that nobody reads.

What was taken in is moved to ``_taken`` and what cannot be is moved to ``_aside``, with a text beside it that says why.
Moving is safe on disk before anything else happens, so at any moment the folder knows all but the last name.
"""

from __future__ import annotations

import re
from pathlib import Path

from tidemill.model.errors import SetupError
from tidemill.sources.files import FORMATS
from tidemill.storage.files import fault, sync_file, sync_folder

__all__ = ["ASIDE", "TAKEN", "Arrivals"]

TAKEN = "_taken"
"""Where files are moved that were taken in: their names are not taken in again."""

ASIDE = "_aside"
"""Where files are moved that were refused."""

REASON = ".reason"
"""The ending of the text that says why a file was refused."""


class Arrivals:
    """What has come to ``folder`` and waits there. ``format`` is that of all files; without it, their endings tell."""

    def __init__(self, folder: Path, format: str | None = None) -> None:
        self.folder = folder
        self._format = format

    def waiting(self) -> list[Path]:
        """The files, and folders of files, that are whole, in the order of their names; numbers count as such."""
        try:
            found = [item for item in self.folder.iterdir() if not _hidden(item) and self._is_whole(item)]
        except OSError as error:
            reason = error.strerror or str(error)
            raise SetupError("the folder of a feed cannot be read", where=str(self.folder), detail=reason) from error
        return sorted(found, key=_in_order)

    def _is_whole(self, item: Path) -> bool:
        if not item.is_dir():
            return self._is_read(item)
        inside = list(item.iterdir())
        return all(one.name != "_temporary" for one in inside) and any(map(self._is_read, inside))

    def _is_read(self, file: Path) -> bool:
        return not _hidden(file) and (self._format is not None or file.suffix.lower() in FORMATS)

    def is_known(self, name: str) -> bool:
        """Whether something of that name was taken in before."""
        return (self.folder / TAKEN / name).exists()

    def put_away(self, name: str) -> None:
        """Move what was taken in out of the way, unless that is done already."""
        if (self.folder / name).exists() and not self.is_known(name):
            self._move(name, self.folder / TAKEN / name)

    def set_aside(self, name: str, reason: str) -> None:
        """Move what was refused out of the way; why is written before, so that it is never missing."""
        target = _free(self.folder / ASIDE / name)
        target.parent.mkdir(exist_ok=True)
        text = target.with_name(target.name + REASON)
        text.write_text(reason + "\n", encoding="utf-8")
        sync_file(text)
        fault("set-aside")
        self._move(name, target)

    def aside(self) -> list[str]:
        """The names that were refused and wait for somebody to look at them."""
        folder = self.folder / ASIDE
        return sorted(one.name for one in folder.iterdir() if one.suffix != REASON) if folder.is_dir() else []

    def _move(self, name: str, target: Path) -> None:
        try:
            target.parent.mkdir(exist_ok=True)
            (self.folder / name).rename(target)
            sync_folder(target.parent)
            sync_folder(self.folder)
        except OSError as error:
            raise SetupError(
                "a file of a feed cannot be moved",
                where=str(self.folder / name),
                detail=error.strerror or str(error),
                hint=f'The feed goes on once it can be moved to "{target.parent}".',
            ) from error


def _hidden(item: Path) -> bool:
    return item.name.startswith(("_", "."))


def _in_order(item: Path) -> tuple[list[tuple[int, str]], str]:
    """By name, with numbers as numbers: ``part-2`` comes before ``part-10``."""
    words = re.findall(r"\d+|\D+", item.name)
    return [(int(word), "") if word.isdecimal() else (-1, word) for word in words], item.name


def _free(path: Path) -> Path:
    """``path``, or one like it that nothing has."""
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_name(f"{path.name}~{number}")
    return free
