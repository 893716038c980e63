"""The recorder of refreshes: sums small ones, and writes entries of the refresh log apart from commits.

An epoch of one row must not pay for its entry. So refreshes under ``SLOW_SECONDS`` are added to a few numbers of the
view, and written together, once in ``WRITE_SECONDS`` at the most; slower ones, views that were computed again, filled
or caught up have entries of their own, which are written at once. An epoch is recorded once it is durable. Nothing is
synced: what was not written yet, a second of small epochs, is lost with the process.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from copy import copy
from datetime import UTC, datetime
from itertools import takewhile
from logging import DEBUG, INFO, WARNING

from tidemill.engine.telemetry.epoch_work import EpochWork, PendingRefresh, ViewWork
from tidemill.engine.telemetry.events import EPOCHS, WAREHOUSE, log_epoch, log_refresh, tell
from tidemill.engine.telemetry.latencies import Latencies
from tidemill.engine.telemetry.refresh import Refresh, parse_line
from tidemill.engine.telemetry.spans import span_observer
from tidemill.engine.telemetry.totals import RefreshTotals, totals_with
from tidemill.storage.bounded_log import BoundedLog

__all__ = ["REFRESH_LOG_BYTES", "RefreshRecorder"]

SLOW_SECONDS = 0.01
"""Time from which a refresh has an entry of its own."""

WRITE_SECONDS = 1.0
"""Time between two entries of small refreshes of a view."""

REFRESH_LOG_BYTES = 32 << 20
"""Bytes of the log unless another number is given: some hundred thousand entries, most of them compressed."""

HELD_ENTRIES = 10_000
"""Number of entries that a warehouse in memory remembers."""

INCREMENTAL, RECOMPUTED, FILLED, CAUGHT_UP = "incremental", "recomputed", "filled", "caught up"

Reason = Callable[[str, int], str]
"""From a view and the rows of a change to the reason for its runtime."""

Observer = Callable[[EpochWork, float], None]
"""Is told of every epoch when it is durable, with the reading of the clock then."""


class RefreshRecorder:
    """Records epochs in ``log``; without one in memory. ``reason`` tells why a view runs where it does."""

    def __init__(self, log: BoundedLog | None, reason: Reason, *, writes: bool = True) -> None:
        self._log = log
        self._reason = reason
        self._writes = writes
        self._held: deque[Refresh] = deque(maxlen=HELD_ENTRIES)
        self._totals: dict[str | None, RefreshTotals] = {}
        self._seen: datetime | None = None
        self._look_at = 0.0
        self.changed: defaultdict[str, int] = defaultdict(int)
        """Rows by which each table has changed since the warehouse was opened."""
        self.latencies = Latencies()
        """Durations of the epochs of this process since the warehouse was opened."""
        self.ended = 0.0
        """The reading of the clock when the last epoch was durable; 0 before the first."""
        self._lock = threading.RLock()
        self._epochs = PendingRefresh()
        self._pending: list[PendingRefresh] = []
        self._due = 0.0
        self._trouble = ""
        self._untold: list[Refresh] = []
        self.observers = _listening()
        """Told of every epoch; looked for again whenever entries are written."""

    def note(self, work: EpochWork) -> None:
        """Record an epoch that is durable. For a small one nothing is called from here: that would cost more."""
        now = self.ended = time.perf_counter()
        with self._lock:
            stored = 0
            for name in work.changes:
                rows = work.changes[name].rows
                stored += rows
                if name not in work.owners:
                    self.changed[name] += rows
                elif work.owners[name] in work.views:
                    work.views[work.owners[name]].rows_stored += rows
            for view in work.views:
                one = work.views[view]
                seconds, some = one.triggers + one.output, one.placed.unlogged
                if seconds >= SLOW_SECONDS or one.recomputed or one.filled or work.refreshed:
                    self._note_alone(view, one, work, stored)
                    continue
                if not some.epochs:
                    some.view, some.strategy = view, one.placed.strategies
                    some.runtime = one.placed.runtime.name
                    self._pending += [some]
                some.epochs += 1
                some.last = work.number
                some.rows_in += one.rows_in
                some.rows_out += one.rows_out
                some.lookups += one.lookups
                some.triggers += one.triggers
                some.output += one.output
                if stored:
                    some.bytes += work.bytes * one.rows_stored // stored
                if seconds > some.slowest:
                    some.slowest = seconds
            seconds, some = now - work.started, self._epochs
            if work.is_epoch:
                self.latencies.add(seconds)
                some.epochs += 1
                some.last = work.number
                some.rows_in += work.rows
                some.rows_out += stored
                some.bytes += work.bytes
                some.check += work.checked - work.started
                some.triggers += work.propagated - work.checked
                some.store += work.stored - work.propagated
                some.sync += now - work.stored
                if seconds > some.slowest:
                    some.slowest = seconds
            if seconds >= SLOW_SECONDS or now >= self._due:
                self._write(now)
        for observer in self.observers:
            observer(work, now)
        if self._untold:  # outside the lock: a handler may do anything
            self._tell()

    def _tell(self) -> None:
        entries, self._untold = self._untold, []
        for entry in entries:
            log_refresh(entry)

    def _note_alone(self, view: str, one: ViewWork, work: EpochWork, stored: int) -> None:
        """Record a refresh that has an entry of its own, after the small ones before it."""
        self._write_small(one.placed.unlogged)
        way = FILLED if one.filled else RECOMPUTED if one.recomputed else INCREMENTAL
        if view in work.refreshed and way == INCREMENTAL:
            way = CAUGHT_UP
        told = [one.filled or one.recomputed, work.ways.get(view) or self._reason(view, work.rows)]
        entry = Refresh(
            time=_now(),
            view=view,
            epoch=work.number,
            epochs=1,
            way=way,
            rows_in=one.rows_in,
            rows_out=one.rows_out,
            seconds=one.triggers + one.output,
            slowest=one.triggers + one.output,
            check=0.0,
            triggers=one.triggers,
            output=one.output,
            store=0.0,
            sync=0.0,
            bytes=work.bytes * one.rows_stored // stored if stored else 0,
            lookups=one.lookups,
            strategy=one.placed.strategies,
            runtime=one.placed.runtime.name,
            reason="; ".join(filter(None, told)),
        )
        self._take([entry])

    def _write(self, now: float) -> None:
        """Write the entries of small refreshes, and of the epochs since the last."""
        pending, self._pending = self._pending, []
        done, self._epochs = self._epochs, PendingRefresh()
        self._take([self._small(one) for one in (*pending, done) if one.epochs])
        for one in pending:
            vars(one).clear()
        self._due = now + WRITE_SECONDS
        self.observers = _listening()

    def _write_small(self, some: PendingRefresh) -> None:
        """Write the entry of the small refreshes of one view."""
        if some.epochs:
            self._take([self._small(some)])
            self._pending = [one for one in self._pending if one is not some]
            vars(some).clear()

    def _small(self, some: PendingRefresh) -> Refresh:
        reason = "" if some.view is None else self._reason(some.view, some.rows_in // some.epochs)
        return Refresh(
            time=_now(),
            view=some.view,
            epoch=some.last,
            epochs=some.epochs,
            way="" if some.view is None else INCREMENTAL,
            rows_in=some.rows_in,
            rows_out=some.rows_out,
            seconds=some.check + some.triggers + some.output + some.store + some.sync,
            slowest=some.slowest,
            check=some.check,
            triggers=some.triggers,
            output=some.output,
            store=some.store,
            sync=some.sync,
            bytes=some.bytes,
            lookups=some.lookups,
            strategy=some.strategy,
            runtime=some.runtime,
            reason=reason,
        )

    def _take(self, entries: list[Refresh]) -> None:
        """Take entries into the log. One that cannot be written is lost: no epoch fails for its entry."""
        for entry in entries:
            totals_with(self._totals, entry.view, entry, entry.epoch)
        if self._log is None:
            self._held.extend(entries)
        elif self._writes:
            try:
                self._log.append("".join(f"{entry.line()}\n" for entry in entries))
            except OSError as trouble:
                self._log.close()
                if not self._trouble:
                    self._trouble = str(trouble)
                    tell(WAREHOUSE, WARNING, f"the refresh log cannot be written: {trouble}", phase="refresh log")
        if EPOCHS.isEnabledFor(INFO):
            self._untold += entries

    def totals(self) -> dict[str | None, RefreshTotals]:
        """Costs of each view since the warehouse was opened, and under None of all epochs; nothing is written."""
        with self._lock:
            if not self._writes:
                self._take_in_log()
            found = {view: copy(one) for view, one in self._totals.items()}
            for some in (*self._pending, self._epochs):
                if some.epochs:
                    totals_with(found, some.view, some, some.last)
            return found

    def _take_in_log(self) -> None:
        """Add what the writer, in another process, has logged since the last look; it does so once a second."""
        now = time.perf_counter()
        if now < self._look_at:
            return
        self._look_at = now + WRITE_SECONDS
        seen, newest_first = self._seen, self.entries()
        if seen is None:  # what was done before this process looked is not counted
            newest = next(newest_first, None)
            self._seen = datetime.min if newest is None else newest.time
            return
        found = list(takewhile(lambda entry: entry.time > seen, newest_first))
        for entry in found:
            totals_with(self._totals, entry.view, entry, entry.epoch)
        self._seen = max([seen, *(entry.time for entry in found)])

    def flush(self) -> None:
        """Write what is pending."""
        with self._lock:
            self._write(time.perf_counter())
        self._tell()

    def close(self) -> None:
        """Write what is pending, and close the log."""
        self.flush()
        if self._log is not None:
            self._log.close()

    def entries(self) -> Iterator[Refresh]:
        """All entries, the newest first."""
        self.flush()
        if self._log is None:
            with self._lock:
                return iter([*reversed(self._held)])
        return (entry for entry in map(parse_line, self._log.lines()) if entry is not None)


def _listening() -> list[Observer]:
    """Everybody who is told of each epoch: logging at level DEBUG, and OpenTelemetry if a tracer is configured."""
    spans = span_observer()
    return [*([log_epoch] if EPOCHS.isEnabledFor(DEBUG) else []), *([spans] if spans is not None else [])]


def _now() -> datetime:
    """The time in UTC, without a zone, as TIMESTAMP has it."""
    return datetime.now(UTC).replace(tzinfo=None)
