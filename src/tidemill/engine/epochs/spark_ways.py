"""The runtimes of the views that an epoch runs on Spark: those that are predicted to take least for this change.

All views of an epoch share what a way costs to start, a job and its tasks, so views that can run in the same ways are
placed together. A view that had better be computed again is placed where a query can do that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from tidemill.compiler import choose_recomputation
from tidemill.engine.catalog.views.view import RuntimeNeeds
from tidemill.engine.epochs.pipeline import PlacedProgram
from tidemill.engine.epochs.recomputation import arrivals, model_of, reason_on_spark
from tidemill.engine.epochs.state import EngineState, EpochWay
from tidemill.runtimes.runtime import Runtime

__all__ = ["ways_on_spark"]


def ways_on_spark(state: EngineState, changed: Mapping[str, int]) -> dict[str, EpochWay]:
    """The ways of the views on Spark that an epoch reaches in which so many rows of tables change; none where there is
    nothing to choose."""
    groups: dict[RuntimeNeeds, list[tuple[PlacedProgram, dict[str, float]]]] = defaultdict(list)
    for placed, arriving in arrivals(state, changed):
        groups[state.catalog.view(placed.program.view).runtime_needs].append((placed, arriving))
    work = sum(changed.values())
    found: dict[str, EpochWay] = {}
    for needs, members in groups.items():
        possible = state.placement.runtimes_on_spark(work, needs)
        if len(possible) > 1:
            found |= _chosen(state, members, possible)
    return found


def _chosen(
    state: EngineState, members: list[tuple[PlacedProgram, dict[str, float]]], possible: Mapping[str, Runtime]
) -> dict[str, EpochWay]:
    """One of the ``possible`` runtimes for views that can run on all of these."""
    costs = {name: state.placement.trigger_costs(runtime) for name, runtime in possible.items()}
    each = {
        name: [model_of(state, placed).by_triggers(arriving, way) for placed, arriving in members]
        for name, way in costs.items()
    }
    totals = {name: way.start + sum(each[name]) for name, way in costs.items()}
    best, reason = choose_recomputation.cheapest(totals)
    found = {}
    for (placed, arriving), seconds in zip(members, each[best], strict=True):
        way = EpochWay(possible[best], reason)
        if not way.runtime.refills and reason_on_spark(state, placed, arriving, seconds):
            way = EpochWay(state.placement.dataframes, f"to compute it again; {best} was {reason}")
        found[placed.program.view] = way
    return found
