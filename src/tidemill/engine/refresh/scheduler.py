"""The scheduler: refreshes deferred views, the most urgent first.

A view with ``refresh = 'scheduled'`` becomes ready when changes of its inputs arrive. Its urgency is its weight times
its staleness, the age of the oldest change that it does not show. So every waiting view eventually becomes the most
urgent; ties go to the view refreshed the longest ago. The inputs of a view are refreshed before it. Views that are
ready, in step with it and read the same inputs are refreshed with it, since the changes are read once for all (see
``catch_up``), and beside it other views, if these and it are worth processes of their own (see ``parallel_refresh``):
at most ``limit`` views in one epoch, so that feeds do not wait for long.

A refresh reads only committed epochs and is one itself, so no view ever shows half of a partition.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from tidemill.engine.catalog.views.shared_stages import sharing_group
from tidemill.engine.catalog.views.view import View
from tidemill.engine.epochs.commit import Settled
from tidemill.engine.epochs.staleness_marks import late_since, mark_of
from tidemill.engine.epochs.state import EngineState
from tidemill.engine.refresh.forked_jobs import most_processes
from tidemill.engine.refresh.parallel_refresh import is_worth_a_process
from tidemill.engine.workers import Trouble, Worker, backoff_seconds
from tidemill.model.errors import DataError

__all__ = ["Scheduler"]

MAX_VIEWS_PER_EPOCH = 8
"""Default for the number of views that are refreshed in one epoch at most."""

POLL_SECONDS = 0.05
"""Seconds between two checks of the thread for views that are due."""

CLOSE_SECONDS = 10.0
"""Seconds that ``close`` waits for a running refresh."""


class Scheduler:
    """Refreshes the scheduled views of a warehouse, and the periodic ones whose interval has passed.

    ``refresh`` refreshes views by name, ``unshare`` gives a view its own copy of shared stages.
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
        """Refresh scheduled views until all that can be are up to date; returns them in the order of refresh."""
        done: list[str] = []
        while names := self.turn(limit):
            done += names
        return done

    def turn(self, limit: int | None = None) -> list[str]:
        """Refresh the most urgent scheduled view and those that fit into its epoch; returns their names."""
        if not any(view.refresh.scheduled for view in self._state.catalog.view_index.deferred):
            return []  # so that an open epoch of events stays open
        with self._settled():
            names = self._with_families(self._next(limit or self._limit))
            if names:
                self._refresh(names)
                turn = max(self._turns.values(), default=0) + 1
                self._turns |= dict.fromkeys(names, turn)
            return names

    def tend(self) -> None:
        """Refresh the views whose interval has passed."""
        periodic = self._state.catalog.view_index.periodic
        if not periodic:
            return
        now = time.monotonic()
        due = []
        for view in periodic:
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
        """Stop the thread after the running refresh, if there is one."""
        if self._thread is not None:
            self._thread.end()
            self._thread.join(CLOSE_SECONDS)

    def troubles(self) -> dict[str, Trouble]:
        """The views that could not be refreshed, with the reason."""
        return {name: trouble for name, trouble in self._troubles.items() if name in self._state.catalog.views}

    def look(self) -> None:
        """Refresh all views that are due, periodic and scheduled."""
        with self._state.lock:
            if self._state.closed:
                return
            self.tend()
        while self.turn():
            pass

    # -- choice of the next views -------------------------------------------------------------------------------

    def _next(self, limit: int) -> list[View]:
        """The views of the next epoch: the first input that the most urgent view needs, and views that fit in."""
        catalog = self._state.catalog
        waiting = [catalog.views[name] for name in self._by_urgency()]
        for view in waiting:
            needed = [v for v in self._ready(waiting) if v.name in catalog.ancestors(view) | {view.name}]
            if needed:
                # In catalog order an input comes before its readers.
                first = min(needed, key=lambda v: list(catalog.views).index(v.name))
                group = self._along(first, waiting, limit)
                return [*group, *self._beside(group, waiting, limit)]
        return []

    def _along(self, first: View, waiting: list[View], limit: int) -> list[View]:
        """``first``, and by urgency those in step with it that read it or one of its inputs."""
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

    def _beside(self, group: Sequence[View], waiting: list[View], limit: int) -> list[View]:
        """By urgency those that are computed beside ``group``, which they neither read nor are read by.

        They are worth a process each, and their own inputs are up to date."""
        catalog = self._state.catalog
        if most_processes() < 2 or not any(map(self._is_worth_a_process, group)):
            return []
        late, found = {view.name for view in self._ready(waiting)}, list[View]()
        known = {view.name for view in group}.union(*map(catalog.ancestors, group))
        for view in waiting:
            above = catalog.ancestors(view)
            if (
                len(group) + len(found) < limit
                and view.name in late - known
                and above.isdisjoint(late)
                and self._is_worth_a_process(view)
            ):
                found.append(view)
        return found

    def _is_worth_a_process(self, view: View) -> bool:
        return is_worth_a_process(self._state.pipeline.find(view.name))

    def _with_families(self, group: Iterable[View]) -> list[str]:
        """The names of views and of their sharing groups, which must be refreshed together whatever the limit."""
        views = self._state.catalog.views
        families = ((view.name, *sorted(sharing_group(view, views))) for view in group)
        return list(dict.fromkeys(name for family in families for name in family))

    def _by_urgency(self) -> Iterable[str]:
        """The scheduled views that are behind, the most urgent first."""
        catalog, positions, now = self._state.catalog, self._state.store.positions, time.time()
        found = []
        for place, view in enumerate(catalog.views.values()):
            mark = late_since(catalog, positions, view) if view.refresh.scheduled else None
            if mark is not None:
                urgency = view.weight * max(now - mark.time, 0.0)
                found.append((-urgency, self._turns.get(view.name, 0), place, view.name))
        return [name for *_, name in sorted(found)]

    def _ready(self, waiting: Iterable[View]) -> list[View]:
        """The views that have unseen changes of their own inputs and do not pause after a failure."""
        positions = self._state.store.positions
        return [view for view in waiting if mark_of(positions, view.name) is not None and not self._is_paused(view)]

    def _is_paused(self, view: View) -> bool:
        return view.name in self._troubles and self._troubles[view.name].again > time.monotonic()

    def _refresh(self, names: list[str]) -> None:
        """Refresh views together; if that fails, each by itself, to find the view at fault.

        Shared stages are split for that.
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
