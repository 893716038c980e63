"""Faulty rows found, and the epoch run without them: other groups and other views go on.

An epoch that fails changes nothing, so it is run again and again: each time the first view that fails, in topological
order, is shown less, until none fails or one that refuses bad rows does. Of a view with groups (``RowGroups``) the
faulty groups are found by bisection: parts of the change go through this view alone, in epochs that are rolled back. So
it does not matter what a runtime tells of a fault. All rows of a faulty group are held back, and the group keeps its
last rows. A view without groups stops: like a deferred one, it shows its last epoch and catches up from the log later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import Row, ZSet
from tidemill.engine.catalog.entries.errors_table import FAULT, WAITS
from tidemill.engine.catalog.view import View
from tidemill.engine.epochs.commit import EpochCommitter
from tidemill.engine.epochs.pipeline import Propagation, StageReader
from tidemill.engine.epochs.state import EngineState
from tidemill.engine.quarantine.held_rows import WAITING, HeldRow
from tidemill.engine.quarantine.holding import Decision, Guard
from tidemill.model.errors import ArithmeticFault, DataError

__all__ = ["Isolation", "isolating"]

T = TypeVar("T")

MOST_SINGLE_ROWS = 200
"""Rows of a faulty group up to which each is tried alone, to tell those at fault from those that wait for them."""

MOST_BLAMED_ROWS = 100
"""Rows that are listed at most as the fault of a view without groups."""

RowOf = tuple[str, Row, int]
"""A relation, a row of it, and its weight."""


@contextmanager
def isolating(state: EngineState, epochs: EpochCommitter, number: int) -> Iterator[Isolation]:
    """Context of epoch ``number``, in which views may stop; an error leaves the catalog as it was."""
    with epochs.changing_catalog(), state.quarantine.watching():
        yield Isolation(state, epochs, number)


class Isolation:
    """The search for the faulty rows of one epoch."""

    def __init__(self, state: EngineState, epochs: EpochCommitter, number: int) -> None:
        self._state = state
        self._epochs = epochs
        self._number = number
        self._unseen: Mapping[str, ChangeSet] = {}
        """Changes that the inputs of a stopped view have, and that are not tried with it."""
        self.stopped: list[str] = []
        """The views that stop in this epoch."""

    def run(self, run: Callable[[bool], T]) -> T:
        """The result of ``run``, called with less and less shown to views that fail; its argument is ``in_turn``."""
        in_turn = False
        while True:
            try:
                return run(in_turn)
            except ArithmeticFault as fault:
                # The fault may come from two rows that never coexist: one is deleted as the other is inserted.
                if not self._spare(self._failing(), fault, last=in_turn):
                    if in_turn:
                        raise
                    in_turn = True

    def _failing(self) -> View | None:
        """The view that has failed, if it sets rows aside."""
        holding = self._state.quarantine.last
        if holding is None:
            return None
        guarded = self._state.catalog.guarded
        if holding.working in guarded:
            return guarded[holding.working]
        # The fault was found after all views had run: each that saw a change is tried alone.
        reached = (view for view in guarded.values() if view.name in holding.offered and not view.stopped)
        done = not self._state.catalog.views.get(holding.working)
        return next((view for view in reached if done and self._fault(view, holding.offered[view.name])), None)

    def _spare(self, view: View | None, fault: ArithmeticFault, *, last: bool) -> bool:
        """Show a view less of the epoch; false if that cannot help, or if deletes before inserts come first."""
        quarantine = self._state.quarantine
        if view is None or view.stopped or view.name in quarantine.decided or quarantine.last is None:
            return False
        offered, guard = quarantine.last.offered.get(view.name, {}), quarantine.guard(view)
        if guard is not None and guard.groups.input in offered:
            quarantine.decided[view.name] = self._decide(view, guard, offered[guard.groups.input])
            return True
        if last:
            self._stop(view, offered, fault)
        return last

    # -- views with groups --------------------------------------------------------------------------------------

    def _decide(self, view: View, guard: Guard, change: ChangeSet) -> Decision:
        """The groups of a change that can be computed pass, all rows of the others are held."""
        groups, held = guard.touched(change.zset())
        skipped = {row for row, one in guard.held.items() if one.is_skipped}
        held |= {row: replace(guard.held[row], weight=g[row]) for g in groups for row in g if row in skipped}
        tried = [rows for rows in groups if skipped.isdisjoint(rows)]
        faulty = self._faulty(view, guard, tried, change)
        passed = ZSet()
        for place, rows in enumerate(tried):
            if place not in faulty:
                passed.update_by(rows)
            else:
                held |= self._held(view, guard, rows, change, faulty[place])
        return Decision(passed, held)

    def _faulty(
        self, view: View, guard: Guard, groups: Sequence[ZSet], change: ChangeSet
    ) -> dict[int, ArithmeticFault]:
        """The groups that cannot be computed, by their places, by bisection."""
        found: dict[int, ArithmeticFault] = {}
        waiting = [range(len(groups))]
        while waiting:
            some = waiting.pop()
            pairs = [pair for place in some for pair in groups[place].items()]
            fault = self._fault(view, {guard.groups.input: ChangeSet.of(pairs, change.fields)}) if pairs else None
            if fault is not None and len(some) == 1:
                found[some[0]] = fault
            elif fault is not None:
                half = len(some) // 2
                waiting += [some[:half], some[half:]]
        return found

    def _held(
        self, view: View, guard: Guard, rows: ZSet, change: ChangeSet, fault: ArithmeticFault
    ) -> dict[Row, HeldRow]:
        """The rows of a faulty group: those at fault by themselves, or all if none is, and those that wait for them."""
        relation, alone = guard.groups.input, dict[Row, ArithmeticFault | None]()
        if 1 < len(rows) <= MOST_SINGLE_ROWS:
            for row, weight in rows.items():
                alone[row] = self._fault(view, {relation: ChangeSet.of([(row, weight)], change.fields)})
        blamed = {row: found for row, found in alone.items() if found} or dict.fromkeys(rows, fault)
        since = {one.row: one.epoch for one in self._state.quarantine.held(view.name)}
        held = {}
        for row, weight in rows.items():
            status, reason = (FAULT, reason_of(blamed[row])) if row in blamed else (WAITS, WAITING)
            held[row] = HeldRow(relation, row, weight, since.get(row, self._number), status, reason)
        return held

    def _fault(self, view: View, changes: Mapping[str, ChangeSet]) -> ArithmeticFault | None:
        """The error of a view after these changes of its inputs, if there is one; all is rolled back."""
        work = sum(change.rows for change in changes.values())
        try:
            with self._epochs.running(self._number, work) as runtimes:
                for name, change in self._unseen.items():
                    for runtime in runtimes:
                        runtime.absorb(name, change.negated())
                walk = _Trial(self._state.pipeline.index, runtimes, frozenset({view.name}), self._state.store.traffic)
                for name, change in changes.items():
                    walk.take(name, change)
                walk.finish()
                self._epochs.collect(walk, runtimes)
                raise _TriedError("rolled back")
        except _TriedError:
            return None
        except ArithmeticFault as fault:
            return fault

    def blame(self, view: View, unseen: Mapping[str, ChangeSet], fault: ArithmeticFault) -> list[HeldRow]:
        """The rows that keep a stopped view from being computed, among all changes that it has not seen."""
        self._unseen = unseen
        net = {name: change.zset() for name, change in unseen.items()}
        rows = [(name, row, weight) for name, change in net.items() for row, weight in change.items()]
        return self._blamed(view, rows, fault)[:MOST_BLAMED_ROWS]

    # -- views without groups -----------------------------------------------------------------------------------

    def _stop(self, view: View, offered: Mapping[str, ChangeSet], fault: ArithmeticFault) -> None:
        """Stop a view: it shows its last epoch from now on."""
        state = self._state
        rows = [(name, row, weight) for name, change in offered.items() for row, weight in change.zset().items()]
        state.quarantine.listed[view.name] = self._blamed(view, rows, fault)[:MOST_BLAMED_ROWS]
        stopped = replace(view, stopped=True, fresh=self._number - 1)
        state.catalog.update_view(stopped)
        state.place(stopped)
        self.stopped.append(view.name)

    def _blamed(self, view: View, rows: Sequence[RowOf], fault: ArithmeticFault) -> list[HeldRow]:
        """The changed rows that make a view fail: as few of them as do by themselves."""
        if len(rows) > 1:
            half, found = len(rows) // 2, list[HeldRow]()
            for some in (rows[:half], rows[half:]):
                if len(found) < MOST_BLAMED_ROWS and (own := self._fault(view, self._changes(some))) is not None:
                    found += self._blamed(view, some, own)
            if found:
                return found
        reason = reason_of(fault)
        return [HeldRow(name, row, weight, self._number, FAULT, reason) for name, row, weight in rows]

    def _changes(self, rows: Sequence[RowOf]) -> dict[str, ChangeSet]:
        found: dict[str, list[tuple[Row, int]]] = {}
        for name, row, weight in rows:
            found.setdefault(name, []).append((row, weight))
        return {name: ChangeSet.of(pairs, self._state.fields_of(name)) for name, pairs in found.items()}


class _Trial(Propagation):
    """A propagation of changes of its inputs through one view alone, to see if it fails."""

    def _following(self, relation: str) -> Sequence[StageReader]:
        return self._handed_to(relation)


class _TriedError(DataError):
    """Raised to roll a trial back, like a refused change."""


def reason_of(fault: ArithmeticFault) -> str:
    """An error in one line."""
    return fault.what if fault.where is None else f"{fault.what} ({' '.join(str(fault.where).split())})"
