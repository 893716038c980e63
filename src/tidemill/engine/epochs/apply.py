"""One epoch of changes, from the changes of tables to the commit of all views together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from tidemill.changes.changeset import ChangeSet, Epoch
from tidemill.engine.epochs.commit import EpochCommitter, WaitUntilDurable
from tidemill.engine.epochs.pipeline import check_tables
from tidemill.engine.epochs.recomputation import NotRecomputed, Recomputation, views_to_recompute
from tidemill.engine.epochs.state import EngineState
from tidemill.engine.partitions.lateness import LatenessFilter
from tidemill.model.errors import ArithmeticFault

__all__ = ["apply_changes"]


def apply_changes(
    state: EngineState,
    epochs: EpochCommitter,
    changes: Mapping[str, ChangeSet],
    positions: Mapping[str, str] | None,
    *,
    objects: bool,
    late: bool,
) -> tuple[int, WaitUntilDurable]:
    """Commit one epoch: all changes and all views together, or nothing. Returns its number.

    Tables that hold objects change only with ``objects``, whose callers have checked all references. With ``late``
    changes are applied however late they are; callers have checked that their partitions are retained.
    """
    state.require_writable()
    catalog, number = state.catalog, state.store.epoch + 1
    if catalog.static:
        catalog.require_not_static(changes)
    if not objects:
        catalog.require_not_object_tables(changes)
    moved = dict(positions or {})
    if catalog.late and not late:
        gate = LatenessFilter(catalog.late, state.store.positions, number)
        changes = gate.admit(changes)
        moved |= gate.moved
    run = partial(_run, state, epochs, changes)
    try:
        epoch = epochs.within_budget(partial(run, Epoch(number, positions=moved), recomputes=True))
    except NotRecomputed:
        epoch = epochs.within_budget(partial(run, Epoch(number, positions=moved)))
    except ArithmeticFault:
        # The fault may come from two rows that never coexist: one is deleted as the other is inserted.
        epoch = epochs.within_budget(partial(run, Epoch(number, positions=moved), in_turn=True))
    return number, epochs.commit(epoch)


def _run(
    state: EngineState,
    epochs: EpochCommitter,
    changes: Mapping[str, ChangeSet],
    epoch: Epoch,
    *,
    in_turn: bool = False,
    recomputes: bool = False,
) -> Epoch:
    """The epoch with all that it stores; an error leaves all runtimes as they were.

    Views are computed again, where that is predicted to be faster, if the epoch ``recomputes``.
    """
    catalog, pipeline = state.catalog, state.pipeline
    with epochs.running(epoch.number, sum([change.rows for change in changes.values()])) as runtimes:
        pipeline.announce(changes, catalog.tables, catalog.constraints, runtimes)
        possible = check_tables(changes, catalog.tables, catalog.constraints, runtimes[0])
        again = views_to_recompute(state, possible, runtimes) if recomputes else {}
        recomputing = Recomputation(state, again) if again else None
        walk = pipeline.walk(possible, runtimes, in_turn=in_turn, recomputing=recomputing)
        stored = epochs.collect(walk, runtimes)
    for view, reason in again.items():
        pipeline[view].measured.note_recomputed(epoch.number, reason)
    return replace(epoch, changes=stored, replaced=tuple(walk.replaced))
