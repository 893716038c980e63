"""Triggers prepared for the maps of a stage in memory, for the many changes that are one row."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from tidemill.changes.split import SplitColumns, splitter
from tidemill.changes.zset import Row, WeightedRow
from tidemill.program.statements import ChangeSubset
from tidemill.runtimes.native.python.access import NO_PLACES, Access, AccessForm
from tidemill.runtimes.native.python.compile import CompiledQuery, CompiledTrigger
from tidemill.runtimes.native.state.ring_map import RingMap
from tidemill.runtimes.native.state.row_map import RowMap
from tidemill.runtimes.native.state.stage_maps import PreparedParts, PreparedQuery, PreparedTrigger, StageMaps

RunInFull = Callable[[CompiledQuery, dict[Row, Any], Collection[WeightedRow]], None]
"""Runs a query that also reads relations, which may be looked up in the store."""


def prepare_trigger(trigger: CompiledTrigger, maps: StageMaps, run_in_full: RunInFull) -> PreparedTrigger | None:
    """A trigger with what it reads of maps that are in memory; None if it takes rows one by one, recomputes a target,
    reads the change more than once, or if entries of a map are left in the store."""
    if trigger.each or trigger.replaces or any(map_.is_partial for map_ in maps.values()):
        return None
    if not all(_reads_change_once(routine) for step in trigger.adds for routine in step.routines):
        return None
    targets = tuple(dict.fromkeys(step.target for step in trigger.adds))
    found: defaultdict[tuple[SplitColumns, ChangeSubset | None], list[tuple[str, CompiledQuery]]] = defaultdict(list)
    for step in trigger.adds:
        for routine in step.routines:
            change = routine.accesses[0]
            found[change.places, change.part].append((step.target, routine))

    parts = [
        PreparedParts(
            splitter(places).split,
            partial(_prepare_queries, found[places, ChangeSubset.STAYING], run_in_full),
            partial(_prepare_queries, found[places, ChangeSubset.ARRIVING], run_in_full),
        )
        for places in dict.fromkeys(places for places, part in found if part is not None)
    ]
    whole = _prepare_queries(found[NO_PLACES, None], run_in_full, maps)
    return PreparedTrigger(targets, whole, tuple(parts))


def _reads_change_once(routine: CompiledQuery) -> bool:
    """True if the outermost loop of a query, and no other, is over rows of the change."""
    first, *others = routine.accesses or (None,)
    alone = first is not None and first.changes and first.form is AccessForm.ROWS
    return alone and not any(access.changes for access in others) and not routine.batched


def _prepare_queries(
    routines: Sequence[tuple[str, CompiledQuery]], run_in_full: RunInFull, maps: Mapping[str, RowMap | RingMap]
) -> tuple[PreparedQuery, ...]:
    """Queries with their targets; they do not keep the maps alive, which may be released."""
    prepared = []
    for target, routine in routines:
        read = routine.accesses[1:]
        if all(access.relation in maps for access in read):
            given = tuple(in_form(maps[access.relation], access) for access in read)
            prepared.append(PreparedQuery(target, routine.run, given))
        else:
            prepared.append(PreparedQuery(target, partial(run_in_full, routine), ()))
    return tuple(prepared)


def in_form(held: RowMap | RingMap, access: Access) -> Any:
    """A map in the form that a routine reads. All forms follow later changes of the map."""
    match access.form:
        case AccessForm.ROWS:
            return held.entries.items()
        case AccessForm.INDEX:
            return held.index(access.positions)
        case AccessForm.ENTRIES:
            return held.entries
        case AccessForm.ORDER:
            return held.order(access.positions, access.column, access.floats)
        case AccessForm.RANGE:
            return held.column_order(access.column)
