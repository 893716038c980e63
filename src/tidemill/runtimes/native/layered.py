"""A large relation in memory: columns as they were read, and a dictionary of what changed since."""

from __future__ import annotations

from collections.abc import Collection
from operator import itemgetter
from typing import Any

from tidemill.changes.zset import Row, ZSet
from tidemill.runtimes.native.base import Base, Places
from tidemill.runtimes.native.maps import Contents


class Layered:
    """The sum of a base and the changes since. Equal rows may stand in both: loops are linear and need no sum.

    A base does not change, so what was fetched from it once is kept.
    """

    def __init__(self, base: Base, width: int) -> None:
        self._base = base
        self._width = width
        self._fetched: dict[tuple[Places, Places], dict[Any, list[tuple[Row, int]]]] = {}
        self._rows = 0
        self.since = Contents()

    @property
    def remote(self) -> bool:
        """Whether each fetch is a job."""
        return self._base.remote

    @property
    def size(self) -> int:
        """How many rows stand in dictionaries here."""
        return self._rows + len(self.since.entries)

    def lookup(
        self, positions: Places, keys: Collection[Row], columns: Places | None = None
    ) -> dict[Any, list[tuple[Row, int]]]:
        """The weighted rows under each of ``keys``, as an index has them: the key of one column is its bare value.

        Of rows of the base only ``columns`` need be right, where they are given.
        """
        sought = {key for key in keys if None not in key}
        held = self._from_base(positions, sought, columns)
        changed = self.since.index(positions)
        found = {}
        for key in map(bare, sought):
            rows = held.get(key, _NONE)
            found[key] = [*rows, *changed[key]] if key in changed else rows
        return found

    def _from_base(self, positions: Places, keys: set[Row], columns: Places | None) -> dict[Any, list[tuple[Row, int]]]:
        wanted = tuple(sorted({*(range(self._width) if columns is None else columns), *positions}))
        held = self._fetched.setdefault((positions, wanted), {})
        missing = {key for key in keys if bare(key) not in held}
        held.update({bare(key): [] for key in missing})
        key_of = itemgetter(*positions)
        rows = self._base.fetch(positions, missing, wanted)
        for pair in rows:
            held[key_of(pair[0])].append(pair)
        self._rows += len(rows) + len(missing)
        return held

    def weights(self, rows: Collection[Row]) -> ZSet:
        """How often each of ``rows`` is there."""
        everywhere = tuple(range(self._width))
        net = ZSet.summed(self._base.fetch(everywhere, rows, everywhere))
        net.update_by(ZSet({row: self.since.entries[row] for row in rows if row in self.since.entries}))
        return net

    def pairs(self) -> list[tuple[Row, int]]:
        """All weighted rows. A list, because an inner loop runs over them once for each row of the loop around it."""
        return [*self._base.pairs(), *self.since.entries.items()]


_NONE: list[tuple[Row, int]] = []


def bare(key: Row) -> Any:
    """A key as the generated code asks for it.

    >>> bare((7,)), bare((7, "a"))
    (7, (7, 'a'))
    """
    return key[0] if len(key) == 1 else key
