"""Upkeep: what epochs leave behind is merged now and then, and what lives in memory forgets its distant past."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import accumulate

from tidemill.changes.changeset import Epoch
from tidemill.program.maps import Map
from tidemill.storage.store import Store

EPOCHS_BETWEEN_PASSES = 64
"""After so many epochs, the maps that they touched are looked at."""

ROWS_BETWEEN_PASSES = 10_000
"""Or after so many rows."""

MAX_MERGED_ROWS = 500_000
"""So many rows of a map are merged at once, at most: less than a second. What is larger waits for ``wh.compact()``."""

MERGE_BATCH_ROWS = 100_000
"""Maps of about so many rows together are merged after one epoch, and others after the next: none waits for all."""

MEMORY_EPOCHS = 1_000
"""How many epochs an in-memory warehouse can look back, until ``wh.vacuum(keep)`` says another number."""


class CompactionSchedule:
    """Which maps have been touched since they were last looked at, and how many epochs are kept (None: all).

    Most epochs only add a few names to a set. The store merges runs of like size, so a row is rewritten a logarithmic
    number of times, and no map is looked at that has not changed.
    """

    def __init__(self, store: Store, keep: int | None) -> None:
        self._store = store
        self.keep = keep
        self._touched: set[str] = set()
        self._epochs = 0
        self._rows = 0

    def note(self, epoch: Epoch) -> None:
        """Remember what an epoch has touched."""
        self._touched.update(epoch.changes)
        self._epochs += 1
        self._rows += sum(map(len, epoch.changes.values()))

    @property
    def due(self) -> bool:
        """Whether enough has happened to look."""
        return self._epochs >= EPOCHS_BETWEEN_PASSES or self._rows >= ROWS_BETWEEN_PASSES

    def run(self, maps: Mapping[str, Map], seen: int) -> bool:
        """Forget and merge what is due; whether anything was merged. ``seen`` is an epoch that must stay in reach."""
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
        """Let go of epochs beyond those kept; many at a time, because a folder writes a manifest for it."""
        if self.keep is None:
            return
        oldest = min(self._store.epoch - self.keep + 1, seen)
        if oldest - self._store.oldest >= EPOCHS_BETWEEN_PASSES:
            self._store.vacuum(self._store.epoch - oldest + 1)
