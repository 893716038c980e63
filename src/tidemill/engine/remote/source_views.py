"""All views over sources of a warehouse: opened when first asked for, filled, caught up and let go.

A view is moved by one thread at a time, its own or that of whoever syncs or drops it. The lock of the view is taken
before the lock of the engine, which every epoch takes.
"""

from __future__ import annotations

import math
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from tidemill.changes.changeset import ChangeSet
from tidemill.engine.catalog.refresh_mode import sync_interval
from tidemill.engine.catalog.source_entry import SourceEntry
from tidemill.engine.catalog.view import View
from tidemill.engine.epochs.state import EngineState
from tidemill.engine.intake_counts import IntakeCounts, IntakeTotals
from tidemill.engine.remote.source_maintainer import ApplyChanges, Certificate, SourceMaintainer, source_position_name
from tidemill.engine.workers import Trouble, Worker, not_started
from tidemill.model.errors import TidemillError, Unsupported
from tidemill.sources.secrets import Secrets

FILL_SECONDS = 600.0
"""How long a source may take to give a view its first rows."""

WAIT_SECONDS = 0.25
"""How long a thread waits for a source before others may have the view."""

RECONNECT_SECONDS = 2.0
"""Seconds for which a thread tries a lost connection again before it says so; it goes on to try after a pause."""

CLOSE_SECONDS = 10.0
"""How long ``close`` waits for a thread that is in the middle of something."""


class SourceViews:
    """The views over sources, by name."""

    def __init__(
        self,
        state: EngineState,
        secrets: Secrets,
        apply: ApplyChanges,
        contents: Callable[[str], ChangeSet],
    ) -> None:
        self._state = state
        self._secrets = secrets
        self._commit = apply
        self._contents = contents
        self._open: dict[str, SourceMaintainer] = {}
        self._syncing: dict[str, Worker] = {}
        self._locks: dict[str, threading.RLock] = {}
        self._opening = threading.Lock()  # what is made in a database is not made twice at a time
        self._taken: Counter[str] = Counter()
        self._all = False
        self.was_connected = False
        """Whether sources were connected to since the warehouse was opened."""
        self.tally = IntakeTotals()
        """How many row changes have come from sources since the warehouse was opened."""

    def alone(self, name: str) -> threading.RLock:
        """The lock of a view, for whoever moves it or is about to drop it."""
        return self._locks.setdefault(name, threading.RLock())

    def begin(self, view: View) -> None:
        """Fetch the first rows of a new view, and follow its sources from there on."""
        with self.alone(view.name):
            following = self._opened(view)
            try:
                following.fill(FILL_SECONDS)
            except BaseException:
                following.remove()
                raise
            self._open[view.name] = following
        self.follow(view)

    def follow(self, view: View) -> None:
        """Let a view follow its sources by itself, if they want that, or all views do."""
        interval = 0.0 if self._all else self._interval(view)
        if view.cores and view.name not in self._syncing and not math.isinf(interval):
            turn = partial(self._turn, view.name) if interval == 0.0 else partial(self._catch_up, view.name)
            self._syncing[view.name] = Worker(view.name, turn, interval)

    def follow_all(self) -> None:
        """Let all views over sources follow them by themselves, also those to come."""
        self._state.require_writable()
        self._all = True
        for view in self._state.catalog.views.values():
            self.follow(view)

    def _interval(self, view: View) -> float:
        """How often a view is synced: as often as any of its sources is."""
        return min((sync_interval(origin.options) for origin in self.entries_of(view).values()), default=math.inf)

    def entries_of(self, view: View) -> dict[str, SourceEntry]:
        """The sources of a view, by name."""
        names = sorted({name for kept in view.cores for name in kept.homes})
        return {name: self._state.catalog.origins[name] for name in names}

    def _turn(self, name: str) -> None:
        """Wait for a message, and take in what comes, for a moment; then others may have the view."""
        with self._going(name) as following:
            until = time.monotonic() + WAIT_SECONDS
            while following.step(max(0.0, until - time.monotonic())) and time.monotonic() < until:
                pass
            following.rest()

    def _of(self, view: View) -> SourceMaintainer:
        """The view at work, where need be from where it was left."""
        if view.name not in self._open:
            self._state.require_writable()
            following = self._opened(view)
            rows = {kept.core.name: self._contents(kept.core.name).zset() for kept in view.cores}
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
        return SourceMaintainer(view, sources, self._apply)

    def _apply(self, changes: Mapping[str, ChangeSet], positions: Mapping[str, str]) -> int:
        with self.tally.counting(IntakeCounts(rows=sum(map(len, changes.values())))):
            return self._commit(changes, positions)

    def sync(self, name: str | None, timeout: float | None) -> int:
        """Bring one view, or all, up to what their sources have committed; returns how much came since it last was."""
        catalog = self._state.catalog
        views = [catalog.view(name)] if name is not None else list(catalog.views.values())
        if name is not None and not views[0].cores:
            raise Unsupported(f'view "{views[0].name}" reads no source', hint="It follows its tables by itself.")
        came = 0
        for view in views:
            if view.cores:
                with self.alone(view.name):
                    self._catch_up(view.name, timeout)
                    came += self._taken.pop(view.name, 0)
        return came

    def _catch_up(self, name: str, timeout: float | None = None) -> None:
        with self._going(name) as following:
            following.catch_up(timeout)

    @contextmanager
    def _going(self, name: str) -> Iterator[SourceMaintainer]:
        """The view at work, for one thread. After an error it goes on from what was committed, the next time.

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
        """What the rows of a view over sources show."""
        if not view.cores:
            raise Unsupported(f'view "{view.name}" reads no source', hint="It shows the tables as they are.")
        return Certificate(min(kept.level for kept in view.cores), self._positions(view))

    def _positions(self, view: View) -> dict[str, str]:
        stored = self._state.store.positions
        return {name: stored[source_position_name(view.name, name)] for name in self.entries_of(view)}

    def is_filled(self, view: View) -> bool:
        """Whether a view has had its first rows; one that reads no source always has."""
        stored = self._state.store.positions
        return not view.cores or any(source_position_name(view.name, name) in stored for name in self.entries_of(view))

    def troubles(self, source: str | None = None) -> dict[str, Trouble]:
        """What keeps views, those over one source or all of them, from following by themselves at present."""
        found: dict[str, Trouble] = {}
        for name, view in self._state.catalog.views.items():
            trouble = self._syncing[name].trouble if name in self._syncing else self._idle(view)
            if trouble is not None and (source is None or source in self.entries_of(view)):
                found[name] = trouble
        return found

    def _idle(self, view: View) -> Trouble | None:
        """Why a view has nobody that lets it go on by itself, where it should."""
        wanted = view.cores and not self._state.read_only and not math.isinf(self._interval(view))
        return not_started() if wanted else None

    def drop(self, view: View) -> None:
        """Let the sources forget a view. One that cannot be told must not keep it from being dropped."""
        if view.name in self._syncing:
            self._syncing.pop(view.name).end()
        if not self.is_filled(view):
            return  # it was never filled, and what was begun for it is gone already
        try:
            following = self._open.pop(view.name, None) or self._opened(view)
            following.remove()
        except TidemillError as error:
            kept = f'sources of view "{view.name}" go on to keep changes for it: {error.what}'
            warnings.warn(kept, RuntimeWarning, stacklevel=2)

    def keep(self, views: Collection[str]) -> None:
        """All views are gone but these: an exception came before the sources of the others were let go of."""
        for name in self._syncing.keys() - set(views):
            self._syncing.pop(name).end()
        for name in self._open.keys() - set(views):
            self._open.pop(name).close()

    def close(self) -> None:
        """Let go of all sources; what they keep for the views stays."""
        for syncing in self._syncing.values():
            syncing.end()
        busy = {name for name, syncing in self._syncing.items() if not syncing.join(CLOSE_SECONDS)}
        # A thread that does not end in time hangs in a connection, and finds the warehouse closed should it come back.
        for name in self._open.keys() - busy:
            self._open.pop(name).close()
        self._syncing.clear()
