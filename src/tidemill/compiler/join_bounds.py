"""Bounds on the cost of keeping joins, by their classes, and if a stage meets them. EXPLAIN shows both.

A change is one row that comes or goes, and N the number of rows of the relations of a join. The bounds are those of the
literature, which ``docs/design/joins.md`` lists; what is not possible is so unless the OMv conjecture is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

from tidemill.compiler.statistics.costs import Cost, CostClass
from tidemill.compiler.statistics.predictions import ProgramEstimate
from tidemill.compiler.statistics.sizes import Statistics
from tidemill.compiler.statistics.work_counts import CONSTANTS
from tidemill.model.schema import Table
from tidemill.program.joingraph import Serve
from tidemill.program.joins import ClassifiedJoin, DegreeRole, JoinClass
from tidemill.program.stages import Program, Stage


@dataclass(frozen=True, slots=True)
class StageFigures:
    """Predicted visits for a changed row of each input of a stage, and the number of rows of all of them."""

    visits: Mapping[str, float]
    rows: float


def stage_figures(program: Program, tables: Mapping[str, Table], statistics: Statistics) -> dict[str, StageFigures]:
    """The figures of the stages of ``program`` that join, over relations of these statistics."""
    if not any(stage.joins for stage in program.stages):
        return {}
    own = {stage.name for stage in program.stages}
    inputs = dict.fromkeys(name for stage in program.stages for name in stage.inputs if name not in own)
    estimate = ProgramEstimate(statistics.sizes(inputs, tables))
    found = {}
    for stage in program.stages:
        visits = {name: CONSTANTS.cost(counts) for name, counts in estimate.add(stage).work.items()}
        found[stage.name] = StageFigures(visits, sum(estimate.known[name].rows for name in stage.inputs))
    return found


_POSSIBLE = {
    JoinClass.Q_HIERARCHICAL: "O(1) for a change and O(1) for each row read are possible",
    JoinClass.FREE_CONNEX: "O(N) for a change and O(1) for each row read are possible",
    JoinClass.ACYCLIC: "O(N) for a change and O(N) for each row read are possible",
    JoinClass.CYCLIC: "no upper bound is known for all such joins",
}

_TRIANGLE = "O(sqrt N) for a change is possible with heavy and light parts"

_LOWER = "less than O(sqrt N) for both is not"


def join_lines(stage: Stage, costs: Mapping[str, Cost], figures: StageFigures | None) -> Iterator[str]:
    """The class of each join of ``stage`` and its bounds, and how its plan compares.

    ``costs`` are those of a change of each input, and of the rows of the stage under its own name if these cost more
    than the entry that they are made of.
    """
    for join in stage.joins:
        yield f"join of {', '.join(join.aliases)}: {_class(join)}; {_bounds(join)}"
        yield f"  this plan: {_verdict(join, stage, costs, figures)}"


def _class(join: ClassifiedJoin) -> str:
    return f"{join.kind.value}, by declared keys" if join.by_keys else join.kind.value


def _bounds(join: ClassifiedJoin) -> str:
    """The bounds in words; a lower one where it is known."""
    possible = _TRIANGLE if join.triangle else _POSSIBLE[join.kind]
    if join.further:
        return f"{possible}, further conditions aside"
    below = join.bounded_below and join.kind is not JoinClass.Q_HIERARCHICAL
    return f"{possible}, {_LOWER}" if below else possible


def _verdict(join: ClassifiedJoin, stage: Stage, costs: Mapping[str, Cost], figures: StageFigures | None) -> str:
    """The plan beside the bounds: by the classes of its costs for O(1), by its predicted visits for others."""
    read = "O(1) for each row read" if stage.serve is Serve.BOTH else "rows are computed when read, all at once"
    if stage.degrees is DegreeRole.TRIANGLE:
        return f"O(sqrt N) for a change, amortized, by heavy and light parts, {read}: meets them"
    if join.kind is JoinClass.Q_HIERARCHICAL:
        dear = {name: cost for name, cost in costs.items() if cost.kind is not CostClass.CONSTANT}
        met = "does not meet them" if dear or stage.serve is not Serve.BOTH else "meets them"
        return f"{_dearest(dear, stage)}, {read}: {met}"
    if figures is None:
        return f"{_dearest(costs, stage)}, {read}"
    most = max(figures.visits.values(), default=0.0)
    limit = sqrt(figures.rows) if join.triangle else figures.rows
    compared = f"{most:,.1f} predicted visits for a change, {'sqrt N' if join.triangle else 'N'} = {limit:,.0f}"
    if join.kind is JoinClass.CYCLIC and not join.triangle:
        return f"{compared}, {read}"
    within = most <= limit and (stage.serve is Serve.BOTH or join.kind is JoinClass.ACYCLIC)
    return f"{compared}, {read}: {'meets them' if within else 'does not meet them'}"


def _dearest(costs: Mapping[str, Cost], stage: Stage) -> str:
    """The highest cost and what it is for."""
    if not costs:
        return "O(1) for a change"
    highest = max(cost.kind for cost in costs.values())
    names = [name for name, cost in costs.items() if cost.kind is highest]
    changes: Sequence[str] = [name for name in names if name != stage.name]
    return f"{highest} for a change of {' and '.join(changes)}" if changes else f"{highest} for its rows"
