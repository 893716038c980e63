"""The clocks of a warehouse: they begin with the first view that reads them, and advance when they are told to."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from datetime import datetime, timedelta

from tidemill.changes.changeset import ChangeSet
from tidemill.engine.catalog.views.view import View
from tidemill.engine.epochs.apply import NothingDue
from tidemill.engine.epochs.clock_advance import BEFORE_EVENTS, LATEST, advanced, last_time
from tidemill.engine.epochs.commit import EpochCommitter
from tidemill.engine.epochs.state import EngineState
from tidemill.model.clocks import WALL, Clock, instant_of, is_clock, machine_time
from tidemill.model.errors import InvalidArgument, UnknownName
from tidemill.model.schema import names_of

__all__ = ["Clocks"]

IDLE_TIME = timedelta(minutes=1)
"""Longest time that the wall clock stays behind the present while nothing is due."""


class Clocks:
    """Begins and advances the clocks of a warehouse."""

    def __init__(
        self,
        state: EngineState,
        epochs: EpochCommitter,
        settled: Callable[[], AbstractContextManager[None]],
        apply: Callable[..., int],
        contents: Callable[[str], ChangeSet],
    ) -> None:
        self._state = state
        self._epochs = epochs
        self._settled = settled
        self._apply = apply
        self._contents = contents

    @property
    def instants(self) -> dict[str, datetime]:
        """The instant of each clock, by what it follows."""
        positions = self._state.store.positions
        found = {clock.follows: instant_of(positions, clock) for clock in self._state.catalog.clocks.values()}
        return {follows: at for follows, at in found.items() if at is not None}

    def begin_for(self, view: View) -> None:
        """Begin the clocks that a new view reads."""
        for name in view.inputs:
            if is_clock(name):
                self.begin(Clock.of_relation(name))

    def begin(self, clock: Clock, at: datetime | None = None) -> None:
        """Begin a clock, unless it has begun: the wall clock at the present, others at the last time of their table."""
        with self._settled():
            if clock.relation in self._state.catalog:
                return
            self._state.require_writable()
            start = at or (machine_time() if clock.follows == WALL else self._last_of(clock))
            with self._epochs.changing_catalog() as catalog:
                catalog.add(clock.table)
                self._epochs.commit_catalog(
                    {clock.relation: advanced(clock, None, start)}, positions={clock.position: start.isoformat()}
                )

    def _last_of(self, clock: Clock) -> datetime:
        assert clock.column is not None
        table = self._state.catalog.table(clock.column[0])
        rows = self._contents(table.name) if table.kept else None
        last = None if rows is None else last_time(rows, names_of(table.fields).index(clock.column[1]))
        return BEFORE_EVENTS if last is None else min(last, LATEST)

    def advance(self, follows: str, to: datetime | None) -> int:
        """Advance a clock, by default the wall clock to the present; returns the epoch.

        An instant that the clock has passed changes nothing: it never goes back.
        """
        clock = Clock(follows)
        if clock.relation not in self._state.catalog and follows != WALL:
            known = ", ".join([WALL, *(f for f in self.instants if f != WALL)])
            raise UnknownName(f'there is no clock "{follows}"', hint=f"Clocks of views: {known}.")
        if to is None and follows != WALL:
            raise InvalidArgument("an event clock needs the instant to advance to", where=follows)
        if to is not None and not BEFORE_EVENTS <= to <= LATEST:
            raise InvalidArgument(f"a clock cannot stand at {to}", hint=f"It may from {BEFORE_EVENTS} to {LATEST}.")
        new = to or machine_time()
        self.begin(clock, new)
        with self._settled():
            self._state.require_writable()
            self._move(clock, new, idle=True)
            return self._state.store.epoch

    def tick(self) -> None:
        """Advance the wall clock to the present if a view reads it, and some row of one comes or goes.

        An epoch that shows nothing new is worth it once in ``IDLE_TIME``, so that the clock is never far behind.
        """
        clock = Clock(WALL)
        if not self._state.pipeline.readers(clock.relation):
            return
        with self._settled():
            if self._state.closed:
                return
            new, old = machine_time(), instant_of(self._state.store.positions, clock)
            late = old is not None and new - old > IDLE_TIME
            with suppress(NothingDue):
                self._move(clock, new, idle=late or self._hides_changes())

    def _move(self, clock: Clock, new: datetime, *, idle: bool) -> None:
        old = instant_of(self._state.store.positions, clock)
        if old is not None and new > old:
            change = {clock.relation: advanced(clock, old, new)}
            self._apply(change, {clock.position: new.isoformat()}, idle=idle)

    def _hides_changes(self) -> bool:
        """True if some view changes without a change of its rows being seen in the epoch: its rows are not stored, or
        it is refreshed later."""
        return any(view.computed_on_read or view.refresh.deferred for view in self._state.catalog.views.values())
