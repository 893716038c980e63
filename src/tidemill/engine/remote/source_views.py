"""All views over sources of a warehouse: opened on first use, filled, synced and released.

One thread at a time maintains a view: its worker, or a caller that syncs or drops it. The lock of the view is taken
before the lock of the engine, which every epoch takes.
"""

from __future__ import annotations

import math
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from tidemill.changes.changeset import ChangeSet
from tidemill.engine.catalog.entries.source_entry import SourceEntry
from tidemill.engine.catalog.refresh_mode import sync_interval
from tidemill.engine.catalog.remote_subplans import MaintainedSubplan
from tidemill.engine.catalog.view import View
from tidemill.engine.epochs.state import EngineState
from tidemill.engine.intake_counts import IntakeCounts, IntakeTotals
from tidemill.engine.remote.chunked_load import LoadProgress
from tidemill.engine.remote.source_maintainer import (
    ApplyChanges,
    ApplyInOrder,
    Certificate,
    SourceEpoch,
    SourceMaintainer,
    source_position_name,
)
from tidemill.engine.workers import Trouble, Worker, not_started
from tidemill.model.errors import TidemillError, Unsupported
from tidemill.sources.secrets import Secrets

FILL_SECONDS = 600.0
"""Timeout of the initial load of a view, in seconds."""

WAIT_SECONDS = 0.25
"""Seconds that a worker waits for a source before it releases the lock of the view."""

RECONNECT_SECONDS = 2.0
"""Seconds for which a worker retries a lost connection before it reports trouble; it tries again after a pause."""

CLOSE_SECONDS = 10.0
"""Seconds that ``close`` waits for a running worker."""


class SourceViews:
    """The views over sources, by name."""

    def __init__(
        self,
        state: EngineState,
        secrets: Secrets,
        apply: ApplyChanges,
        apply_in_order: ApplyInOrder,
        contents: Callable[[str], ChangeSet],
    ) -> None:
        self._state = state
        self._secrets = secrets
        self._commit = apply
        self._commit_in_order = apply_in_order
        self._contents = contents
        self._open: dict[str, SourceMaintainer] = {}
        self._workers: dict[str, Worker] = {}
        self._locks: dict[str, threading.RLock] = {}
        self._opening = threading.Lock()  # so that nothing is created twice in a source concurrently
        self._taken: Counter[str] = Counter()
        self._all = False
        self.loading: dict[str, LoadProgress] = {}
        """The views whose first rows are being fetched, and how far that is."""
        self.was_connected = False
        """True if a source was connected to since the warehouse was opened."""
        self.tally = IntakeTotals()
        """Counts of row changes from sources since the warehouse was opened."""

    def alone(self, name: str) -> threading.RLock:
        """The lock of a view, to be held while it is maintained or dropped."""
        return self._locks.setdefault(name, threading.RLock())

    def begin(self, view: View) -> None:
        """Fetch the first rows of a new view, and follow its sources from there."""
        with self.alone(view.name):
            following = self._opened(view)
            try:
                self._fill(view, following)
            except BaseException:
                following.remove()
                raise
            self._open[view.name] = following
        self.follow(view)

    def _fill(self, view: View, following: SourceMaintainer) -> None:
        """Fetch the first rows of a view, whose progress can be seen meanwhile."""
        progress = self.loading[view.name] = LoadProgress()
        try:
            following.fill(FILL_SECONDS, progress)
        finally:
            del self.loading[view.name]

    def follow(self, view: View) -> None:
        """Start a worker for a view, if its sources are not manual or all views are followed."""
        interval = 0.0 if self._all else self._interval(view)
        if view.remote_subplans and view.name not in self._workers and not math.isinf(interval):
            turn = partial(self._turn, view.name) if interval == 0.0 else partial(self._catch_up, view.name)
            self._workers[view.name] = Worker(view.name, turn, interval)

    def follow_again(self, view: View) -> None:
        """Start the worker of a view anew, as its sources say now."""
        if view.name in self._workers:
            self._workers.pop(view.name).end()
        self.follow(view)

    def follow_all(self) -> None:
        """Start workers for all views over sources, including those created later."""
        self._state.require_writable()
        self._all = True
        for view in self._state.catalog.views.values():
            self.follow(view)

    def _interval(self, view: View) -> float:
        """Seconds between syncs of a view: the shortest interval of its sources."""
        return min((sync_interval(entry.options) for entry in self.entries_of(view).values()), default=math.inf)

    def entries_of(self, view: View) -> dict[str, SourceEntry]:
        """The sources of a view, by name."""
        return {name: self._state.catalog.sources[name] for name in view.sources}

    def _turn(self, name: str) -> None:
        """Process messages for a short time, then release the lock of the view."""
        with self._going(name) as following:
            until = time.monotonic() + WAIT_SECONDS
            while following.step(max(0.0, until - time.monotonic())) and time.monotonic() < until:
                pass
            following.rest()

    def _of(self, view: View) -> SourceMaintainer:
        """The maintainer of a view, resumed from its last commit if necessary."""
        if view.name not in self._open:
            self._state.require_writable()
            following = self._opened(view)
            rows = {kept.subplan.name: self._contents(kept.subplan.name).zset() for kept in view.remote_subplans}
            try:
                following.resume(self._positions(view), rows)
            except BaseException:
                following.close()
                raise
            self._open[view.name] = following
        return self._open[view.name]

    def _opened(self, view: View) -> SourceMaintainer:
        patience = None if math.isinf(self._interval(view)) else RECONNECT_SECONDS
        with self._opening:
            entries = self.entries_of(view).items()
            sources = {name: entry.open(view.name, self._secrets, patience) for name, entry in entries}
        self.was_connected = True
        return SourceMaintainer(view, sources, self._apply_in_order)

    def _apply(self, changes: Mapping[str, ChangeSet], positions: Mapping[str, str]) -> int:
        with self.tally.counting(IntakeCounts(rows=sum(map(len, changes.values())))):
            return self._commit(changes, positions)

    def _apply_in_order(self, epochs: Sequence[SourceEpoch]) -> None:
        if len(epochs) == 1:
            self._apply(*epochs[0])
            return
        with self.tally.counting(IntakeCounts(rows=sum(len(one) for changes, _ in epochs for one in changes.values()))):
            self._commit_in_order(epochs)

    def sync(self, name: str | None, timeout: float | None) -> int:
        """Sync one view, or all, with their sources; returns the number of updates since the last sync."""
        catalog = self._state.catalog
        views = [catalog.view(name)] if name is not None else list(catalog.views.values())
        if name is not None and not views[0].remote_subplans:
            raise Unsupported(f'view "{views[0].name}" reads no source', hint="It follows its tables by itself.")
        came = 0
        for view in views:
            if view.remote_subplans:
                with self.alone(view.name):
                    self._catch_up(view.name, timeout)
                    came += self._taken.pop(view.name, 0)
        return came

    def _catch_up(self, name: str, timeout: float | None = None) -> None:
        with self._going(name) as following:
            following.catch_up(timeout)

    @contextmanager
    def _going(self, name: str) -> Iterator[SourceMaintainer]:
        """The maintainer of a view, locked for one thread. After an error the next use resumes from the last commit.

        Its protocols may be ahead of that.
        """
        with self.alone(name):
            following = self._of(self._state.catalog.view(name))
            before = following.taken
            try:
                yield following
            except BaseException:
                del self._open[name]
                following.close()
                raise
            finally:
                self._taken[name] += following.taken - before

    def certificate(self, view: View) -> Certificate:
        """The consistency and positions of the rows of a view over sources."""
        if not view.remote_subplans:
            raise Unsupported(f'view "{view.name}" reads no source', hint="It shows the tables as they are.")
        return Certificate(min(kept.level for kept in view.remote_subplans), self._positions(view))

    def _positions(self, view: View) -> dict[str, str]:
        stored = self._state.store.positions
        return {name: stored[source_position_name(view.name, name)] for name in self.entries_of(view)}

    def held(self, kept: MaintainedSubplan) -> tuple[int, int]:
        """The number of different rows of a remote subplan that are held here, and their bytes."""
        store = self._state.store
        return store.rows(kept.subplan.name), store.bytes(kept.subplan.name)

    def is_filled(self, view: View) -> bool:
        """True if a view has had its initial load; always true for a view that reads no source."""
        stored = self._state.store.positions
        return not view.remote_subplans or any(
            source_position_name(view.name, name) in stored for name in self.entries_of(view)
        )

    def troubles(self, source: str | None = None) -> dict[str, Trouble]:
        """The troubles of workers at present, of the views over one source or of all."""
        found: dict[str, Trouble] = {}
        for name, view in self._state.catalog.views.items():
            trouble = self._workers[name].trouble if name in self._workers else self._idle(view)
            if trouble is not None and (source is None or source in self.entries_of(view)):
                found[name] = trouble
        return found

    def _idle(self, view: View) -> Trouble | None:
        """The trouble of a view that should have a worker and has none."""
        wanted = view.remote_subplans and not self._state.read_only and not math.isinf(self._interval(view))
        return not_started() if wanted else None

    def drop(self, view: View) -> None:
        """Remove a view's state from its sources. An unreachable source does not prevent the drop."""
        if view.name in self._workers:
            self._workers.pop(view.name).end()
        if not view.remote_subplans or not self.is_filled(view):
            return  # it reads no source, or was never filled, and its state in the sources is already removed
        try:
            following = self._open.pop(view.name, None) or self._opened(view)
            following.remove()
        except TidemillError as error:
            kept = f'sources of view "{view.name}" go on to keep changes for it: {error.what}'
            warnings.warn(kept, RuntimeWarning, stacklevel=2)

    def keep(self, views: Collection[str]) -> None:
        """Release the sources of all views but these, in case an exception interrupted the release of dropped views."""
        for name in self._workers.keys() - set(views):
            self._workers.pop(name).end()
        for name in self._open.keys() - set(views):
            self._open.pop(name).close()

    def close(self) -> None:
        """Close all connections to sources; the state that they keep for the views stays."""
        for worker in self._workers.values():
            worker.end()
        busy = {name for name, worker in self._workers.items() if not worker.join(CLOSE_SECONDS)}
        # A thread that does not end in time hangs in a connection; if it returns, it finds the warehouse closed.
        for name in self._open.keys() - busy:
            self._open.pop(name).close()
        self._workers.clear()
