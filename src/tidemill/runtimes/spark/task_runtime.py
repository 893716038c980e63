"""Bulk changes on Spark: the triggers of a view in tasks, each on a part of the change and over the files of the store.

A task can look up any key of any relation, since all state is in files, so only sums for the same entry have to meet:
an epoch is one job with one exchange for all stages whose inputs are known, and one more for those that read these.
Which stages can run so is told by ``program.sharding``.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa
from pyspark.sql import SparkSession

from tidemill.changes.changeset import ChangeSet
from tidemill.model.errors import TidemillError
from tidemill.model.schema import Table
from tidemill.model.types import Field
from tidemill.program.constraints import Constraints
from tidemill.program.maps import map_fields
from tidemill.program.reads import reads_old, relation_of, steps_of
from tidemill.program.sharding import has_distinct_shards, needs_whole_change
from tidemill.program.stages import Stage
from tidemill.runtimes.spark.bulk_check import CheckedTables, check_in_tasks
from tidemill.runtimes.spark.dataframe_runtime import DataFrameRuntime
from tidemill.runtimes.spark.execution.arrow_frames import rows_as_arrow
from tidemill.runtimes.spark.execution.remote_files import granted
from tidemill.runtimes.spark.lookup import key_check
from tidemill.runtimes.spark.sessions.session import cores_of
from tidemill.runtimes.spark.tasks.column_sums import why_not_in_columns
from tidemill.runtimes.spark.tasks.run import FAULT, Payload, Result, finish_shard, sum_part
from tidemill.runtimes.spark.tasks.work import Step, Work
from tidemill.storage.store import Store

PART_ROWS = 2_000
"""Row count of changes for which a task is worth starting."""

CHECK_ROWS = 1_000_000
"""Rows of an epoch from which tasks check it: for half of that a job on two cores takes the 0.7 s of the driver. Tables
that are too large for the driver's lookups they check in any case."""

COLUMN_ROWS = 100
"""Rows of a part of a change from which triggers run as queries: one takes as long as some hundred rows in Python, and
a row may join with many."""

_PAYLOADS = pa.schema([("shard", pa.int32()), ("stage", pa.int32()), ("part", pa.int32()), ("content", pa.binary())])

_RESULTS = pa.schema([("stage", pa.int32()), ("name", pa.string()), ("content", pa.binary())])


class TaskRuntime(DataFrameRuntime):
    """Runs stages in Spark tasks; checks, fills and answers are those of DataFrames.

    ``table_of`` tells tables and streams from views: all their changes are known when the first stage emits.
    """

    name = "spark tasks"

    def __init__(
        self,
        store: Store,
        fields_of: Callable[[str], tuple[Field, ...]],
        session: Callable[[], SparkSession],
        table_of: Callable[[str], Table | None],
    ) -> None:
        super().__init__(store, fields_of, session)
        self._table_of = table_of
        self._steps: list[tuple[str, ChangeSet, Stage | None]] = []
        self._fired: dict[str, Stage] = {}
        self._settled: set[str] = set()
        self._emitted: dict[str, ChangeSet] = {}
        self._to_check: dict[str, tuple[Table, ChangeSet]] = {}
        self._checked: CheckedTables | None = None
        self._divided: list[ChangeSet] = []

    def explain(self, stage: Stage) -> str:
        """The form of a stage here: queries of DuckDB, or generated Python, and why."""
        reason = why_not_in_columns(stage)
        form = f"generated Python, since {reason}," if reason else "queries over columns"
        return f"{form} in Spark tasks, over the files of the store"

    # -- an epoch -----------------------------------------------------------------------------------------------

    def expect(
        self,
        changes: Mapping[str, ChangeSet],
        checked: Mapping[str, Table],
        constraints: Constraints,
        stages: Sequence[Stage],
    ) -> None:
        """Note the tables whose changes tasks are to check, in one job for all of them."""
        super().expect(changes, checked, constraints, stages)
        possible = {
            name: (table, changes[name])
            for name, table in checked.items()
            if table.primary_key and len(changes[name]) and key_check.can_look_up(table)
        }
        large = any(self._store.rows(name) > key_check.LOOKUP_ROWS for name in possible)
        if large or sum(len(change) for _, change in possible.values()) >= CHECK_ROWS:
            self._to_check = possible

    def _check(self, table: Table, change: ChangeSet) -> ChangeSet:
        if table.name not in self._to_check:
            return super()._check(table, change)
        if self._checked is None:
            rows = sum(len(change) for _, change in self._to_check.values())
            with self._job("keys of", ", ".join(self._to_check), rows, self._to_check):
                self._checked = check_in_tasks(
                    self._frames.spark, self._store, self._to_check, self._epoch, self._parts(rows)
                )
        found = self._checked.change(table)
        if found is None:
            return super()._check(table, change)
        self._divided.append(found)
        return found

    def fire(self, stage: Stage, relation: str, change: ChangeSet) -> None:
        """Record the change for the trigger of ``stage``; nothing runs yet."""
        assert stage.name not in self._emitted, "a stage runs once all of its inputs are known"
        self._steps.append((relation, change, stage))
        self._fired[stage.name] = stage

    def absorb(self, relation: str, change: ChangeSet) -> None:
        """Add the change to ``relation`` as later triggers of this epoch see it."""
        super().absorb(relation, change)
        self._steps.append((relation, change, None))
        self._settled.add(relation)

    def emit(self, stage: Stage) -> ChangeSet:
        """The net change of the stage's rows: one job for all stages whose inputs are known."""
        if stage.name not in self._emitted:
            self._run([one for one in self._fired.values() if one is stage or self._is_ready(one)])
        self._settled.add(stage.name)
        return self._emitted.pop(stage.name)

    def _is_ready(self, stage: Stage) -> bool:
        """True if no input of a stage can still change in this epoch."""
        return all(name in self._settled or self._table_of(name) is not None for name in stage.inputs)

    def _run(self, stages: Sequence[Stage]) -> None:
        """Run the recorded triggers of stages, and keep the change of each."""
        for stage in stages:
            del self._fired[stage.name]
        work = self._work(stages)
        rows = sum(work.changes[step.change].rows for step in work.steps if step.stage is not None)
        views = ", ".join(dict.fromkeys(stage.name.partition("/")[0] for stage in stages))
        with self._job("changes of", views, rows, work.files):
            results = run_job(self._frames.spark, self._store, work)
        parts: dict[str, list[pa.Table]] = {}
        for result in results:
            if result.stage == FAULT:
                raise _error(result)
            parts.setdefault(result.name, []).append(pa.ipc.open_stream(result.content).read_all())
        for stage in stages:
            self._keep(stage, parts)

    def _keep(self, stage: Stage, parts: dict[str, list[pa.Table]]) -> None:
        """Keep the change of a stage's rows until it is emitted, and those of its maps until the epoch ends."""
        for map_ in stage.maps:
            if map_.name in parts:
                self._changes[map_.name] = _change(parts[map_.name], map_fields(map_))
        rows = _change(parts.get(stage.name, []), stage.output)
        if len(parts.get(stage.name, ())) > 1 and not has_distinct_shards(stage):
            rows = ChangeSet.of(rows.zset().items(), stage.output)
        self._emitted[stage.name] = self._collector.stage(rows, stage.name)

    def _work(self, stages: Sequence[Stage]) -> Work:
        """The work of a job: the recorded steps of these stages, and of the relations that they look up."""
        numbers = {stage.name: number for number, stage in enumerate(stages)}
        read = {relation_of(step) for stage in stages for step in steps_of(stage) if reads_old(step)}
        changes: dict[int, tuple[int, ChangeSet]] = {}
        steps = []
        for relation, change, stage in self._steps:
            if relation in read if stage is None else stage.name in numbers:
                number, _ = changes.setdefault(id(change), (len(changes), change))
                fired = None if stage is None else numbers[stage.name]
                steps.append(Step(relation, number, fired, stage is not None and _needs_whole(stage, relation)))
        names = sorted({*read, *(map_.name for stage in stages for map_ in stage.maps)})
        relations = sorted({*read, *(name for stage in stages for name in stage.inputs)})
        count = self._parts(sum(change.rows for _, change in changes.values()))
        return Work(
            self._epoch,
            tuple(stages),
            tuple((name, self._frames.fields(name)) for name in relations),
            {name: self._store.runs(name) for name in names},
            tuple(_without_unread(steps, stages)),
            tuple(_carried(change) for _, change in changes.values()),
            parts=count,
            shards=count,
            column_rows=COLUMN_ROWS,
            divided=frozenset(number for number, change in changes.values() if change in self._divided),
        )

    def _parts(self, rows: int) -> int:
        return max(1, min(cores_of(self._frames.spark), -(-rows // PART_ROWS)))

    def _forget_epoch(self) -> None:
        super()._forget_epoch()
        self._steps, self._fired, self._settled, self._emitted = [], {}, set(), {}
        self._to_check, self._checked, self._divided = {}, None, []


def run_job(spark: SparkSession, store: Store, work: Work) -> list[Result]:
    """Run the tasks of a job: one for each part, an exchange, and one for each shard."""
    summed = spark.range(0, work.parts, 1, work.parts).mapInArrow(
        granted(partial(_map_side, work), store), "shard INT, stage INT, part INT, content BINARY"
    )
    # By a hash, as before Spark 4.1, two shards may be in one task, and another has none.
    met = (
        summed.repartitionById(work.shards, "shard")
        if hasattr(summed, "repartitionById")
        else summed.repartition(work.shards, "shard")
    )
    finishing = replace(work, steps=(), changes=())
    found = met.mapInArrow(granted(partial(_reduce_side, finishing), store), "stage INT, name STRING, content BINARY")
    return [Result(**row) for row in rows_as_arrow(found).to_pylist()]


def _map_side(work: Work, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for part in batch.column(0).to_pylist():
            for payload in sum_part(work, part):
                yield pa.RecordBatch.from_pylist([payload._asdict()], schema=_PAYLOADS)


def _reduce_side(work: Work, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    payloads = [Payload(**row) for batch in batches for row in batch.to_pylist()]
    for result in finish_shard(work, payloads) if payloads else ():
        yield pa.RecordBatch.from_pylist([result._asdict()], schema=_RESULTS)


def _without_unread(steps: Sequence[Step], stages: Sequence[Stage]) -> Iterator[Step]:
    """The steps of a job but for changes that no later trigger looks up: a task would read them for nothing."""
    read = [{relation_of(step) for step in steps_of(stage) if reads_old(step)} for stage in stages]
    for place, step in enumerate(steps, start=1):
        later = {other.stage for other in steps[place:] if other.stage is not None}
        if step.stage is not None or any(step.relation in read[number] for number in later):
            yield step


def _needs_whole(stage: Stage, relation: str) -> bool:
    return any(needs_whole_change(trigger) for trigger in stage.triggers if trigger.relation == relation)


def _carried(change: ChangeSet) -> ChangeSet:
    """A change as tasks get it: by its files, if it has any, or its columns."""
    if change.files is not None:
        return ChangeSet.of_files(change.files, change.fields, change.rows)
    return ChangeSet.of_arrow(change.arrow().combine_chunks(), change.fields)


def _change(parts: Sequence[pa.Table], fields: Sequence[Field]) -> ChangeSet:
    return ChangeSet.of_arrow(pa.concat_tables(parts), fields) if parts else ChangeSet.of([], fields)


def _error(result: Result) -> TidemillError:
    error = pickle.loads(result.content)
    assert isinstance(error, TidemillError)
    return error
