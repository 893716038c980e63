"""The log as small objects: each sync puts the records since the last one as the next piece.

Pieces are numbered, and put only if absent. So whoever wants to write a warehouse puts the *end* of the log at the
next number: an earlier writer that goes on is refused there, and knows it. Ends are never deleted: they are a few
bytes, and the writer that they refuse may come back at any time. Pieces are read by their numbers, and a listing only
says which can be fetched at once, so one that is late loses nothing.
"""

from __future__ import annotations

import errno
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Lock
from typing import NamedTuple

from tidemill.storage.filesystem.objects.requests import RepeatedRequests

__all__ = ["MAX_END", "LogPieces", "ObjectLog", "ReadPieces"]

_END = b"end of this log, by writer "

MAX_END = 64
"""Length below which a piece is an end: the header of a record and its line of JSON are longer."""

FETCHES = 16
"""Number of pieces that are fetched at the same time."""


class ReadPieces(NamedTuple):
    """The pieces of a log in order, and whether its end is there."""

    pieces: list[bytes]
    ended: bool

    @property
    def length(self) -> int:
        """Bytes of all pieces."""
        return sum(map(len, self.pieces))


class LogPieces:
    """The pieces of one log, of which those that were read are kept: they never change."""

    def __init__(self, requests: RepeatedRequests, folder: str) -> None:
        self._requests = requests
        self._folder = folder
        self._known: dict[int, bytes] = {}

    def read(self) -> ReadPieces:
        """All pieces that there are by now."""
        self._fetch_listed()
        pieces: list[bytes] = []
        while True:
            try:
                piece = self._get(len(pieces))
            except FileNotFoundError:
                return ReadPieces(pieces, ended=False)
            if piece.startswith(_END):
                return ReadPieces(pieces, ended=True)
            pieces.append(piece)

    def _fetch_listed(self) -> None:
        missing = [number for number in self.listed() if number not in self._known]
        if len(missing) > 1:
            with ThreadPoolExecutor(FETCHES) as pool:
                list(pool.map(self._get_listed, missing))

    def _get_listed(self, number: int) -> None:
        with suppress(FileNotFoundError):  # a listing may be older than its deletion
            self._get(number)

    def _get(self, number: int) -> bytes:
        if number not in self._known:
            self._known[number] = self._requests.get(self.name(number))
        return self._known[number]

    def name(self, number: int) -> str:
        """The object of a piece."""
        return f"{self._folder}/{number:08}"

    def listed(self) -> dict[int, int]:
        """Sizes of the pieces that a listing has, without ends."""
        found = self._requests.sizes(self._folder)
        sizes = {name.rpartition("/")[2]: size for name, size in found.items()}
        return {int(name): size for name, size in sorted(sizes.items()) if size >= MAX_END and name.isdigit()}

    def append(self, number: int, piece: bytes) -> None:
        """Put a piece; ``FileExistsError`` if another has its number."""
        self._requests.create(self.name(number), piece)
        self._known[number] = piece

    def end(self, writer: str) -> bool:
        """Put the end of the log; False if it is there."""
        while True:
            found = self.read()
            if found.ended:
                return False
            try:
                self._requests.create(self.name(len(found.pieces)), _END + writer.encode())
            except FileExistsError:
                continue  # its writer was faster: that piece counts
            return True

    def delete(self) -> None:
        """Delete all pieces, the last one first, so that what is left begins at the beginning; the end stays."""
        for number in sorted({*self._known, *self.listed()}, reverse=True):
            if not self._known.get(number, b"").startswith(_END):
                self._requests.delete(self.name(number))
        self._known.clear()


class ObjectLog:
    """A log that is being written. What was not synced is in memory, and read as if it were there."""

    def __init__(self, pieces: LogPieces) -> None:
        self._pieces = pieces
        self._guard = Lock()
        found = pieces.read()
        self._number, self._stored = len(found.pieces), found.length
        self._waiting = bytearray()

    def write(self, content: bytes, at: int) -> None:
        """Keep it for the next sync."""
        with self._guard:
            self._require_unsynced(at)
            self._waiting[at - self._stored :] = content

    def truncate(self, length: int) -> None:
        """Forget what waits after byte ``length``."""
        with self._guard:
            self._require_unsynced(length)
            del self._waiting[length - self._stored :]

    def _require_unsynced(self, at: int) -> None:
        if not 0 <= at - self._stored <= len(self._waiting):
            raise OSError(errno.EINVAL, "objects cannot be changed")

    @property
    def length(self) -> int:
        """Bytes of all records, those that wait included."""
        return self._stored + len(self._waiting)

    def content(self) -> bytes:
        """All records, those that wait included."""
        with self._guard:
            return b"".join([*self._pieces.read().pieces[: self._number], self._waiting])

    def sync(self) -> None:
        """Put what waits as the next piece. ``FileExistsError`` if another writer has ended the log."""
        while True:
            with self._guard:
                piece, number = bytes(self._waiting), self._number
            if not piece:
                return
            try:
                self._pieces.append(number, piece)
            except FileExistsError:
                piece = self._own_piece(number, piece)
            with self._guard:
                self._number, self._stored = number + 1, self._stored + len(piece)
                del self._waiting[: len(piece)]

    def _own_piece(self, number: int, piece: bytes) -> bytes:
        """The piece that has the number, if this writer put it, and was interrupted before it noted that."""
        found = self._pieces.read().pieces[number:]
        if found and piece.startswith(found[0]):
            return found[0]
        raise FileExistsError(errno.EEXIST, "another writer has ended the log", self._pieces.name(number))

    def close(self) -> None:
        """Forget what waits."""
        self._waiting.clear()
