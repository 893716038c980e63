"""Housekeeping after an epoch: stored changes merged, logs trimmed, old partitions and old epochs dropped."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from logging import INFO, WARNING

from tidemill.engine.epochs.commit import Settled
from tidemill.engine.epochs.state import EngineState
from tidemill.engine.epochs.transaction import EpochTransaction
from tidemill.engine.maintenance.change_logs import ChangeLogs
from tidemill.engine.maintenance.compaction_schedule import CompactionSchedule
from tidemill.engine.partitions.retention import ExpiredByStage, Retention
from tidemill.engine.telemetry.events import WAREHOUSE, tell
from tidemill.model.errors import CommitUnknown
from tidemill.program.expiry.entries import ExpiredEntries

__all__ = ["Housekeeping"]


class Housekeeping:
    """Compacts the store of a warehouse and drops what it need not keep. ``busy`` is true while an epoch is open."""

    def __init__(
        self,
        state: EngineState,
        transaction: EpochTransaction,
        schedule: CompactionSchedule,
        logs: ChangeLogs,
        settled: Settled,
        busy: Callable[[], bool],
    ) -> None:
        self._state = state
        self._transaction = transaction
        self._schedule = schedule
        self._logs = logs
        self._settled = settled
        self._busy = busy
        self._retention = Retention(lambda: state.catalog, state.store, self._drop_expired)

    def merge_due(self) -> None:
        """Merge maps that are due. The epoch is already committed, so a failure here is a warning and not an error."""
        if not self._schedule.due:
            return
        state = self._state
        with state.lock:
            if state.closed:
                return
            behind = [view.fresh for view in state.catalog.view_index.deferred]
            maps, oldest = state.catalog.mergeable_maps(), state.store.oldest
            try:
                if self._schedule.run(maps, seen=min(behind, default=state.store.epoch)):
                    state.count_rows()
                    tell(WAREHOUSE, INFO, "stored changes were merged", phase="compaction", epoch=state.store.epoch)
                self._logs.trim(state.catalog)
                if state.store.oldest > oldest:
                    state.placement.forget_files(maps)
            except Exception as trouble:
                self._transaction.unpublished |= isinstance(trouble, CommitUnknown)  # so that the next use says it
                tell(WAREHOUSE, WARNING, f"stored changes could not be merged: {trouble}", phase="compaction")
                warnings.warn(f"stored changes could not be merged: {trouble}", RuntimeWarning, stacklevel=4)

    def forget_due(self) -> None:
        """Drop old partitions if enough have expired. The epoch is already committed, so a failure is a warning."""
        if not self._retention.due:
            return
        with self._state.lock:
            if self._state.closed or self._busy():
                return
            self._transaction.recover()
            try:
                self._retention.forget_in_time()
            except Exception as trouble:
                warnings.warn(f"old partitions could not be forgotten: {trouble}", RuntimeWarning, stacklevel=4)

    def _drop_expired(self, stages: ExpiredByStage, rows: list[ExpiredEntries], now: bool) -> None:
        # If runtimes fail to drop what the store has dropped, they are reloaded from it.
        self._transaction.begin()
        self._state.store.forget([*(one for _, some in stages for one in some), *rows], now=now)
        self._state.placement.forget_entries(stages, rows)
        self._transaction.end()

    def compact(self) -> int:
        """Drop expired entries and merge all maps; returns the bytes that the newest state no longer needs."""
        state = self._state
        with self._settled():
            state.require_writable()
            self._retention.forget(now=True)
            freed = state.store.compact(state.catalog.mergeable_maps())
            self._logs.trim(state.catalog)
            state.count_rows()
            return freed

    def vacuum(self, keep: int) -> int:
        """Drop all but the last ``keep`` epochs; in a warehouse with a limit on epochs, ``keep`` is the new limit."""
        state = self._state
        with self._settled():
            state.require_writable()
            if self._schedule.keep is not None:
                self._schedule.keep = max(keep, 1)
            # Changes of a stream are stored nowhere else, so they stay until deferred views have read them.
            streams = [name for name, table in state.catalog.tables.items() if not table.kept]
            behind = [epoch for name in streams for epoch in state.catalog.unread_epochs(name)]
            keep = max(keep, state.store.epoch - min(behind, default=state.store.epoch) + 1)
            state.placement.forget_files(state.catalog.maps())
            self._logs.trim(state.catalog, state.store.epoch - max(keep, 1) + 1)
            return state.store.vacuum(keep)
