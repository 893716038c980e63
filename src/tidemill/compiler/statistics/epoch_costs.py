"""Predicted seconds of an epoch for one view: by its triggers, in each of the ways to run them, or computed again.

Both follow from the sizes of the change and of what is stored. Triggers cost what ``estimate_stage`` counts for a row,
times the rows that arrive, but no window makes a partition twice in an epoch. As DataFrames each trigger is a query
that reads the relations which it looks up as a whole, so that they cost what is stored, and hardly what has changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from tidemill.compiler.statistics.predictions import REPLACED, StageEstimate, estimate_stage
from tidemill.compiler.statistics.sizes import RelationSize
from tidemill.compiler.statistics.work_counts import CONSTANTS
from tidemill.program.reads import queries_of, reads_old, relation_of
from tidemill.program.stages import PartitionEmission, Program, Stage, TimePartitionEmission
from tidemill.program.statements import Trigger

__all__ = [
    "ARRIVAL",
    "DUCKDB",
    "MACHINE_CODE",
    "PYTHON",
    "EpochModel",
    "RefillCosts",
    "SparkCosts",
    "TriggerCosts",
    "on_spark",
]

PARTITIONED = (PartitionEmission, TimePartitionEmission)
"""The kinds of stages whose rows are made partition by partition."""

PARTITION_QUERIES = 8
"""Queries on Spark, each about as long as a trigger, by which the touched time partitions of a stage are found,
computed and compared. A slide of 100,000 rows was six jobs and 6 to 9 s on busy cores, 0.3 to 0.5 s in the driver."""

ARRIVAL = 4.0
"""Visits for a row that a partition takes in."""


@dataclass(frozen=True)
class TriggerCosts:
    """Seconds of one way to run triggers: for a ``visit``, for each ``trigger`` that a change reaches, and for each
    stored row of the relations that it looks up, if these are ``scanned``; ``start`` is for all views of an epoch."""

    visit: float
    trigger: float = 0.0
    scanned: float = 0.0
    start: float = 0.0


@dataclass(frozen=True)
class RefillCosts:
    """Seconds to compute a view again: to ``start``, for each ``stage``, and in it for each ``row`` of its inputs;
    those of a ``window`` are sorted, and as many rows are compared with the stored ones."""

    row: float
    window: float
    stage: float = 0.0
    start: float = 0.0


NO_OTHERS: Mapping[str, TriggerCosts] = MappingProxyType({})

PYTHON, MACHINE_CODE = TriggerCosts(visit=4e-6), TriggerCosts(visit=1e-7)
"""Triggers in this process: a window over 40,000 rows took 0.93 s for 240,000 visits, and TPC-H's Q2 0.2 s for 2
million."""

DUCKDB = RefillCosts(row=0.3e-6, window=0.9e-6, start=0.01)
"""Of 100,000 and 400,000 stored rows, groups and joins took 0.03 to 0.3 microseconds for a row and filters 0.4; windows
took 0.8 to 1.2, and with all that an epoch does 0.7 to 1.1, of 40,000 rows; it took 8 ms at least."""


@dataclass(frozen=True)
class SparkCosts:
    """Seconds of the ways to run an epoch on Spark: the triggers in the driver, in tasks and as DataFrames, and the
    views computed again."""

    driver: TriggerCosts
    tasks: TriggerCosts
    frames: TriggerCosts
    again: RefillCosts


def on_spark(cores: int) -> SparkCosts:
    """The costs of the ways on Spark where so many tasks run at the same time; all but the driver share the work.

    From the CPU time of epochs of 10,000 to 500,000 rows for eight views over TPC-H at scales 0.1 and 1. Those of tasks
    are for triggers that are queries over columns. docs/design/choosing.md has the figures, and how sure they are.
    """
    return SparkCosts(
        driver=TriggerCosts(visit=1.9e-6, start=0.2),
        tasks=TriggerCosts(visit=0.4e-6 / cores, start=0.8),
        frames=TriggerCosts(visit=0.2e-6 / cores, trigger=0.4, scanned=0.8e-6 / cores),
        again=RefillCosts(row=0.5e-6 / cores, window=0.5e-6 / cores, stage=0.4),
    )


class _StageCost(NamedTuple):
    stage: Stage
    estimate: StageEstimate
    rows: float
    read: float
    """The rows of its inputs."""
    looked_up: Mapping[str, float]
    """For each input, the rows of the relations that its trigger looks up."""


class EpochModel:
    """Predicted seconds of changes to a view over inputs of given sizes."""

    def __init__(self, program: Program, sizes: Mapping[str, RelationSize]) -> None:
        self.stored = sum(size.rows for size in sizes.values())
        self._stages: list[_StageCost] = []
        known = dict(sizes)
        for stage in program.stages:
            estimate, rows = estimate_stage(stage, known)
            looked_up = {trigger.relation: _looked_up(trigger, known) for trigger in stage.triggers}
            read = sum(known[name].rows for name in stage.inputs)
            known[stage.name] = rows
            self._stages.append(_StageCost(stage, estimate, max(rows.rows, estimate.entries), read, looked_up))

    def by_triggers(
        self, changed: Mapping[str, float], costs: TriggerCosts, others: Mapping[str, TriggerCosts] = NO_OTHERS
    ) -> float:
        """Predicted seconds of the triggers of all stages for so many changed rows of each input; some stages have
        ``others`` than the common costs. The start of an epoch is left out, since all views share it."""
        arrivals, seconds = dict(changed), 0.0
        for stage, estimate, rows, _, looked_up in self._stages:
            arriving = {name: arrivals[name] for name in estimate.work if arrivals.get(name)}
            emitted = sum(arriving[name] * estimate.emitted[name] for name in arriving)
            emitted = arrivals[stage.name] = min(emitted, REPLACED * max(rows, 1.0))
            if isinstance(stage.finish, PARTITIONED):
                # Each row of a partition is made once, however many others have changed.
                visits = ARRIVAL * sum(arriving.values()) + CONSTANTS.update * emitted / REPLACED
            else:
                visits = sum(arriving[name] * CONSTANTS.cost(estimate.work[name]) for name in arriving)
            own = others.get(stage.name, costs)
            queries = len(arriving)
            if queries and isinstance(stage.finish, TimePartitionEmission):
                queries += PARTITION_QUERIES
            seconds += own.visit * visits + own.trigger * queries
            seconds += own.scanned * sum(looked_up[name] for name in arriving)
        return seconds

    def again(self, stored: float, costs: RefillCosts) -> float:
        """Predicted seconds to compute all stages, where the inputs of the view have so many rows now."""
        grown = stored / self.stored if self.stored else 1.0
        rows = [
            (costs.window if isinstance(one.stage.finish, PARTITIONED) else costs.row) * one.read
            for one in self._stages
        ]
        return costs.start + costs.stage * len(self._stages) + grown * sum(rows)


def _looked_up(trigger: Trigger, known: Mapping[str, RelationSize]) -> float:
    """The rows of the relations that a trigger looks up; the maps of its own stage are small beside them."""
    queries = (query for statement in trigger.statements for query in queries_of(statement))
    read = {relation_of(step) for query in queries for step in query.sources if reads_old(step)}
    return sum(known[name].rows for name in read if name in known)
