"""The two sides of a job of tasks.

On the *map side* a task runs the triggers on its part of the changes, and hands on their sums, by shard. On the *reduce
side* a task adds the sums of its shard to the stored entries, and computes the rows that change.
"""

from __future__ import annotations

import decimal
import pickle
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.algebra.values.decimals import EXACT
from tidemill.changes.arrow import arrow_schema, to_stream
from tidemill.changes.changeset import ChangeSet
from tidemill.model.errors import TidemillError
from tidemill.program.reads import read_maps
from tidemill.program.stages import Stage
from tidemill.runtimes.garbage_collection import garbage_collection_paused
from tidemill.runtimes.native.planned_lookups import make_lookups
from tidemill.runtimes.spark.lookup.prefetch import prefetch
from tidemill.runtimes.spark.tasks.column_sums import ColumnSums, column_sums
from tidemill.runtimes.spark.tasks.partial_sums import TargetSums, add_sums, divide, pack, unpack
from tidemill.runtimes.spark.tasks.work import Step, TaskStages, Work
from tidemill.storage.runs import rows_between

FAULT = -1
"""The stage of a payload or result that is the error of a task."""


class Payload(NamedTuple):
    """A row of the exchange: the sums of one part for a stage and a shard, or an error."""

    shard: int
    stage: int
    part: int
    content: bytes


class Result(NamedTuple):
    """A row that the reduce side returns: the change of a map or of a stage's rows, as an Arrow stream, or an error.

    For an error, ``stage`` is ``FAULT``.
    """

    stage: int
    name: str
    content: bytes


def sum_part(work: Work, part: int) -> list[Payload]:
    """The sums of one part of the changes."""
    try:
        with garbage_collection_paused(), decimal.localcontext(EXACT):
            return list(_sum_part(work, part))
    except TidemillError as error:
        return [Payload(0, FAULT, part, pickle.dumps(error))]


def _sum_part(work: Work, part: int) -> Iterator[Payload]:
    stages = TaskStages(work)
    sums: dict[int, TargetSums] = {}
    with column_sums(stages.files, stages.used_fields) as columns:
        for _, steps in groupby(work.steps, lambda step: (step.relation, step.change, step.stage is None)):
            _take_steps(work, part, stages, columns, list(steps), sums)
    for number, added in sums.items():
        for shard, some in divide(added, work.stages[number], work.shards, number):
            yield Payload(shard, number, part, pack(some))


def _take_steps(
    work: Work, part: int, stages: TaskStages, columns: ColumnSums, steps: Sequence[Step], sums: dict[int, TargetSums]
) -> None:
    """Take the steps for one change of a relation: all of its triggers, or that it is absorbed."""
    relation, change = steps[0].relation, work.change(steps[0].change)
    if steps[0].stage is None:
        stages.state.absorb(relation, change)
        columns.lookups.absorb(relation, change.arrow())
        return
    for number in [step.stage for step in steps if step.whole and step.stage is not None]:
        if part == number % work.parts:
            found = stages.executor.trigger_sums(stages.firing(number), relation, change)
            add_sums(sums.setdefault(number, {}), found)
    numbers = [step.stage for step in steps if not step.whole and step.stage is not None]
    mine = _slice(change, work, part, steps[0].change) if numbers else change
    if numbers and mine.rows:
        _take_part(work, stages, columns, relation, mine, {number: sums.setdefault(number, {}) for number in numbers})
    later = {step.stage for step in work.steps[work.steps.index(steps[-1]) + 1 :]}
    for step in steps:
        if step.stage in later and step.stage is not None and read_maps(work.stages[step.stage]):
            columns.add_to_read_maps(work.stages[step.stage], relation, change)
            stages.add_later(step.stage, relation, change)


def _take_part(
    work: Work, stages: TaskStages, columns: ColumnSums, relation: str, mine: ChangeSet, sums: dict[int, TargetSums]
) -> None:
    """Run the triggers of stages, by their numbers, on a part of a change."""
    signed = columns.with_signs(mine) if mine.rows >= work.column_rows else None
    left = {number: columns.add(work.stages[number], relation, signed, added) for number, added in sums.items()}
    planned = [
        (number, routine)
        for number, targets in left.items()
        if targets
        for routine in stages.executor.planned_sums(stages.firing(number), relation, mine, targets)
    ]
    # Lookups scan files, so those of all stages are made together.
    make_lookups([routine for _, routine in planned], prefetch)
    for number, routine in planned:
        routine.run(sums[number].setdefault(routine.target, {}))


def _slice(change: ChangeSet, work: Work, part: int, number: int) -> ChangeSet:
    """The rows of a part of a change: a range of its first column, whose partners are in few row groups as a rule."""
    first, last = (change.rows * place // work.parts for place in (part, part + 1))
    if number in work.divided and change.files is not None:
        schema = arrow_schema(change.fields)
        found = pa.concat_tables([schema.empty_table(), *rows_between(change.files, schema, first, last)])
        return ChangeSet.of_arrow(found, change.fields)
    table = change.arrow()
    if work.parts > 1 and pa.types.is_integer(table.schema.types[0]):
        order = np.argsort(pc.fill_null(table.column(0), 0).to_numpy(), kind="stable")
        return ChangeSet.of_arrow(table.take(order[first:last]), change.fields)
    return ChangeSet.of_arrow(table.slice(first, last - first), change.fields)


def finish_shard(work: Work, payloads: Sequence[Payload]) -> list[Result]:
    """The changes of one shard: those of the maps of each stage, and those of its rows."""
    faults = [payload for payload in payloads if payload.stage == FAULT]
    if faults:
        return [Result(FAULT, "", min(faults, key=lambda payload: payload.part).content)]
    try:
        with garbage_collection_paused(), decimal.localcontext(EXACT):
            return list(_finish_shard(work, payloads))
    except TidemillError as error:
        return [Result(FAULT, "", pickle.dumps(error))]


def _finish_shard(work: Work, payloads: Sequence[Payload]) -> Iterator[Result]:
    stages = TaskStages(work)
    for number in sorted({payload.stage for payload in payloads}):
        # In the order of parts: then a task that runs again gives the same bytes.
        mine = sorted((p for p in payloads if p.stage == number), key=lambda payload: payload.part)
        yield from _finish_stage(stages, number, work.stages[number], mine)
    stages.state.check_weights()


def _finish_stage(stages: TaskStages, number: int, stage: Stage, payloads: Sequence[Payload]) -> Iterator[Result]:
    sums: TargetSums = {}
    for payload in payloads:
        add_sums(sums, unpack(payload.content, stage))
    compiled = stages.compiled(number)
    stages.executor.add_sums(compiled, sums)
    changes = [(stage.name, stages.executor.emit(compiled)), *stages.state.changes(stage)]
    for name, change in changes:
        if change.rows:
            yield Result(number, name, to_stream(change.arrow()))
