"""One epoch of changes, from the changes of tables to the commit of all views together."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial

from tidemill.changes.changeset import ChangeSet, Epoch
from tidemill.compiler import choose_recomputation
from tidemill.engine.catalog.serialization import catalog_to_json
from tidemill.engine.epochs import placement
from tidemill.engine.epochs.clock_advance import ClockAdvance
from tidemill.engine.epochs.commit import EpochCommitter, WaitUntilDurable
from tidemill.engine.epochs.isolation import isolating
from tidemill.engine.epochs.recomputation import NotRecomputed, Recomputation, views_to_recompute
from tidemill.engine.epochs.spark_ways import ways_on_spark
from tidemill.engine.epochs.state import NO_CHOICE, EngineState
from tidemill.engine.epochs.table_checks import check_tables
from tidemill.engine.partitions.lateness import LatenessFilter
from tidemill.model.clocks import is_clock
from tidemill.model.errors import ArithmeticFault, DataError

__all__ = ["NothingDue", "apply_changes"]


class NothingDue(DataError):
    """Raised to undo an epoch that would only advance a clock."""


RunEpoch = Callable[..., tuple[dict[str, ChangeSet], tuple[str, ...]]]
"""Runs an epoch, with ``in_turn`` deletes before inserts; see ``_run``."""


def apply_changes(
    state: EngineState,
    epochs: EpochCommitter,
    changes: Mapping[str, ChangeSet],
    positions: Mapping[str, str] | None,
    *,
    owned: bool,
    late: bool,
    idle: bool = True,
) -> tuple[int, WaitUntilDurable]:
    """Commit one epoch: all changes and all views together, or nothing. Returns its number.

    Tables that hold objects, and lake tables, change only with ``owned``, by those who keep them. With ``late``
    changes are applied however late they are; callers have checked that their partitions are retained.
    Unless it may be ``idle``, an advance of a clock that changes no view is undone, and ``NothingDue`` raised.
    """
    state.require_writable()
    catalog, number = state.catalog, state.store.epoch + 1
    if catalog.static:
        catalog.require_not_static(changes)
    if not owned:
        catalog.require_own_rows(changes)
    moved = dict(positions or {})
    if catalog.late:
        gate = LatenessFilter(catalog.late, state.store.positions, number)
        if late:
            gate.replay(changes)
        else:
            changes = gate.admit(changes)
        moved |= gate.moved
    if catalog.clocks:
        clocks = ClockAdvance(catalog, state.store.positions)
        changes = clocks.with_clocks(changes)
        moved |= clocks.moved
    run = partial(_run, state, epochs, number, changes, idle=idle)
    try:
        try:
            stored, replaced = epochs.within_budget(partial(run, recomputes=True))
        except NotRecomputed:
            stored, replaced = epochs.within_budget(run)
    except ArithmeticFault:
        # The fault may come from two rows that never coexist: one is deleted as the other is inserted.
        if catalog.guarded:
            return number, _isolated(state, epochs, number, run, moved)
        stored, replaced = epochs.within_budget(partial(run, in_turn=True))
    return number, epochs.commit(Epoch(number, stored, moved, replaced=replaced))


def _isolated(
    state: EngineState, epochs: EpochCommitter, number: int, run: RunEpoch, moved: Mapping[str, str]
) -> WaitUntilDurable:
    """Commit an epoch without the rows that views with on_error = 'quarantine' cannot compute."""
    with isolating(state, epochs, number) as isolation:
        stored, replaced = isolation.run(lambda in_turn: epochs.within_budget(partial(run, in_turn=in_turn)))
        catalog = catalog_to_json(state.catalog) if isolation.stopped else None
        return epochs.commit(Epoch(number, stored, moved, catalog, replaced=replaced))


def _run(
    state: EngineState,
    epochs: EpochCommitter,
    number: int,
    changes: Mapping[str, ChangeSet],
    *,
    in_turn: bool = False,
    recomputes: bool = False,
    idle: bool = True,
) -> tuple[dict[str, ChangeSet], tuple[str, ...]]:
    """The changes that an epoch stores, and the maps that these replace; an error leaves all runtimes as they were.

    Views are computed again, where that is predicted to be faster, if the epoch ``recomputes``.
    """
    catalog, pipeline, started = state.catalog, state.pipeline, time.perf_counter()
    rows = 0
    for change in changes.values():
        rows += change.rows
    ways = NO_CHOICE
    if rows > placement.LEAST_TASK_WORK:
        ways = ways_on_spark(state, {name: change.rows for name, change in changes.items()})
    with epochs.running(number, rows, ways=ways) as runtimes:
        pipeline.announce(changes, catalog.tables, catalog.constraints, runtimes)
        possible = check_tables(changes, catalog.tables, catalog.constraints, runtimes[0])
        recomputes = recomputes and state.may_recompute
        recomputes = recomputes and (rows >= choose_recomputation.LEAST_CHANGED or pipeline.index.have_windows)
        again = views_to_recompute(state, possible) if recomputes else {}
        recomputing = Recomputation(state, again) if again else None
        if len(possible) > 1:
            possible = catalog.in_order(possible)
        walk = pipeline.walk(possible, runtimes, in_turn=in_turn, recomputing=recomputing)
        walk.done.started = started
        if not (idle or any(change.rows for name, change in walk.stored.items() if not is_clock(name))):
            raise NothingDue("no row comes or goes")
        stored = epochs.collect(walk, runtimes)
    if ways:
        walk.done.ways = {view: way.reason for view, way in ways.items()}
        for view, way in ways.items():
            pipeline[view].measured.note_way(number, f"{way.runtime.name}, {way.reason}")
    if again:
        for view, reason in again.items():
            pipeline[view].measured.note_recomputed(number, reason)
    return stored, tuple(walk.replaced)
