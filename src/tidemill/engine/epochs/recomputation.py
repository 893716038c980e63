"""Views that one epoch computes again, because its change is so large that their triggers would take longer.

The new maps and rows come from the new contents of the inputs, as when a view is filled: by DuckDB in this process, by
queries on Spark. Readers see the difference between the new rows and those that are stored, so an epoch looks the same
whichever way it took. The maps replace those in the store in the same commit, and the next change reads them there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tidemill.changes.changeset import ChangeSet
from tidemill.compiler import choose_recomputation
from tidemill.compiler.statistics.epoch_costs import DUCKDB, MACHINE_CODE, PYTHON, EpochModel
from tidemill.engine.epochs.pipeline import PlacedProgram
from tidemill.engine.epochs.state import EngineState
from tidemill.model.errors import DataError
from tidemill.model.schema import WEIGHT
from tidemill.model.types import Field
from tidemill.program.reads import loads_own_maps
from tidemill.program.stages import Stage
from tidemill.runtimes.runtime import FilledStage

__all__ = ["NotRecomputed", "Recomputation", "arrivals", "model_of", "reason_on_spark", "views_to_recompute"]


GROWTH = 2.0
"""Factor by which the inputs of a view must grow or shrink until its costs are predicted again."""


class NotRecomputed(DataError):
    """A view cannot be computed again after all, for an error that triggers will report: the epoch starts over."""


def views_to_recompute(state: EngineState, changes: Mapping[str, ChangeSet]) -> dict[str, str]:
    """The views that an epoch with these changes of tables had better compute again, and why."""
    reached = arrivals(state, {name: change.rows for name, change in changes.items()})
    reasons = {placed.program.view: _reason(state, placed, arriving) for placed, arriving in reached}
    return {view: reason for view, reason in reasons.items() if reason and not state.quarantine.holds(view)}


def arrivals(state: EngineState, changed: Mapping[str, int]) -> Iterator[tuple[PlacedProgram, dict[str, float]]]:
    """The programs that an epoch reaches in which so many rows of tables change, in order, with the number of changed
    rows of each of their inputs, as far as that is known before they run."""
    rows = {name: float(count) for name, count in changed.items()}
    for placed in state.pipeline.reached_by(changed):
        arriving = {name: rows[name] for name in placed.inputs if name in rows}
        yield placed, arriving
        for stage in placed.program.stages:
            # Its own change, in turn, is at most that each of its rows is replaced.
            most = 2.0 * state.store.rows(stage.name)
            rows[stage.name] = min(sum(arriving.values()), most) if most else sum(arriving.values())


def stored_rows(state: EngineState, placed: PlacedProgram) -> float:
    """The stored rows of the inputs of a view."""
    return float(sum(map(state.store.rows, placed.inputs)))


def model_of(state: EngineState, placed: PlacedProgram) -> EpochModel:
    """The model of a view's epochs, for inputs of about their present size."""
    if placed.model is None or _differs(placed.model, stored_rows(state, placed)):
        sizes = state.statistics().sizes(placed.inputs, state.catalog.tables)
        placed.model = EpochModel(placed.program, sizes)
    return placed.model


def reason_on_spark(state: EngineState, placed: PlacedProgram, arriving: Mapping[str, float], triggers: float) -> str:
    """The reason to compute a view again on Spark, where its triggers are predicted to take so many seconds; empty if
    they are no slower, or if it cannot be computed again."""
    if not _can_be_computed(state, placed) or any(map(loads_own_maps, placed.program.stages)):
        return ""
    rows = stored_rows(state, placed) + sum(arriving.values())
    again = model_of(state, placed).again(rows, state.placement.spark_costs.again)
    return choose_recomputation.reason_to_recompute(triggers, again)


def _reason(state: EngineState, placed: PlacedProgram, arriving: Mapping[str, float]) -> str:
    if placed.runtime.refills:
        triggers = model_of(state, placed).by_triggers(arriving, state.placement.trigger_costs(placed.runtime))
        return reason_on_spark(state, placed, arriving, triggers)
    stored = stored_rows(state, placed)
    if not state.placement.may_fill_in_columns(placed.runtime, int(stored)):
        return ""
    if placed.in_python is None or _differs(placed.model, stored):
        placed.in_python = _in_python(state, placed)
    if not placed.in_python:
        return ""
    in_python = dict.fromkeys(placed.in_python, PYTHON)
    triggers = model_of(state, placed).by_triggers(arriving, MACHINE_CODE, in_python)
    again = model_of(state, placed).again(stored + sum(arriving.values()), DUCKDB)
    return choose_recomputation.reason_to_recompute(triggers, again)


def _in_python(state: EngineState, placed: PlacedProgram) -> set[str]:
    """The stages that stay in Python, of a view that DuckDB can compute again: machine code is always faster."""
    stages = placed.program.stages
    found = {stage.name for stage in stages if state.placement.stays_in_python(stage)}
    if not found or not _can_be_computed(state, placed):
        return set()
    return found if all(map(state.placement.has_columnar_fill, stages)) else set()


def _can_be_computed(state: EngineState, placed: PlacedProgram) -> bool:
    """True if all rows that a view reads are stored, and so are its own."""
    view = state.catalog.view(placed.program.view)
    if view.shares or view.forgets or state.catalog.unfillable(view):
        return False
    own = {stage.name for stage in placed.program.stages}
    read = {name for name in own if any(reader.placed is not placed for reader in state.pipeline.readers(name))}
    return all(map(state.pipeline.stored, read | {view.name}))


def _differs(model: EpochModel | None, stored: float) -> bool:
    """True if a model was made for inputs of quite another size."""
    return model is not None and not model.stored / GROWTH <= stored <= model.stored * GROWTH


@dataclass
class Recomputation:
    """The views that one epoch computes again, with the reason for each."""

    state: EngineState
    reasons: Mapping[str, str]

    def compute(self, placed: PlacedProgram, stage: Stage, changed: Mapping[str, Sequence[ChangeSet]]) -> FilledStage:
        """The change of the rows of a stage, and its new maps; ``changed`` are the changes of relations so far."""

        def read(name: str, fields: Sequence[Field]) -> pa.Table:
            names = [*(f.name for f in fields), WEIGHT]
            parts = [self.state.store.read(name, fields), *(change.arrow() for change in changed.get(name, ()))]
            return pa.concat_tables([part.select(names) for part in parts])

        filled = self.state.placement.refill(placed.runtime, stage, read)
        if filled is None:
            raise NotRecomputed(f'view "{placed.program.view}" cannot be computed again')
        for runtime in (placed.runtime, *placed.paused):
            runtime.leave_maps_in_store(stage)
        return filled
