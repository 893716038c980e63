"""Views in quarantine tried again: those that stopped after each change of their inputs, held rows on request.

Rows that are held back from a view with groups are tried by every epoch that touches their group. Over joins a change
of another input can heal them, too, and a view without groups can be healed by any change of its inputs. So each is
followed by a try, as an epoch of its own. While nothing is deleted and many changes wait, tries to catch up are made
only after every tenth part more, and tries of held rows after a tenth as many changes, so that they stay cheap.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from tidemill.changes.changeset import ChangeSet, Epoch
from tidemill.engine.catalog.entries.errors_table import ERRORS, FAULT, SKIPPED, WAITS
from tidemill.engine.catalog.serialization import catalog_to_json
from tidemill.engine.catalog.views.view import View
from tidemill.engine.epochs.commit import EpochCommitter
from tidemill.engine.epochs.isolation import isolating
from tidemill.engine.epochs.state import EngineState
from tidemill.engine.quarantine.held_rows import HeldRow
from tidemill.engine.quarantine.marks import mark_of_errors
from tidemill.engine.quarantine.row_groups import why_whole
from tidemill.engine.refresh.catch_up import ViewRefresher
from tidemill.model.errors import ArithmeticFault, Unsupported

__all__ = ["Healer", "Release"]

FEW_WAITING = 1_000
"""Number of changes that wait for a stopped view up to which every epoch tries it again."""

GROWTH = 1.1
"""Factor by which waiting changes must grow until a stopped view is tried again."""

HELD_ROWS_A_CHANGE = 10
"""Number of rows held back from a view over joins that are tried again for each change of its inputs."""


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
        """By view the epoch of the last try, and of a stopped one how many changes waited then."""

    @property
    def due(self) -> bool:
        """True if some view is stopped, or has rows held back that others can heal, and may not have been tried yet."""
        waiting = [view for view in self._state.catalog.guarded.values() if view.stopped or self._healed_by(view)]
        return any(self._tried.get(view.name, (-1, 0))[0] < self._state.store.epoch for view in waiting)

    def heal(self) -> list[str]:
        """Catch up views that can be computed again, or more of which can; returns their names."""
        healed = []
        for name, view in list(self._state.catalog.guarded.items()):
            if view.stopped:
                healed += [name] if self._is_worth_trying(view) and self._try(name) else []
            elif self._healed_by(view) and self._is_worth_trying_rows(view):
                healed += [name] if self._try_rows(view) else []
        return healed

    def _healed_by(self, view: View) -> set[str]:
        """The inputs whose changes may heal rows that are held back from a view, beside those of their own groups."""
        quarantine = self._state.quarantine
        groups = quarantine.groups(view)
        if (all(one.independent for one in groups.values()) and len(groups) < 2) or not quarantine.holds(view.name):
            return set()
        held = {one.relation for one in quarantine.held(view.name) if not one.is_skipped}
        return {name for name in groups if held - {name} or (name in held and not groups[name].independent)}

    def _is_worth_trying_rows(self, view: View) -> bool:
        mark = self._state.quarantine.marks.of(view.name)
        assert mark is not None
        since, _ = self._tried.get(view.name, (mark.changed - 1, 0))
        changed = sum(self._refresher.since(name, since).rows for name in self._healed_by(view))
        return changed > 0 and changed * HELD_ROWS_A_CHANGE >= mark.rows

    def _try_rows(self, view: View) -> bool:
        """Release the rows that are held back from a view, if some of them can be computed now."""
        state = self._state
        self._tried[view.name] = state.store.epoch, 0
        held = [one for one in state.quarantine.held(view.name) if not one.is_skipped]
        with isolating(state, self._epochs, state.store.epoch + 1) as isolation:
            state.quarantine.retried[view.name] = [one for one in state.quarantine.held(view.name) if one.is_skipped]
            passes = isolation.passing(view, self._pending(held))
        self._epochs.end()
        if passes:
            self._release(view, skip=False)
        return passes

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
                raise _unskippable(view)
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
        left = {(one.relation, one.row) for one in skipped}
        pending = self._pending([one for one in held if (one.relation, one.row) not in left])
        with isolating(state, self._epochs, number) as isolation:
            state.quarantine.retried[view.name] = skipped
            state.quarantine.listed[view.name] = skipped
            isolation.unseen = pending
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


def _unskippable(view: View) -> Unsupported:
    return Unsupported(
        f'view "{view.name}" cannot go on without the rows at fault',
        detail=f"It stopped as a whole, at epoch {view.fresh}: {why_whole(view)}.",
        hint=f"Correct or delete these rows (SELECT * FROM {view.name}{ERRORS}): then it goes on by itself. Or "
        "CREATE OR REPLACE it with on_error = 'null', or with a WHERE that leaves them out.",
    )


def _skipped(held: HeldRow) -> HeldRow:
    return replace(held, status=SKIPPED) if held.status == FAULT else held
