"""Views in quarantine tried again: those that stopped after each change of their inputs, held rows on request.

Rows that are held back from a view with groups are tried by every epoch that touches their group. A view without groups
can be healed by any change of its inputs. So each is followed by a try to catch up, as an epoch of its own. While
nothing is deleted and many changes wait, tries are made only after every tenth part more, so that they stay cheap.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from tidemill.changes.changeset import ChangeSet, Epoch
from tidemill.engine.catalog.entries.errors_table import ERRORS, FAULT, SKIPPED, WAITS
from tidemill.engine.catalog.serialization import catalog_to_json
from tidemill.engine.catalog.view import View
from tidemill.engine.epochs.commit import EpochCommitter
from tidemill.engine.epochs.isolation import isolating
from tidemill.engine.epochs.state import EngineState
from tidemill.engine.quarantine.held_rows import HeldRow
from tidemill.engine.quarantine.marks import mark_of_errors
from tidemill.engine.refresh.catch_up import ViewRefresher
from tidemill.model.errors import ArithmeticFault, Unsupported

__all__ = ["Healer", "Release"]

FEW_WAITING = 1_000
"""Number of changes that wait for a stopped view up to which every epoch tries it again."""

GROWTH = 1.1
"""How many times as many changes must wait until a stopped view is tried again."""


@dataclass(frozen=True, slots=True)
class Release:
    """The outcome of a release: the epoch that it shows, how many rows it took, and how many are left."""

    epoch: int
    taken: int
    left: int


class Healer:
    """Tries views of a warehouse that are in quarantine again; the caller holds its lock."""

    def __init__(self, state: EngineState, epochs: EpochCommitter, refresher: ViewRefresher) -> None:
        self._state = state
        self._epochs = epochs
        self._refresher = refresher
        self._tried: dict[str, tuple[int, int]] = {}
        """By stopped view the epoch of the last try, and how many changes waited then."""

    @property
    def due(self) -> bool:
        """True if some view is stopped, and may not have been tried yet."""
        stopped = [view for view in self._state.catalog.guarded.values() if view.stopped]
        return any(self._tried.get(view.name, (-1, 0))[0] < self._state.store.epoch for view in stopped)

    def heal(self) -> list[str]:
        """Catch up stopped views that can be computed again; returns their names."""
        return [
            name
            for name, view in list(self._state.catalog.guarded.items())
            if view.stopped and self._is_worth_trying(view) and self._try(name)
        ]

    def _is_worth_trying(self, view: View) -> bool:
        """True if the inputs of a view have changed since it was last tried in a way that may heal it."""
        epoch, before = self._tried.get(view.name, (-1, 0))
        if epoch < 0:
            return True
        changes = [self._refresher.since(name, epoch) for name in view.inputs]
        waiting = before + sum(change.rows for change in changes)
        if waiting > max(FEW_WAITING, GROWTH * before) or any(change.has_deletions() for change in changes):
            return True
        self._tried[view.name] = self._state.store.epoch, waiting
        return waiting > before and waiting <= FEW_WAITING

    def _try(self, name: str) -> bool:
        view = self._state.catalog.view(name)
        waiting = sum(self._refresher.since(one, view.fresh).rows for one in view.inputs)
        try:
            self._refresher.refresh([name])
        except ArithmeticFault as fault:
            self._list_errors(view, fault)
            self._tried[name] = self._state.store.epoch, waiting
            return False
        self._tried.pop(name, None)
        return True

    def _list_errors(self, view: View, fault: ArithmeticFault) -> None:
        """Note the rows that keep a stopped view from being computed now, if they are not those that are noted."""
        state, number = self._state, self._state.store.epoch + 1
        with isolating(state, self._epochs, number) as isolation:
            found = isolation.blame(view, state.quarantine.hidden(view.name), fault)
            known = {(one.relation, one.row): one for one in state.quarantine.held(view.name)}
            listed = [known.get((one.relation, one.row), one) for one in found]
            change = state.quarantine.replaced(view.name, listed)
            if change.rows:
                with self._epochs.running(number, 0) as runtimes:
                    for runtime in runtimes:
                        runtime.absorb(view.name + ERRORS, change)
                        runtime.commit()
            durable = self._epochs.commit(Epoch(number, {view.name + ERRORS: change})) if change.rows else None
        if durable is None:
            self._epochs.end()
        else:
            durable()

    def release(self, view: View, *, skip: bool) -> Release:
        """Try the rows of a view in quarantine again; with ``skip`` let it go on without those at fault."""
        before = self._count(view.name)
        if view.stopped:
            if skip:
                raise Unsupported(
                    f'view "{view.name}" cannot go on without the rows at fault',
                    detail="It has no groups that could be told apart: it is stopped as a whole.",
                    hint="Correct or delete these rows in their table, or replace the view.",
                )
            with suppress(ArithmeticFault):
                self._refresher.refresh([view.name])
        elif before:
            self._release(view, skip=skip)
        left = self._count(view.name)
        return Release(self._state.store.epoch, before - left, left)

    def _count(self, view: str) -> int:
        mark = mark_of_errors(self._state.store.positions, view)
        return 0 if mark is None else mark.rows

    def _release(self, view: View, *, skip: bool) -> None:
        state, number = self._state, self._state.store.epoch + 1
        held = state.quarantine.held(view.name)
        skipped = [_skipped(one) for one in held if one.status != WAITS] if skip else []
        left = {one.row for one in skipped}
        pending = self._pending([one for one in held if one.row not in left])
        with isolating(state, self._epochs, number) as isolation:
            state.quarantine.retried[view.name] = {one.row: one for one in skipped}
            state.quarantine.listed[view.name] = skipped
            names = frozenset({view.name})
            stored = isolation.run(
                lambda in_turn: self._epochs.within_budget(
                    lambda: self._refresher.run(number, pending, names, in_turn=in_turn)
                )
            )
            catalog = catalog_to_json(state.catalog) if isolation.stopped else None
            durable = self._epochs.commit(Epoch(number, stored, catalog=catalog))
        durable()

    def _pending(self, held: list[HeldRow]) -> Mapping[str, ChangeSet]:
        names = dict.fromkeys(one.relation for one in held)
        rows = {name: [(one.row, one.weight) for one in held if one.relation == name] for name in names}
        return {name: ChangeSet.of(pairs, self._state.fields_of(name)) for name, pairs in rows.items()}


def _skipped(held: HeldRow) -> HeldRow:
    return replace(held, status=SKIPPED) if held.status == FAULT else held
