"""Keys of changes that were sent from elsewhere: the same key twice is one epoch, also after a crash.

A key is kept among the positions of the epoch that it belongs to, so both are committed in one step, as for sources. It
takes one of a fixed number of places, the one that was written longest ago, so that the last ``KEPT_KEYS`` keys are
known. Several keys share a position, and only digests are kept, so that a commit copies little.
"""

from __future__ import annotations

from base64 import b85encode
from collections.abc import Mapping
from hashlib import blake2b
from typing import NamedTuple

from tidemill.storage.commits.position_history import WITHOUT_HISTORY

__all__ = ["KEPT_KEYS", "KnownKey", "PostKeys", "is_post_key"]

PREFIX = f"{WITHOUT_HISTORY}key:"

PER_POSITION = 8
"""Keys that share a position: each commit writes the whole of it."""

POSITIONS = 2048
"""Positions that hold keys: each commit copies the names of all."""

KEPT_KEYS = PER_POSITION * POSITIONS
"""Number of keys that are known; those before are forgotten."""


class KnownKey(NamedTuple):
    """The digest of what was sent with a key, and its epoch."""

    content: str
    epoch: int


def is_post_key(position: str) -> bool:
    """True if a position holds keys rather than how far a source is."""
    return position.startswith(PREFIX)


class PostKeys:
    """The keys among the positions of a store. They are read again whenever these are not those that it has written."""

    def __init__(self) -> None:
        self._known: dict[str, KnownKey] = {}
        self._count = 0
        self._last = "nothing was read yet"

    def find(self, positions: Mapping[str, str], key: str) -> KnownKey | None:
        """The epoch of a key, if it is known."""
        if positions.get(_name(self._count - 1), "") != self._last:
            self._read(positions)
        return self._known.get(_digest(key.encode()))

    def next(self, key: str, content: str, epoch: int) -> dict[str, str]:
        """The position that takes in a key, to be committed with its epoch; after ``find``, and before ``note``."""
        begun = self._count % PER_POSITION
        before = self._last if begun else str(self._count)
        return {_name(self._count): f"{before} {_digest(key.encode())} {content} {epoch}"}

    def note(self, key: str, content: str, epoch: int) -> None:
        """Know a key from now on: its epoch was committed."""
        (self._last,) = self.next(key, content, epoch).values()
        self._known[_digest(key.encode())] = KnownKey(content, epoch)
        self._count += 1
        if len(self._known) > 2 * KEPT_KEYS:
            self._forget()

    def _forget(self) -> None:
        """Keep the last keys: a dictionary has them in the order in which they came."""
        self._known = dict(list(self._known.items())[-KEPT_KEYS:])

    def _read(self, positions: Mapping[str, str]) -> None:
        """Read the keys of a store, the oldest first."""
        texts = [text.split(" ") for name, text in positions.items() if name.startswith(PREFIX)]
        self._known, self._count, self._last = {}, 0, ""
        for first, *entries in sorted(texts, key=lambda words: int(words[0])):
            for at in range(0, len(entries), 3):
                self._known[entries[at]] = KnownKey(entries[at + 1], int(entries[at + 2]))
            self._count = int(first) + len(entries) // 3
            self._last = " ".join((first, *entries))


def _name(count: int) -> str:
    return f"{PREFIX}{count // PER_POSITION % POSITIONS}"


def _digest(data: bytes) -> str:
    return b85encode(blake2b(data, digest_size=12).digest()).decode("ascii")
