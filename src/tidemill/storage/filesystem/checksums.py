"""Comparing files with the length and checksum in their manifest; once per process.

CRC-32 detects every change of up to four adjacent bytes, and misses one in 2**32 of the larger ones. zlib reads 3.3 GB
a second: a run of 344 MB takes 0.1 s, where reading its rows takes 1.0 s, and 0.17 s for one column of six. Parquet's
own page checksums take 0.025 s of that second, but do not cover the footer, page headers and indexes by which a reader
finds its rows. So the whole file is compared when it is first read, and pages on every read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from tidemill.storage.filesystem.durable_files import checksum, translate_os_errors
from tidemill.storage.filesystem.symlinks import refuse_link

REMEMBERED = 1 << 16
"""Maximum number of files remembered as verified; when exceeded, all are forgotten and compared again."""

UNREAD_HINT = "Nothing is known to be wrong with the file. Remove what keeps it from being read, and read again."

MISSING_DETAIL = "It was removed, or another process has vacuumed since the warehouse was opened."

_compared: dict[Path, tuple[int, int, int, int]] = {}
"""The files that were compared: file status at that time and checksum."""

_compared_parts: dict[Path, tuple[tuple[int, int, int], frozenset[tuple[int, int]]]] = {}
"""The files of which parts were compared: file status at that time, and these parts with their checksums."""


def compare_checksum(file: Path, length: int, expected: int, *, again: bool = False) -> str | None:
    """Describe how a file differs from this length and checksum, as a sentence; None if it does not.

    For a file that was compared before, only its status is compared, unless ``again`` is set.
    """
    refuse_link(file)
    with translate_os_errors("read a file", file, UNREAD_HINT):
        try:
            trace = _trace(file)
            if trace[1] != length:
                return f"It has {trace[1]:,} bytes where its manifest says {length:,}."
            if not again and _compared.get(file) == (*trace, expected):
                return None
            found = checksum(file)
        except FileNotFoundError:
            return MISSING_DETAIL
    if found != expected:
        _compared.pop(file, None)
        return "It does not match its checksum."
    _remember(file, trace, expected)
    return None


def compare_parts(
    file: Path, length: int, parts: Mapping[int, int], found: Callable[[int], int], whole: int
) -> str | None:
    """Describe how a file differs in numbered ``parts`` from their checksums; None if it does not.

    ``found`` computes the checksum of a part. Nothing is computed for parts that were compared before, nor for a file
    of which all was, with the checksum ``whole``.
    """
    refuse_link(file)
    with translate_os_errors("read a file", file, UNREAD_HINT):
        try:
            trace = _trace(file)
            if trace[1] != length:
                return f"It has {trace[1]:,} bytes where its manifest says {length:,}."
            if _compared.get(file) == (*trace, whole):
                return None
            known = _compared_parts.get(file, (trace, frozenset()))
            done = known[1] if known[0] == trace else frozenset()
            if any(found(number) != expected for number, expected in parts.items() - done):
                _compared_parts.pop(file, None)
                return "It does not match its checksum."
        except FileNotFoundError:
            return MISSING_DETAIL
    if len(_compared_parts) >= REMEMBERED:
        _compared_parts.clear()
    _compared_parts[file] = trace, done | parts.items()
    return None


def remember_checksum(file: Path) -> int:
    """The checksum of a file that this process has just written; it counts as compared."""
    found = checksum(file)
    _remember(file, _trace(file), found)
    return found


def _remember(file: Path, trace: tuple[int, int, int], expected: int) -> None:
    if len(_compared) >= REMEMBERED:
        _compared.clear()
    _compared[file] = (*trace, expected)


def _trace(file: Path) -> tuple[int, int, int]:
    status = os.stat(file)
    return status.st_ino, status.st_size, status.st_mtime_ns
