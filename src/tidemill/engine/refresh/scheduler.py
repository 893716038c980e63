"""Whose turn it is: late views are refreshed, the most urgent first.

A view with ``refresh = 'scheduled'`` becomes ready as changes of its inputs arrive. Its urgency is its weight times its
staleness, the age of the oldest change that it does not show. So whoever waits becomes the most urgent one in the end,
and among equals the one goes first whose last turn is the longest ago. What a view reads is refreshed before it. Views
that are ready, in step with it and read the same come along, since the changes are read once for all (see
``catch_up``): at most ``limit`` views in one epoch, so that feeds need not wait for long.

A refresh reads committed epochs alone and is one itself, so no view ever shows half of a partition.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from tidemill.engine.catalog.shared_stages import sharing_group
from tidemill.engine.catalog.view import View
from tidemill.engine.epochs.commit import Settled
from tidemill.engine.epochs.staleness_marks import late_since, mark_of
from tidemill.engine.epochs.state import EngineState
from tidemill.engine.workers import Trouble, Worker, backoff_seconds
from tidemill.model.errors import DataError

__all__ = ["Scheduler"]

MAX_VIEWS_PER_EPOCH = 8
"""So many views are refreshed in one epoch, unless somebody says another number."""

POLL_SECONDS = 0.05
"""How often the thread looks whether a view is due."""

CLOSE_SECONDS = 10.0
"""How long ``close`` waits for a refresh that is under way."""


class Scheduler:
    """Refreshes the views of a warehouse that wait for their turn, or whose interval has passed.

    ``refresh`` brings views of these names up to their inputs, ``unshare`` gives a view stages of its own.
    """

    def __init__(
        self,
        state: EngineState,
        settled: Settled,
        refresh: Callable[..., int],
        unshare: Callable[[View], None],
    ) -> None:
        self._state = state
        self._settled = settled
        self._refresh_views = refresh
        self._unshare = unshare
        self._limit = MAX_VIEWS_PER_EPOCH
        self._refreshed_at: dict[str, float] = {}
        self._turns: dict[str, int] = {}
        self._troubles: dict[str, Trouble] = {}
        self._thread: Worker | None = None

    def run(self, limit: int | None = None) -> list[str]:
        """Refresh scheduled views until none is late, but for those that cannot be; returns them in their order."""
        done: list[str] = []
        while names := self.turn(limit):
            done += names
        return done

    def turn(self, limit: int | None = None) -> list[str]:
        """Refresh the most urgent scheduled view, with those that come along; returns whose turn it was."""
        if not any(view.refresh.scheduled for view in self._state.catalog.view_index.deferred):
            return []  # nobody need look, so events may go on to gather
        with self._settled():
            names = self._with_families(self._next(limit or self._limit))
            if names:
                self._refresh(names)
                turn = max(self._turns.values(), default=0) + 1
                self._turns |= dict.fromkeys(names, turn)
            return names

    def tend(self) -> None:
        """Refresh the views whose interval has passed."""
        now = time.monotonic()
        due = []
        for view in self._state.catalog.view_index.periodic:
            every = view.refresh.every
            assert every is not None
            if now - self._refreshed_at.get(view.name, -every) >= every:
                due.append(view.name)
        if due:
            self._refreshed_at |= dict.fromkeys(due, now)
            self._refresh_views(*due)

    def follow(self, limit: int | None = None) -> None:
        """Refresh views as they become due, in a thread, until the warehouse is closed."""
        self._state.require_writable()
        self._limit = limit or self._limit
        if self._thread is None:
            self._thread = Worker("schedule", self.look, POLL_SECONDS)

    def close(self) -> None:
        """No further turn is begun; one that is under way comes to its end."""
        if self._thread is not None:
            self._thread.end()
            self._thread.join(CLOSE_SECONDS)

    def troubles(self) -> dict[str, Trouble]:
        """Which views could not be refreshed, and why."""
        return {name: trouble for name, trouble in self._troubles.items() if name in self._state.catalog.views}

    def look(self) -> None:
        """Refresh all that is due, by its interval or by its turn."""
        with self._state.lock:
            if self._state.closed:
                return
            self.tend()
        while self.turn():
            pass

    # -- whose turn it is ---------------------------------------------------------------------------------------

    def _next(self, limit: int) -> list[View]:
        """The views of the next epoch: what the most urgent view needs first, and what may come along."""
        catalog = self._state.catalog
        waiting = [catalog.views[name] for name in self._by_urgency()]
        for view in waiting:
            needed = [v for v in self._ready(waiting) if v.name in catalog.ancestors(view) | {view.name}]
            if needed:
                # In the order of the catalog, an input comes before its readers.
                first = min(needed, key=lambda v: list(catalog.views).index(v.name))
                return self._along(first, waiting, limit)
        return []

    def _along(self, first: View, waiting: list[View], limit: int) -> list[View]:
        """``first``, and in the order of urgency those that are in step with it and read it, or what it reads."""
        catalog, group = self._state.catalog, [first]
        late = {view.name for view in self._ready(waiting)}
        while len(group) < limit:
            names = {view.name for view in group}
            shared = names.union(*(view.inputs for view in group))
            fitting = (
                view
                for view in waiting
                if view.name not in names
                and not self._is_paused(view)
                and view.fresh == first.fresh
                and not shared.isdisjoint(view.inputs)
                and catalog.ancestors(view) & late <= names
            )
            view = next(fitting, None)
            if view is None:
                break
            group.append(view)
        return group

    def _with_families(self, group: Iterable[View]) -> list[str]:
        """The names of views, and of those who share with them: they must come along, whatever the limit is."""
        views = self._state.catalog.views
        families = ((view.name, *sorted(sharing_group(view, views))) for view in group)
        return list(dict.fromkeys(name for family in families for name in family))

    def _by_urgency(self) -> Iterable[str]:
        """The scheduled views that do not show everything, the most urgent first."""
        catalog, positions, now = self._state.catalog, self._state.store.positions, time.time()
        found = []
        for place, view in enumerate(catalog.views.values()):
            mark = late_since(catalog, positions, view) if view.refresh.scheduled else None
            if mark is not None:
                urgency = view.weight * max(now - mark.time, 0.0)
                found.append((-urgency, self._turns.get(view.name, 0), place, view.name))
        return [name for *_, name in sorted(found)]

    def _ready(self, waiting: Iterable[View]) -> list[View]:
        """Those that have changes to catch up with themselves, and have not failed a moment ago."""
        positions = self._state.store.positions
        return [view for view in waiting if mark_of(positions, view.name) is not None and not self._is_paused(view)]

    def _is_paused(self, view: View) -> bool:
        return view.name in self._troubles and self._troubles[view.name].again > time.monotonic()

    def _refresh(self, names: list[str]) -> None:
        """Refresh views together; where that is refused, each by itself, to find out which of them it is.

        Those who share must part for that.
        """
        try:
            self._refresh_views(*names)
        except DataError as error:
            if len(names) > 1:
                for name in names:
                    self._unshare(self._state.catalog.view(name))
                for name in names:
                    self._refresh([name])
                return
            self._fail(names[0], error)
            return
        for name in names:
            self._troubles.pop(name, None)

    def _fail(self, name: str, error: DataError) -> None:
        tries = self._troubles[name].tries + 1 if name in self._troubles else 1
        self._troubles[name] = Trouble(error, tries, time.monotonic() + backoff_seconds(tries))
