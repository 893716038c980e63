"""The plan of strategy ``auto``: for each stage of a view, the strategy with the least predicted cost.

First-order deltas are the plan that others have to beat. Where they cost little more than the change itself, nothing
else is compiled. Otherwise each stage that costs more is compiled by every strategy that can be compared, and a view
with subqueries in its expressions also with these left where they are.

A plan is stored with the view: the view is compiled by it whenever the warehouse is opened, whatever has become of the
sizes since.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf, sqrt
from typing import NamedTuple

from tidemill.algebra.relational.walk import expressions, scans, subqueries, walk_all
from tidemill.compiler.choose import AUTO
from tidemill.compiler.passes import Compilation, compile_requested, run_passes
from tidemill.compiler.plan import Candidate, Decision, Plan
from tidemill.compiler.staging.stages import StageDraft
from tidemill.compiler.statistics.predictions import ProgramEstimate, bytes_of_rows, estimate_stage
from tidemill.compiler.statistics.sizes import RelationSize, Statistics
from tidemill.compiler.statistics.work_counts import CONSTANTS
from tidemill.compiler.strategies import DEFAULT, STRATEGIES
from tidemill.compiler.strategies.strategy import NotAccepted, StageContext
from tidemill.model.errors import Unsupported
from tidemill.model.schema import Table
from tidemill.program.expiry.state import why_kept
from tidemill.program.reads import reads_old, row_wise, steps_of
from tidemill.program.stages import Program, Stage
from tidemill.program.statements import Replace

BATCH = 10.0
"""Assumed number of rows that change together."""

CHEAP = CONSTANTS.run / BATCH + 16.0
"""Work of a changed row in a stage, in visits, up to which no other strategy is tried: its part of the run of the
stage, which no strategy saves, and little more."""

BETTER, MUCH_BETTER = 3.0, 10.0
"""Factors by which another strategy must be better than first-order deltas: where sizes are known, and where not."""

IN_PLACE = 1.2
"""Factor by which subqueries that are left in place must be better than their joins by first-order deltas. They are one
stage, where joins are several, and that is predicted well; but until they are compiled they may take twice as long."""

IN_PYTHON = 4.0
"""The same where they replace rows of the view: machine code replaces entries of maps alone, and in Python they took
two to four times as long as predicted."""

FREE_BYTES = 1e6
"""Bytes that do not count where work and memory are weighed: nobody saves a part of a megabyte."""

AIMS = {"balanced": "work and memory", "latency": "work", "memory": "memory"}
"""The goals of a plan, and what is to be little by each."""

GOALS = tuple(AIMS)

DRIVER_BYTES = 1e9
"""Bytes of maps, and of input rows to fill them from, up to which a view on Spark may run row by row in the driver."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The rules of a choice: its goal, and the candidates.

    On Spark, stages that take one row at a time are kept in the driver, where their state must fit (``DRIVER_BYTES``).
    Without ``row_by_row`` they are no candidates. A view ``forgets`` if what it reads has LATENESS: then stages whose
    state is kept for ever are none, where others can take their place.
    """

    goal: str = GOALS[0]
    on_spark: bool = False
    row_by_row: bool = True
    sizes_known: bool = True
    forgets: bool = False

    @property
    def cheap(self) -> float:
        """Work up to which a stage stays with first-order deltas without comparison."""
        return 0.0 if self.goal == "latency" else CHEAP

    @property
    def better(self) -> float:
        """Factor by which others must be better."""
        return 1.0 if self.goal == "latency" else BETTER if self.sizes_known else MUCH_BETTER

    @property
    def better_in_place(self) -> float:
        """Factor by which subqueries that are left in place must be better; small gains are not worth state that leaves
        Spark.

        >>> Choice().better_in_place, Choice("latency").better_in_place, Choice(sizes_known=False).better_in_place
        (1.2, 1.0, 10.0)
        >>> Choice(on_spark=True).better_in_place
        3.0
        """
        return IN_PLACE if self.better == BETTER and not self.on_spark else self.better

    def score(self, work: float, held: float) -> float:
        """Figure of merit, the smaller the better. In balance, ten times the memory must save three times the work.

        >>> round(Choice().score(1.0, 10e9) / Choice().score(3.0, 1e9), 2)
        1.05
        >>> round(Choice().score(1.0, 150e3) / Choice().score(3.0, 15e3), 2)
        0.35
        """
        match self.goal:
            case "latency":
                return work
            case "memory":
                return held
        return work * sqrt(held + FREE_BYTES)


class PlannedView(NamedTuple):
    """A plan, the program that it compiles to, the work and bytes that are predicted for it, and what was compared.

    ``lead`` is the factor by which subqueries that are left in place had to be better, None if they were not compared.
    """

    plan: Plan
    program: Program
    work: float
    bytes: float
    candidates: tuple[Candidate, ...] = ()
    lead: float | None = None


def choose_plan(start: Compilation, statistics: Statistics, choice: Choice) -> PlannedView:
    """The plan with the least predicted cost for the view of which ``start`` is the first compilation.

    Its log has this decision alone, without the epoch and its cause.
    """
    sizes = statistics.sizes(sorted(scans(start.relation)), start.tables)
    forgets = any(map(_has_lateness, (start.tables[name] for name in sizes if name in start.tables)))
    choice = replace(choice, sizes_known=all(map(statistics.rows.get, sizes)), forgets=forgets)
    found = _cheapest_plan(start, sizes, choice)
    held = _bytes_in_driver(found, sizes) if choice.on_spark else 0.0
    if held <= DRIVER_BYTES:
        return _decided(found, choice)
    note = f"; {found.plan.choice}, would take {held / 1e9:,.1f} GB in the driver, of at most {DRIVER_BYTES / 1e9:g}"
    return _decided(_cheapest_plan(start, sizes, replace(choice, row_by_row=False)), choice, note)


def _has_lateness(table: Table) -> bool:
    return table.partitioning is not None and table.partitioning.lateness is not None


def _bytes_in_driver(view: PlannedView, sizes: Mapping[str, RelationSize]) -> float:
    """Predicted bytes of a plan on Spark that the driver holds, and has to read to fill it: none if all of its stages
    run on Spark."""
    if not any(map(row_wise, view.program.stages)):
        return 0.0
    return view.bytes + sum(map(bytes_of_rows, sizes.values()))


def _cheapest_plan(start: Compilation, sizes: Mapping[str, RelationSize], choice: Choice) -> PlannedView:
    """The cheaper one of two plans: with subqueries as joins, and left in place."""
    joined = _planned(start, Plan(windows=start.plan.windows), sizes, choice)
    if joined.work <= choice.cheap or not choice.row_by_row or not _has_subqueries(start):
        return joined
    try:
        kept = _planned(start, replace(joined.plan, strategies={}, keeps_subqueries=True), sizes, choice)
    except (NotAccepted, Unsupported):
        return joined
    if choice.forgets and any(map(why_kept, kept.program.stages)) and not any(map(why_kept, joined.program.stages)):
        return joined
    inputs = sum(map(bytes_of_rows, sizes.values()))
    score, beaten = (choice.score(one.work, inputs + one.bytes) for one in (kept, joined))
    # Where joins of subqueries need another strategy themselves, they have no lead over it.
    lead = 1.0 if joined.plan.strategies else choice.better_in_place
    if choice.goal != "latency" and any(map(_replaces_rows, kept.program.stages)):
        lead = max(lead, IN_PYTHON)
    taken = kept if score * lead < beaten else joined
    in_place = [replace(one, strategy=f"{one.strategy} with subqueries in place") for one in kept.candidates]
    return taken._replace(candidates=(*joined.candidates, *in_place), lead=lead)


def _replaces_rows(stage: Stage) -> bool:
    """True if a change replaces rows of the stage itself, rather than entries of its maps."""
    statements = (statement for trigger in stage.triggers for statement in trigger.statements)
    return any(isinstance(statement, Replace) and statement.target == stage.name for statement in statements)


def _decided(view: PlannedView, choice: Choice, note: str = "") -> PlannedView:
    """The planned view with the decision for it in the log of its plan, whose reason ends with ``note``."""
    decision = Decision(chosen=view.plan.choice, reason=_reason(view, choice) + note, candidates=view.candidates)
    if view.candidates:
        decision = replace(decision, visits=view.work, bytes=view.bytes)
    return view._replace(plan=view.plan.decided(decision))


def _reason(view: PlannedView, choice: Choice) -> str:
    if not view.candidates:
        return "no other takes its stages" if view.plan.strategies else "changes are joined with nothing that is stored"
    if view.plan.strategies or view.plan.keeps_subqueries:
        return f"the least predicted {AIMS[choice.goal]}"
    if all(one.visits <= choice.cheap for one in view.candidates):
        return f"no stage costs more than {choice.cheap:g} visits a change"
    if all(one.strategy == DEFAULT.name for one in view.candidates):
        return "no other strategy takes its stages"
    in_place = "" if view.lead is None else f", nor {view.lead:g} times with subqueries left in place"
    return f"no other is predicted to be {choice.better:g} times better than first-order deltas{in_place}"


def _has_subqueries(start: Compilation) -> bool:
    return any(subqueries(scalar) for node in walk_all(start.relation) for scalar in expressions(node))


def _planned(start: Compilation, plan: Plan, sizes: Mapping[str, RelationSize], choice: Choice) -> PlannedView:
    stages = _CheapestStages(sizes, choice)
    program = run_passes(replace(start, requested=AUTO, plan=plan, compile_stage=stages))
    plan = replace(plan, strategies=stages.chosen)
    if not stages.compared:
        return PlannedView(plan, program, 0.0, 0.0)
    return PlannedView(plan, program, stages.estimate.work, stages.estimate.bytes, tuple(stages.candidates))


def predicted_work(program: Program, tables: Mapping[str, Table], statistics: Statistics) -> float:
    """The predicted work of one changed row by a program that is there."""
    return program_estimate(program, tables, statistics).work


def program_estimate(program: Program, tables: Mapping[str, Table], statistics: Statistics) -> ProgramEstimate:
    """The predicted work and bytes of a program that is there."""
    own = {stage.name for stage in program.stages}
    inputs = dict.fromkeys(name for stage in program.stages for name in stage.inputs if name not in own)
    estimate = ProgramEstimate(statistics.sizes(inputs, tables), BATCH)
    for stage in program.stages:
        estimate.add(stage)
    return estimate


class _CheapestStages:
    """Compiles each stage by the strategy that costs least; ``chosen`` are those other than first-order deltas.

    A stage that reads nothing but the change has no rival. An estimate may count the values of columns, so there is
    none until stages are ``compared``. ``candidates`` are all stages that were.
    """

    def __init__(self, sizes: Mapping[str, RelationSize], choice: Choice) -> None:
        self.chosen: dict[str, str] = {}
        self.compared = False
        self.candidates: list[Candidate] = []
        self._estimate = ProgramEstimate(sizes, BATCH)
        self._choice = choice
        self._waiting: list[Stage] = []

    @property
    def estimate(self) -> ProgramEstimate:
        """The estimate of all stages so far."""
        for stage in self._waiting:
            self._estimate.add(stage)
        self._waiting.clear()
        return self._estimate

    def __call__(self, draft: StageDraft, context: StageContext, requested: str) -> Stage:
        """The cheapest stage for ``draft``."""
        stage = self._cheapest(draft, context)
        if stage.strategy != DEFAULT.name:
            self.chosen[stage.name] = stage.strategy
        self._waiting += (*stage.before, stage)
        return stage

    def _cheapest(self, draft: StageDraft, context: StageContext) -> Stage:
        best: Stage | None = None
        score = inf
        if not draft.has_subqueries:
            best = compile_requested(draft, context, AUTO)
            if best.strategy != DEFAULT.name or not any(map(reads_old, steps_of(best))):
                return best
            self.compared = True
            work, held = self._cost(best)
            if work <= self._choice.cheap:
                return best
            score = self._choice.score(work, held) / self._choice.better
        self.compared = True
        for other in _others(draft, context):
            if best is not None and self._choice.forgets and why_kept(other) and not why_kept(best):
                continue
            if self._choice.row_by_row or not any(map(row_wise, (*other.before, other))):
                found = self._choice.score(*self._cost(other))
                best, score = (other, found) if found < score else (best, score)
        if best is None:
            raise NotAccepted("no strategy takes its subqueries")
        return best

    def _cost(self, stage: Stage) -> tuple[float, float]:
        """Work for a changed row, and bytes of the maps of a stage and of what it reads."""
        known, work, held = self.estimate.branch(), 0.0, 0.0
        for before in stage.before:
            estimate = known.add(before)
            work, held = work + known.cost(estimate), held + estimate.bytes
        estimate, _ = estimate_stage(stage, known.known)
        work, held = work + known.cost(estimate), held + estimate.bytes
        self.candidates.append(Candidate(stage.name, stage.strategy, work, held))
        read = dict.fromkeys(name for one in (*stage.before, stage) for name in one.inputs)
        return work, held + sum(bytes_of_rows(known.known[name]) for name in read if name in self.estimate.known)


def _others(draft: StageDraft, context: StageContext) -> Iterator[Stage]:
    """The stage as other strategies compile it, those that accept it."""
    for strategy in STRATEGIES.values():
        if strategy is DEFAULT or strategy.is_compared is None:
            continue
        if draft.has_subqueries and not strategy.takes_subqueries:
            continue
        try:
            stage = compile_requested(draft, context, strategy.name)
        except (NotAccepted, Unsupported):
            continue
        if stage.strategy == strategy.name and strategy.is_compared(Program(context.view, (stage,))):
            yield stage
