"""The commit mark: how far commits were acknowledged, in a file beside the log and the manifests.

A log that ends early looks the same whether a crash tore its last record or durable records were removed. The mark
tells the two apart: it names the newest manifest, and how many bytes of its log were durable when a commit returned.
It is written after that sync and is never synced itself, so it costs one write to the page cache: it is up to date
after a killed process, may be stale after a power failure, and is never ahead of the data. So a mark ahead of the data
means that data was lost. A damaged or missing mark proves nothing and is written again.
"""

from __future__ import annotations

import json
import zlib
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tidemill.storage.filesystem.file_system import FilePath, system_of

MARK_FILE = "acknowledged"

_WIDTH = 247
"""Fixed length of a mark in bytes: overwriting one in place leaves no remainder of the previous one."""


class CommitMark(NamedTuple):
    """The last acknowledged commit: manifest ``sequence`` with its checksum ``seal``, and the log of writer ``token``
    up to byte ``length``, where the record of ``epoch`` with checksum ``tip`` ends.

    With ``boot`` the log was written but not synced: the mark then counts only until the system is restarted.
    """

    sequence: int
    seal: int
    token: int
    epoch: int
    length: int = 0
    tip: int = 0
    boot: str = ""

    @property
    def counts(self) -> bool:
        """True if the log must still hold what the mark says."""
        return self.length > 0 and self.boot in ("", boot_id())

    @property
    def reached(self) -> int:
        """The last epoch that must still be present according to the mark."""
        return self.epoch if self.counts or not self.length else 0


class CommitMarkFile:
    """The mark file of a warehouse, opened by its single writer."""

    def __init__(self, root: FilePath, mark: CommitMark) -> None:
        system = system_of(root)
        if read_mark(root) is None:
            system.replace(root / MARK_FILE, encode_mark(mark))
        self._opened = system.open_mark(root / MARK_FILE)

    def move(self, mark: CommitMark) -> None:
        """Advance the mark. The commit is already durable, so a write error here does not fail it."""
        try:  # noqa: SIM105  suppress would be three more calls in every commit
            self._opened.write(encode_mark(mark))
        except OSError:
            pass

    def close(self) -> None:
        """Close the file; the mark stays."""
        self._opened.close()


def encode_mark(mark: CommitMark) -> bytes:
    """The stored form of a mark: one line and its checksum."""
    # Formatted by hand rather than by json.dumps: this runs in every commit.
    said = (
        f'{{"sequence": {mark.sequence}, "seal": {mark.seal}, "token": {mark.token}, "epoch": {mark.epoch}, '
        f'"length": {mark.length}, "tip": {mark.tip}, "boot": "{mark.boot}"}}'
    )
    body = said.ljust(_WIDTH).encode()
    return b"%s\ncrc32 %08x\n" % (body, zlib.crc32(body))


def read_mark(root: FilePath) -> CommitMark | None:
    """The mark of a warehouse; None if it is missing or damaged."""
    try:
        body, _, seal = system_of(root).read(root / MARK_FILE).partition(b"\n")
        return CommitMark(**json.loads(body)) if seal.strip() == b"crc32 %08x" % zlib.crc32(body) else None
    except (FileNotFoundError, ValueError, TypeError):
        return None


@cache
def boot_id() -> str:
    """The system's boot id: data that was written but not synced is safe for as long as it does not change."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"
