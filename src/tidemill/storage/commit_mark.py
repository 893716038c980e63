"""The mark: how far a warehouse was acknowledged, kept beside the log and the manifests that hold it.

A log that ends early looks the same whether a crash tore its last record or something took records that were durable.
The mark tells the two apart: it names the newest manifest, and how much of its log was on the disk when a commit
returned. It is written after that and never synced itself, so it costs no more than a write to memory: a process that
is killed leaves it up to date, a power failure may leave an older one, and none is ever ahead of what it vouches for.
So a mark that says more than there is means loss. One that is damaged or missing says nothing, and is written anew.
"""

from __future__ import annotations

import json
import os
import zlib
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tidemill.storage.filesystem.durable_files import write_over
from tidemill.storage.filesystem.symlinks import read_file

MARK_FILE = "acknowledged"

_WIDTH = 247
"""A mark always has as many characters, so that one in the place of another leaves nothing of it."""


@dataclass(frozen=True, slots=True)
class CommitMark:
    """The last commit that was acknowledged: manifest ``sequence`` with its checksum ``seal``, and its log by ``token``
    up to byte ``length``, where the record of ``epoch`` ends, whose checksum is ``tip``.

    With ``boot`` the log was written and not synced: that counts only until the system starts again.
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
        """True where the log must still have what the mark says."""
        return self.length > 0 and self.boot in ("", boot_id())

    @property
    def reached(self) -> int:
        """The last epoch that must still be there, as far as the mark knows."""
        return self.epoch if self.counts or not self.length else 0


class CommitMarkFile:
    """The mark of a warehouse, open to be moved by its one writer."""

    def __init__(self, root: Path, mark: CommitMark) -> None:
        if read_mark(root) is None:
            write_over(root / MARK_FILE, encode_mark(mark))
        self._handle = os.open(root / MARK_FILE, os.O_WRONLY | os.O_NOFOLLOW)

    def move(self, mark: CommitMark) -> None:
        """Vouch for more. The commit is durable by then, so that a disk that refuses is no reason to fail it."""
        if self._handle >= 0:
            with suppress(OSError):
                os.pwrite(self._handle, encode_mark(mark), 0)

    def close(self) -> None:
        """Leave the mark as it is."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def encode_mark(mark: CommitMark) -> bytes:
    """The mark as it is stored: a line, and its checksum."""
    # Written out rather than dumped: it is a part of every commit.
    said = (
        f'{{"sequence": {mark.sequence}, "seal": {mark.seal}, "token": {mark.token}, "epoch": {mark.epoch}, '
        f'"length": {mark.length}, "tip": {mark.tip}, "boot": "{mark.boot}"}}'
    )
    body = said.ljust(_WIDTH).encode()
    return b"%s\ncrc32 %08x\n" % (body, zlib.crc32(body))


def read_mark(root: Path) -> CommitMark | None:
    """The mark of a warehouse; None where there is none, or it is not whole."""
    try:
        body, _, seal = read_file(root / MARK_FILE).partition(b"\n")
        return CommitMark(**json.loads(body)) if seal.strip() == b"crc32 %08x" % zlib.crc32(body) else None
    except (FileNotFoundError, ValueError, TypeError):
        return None


@cache
def boot_id() -> str:
    """The name of the time since the system was started, until when what was written stays without a sync."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"
