"""Compaction schedule: stored changes of epochs are merged periodically, and old epochs in memory are released."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import accumulate

from tidemill.changes.changeset import Epoch
from tidemill.program.maps import Map
from tidemill.storage.store import Store

EPOCHS_BETWEEN_PASSES = 64
"""Number of epochs after which the maps that they changed are considered for compaction."""

ROWS_BETWEEN_PASSES = 10_000
"""Number of changed rows after which maps are considered, if that comes first."""

MAX_MERGED_ROWS = 500_000
"""Largest number of rows of a map merged at once, in less than a second. Larger maps wait for ``wh.compact()``."""

MERGE_BATCH_ROWS = 100_000
"""Approximate number of rows merged after one epoch over all maps; the others follow, so no epoch waits for all."""

MEMORY_EPOCHS = 1_000
"""Number of epochs that an in-memory warehouse keeps, unless ``wh.vacuum(keep)`` sets another one."""


class CompactionSchedule:
    """The maps changed since the last pass, and the number of epochs kept (None: all).

    Most epochs only add a few names to a set. The store merges runs of similar size, so a row is rewritten a
    logarithmic number of times, and a map that has not changed costs nothing.
    """

    def __init__(self, store: Store, keep: int | None) -> None:
        self._store = store
        self.keep = keep
        self._touched: set[str] = set()
        self._epochs = 0
        self._rows = 0

    def note(self, epoch: Epoch) -> None:
        """Record the maps that an epoch changed."""
        self._touched.update(epoch.changes)
        self._epochs += 1
        for change in epoch.changes.values():
            self._rows += change.rows

    @property
    def due(self) -> bool:
        """True if enough has changed for a pass."""
        return self._epochs >= EPOCHS_BETWEEN_PASSES or self._rows >= ROWS_BETWEEN_PASSES

    def run(self, maps: Mapping[str, Map], seen: int) -> bool:
        """Release old epochs, but not ``seen`` or later ones, and merge maps that are due; true if any was merged."""
        touched, self._touched, self._epochs, self._rows = self._touched, set(), 0, 0
        self._forget_epochs(seen)
        due = [name for name in touched & maps.keys() if self._store.compaction_due(name, MAX_MERGED_ROWS)]
        now = self._smallest(due)
        if now:
            self._store.compact({name: maps[name] for name in now}, MAX_MERGED_ROWS)
        self._touched.update(set(due).difference(now))
        self._epochs = EPOCHS_BETWEEN_PASSES if self._touched else 0
        return bool(now)

    def _smallest(self, due: Iterable[str]) -> list[str]:
        """The maps that are merged now: the smallest, and at least one."""
        sizes = sorted((min(self._store.rows(name), MAX_MERGED_ROWS), name) for name in due)
        before = accumulate((rows for rows, _ in sizes), initial=0)
        return [name for (_, name), rows in zip(sizes, before, strict=False) if rows < MERGE_BATCH_ROWS]

    def _forget_epochs(self, seen: int) -> None:
        """Release epochs that need not be kept; many at a time, because a folder writes a manifest for it."""
        if self.keep is None:
            return
        oldest = min(self._store.epoch - self.keep + 1, seen)
        if oldest - self._store.oldest >= EPOCHS_BETWEEN_PASSES:
            self._store.vacuum(self._store.epoch - oldest + 1)
