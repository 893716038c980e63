"""Views that one epoch computes again, because its change is so large that their triggers would take longer.

The new maps and rows come from the new contents of the inputs, by DuckDB, as when a view is filled. Readers see the
difference between the new rows and those that are stored, so an epoch looks the same whichever way it took. The maps
replace those in the store in the same commit, and the next change reads them there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.changes.arrow import arrow_schema
from tidemill.changes.changeset import ChangeSet
from tidemill.compiler import choose_recomputation
from tidemill.compiler.choose_recomputation import RecomputationModel
from tidemill.engine.catalog.view import View
from tidemill.engine.epochs.pipeline import PlacedProgram, RecomputedView
from tidemill.engine.epochs.state import EngineState
from tidemill.model.errors import DataError
from tidemill.model.schema import WEIGHT
from tidemill.model.types import Field
from tidemill.runtimes.runtime import Runtime

__all__ = ["NotRecomputed", "Recomputation", "views_to_recompute"]

GROWTH = 2.0
"""How many times as large or as small the inputs of a view must be until its costs are predicted anew."""


class NotRecomputed(DataError):
    """A view cannot be computed again after all, for an error that triggers will report: the epoch starts over."""


def views_to_recompute(
    state: EngineState, changes: Mapping[str, ChangeSet], runtimes: Sequence[Runtime]
) -> dict[str, str]:
    """The views that an epoch with these changes of tables had better compute again, and why."""
    if len(runtimes) != 1:
        return {}
    changed = {name: float(change.rows) for name, change in changes.items()}
    found: dict[str, str] = {}
    for placed in state.pipeline.reached_by(changes):
        view = state.catalog.view(placed.program.view)
        arriving = {name: changed[name] for name in view.inputs if name in changed}
        reason = _reason(state, view, placed, arriving)
        if reason:
            found[view.name] = reason
        # Its own change, in turn, is at most that each of its rows is replaced.
        rows = 2.0 * state.store.rows(view.name)
        changed[view.name] = min(sum(arriving.values()), rows) if rows else sum(arriving.values())
    return found


def _reason(state: EngineState, view: View, placed: PlacedProgram, arriving: Mapping[str, float]) -> str:
    stored = float(sum(map(state.store.rows, view.inputs)))
    if not state.placement.may_fill_in_columns(placed.runtime, int(stored)):
        return ""
    if not placed.costs_known or _differs(placed.costs, stored):
        placed.costs, placed.costs_known = _predicted(state, view, placed), True
    if placed.costs is None:
        return ""
    triggers, again = placed.costs.by_triggers(arriving), placed.costs.again(stored + sum(arriving.values()))
    return choose_recomputation.reason_to_recompute(triggers, again)


def _predicted(state: EngineState, view: View, placed: PlacedProgram) -> RecomputationModel | None:
    """The costs of a view; None if it cannot be computed again, or if machine code is always faster."""
    stages = placed.program.stages
    in_python = {stage.name for stage in stages if state.placement.stays_in_python(placed.runtime, stage)}
    if not in_python or not _can_be_computed(state, view, placed):
        return None
    sizes = state.statistics().sizes(view.inputs, state.catalog.tables)
    return RecomputationModel(placed.program, sizes, in_python)


def _can_be_computed(state: EngineState, view: View, placed: PlacedProgram) -> bool:
    """True if all rows that a view reads are stored, so are its own, and DuckDB knows all that it does."""
    if view.shares or state.catalog.unfillable(view):
        return False
    own = {stage.name for stage in placed.program.stages}
    read = {name for name in own if any(reader.placed is not placed for reader in state.pipeline.readers(name))}
    stored = all(map(state.pipeline.stored, read | {view.name}))
    return stored and all(map(state.placement.has_columnar_fill, placed.program.stages))


def _differs(costs: RecomputationModel | None, stored: float) -> bool:
    """True if costs were predicted for inputs of quite another size."""
    return costs is not None and not costs.stored / GROWTH <= stored <= costs.stored * GROWTH


@dataclass
class Recomputation:
    """The views that one epoch computes again, with the reason for each."""

    state: EngineState
    reasons: Mapping[str, str]

    def compute(self, placed: PlacedProgram, changed: Mapping[str, Sequence[ChangeSet]]) -> RecomputedView:
        """The maps and the change of the rows of a view; ``changed`` are the changes of relations in this epoch."""
        state = self.state
        loaded: dict[str, ChangeSet] = {}
        maps: dict[str, ChangeSet] = {}

        def read(name: str, fields: Sequence[Field]) -> pa.Table:
            if name in loaded:
                return loaded[name].arrow()
            names = [*(f.name for f in fields), WEIGHT]
            parts = [state.store.read(name, fields), *(change.arrow() for change in changed.get(name, ()))]
            return pa.concat_tables([part.select(names) for part in parts])

        for stage in placed.program.stages:
            filled = state.placement.refill_in_columns(stage, read)
            if filled is None:
                raise NotRecomputed(f'view "{placed.program.view}" cannot be computed again')
            loaded[stage.name] = filled.rows
            maps.update(filled.maps)
            for runtime in state.placement.started:
                if runtime is not placed.runtime:
                    runtime.forget(stage.name)
        rows = {name: self._difference(name, new) for name, new in loaded.items() if state.pipeline.stored(name)}
        replaced = [map_.name for stage in placed.program.stages for map_ in stage.maps]
        return RecomputedView(rows, maps, replaced)

    def _difference(self, name: str, new: ChangeSet) -> ChangeSet:
        """The change from the stored rows of a relation to ``new``, summed."""
        columns = arrow_schema(new.fields).names
        old = self.state.store.read(name, new.fields).select(columns)
        place = old.column_names.index(WEIGHT)
        gone = old.set_column(place, WEIGHT, pc.negate(old.column(WEIGHT)))
        return ChangeSet.of_arrow(_summed(pa.concat_tables([new.arrow().select(columns), gone])), new.fields)


def _summed(rows: pa.Table) -> pa.Table:
    """Rows with the sums of their weights, without those that are zero."""
    keys = [name for name in rows.column_names if name != WEIGHT]
    plain = rows.rename_columns([*(f"k{i}" for i in range(len(keys))), WEIGHT])
    groups = plain.group_by([f"k{i}" for i in range(len(keys))], use_threads=False).aggregate([(WEIGHT, "sum")])
    found = groups.rename_columns([*keys, WEIGHT]).filter(pc.not_equal(groups.column(f"{WEIGHT}_sum"), 0))
    return found.cast(rows.schema)
