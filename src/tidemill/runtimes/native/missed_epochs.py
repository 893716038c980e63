"""State that has missed epochs: what others have committed since is read from the store, and added to it.

A large epoch runs on Spark, and the native state that it leaves behind is right as of the epoch before. To load it
again costs its size, to add what it has missed costs the change. So it stays, with the epoch that it shows, until it is
next used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from tidemill.model.errors import EpochGone
from tidemill.model.types import Field
from tidemill.storage.store import ReadableStore

COLUMN_ROWS = 16
"""So many rows are read as columns at the cost of one that becomes a tuple in a dictionary."""


class MissedEpochs:
    """The epoch that each relation or stage shows which has missed some."""

    def __init__(self, store: ReadableStore) -> None:
        self._store = store
        self._shows: dict[str, int] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._shows

    def names(self) -> list[str]:
        """All that has missed epochs."""
        return list(self._shows)

    def note(self, names: Iterable[str]) -> None:
        """What is held under ``names`` shows the last epoch, and misses those that follow."""
        for name in names:
            self._shows.setdefault(name, self._store.epoch)

    def forget(self, name: str) -> None:
        """It is not held any more, or misses nothing."""
        self._shows.pop(name, None)

    def clear(self) -> None:
        """Nothing is held any more."""
        self._shows.clear()

    def take(self, name: str, maps: Mapping[str, Sequence[Field]]) -> dict[str, pa.Table] | None:
        """What ``name`` has missed of some stored ``maps``, from now on no longer; None where that cannot be told."""
        return read_missed(self._store, self._shows.pop(name), maps)


def read_missed(store: ReadableStore, since: int, maps: Mapping[str, Sequence[Field]]) -> dict[str, pa.Table] | None:
    """The stored changes of some maps after epoch ``since``; None where the store no longer has them one by one."""
    try:
        return {name: store.read(name, fields, since=since) for name, fields in maps.items()}
    except EpochGone:
        return None


def is_cheaper_to_add(changed: float, stored: float) -> bool:
    """True if so many missed rows are added at less cost than all that are stored are loaded.

    A row that is added moves indexes one by one, which a load fills at once.

    >>> is_cheaper_to_add(10, 100), is_cheaper_to_add(60, 100)
    (True, False)
    """
    return 2 * changed <= stored
