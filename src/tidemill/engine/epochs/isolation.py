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
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from tidemill.changes.changeset import ChangeSet, deletes_before_inserts
from tidemill.changes.zset import Row, ZSet
from tidemill.engine.catalog.entries.errors_table import FAULT, WAITS
from tidemill.engine.catalog.views.view import View
from tidemill.engine.epochs.commit import EpochCommitter
from tidemill.engine.epochs.pipeline import Propagation, StageReader
from tidemill.engine.epochs.state import EngineState
from tidemill.engine.quarantine.fault_search import FaultSearch, summed
from tidemill.engine.quarantine.held_rows import WAITING, HeldRow
from tidemill.engine.quarantine.holding import Decision, Guard, Guards
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
        self.unseen: Mapping[str, ChangeSet] = {}
        """Changes that the inputs of a view have, and that it has not seen; parts of them may be tried."""
        self._in_turn = False
        """True if parts of changes are tried deletes before inserts."""
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
        if view is None or view.stopped or quarantine.last is None:
            return False
        offered, guards = quarantine.last.offered.get(view.name, {}), quarantine.guards(view)
        if not guards:
            if last:
                self._stop(view, offered, fault)
            return last
        if not last and not all(len(guards) == 1 and one.groups.independent for one in guards.values()):
            return False
        return self._hold_back(view, guards, offered, fault, in_turn=last)

    # -- views with groups --------------------------------------------------------------------------------------

    def _hold_back(
        self, view: View, guards: Guards, offered: Mapping[str, ChangeSet], fault: ArithmeticFault, *, in_turn: bool
    ) -> bool:
        """Hold back the faulty groups of what a view was offered; all of them, if what is left fails again."""
        quarantine = self._state.quarantine
        decided = quarantine.decided.get(view.name)
        changes = {name: offered[name] for name in offered if name in guards}
        if decided is None or changes.keys() - decided.keys():
            self._in_turn = in_turn
            quarantine.decided[view.name] = self._decide(view, guards, changes)
        elif any(one.passed for one in decided.values()):
            everything = {name: self._tried(guards[name], change) for name, change in changes.items()}
            faults = {name: dict.fromkeys(range(len(one.groups)), fault) for name, one in everything.items()}
            quarantine.decided[view.name] = self._decided(view, everything, faults)
        else:
            return False
        return True

    def _decide(self, view: View, guards: Guards, changes: Mapping[str, ChangeSet]) -> dict[str, Decision]:
        """The groups of changes that can be computed pass, all rows of the others are held."""
        tried = {name: self._tried(guards[name], change) for name, change in changes.items()}
        groups = {name: one.groups for name, one in tried.items()}
        search = FaultSearch({name: guard.groups for name, guard in guards.items()}, groups, partial(self._try, view))
        return self._decided(view, tried, search.run())

    def _tried(self, guard: Guard, change: ChangeSet) -> _Tried:
        return _Tried(guard, *guard.to_try(change.zset()))

    def _try(self, view: View, changes: Mapping[str, ZSet]) -> ArithmeticFault | None:
        fields = self._state.fields_of
        pairs = {name: ChangeSet.of(change.items(), fields(name)) for name, change in changes.items()}
        return self._fault(view, pairs) if pairs else None

    def _decided(
        self, view: View, tried: Mapping[str, _Tried], faults: Mapping[str, Mapping[int, ArithmeticFault]]
    ) -> dict[str, Decision]:
        passed = {
            name: summed(one.groups, [place for place in range(len(one.groups)) if place not in faults.get(name, {})])
            for name, one in tried.items()
        }
        beside, found = passed if len(tried) > 1 else {}, {}
        for name, one in tried.items():
            held = dict(one.held)
            for place, fault in faults.get(name, {}).items():
                held |= self._held(view, name, one.groups[place], beside, fault)
            found[name] = Decision(passed[name], held)
        return found

    def _held(
        self, view: View, relation: str, rows: ZSet, beside: Mapping[str, ZSet], fault: ArithmeticFault
    ) -> dict[Row, HeldRow]:
        """The rows of a faulty group: those at fault by themselves, or all if none is, and those that wait for them.

        They are tried ``beside`` what is passed of joined inputs.
        """
        alone = dict[Row, ArithmeticFault | None]()
        if 1 < len(rows) <= MOST_SINGLE_ROWS:
            for row, weight in rows.items():
                one = ZSet.summed([(row, weight)])
                alone[row] = self._try(view, {**beside, relation: beside.get(relation, ZSet()) + one})
        blamed = {row: found for row, found in alone.items() if found} or dict.fromkeys(rows, fault)
        since = {(one.relation, one.row): one.epoch for one in self._state.quarantine.held(view.name)}
        held = {}
        for row, weight in rows.items():
            status, reason = (FAULT, reason_of(blamed[row])) if row in blamed else (WAITS, WAITING)
            held[row] = HeldRow(relation, row, weight, since.get((relation, row), self._number), status, reason)
        return held

    def passing(self, view: View, changes: Mapping[str, ChangeSet]) -> bool:
        """True if something of these changes, which are held back from a view with groups, can be computed now."""
        self._in_turn, self.unseen = True, changes
        decided = self._decide(view, self._state.quarantine.guards(view), changes)
        return any(one.passed for one in decided.values())

    def _fault(self, view: View, changes: Mapping[str, ChangeSet]) -> ArithmeticFault | None:
        """The error of a view after these changes of its inputs, if there is one; all is rolled back."""
        work = sum(change.rows for change in changes.values())
        try:
            with self._epochs.running(self._number, work) as runtimes:
                for name, change in self.unseen.items():
                    for runtime in runtimes:
                        runtime.absorb(name, change.negated())
                walk = _Trial(self._state.pipeline.index, runtimes, frozenset({view.name}), self._state.store.traffic)
                for name, change in deletes_before_inserts(changes) if self._in_turn else changes.items():
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
        self.unseen = unseen
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


@dataclass(frozen=True, slots=True)
class _Tried:
    """The groups of an input that are tried, and the rows that stay held."""

    guard: Guard
    groups: Sequence[ZSet]
    held: Mapping[Row, HeldRow]


class _Trial(Propagation):
    """A propagation of changes of its inputs through one view alone, to see if it fails."""

    def _following(self, relation: str) -> Sequence[StageReader]:
        return self._handed_to(relation)


class _TriedError(DataError):
    """Raised to roll a trial back, like a refused change."""


def reason_of(fault: ArithmeticFault) -> str:
    """An error in one line."""
    return fault.what if fault.where is None else f"{fault.what} ({' '.join(str(fault.where).split())})"
