"""Lines of text beside the commits of a warehouse: appended without a sync, and bounded in bytes and time.

Nothing of a warehouse depends on them. A crash may lose the last lines and tear one; a file that cannot be read is
left out, and one that cannot be written loses lines. The folder has numbered segments, all but the newest compressed:
``00000007.jsonl``, ``00000006.jsonl.gz``. The oldest are deleted once all together exceed the limit, or once all of
their lines are older than they may be.
"""

from __future__ import annotations

import gzip
import os
import re
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

__all__ = ["BoundedLog"]

SEGMENTS = 8
"""Number of segments as which the limits are divided: so much is deleted at a time, at the most."""

LARGEST_SEGMENT = 4 << 20
"""Bytes at which a segment is compressed, which takes some 10 ms for each million."""

MOST_EXPANDED = 1 << 30
"""Bytes of a compressed segment that are read: ours have fewer, and a folder may come from anybody."""

_NAME = re.compile(r"(\d{8})\.jsonl(\.gz)?")
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


class BoundedLog:
    """The lines in a folder, of up to about ``limit`` bytes, in files of this ``mode``.

    Lines stay for ``seconds``, if that is given, and an eighth more at the most while others are appended. One process
    writes, any may read.
    """

    def __init__(self, folder: Path, limit: int, mode: int = 0o644, seconds: float | None = None) -> None:
        self.folder = folder
        self._limit = limit
        self._mode = mode
        self._seconds = seconds
        self._begun = 0.0
        self._most = max(min(limit // SEGMENTS, LARGEST_SEGMENT), 1)
        self._owner = os.getpid()
        self._handle = -1
        self._number = 0
        self._size = 0

    def append(self, text: str) -> None:
        """Append whole lines. A forked process appends nothing; an ``OSError`` loses these lines."""
        if os.getpid() != self._owner or not text:
            return
        content = text.encode("utf-8", errors="replace")
        if self._handle < 0:
            self._open()
        self._size += os.write(self._handle, content)
        if self._size >= self._most or (self._seconds is not None and self._is_old(self._begun, SEGMENTS)):
            self._rotate()

    def _is_old(self, moment: float, parts: int = 1) -> bool:
        """True if a moment is longer ago than lines stay, or than one of so many parts of that."""
        return self._seconds is not None and time.time() - moment > self._seconds / parts

    def _open(self) -> None:
        """Go on with the newest segment, after the end of a line that may be torn."""
        if self.folder.is_symlink():
            raise OSError(f"{self.folder} is a symbolic link, which is not followed")
        self.folder.mkdir(exist_ok=True)
        numbers = [number for number, _ in self._segments()]
        plain = self._file(max(numbers, default=1))
        self._number = max(numbers, default=1) + (bool(numbers) and not plain.exists())
        self._handle = os.open(self._file(self._number), _FLAGS, self._mode)
        self._size = os.fstat(self._handle).st_size
        self._begun = _written(Path(f"{self._file(self._number - 1)}.gz"))
        if self._size:
            os.write(self._handle, b"\n")

    def _rotate(self) -> None:
        """Compress the newest segment, begin another, and delete the oldest."""
        self.close()
        file = self._file(self._number)
        draft, packed = file.with_suffix(".draft"), Path(f"{file}.gz")
        draft.unlink(missing_ok=True)
        draft.touch(self._mode)
        draft.write_bytes(gzip.compress(file.read_bytes(), compresslevel=1))
        draft.replace(packed)
        file.unlink()
        sizes = [(file, file.lstat().st_size) for _, file in self._segments()]
        while sizes and (
            sum(size for _, size in sizes) + self._most > self._limit or self._is_old(_written(sizes[0][0]))
        ):
            sizes.pop(0)[0].unlink(missing_ok=True)

    def lines(self) -> Iterator[str]:
        """The lines that can be read, the newest first. Those that were cut short or damaged come as they are."""
        before = None
        for number, file in reversed(self._segments()):
            if number != before:  # a segment that was just compressed may have both files
                before = number
                yield from (line for line in reversed(_text_of(file).split("\n")) if line)

    def _segments(self) -> list[tuple[int, Path]]:
        """The files by number, the oldest first; a compressed one is the last of its number."""
        with suppress(OSError):
            found = [(_NAME.fullmatch(file.name), file) for file in self.folder.iterdir()]
            return sorted((int(name[1]), file) for name, file in found if name)
        return []

    def _file(self, number: int) -> Path:
        return self.folder / f"{number:08}.jsonl"

    def close(self) -> None:
        """Close the file; it stays."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)


def _written(file: Path) -> float:
    """When a segment was compressed, and so the next one begun; now if it is not there."""
    with suppress(OSError):
        return file.lstat().st_mtime
    return time.time()


def _text_of(file: Path) -> str:
    """The text of a segment; empty if it cannot be read. One that was compressed meanwhile has another name."""
    try:
        if file.is_symlink():
            return ""
        if file.suffix != ".gz":
            with suppress(FileNotFoundError):
                return file.read_bytes().decode("utf-8", errors="replace")
            file = Path(f"{file}.gz")
        with gzip.open(file) as packed:
            return packed.read(MOST_EXPANDED).decode("utf-8", errors="replace")
    except (OSError, EOFError, zlib.error):
        return ""
