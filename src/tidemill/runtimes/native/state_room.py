"""The room that a memory budget leaves for state in this process: what does not fit stays in the store.

There it is looked up, which takes milliseconds where a dictionary takes microseconds. So a budget costs time, and
refuses only what lookups cannot answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

DICTIONARY_ENTRY, DICTIONARY_VALUE = 250, 70
"""Bytes of a row in a dictionary with an index, and of each of its values: an estimate on the safe side."""

COLUMN_ENTRY, COLUMN_VALUE = 48, 32
"""Bytes of a row in columns, and of each of its values, with one index of hashes and the copy that is made of it."""

COMPILED_ENTRY, COMPILED_VALUE = 96, 32
"""Bytes of an entry of a map of machine code, and of each of its values, with the columns that it is read from."""

SPARED = 2
"""The part of the room that the rows of the epoch itself are left: one of so many."""

UNLIMITED_BYTES = 1 << 62
"""More bytes than any state has."""

LEAST_RELEASED = 1 << 20
"""Bytes below which state is not released for the sake of others: it would be read again at once."""


StateSize = Callable[[int, int], int]
"""Gives the estimated bytes of rows, by their number and that of their columns."""


def dictionary_bytes(rows: int, columns: int) -> int:
    """Estimated bytes of rows of so many columns in dictionaries.

    >>> dictionary_bytes(1_000_000, 5)
    600000000
    """
    return rows * (DICTIONARY_ENTRY + columns * DICTIONARY_VALUE)


def column_bytes(rows: int, columns: int) -> int:
    """Estimated bytes of rows in columns."""
    return rows * (COLUMN_ENTRY + columns * COLUMN_VALUE)


def compiled_bytes(rows: int, columns: int) -> int:
    """Estimated bytes of rows in a map or table of machine code."""
    return rows * (COMPILED_ENTRY + columns * COMPILED_VALUE)


class StateRoom:
    """Tells if state still fits. ``room`` gives the bytes that this process may still take, None for no limit.

    >>> StateRoom(lambda: 1_000).fits(400), StateRoom(lambda: 1_000).fits(600), StateRoom().fits(1 << 60)
    (True, False, True)
    """

    def __init__(self, room: Callable[[], int | None] = lambda: None) -> None:
        self._room = room
        self._sparing = False

    @property
    def is_limited(self) -> bool:
        """True if there is a memory budget."""
        return self._room() is not None

    def fits(self, bytes_: int) -> bool:
        """True if state of that size can be read, and leaves room for the epoch."""
        room = self._room()
        return room is None or (not self._sparing and bytes_ * SPARED <= room)

    @contextmanager
    def sparing(self) -> Iterator[None]:
        """Within, no state fits: for an epoch that has turned out not to fit beside what it has read."""
        before, self._sparing = self._sparing, True
        try:
            yield
        finally:
            self._sparing = before


@dataclass(frozen=True, slots=True)
class ReleasableState:
    """State of which the store has a copy: the epoch in which it was last used, its bytes, and how to release it."""

    last_used: int
    bytes: int
    release: Callable[[], None]


def release_least_recently_used(held: list[ReleasableState], wanted: int) -> int:
    """Release state until ``wanted`` bytes are given back, by their estimate; returns these bytes.

    >>> gone = []
    >>> held = [ReleasableState(epoch, 600, lambda epoch=epoch: gone.append(epoch)) for epoch in (3, 1, 2)]
    >>> release_least_recently_used(held, 1000), gone
    (1200, [1, 2])
    """
    released = 0
    for state in sorted(held, key=lambda state: (state.last_used, -state.bytes)):
        if released >= wanted:
            break
        state.release()
        released += state.bytes
    return released
