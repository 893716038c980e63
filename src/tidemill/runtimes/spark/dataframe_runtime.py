"""The Spark runtime: programs as DataFrames, one job for each stage of an epoch.

``fire`` only records what to add, as SQL over temporary views; ``emit`` runs it. The state that a query reads is fixed
when it is recorded, because the views of an epoch never change: a state that absorbs a change becomes another query.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tidemill.changes.arrow import arrow_schema
from tidemill.changes.changeset import ChangeSet
from tidemill.model.schema import Table, names_of
from tidemill.model.types import DOUBLE, Field
from tidemill.program.constraints import Constraints
from tidemill.program.maps import Map, map_fields
from tidemill.program.reads import looked_up, read_maps
from tidemill.program.sharding import why_not_sharded
from tidemill.program.stages import (
    GroupEmission,
    PartitionEmission,
    Program,
    SessionEmission,
    Stage,
    TimePartitionEmission,
)
from tidemill.program.statements import Add, Query, RelationLoop, Replace, Trigger, Version
from tidemill.runtimes.spark.execution.ad_hoc_queries import AdHocQueries
from tidemill.runtimes.spark.execution.arrow_frames import frame_of_arrow
from tidemill.runtimes.spark.execution.base_reads import READS, BaseReads
from tidemill.runtimes.spark.execution.errors import translate_errors
from tidemill.runtimes.spark.execution.job_settings import is_small, plan_for
from tidemill.runtimes.spark.execution.results import COLLECT_ROWS, ResultCollector
from tidemill.runtimes.spark.execution.temporary_views import TemporaryViews
from tidemill.runtimes.spark.execution.time_partitions import (
    PartitionedMap,
    SparkTimePartitions,
    lower_partition_rows,
    partition_ranges,
    touched_partitions,
)
from tidemill.runtimes.spark.lookup import constraint_check, key_check
from tidemill.runtimes.spark.lookup.touched_rows import TouchedRows
from tidemill.runtimes.spark.lowering import stages
from tidemill.runtimes.spark.lowering.change_split import lower_split
from tidemill.runtimes.spark.lowering.multiset_aggregates import MultisetChange
from tidemill.runtimes.spark.lowering.partitions import lower_partitions, max_changed_rows
from tidemill.runtimes.spark.lowering.python_udfs import PythonUdfs
from tidemill.runtimes.spark.lowering.queries import BindSource, SourceSize, fields_read, lower_add
from tidemill.runtimes.spark.lowering.sessions import lower_session_change
from tidemill.runtimes.spark.lowering.stages import StageOutput
from tidemill.runtimes.spark.sessions.job_counters import Counters, Meter, described
from tidemill.runtimes.spark.state_in_store import StateInStore
from tidemill.runtimes.time_partitions import recompute_partitions
from tidemill.storage.compaction.consolidate import difference
from tidemill.storage.store import Store

REFILL_GROWTH = 4
"""Largest expected factor of the groups of a stage that is computed again over those stored."""


class DataFrameRuntime(StateInStore):
    """Runs stages on Spark; implements ``runtimes.runtime.Runtime``.

    State lives in the store's files alone. Within an epoch it is those files and the changes absorbed so far, so
    ``rollback`` only drops what was recorded.
    """

    name = "spark dataframes"
    loads_to_store = True
    refills = True
    batches_lookups = True

    def __init__(
        self, store: Store, fields_of: Callable[[str], tuple[Field, ...]], session: Callable[[], SparkSession]
    ) -> None:
        self._store = store
        self._maps: dict[str, Map] = {}
        self._frames = TemporaryViews(store, self._fields_of(fields_of), session)
        self._touched = TouchedRows(self._frames, store.rows)
        self._workers = PythonUdfs(session)
        self._answers = AdHocQueries(self._frames, self._store, self._workers)
        self._epoch = 0
        self._meter: Meter | None = None
        self._single_task = False
        self._added: dict[str, list[str]] = defaultdict(list)
        self._rows: dict[str, int] = defaultdict(int)
        self._replacing: dict[str, dict[str, Replace]] = defaultdict(dict)
        self._changes: dict[str, ChangeSet] = {}
        self._reads = BaseReads()

    def _fields_of(self, outer: Callable[[str], tuple[Field, ...]]) -> Callable[[str], tuple[Field, ...]]:
        return lambda name: map_fields(self._maps[name]) if name in self._maps else outer(name)

    # -- stages -------------------------------------------------------------------------------------------------

    def install(self, stage: Stage) -> None:
        """Register the maps of ``stage``; their state is in the store."""
        self._maps |= {map_.name: map_ for map_ in stage.maps}

    def remove(self, stage: Stage) -> None:
        """Release ``stage``."""
        for map_ in stage.maps:
            self._maps.pop(map_.name, None)

    def miss_epoch(self) -> None:
        """Reset the cost of the last epoch; no state is kept in memory."""
        self._meter = None

    def explain(self, stage: Stage) -> str:
        """The form of every stage here, and why it does not run in tasks if it cannot."""
        reason = why_not_sharded(stage)
        return f"DataFrames; not in tasks, since {reason}" if reason else "DataFrames"

    def sizes(self, stage: Stage) -> dict[str, tuple[int, int | None]]:
        """The stored rows of each map."""
        return {map_.name: (self._store.rows(map_.name), None) for map_ in stage.maps}

    # -- an epoch -----------------------------------------------------------------------------------------------

    def begin(self, epoch: int) -> None:
        """Start epoch ``epoch``."""
        self._forget_epoch()
        self._epoch = epoch
        self._meter = None

    def expect(
        self,
        changes: Mapping[str, ChangeSet],
        checked: Mapping[str, Table],
        constraints: Constraints,
        stages: Sequence[Stage],
    ) -> None:
        """Note the size of the epoch; queries are planned once all that they add is known."""
        self._touched.expect(sum(map(len, changes.values())))

    def check(self, table: Table, change: ChangeSet) -> ChangeSet:
        """Refuse an invalid change. No job if nothing can be wrong, or if this process can check it."""
        if not len(change):
            return change
        possible = change if key_check.needs_no_check(table, change) else self._check(table, change)
        return self._collector.stage(possible, table.name)

    def _check(self, table: Table, change: ChangeSet) -> ChangeSet:
        stored = self._store.runs(table.name)
        if self._store.rows(table.name) <= key_check.LOOKUP_ROWS and key_check.can_look_up(table):
            if key_check.only_new_keys(table, change, stored):
                return change
            checked = key_check.check_by_lookup(table, change, stored)
            if checked is not None:
                return checked
        with self._job("keys of", table.name, len(change), [table.name]):
            if len(change) > COLLECT_ROWS:
                staged = self._collector.stage(change, table.name)
                return key_check.check_in_spark(table, staged, self._frames, self._collector)
            held = key_check.lower_rows_under_keys(table, change, self._frames)
            return key_check.check_in_driver(
                table, change, self._collector.collect_change(held, table.name, table.fields, 0).zset()
            )

    def check_constraints(self, changes: Mapping[str, ChangeSet], constraints: Constraints) -> None:
        """Refuse an epoch that would violate a constraint: one query for all of them."""
        touched = [name for name in changes if constraints.touch([name])]
        near = [table.name for key in constraints.keys_of(changes) for table in (key.child, key.parent)]
        near += [unique.table.name for unique in constraints.uniques_of(changes)]
        with self._job("constraints of", ", ".join(touched), sum(map(len, changes.values())), near):
            queries = constraint_check.violation_queries(changes, constraints, self._frames)
            constraint_check.raise_first_violation(queries, self._frames)

    def fire(self, stage: Stage, relation: str, change: ChangeSet) -> None:
        """Record what the trigger of ``stage`` for ``relation`` adds; nothing runs yet."""
        self._rows[stage.name] += len(change)
        with self._job("changes of", stage.name, len(change)):
            for statement in _trigger(stage, relation).statements:
                if isinstance(statement, Replace):
                    self._replacing[stage.name][statement.target] = statement
                    self._rows[stage.name] += sum(map(self._store.rows, stage.inputs))
                elif not self._joins_nothing(statement.query):
                    target = self._target(stage, statement.target)
                    bind = self._binding(statement.query, change)
                    size = self._size(change)
                    small = self._is_small(statement.query, size)
                    self._add(stage, target.name, lower_add(statement, target, bind, size, single_task=small))
                    for counted in self._reads.counting(stage, statement.query):
                        bind = self._binding(counted, change)
                        self._reads.queries[stage.name].append(lower_add(Add(READS.name, counted), READS, bind, size))

    def _add(self, stage: Stage, target: str, rows: str) -> None:
        self._added[target].append(rows)
        # Later triggers of this epoch read such a map with what this one adds.
        if target in read_maps(stage):
            self._frames.absorb(target, f"({rows})")

    def absorb(self, relation: str, change: ChangeSet) -> None:
        """Add the change to ``relation`` as later triggers of this epoch see it."""
        self._frames.absorb(relation, change)

    def recompute_pending(self, stage: Stage) -> None:
        """Do nothing: no state is kept in memory."""

    def emit(self, stage: Stage) -> ChangeSet:
        """The net change of the stage's rows: one job, and one for each map besides that of its groups."""
        rows = self._rows[stage.name]
        read = {*stage.inputs, *(map_.name for map_ in stage.maps), stage.name}
        with self._job("changes of", stage.name, rows, read):
            self._touched.settle()
            for target, statement in self._replacing[stage.name].items():
                self._added[target] += self._difference(stage, statement)
            if counting := self._reads.queries.pop(stage.name, ()):
                sql = stages.lower_linear(counting, READS.keys)
                self._reads.note(stage.name, self._collector.collect_change(sql, READS.name, READS.keys, 0))
            return self._collect(stage, rows, stored=True)

    def base_reads(self, stage: str) -> Mapping[str, int]:
        """The number of rows of each relation that were read to maintain a stage with lineage, since first asked."""
        return self._reads.of(stage)

    def load(self, stage: Stage) -> ChangeSet:
        """Fill an empty ``stage`` from the whole contents of its inputs."""
        return self._fill(stage)

    def _fill(self, stage: Stage, expected: int | None = None) -> ChangeSet:
        """The rows of a stage from the whole contents of its inputs, of which some ``expected`` groups are made, if
        that is known: then it need not be seen how many there are before they are collected."""
        rows = sum(map(self._frames.rows, stage.inputs))
        with self._job("filling", stage.name, rows):
            for add in stage.load:
                if not self._joins_nothing(add.query):
                    self._added[add.target].append(self._whole(stage, add))
            return self._collect(stage, rows, stored=False, expected=expected)

    def refill(self, stage: Stage) -> ChangeSet:
        """Fill ``stage`` again from the new contents of its inputs, whatever it has stored; returns the change of its
        rows. Its maps are to replace those that are stored. Within an epoch."""
        groups = self._store.rows(stage.finish.source) if isinstance(stage.finish, GroupEmission) else 0
        new = self._fill(stage, REFILL_GROWTH * groups or None)
        stored = self._store.rows(stage.name)
        if not stored:
            return new
        rows = Map(stage.name, stage.output)
        if new.files is None and stored <= COLLECT_ROWS:
            changed = difference(self._store.read(stage.name, stage.output), new.arrow(), rows)
            return self._collector.stage(ChangeSet.of_arrow(changed, stage.output), stage.name)
        with self._job("difference of", stage.name, len(new), [stage.name]):
            sql = stages.lower_difference(rows, self._frames.change(new), self._frames.state(stage.name))
            return self._collector.collect_bounded(sql, stage.name, stage.output, len(new) + stored)

    def commit(self) -> Mapping[str, ChangeSet]:
        """End the epoch; returns the changes of its maps."""
        changes = {name: change for name, change in self._changes.items() if len(change)}
        self._forget_epoch()
        return changes

    def check_weights(self) -> None:
        """Do nothing: weights are Spark's BIGINT, whose overflow it detects itself."""

    def rollback(self) -> None:
        """Undo the epoch."""
        self._forget_epoch()
        self._epoch = 0

    # -- answers ------------------------------------------------------------------------------------------------

    def answer(self, program: Program) -> ChangeSet:
        """The rows of a query over the current contents, summed."""
        with self._job("query", program.view, self._answers.size(program)):
            return self._answers.answer(program)

    def contents(self, relation: str) -> ChangeSet:
        """The stored rows of a relation, read by this process without a job."""
        fields = self._frames.fields(relation)
        return ChangeSet.of_arrow(self._store.read(relation, fields).select(arrow_schema(fields).names), fields)

    def produce(self, stage: Stage) -> ChangeSet:
        """The rows of a stage that does not store them, from the maps that it keeps."""
        assert stage.reader is not None
        with self._job("rows of", stage.name, sum(self._store.rows(map_.name) for map_ in stage.maps)):
            return self._answers.answer(Program(stage.name, (stage.reader,)))

    def recompute(self, query: str, definitions: Mapping[str, str | ChangeSet | None]) -> ChangeSet:
        """Spark's own answer to a query text. ``definitions`` has what it reads, lowest first: a view's query, the rows
        of a relation, or None for one whose rows are taken as stored."""
        with self._job("recomputing from", ", ".join(definitions), sum(map(self._store.rows, definitions)), ours=False):
            return self._answers.recompute(query, definitions)

    def frame(self, name: str) -> DataFrame:
        """The current rows of a relation, each as often as its weight."""
        with translate_errors(name):
            return self._answers.frame(name)

    def frame_of(self, table: pa.Table, fields: Sequence[Field]) -> DataFrame:
        """An Arrow table as a DataFrame of our session."""
        return frame_of_arrow(self._frames.spark, table.select(list(names_of(fields))), fields)

    @property
    def counters(self) -> Counters:
        """The cost of the last epoch, or of the current one so far."""
        return self._meter.read() if self._meter is not None else Counters()

    # -- inside -------------------------------------------------------------------------------------------------

    @contextmanager
    def _job(
        self, purpose: str, where: str, rows: int, read: Iterable[str] = (), *, ours: bool = True
    ) -> Iterator[None]:
        """Plan for so many rows of changes and the stored rows of the relations and maps that are ``read``; count and
        describe the jobs of this block, and make its errors name ``where``.

        A query that is not ``ours`` is planned with Spark's own settings.
        """
        spark = self._frames.spark
        self._single_task = plan_for(spark, rows, sum(map(self._frames.rows, read)), ours=ours)
        if self._meter is None:
            self._meter = Meter(spark)
        description = f"tidemill epoch {max(self._epoch, self._store.epoch)}: {purpose} {where}"
        with translate_errors(where), self._meter.counting(), described(spark, description):
            yield

    @property
    def _collector(self) -> ResultCollector:
        return ResultCollector(self._frames.spark, self._store, self._epoch)

    def _target(self, stage: Stage, name: str) -> Map:
        return Map(name, stage.output) if name == stage.name else self._maps[name]

    def _binding(self, query: Query, change: ChangeSet) -> BindSource:
        def bind(source: RelationLoop) -> str:
            if source.version is not Version.CHANGE:
                return self._bind_state(source)
            rows = self._frames.change(change)
            return rows if source.split is None else lower_split(rows, source, source.split)

        def bind_touched(source: RelationLoop) -> str:
            stored = self._touched.pick(query, source, bind)
            return bind(source) if stored is None else self._frames.state(source.relation, fields_read(source), stored)

        return bind_touched

    def _joins_nothing(self, query: Query) -> bool:
        """True if a query has no rows because a relation that it joins has none: then it needs no job."""
        loops = (step for step in query.sources if isinstance(step, RelationLoop))
        return any(loop.version is Version.STATE and self._frames.is_empty(loop.relation) for loop in loops)

    def _is_small(self, query: Query, size: SourceSize) -> bool:
        return is_small(sum(size(step) for step in query.sources if isinstance(step, RelationLoop)))

    def _size(self, change: ChangeSet) -> SourceSize:
        return lambda source: len(change) if source.version is Version.CHANGE else self._frames.rows(source.relation)

    def _bind_state(self, source: RelationLoop) -> str:
        return self._frames.state(source.relation, fields_read(source))

    def _whole(self, stage: Stage, add: Add) -> str:
        """Query of the rows that a statement adds which reads the contents of relations alone."""
        return lower_add(add, self._target(stage, add.target), self._bind_state, single_task=self._single_task)

    def _difference(self, stage: Stage, statement: Replace) -> list[str]:
        """The new contents of a target, from the state after the epoch, minus the old ones."""
        target = self._target(stage, statement.target)
        adds = (Add(statement.target, query) for query in statement.queries if not self._joins_nothing(query))
        after = [self._whole(stage, add) for add in adds]
        if self._frames.is_empty(statement.target):
            return after
        return [*after, stages.lower_negated(target, self._frames.state(statement.target))]

    def _additions(self, map_: Map, rows: int) -> list[str]:
        """The rows that the epoch adds to a map."""
        additions = self._added.pop(map_.name, [])
        summed_whole = rows <= COLLECT_ROWS or all(value.type != DOUBLE for value in map_.values)
        return additions if summed_whole or not additions else stages.lower_chunks(additions, map_)

    def _collect(self, stage: Stage, rows: int, *, stored: bool, expected: int | None = None) -> ChangeSet:
        """The rows of a stage from what was added to its maps; if not ``stored``, these were empty until now."""
        self._collect_maps(stage, rows)
        stage = self._with_sessions(stage, stored=stored)
        match stage.finish:
            case None:
                return self._collect_linear(stage, rows)
            case PartitionEmission() as parts:
                return self._collect_partitions(stage, parts, stored=stored)
            case TimePartitionEmission() as emission:
                return self._collect_time_partitions(stage, emission, stored=stored)
        return self._collect_groups(stage, rows) if stored else self._collect_first_groups(stage, rows, expected)

    def _collect_linear(self, stage: Stage, rows: int) -> ChangeSet:
        additions = self._added.pop(stage.name, [])
        if not additions:
            return ChangeSet.of([], stage.output)
        sql = stages.lower_linear(additions, stage.output)
        return self._collector.collect_change(sql, stage.name, stage.output, rows)

    def _shown(self, stage: Stage, *, stored: bool) -> StageOutput:
        """Query of the rows of a stage from its groups; if not ``stored``, its maps were empty until now."""
        finish = stage.finish
        assert isinstance(finish, GroupEmission)
        multisets = tuple(
            self._multiset(name, stored) for name in dict.fromkeys(read.map for read in finish.multiset_reads)
        )
        return StageOutput(self._maps[finish.source], finish, stage.output, multisets, self._workers, self._single_task)

    def _multiset(self, name: str, stored: bool) -> MultisetChange:
        """A map whose change has been collected."""
        change = self._changes.get(name, ChangeSet.of([], map_fields(self._maps[name])))
        log = self._frames.log(name) if stored else None
        return MultisetChange(self._maps[name], self._frames.change(change), log, self._single_task)

    def _with_sessions(self, stage: Stage, *, stored: bool) -> Stage:
        """``stage`` as one whose rows come from the groups that its sessions are, which take in what has changed."""
        sessions = stage.finish
        if not isinstance(sessions, SessionEmission):
            return stage
        if sessions.source in self._changes:
            instants, kept = self._multiset(sessions.source, stored), self._maps[sessions.kept]
            self._added[sessions.kept] += lower_session_change(sessions, instants, kept)
        return replace(stage, finish=sessions.groups)

    def _collect_partitions(self, stage: Stage, parts: PartitionEmission, *, stored: bool) -> ChangeSet:
        if parts.source not in self._changes:
            return ChangeSet.of([], stage.output)
        sql = lower_partitions(parts, stage.output, self._multiset(parts.source, stored), self._workers)
        held = self._store.rows(parts.source) if stored else 0
        most = max_changed_rows(parts, len(self._changes[parts.source]), held)
        return self._collector.collect_bounded(sql, stage.name, stage.output, most)

    def _collect_time_partitions(self, stage: Stage, emission: TimePartitionEmission, *, stored: bool) -> ChangeSet:
        """Recompute partitions, one job each, or one for several that do not read each other, and one for the rows."""
        held = {map_.name: self._held(map_, stored) for map_ in stage.maps}
        kept = held[emission.kept]
        most = sum(self._store.rows(name) for name in held) + sum(map(len, self._changes.values()))
        made: list[ChangeSet] = []

        def land(sql: str) -> tuple[str, int]:
            made.append(self._collector.collect_bounded(sql, kept.map.name, kept.map.keys, most))
            return self._frames.change(made[-1]) if len(made[-1]) else "", len(made[-1])

        numbers = held[emission.numbers].map
        log = self._store.read(numbers.name, numbers.keys) if stored else None
        before, now = partition_ranges(numbers, log, self._changes.get(numbers.name))
        touched = touched_partitions(emission, self._changes)
        partitions = SparkTimePartitions(emission, held, now, self._answers, land)
        recompute_partitions(emission, before, now, touched, partitions.make)
        if not kept.changes:
            return ChangeSet.of([], stage.output)
        # Each partition is recomputed once, so no row is in two of these changes.
        sql = stages.lower_linear([f"SELECT * FROM {replace(kept, log=None).rows()}"], kept.map.keys)
        self._changes[kept.map.name] = moved = self._collector.collect_together(
            made, sql, kept.map.name, kept.map.keys, most
        )
        sql = lower_partition_rows(emission, self._frames.change(moved), stage.output)
        return self._collector.collect_bounded(sql, stage.name, stage.output, most)

    def _held(self, map_: Map, stored: bool) -> PartitionedMap:
        """A map whose change has been collected."""
        changes = [self._frames.change(self._changes[map_.name])] if map_.name in self._changes else []
        return PartitionedMap(map_, self._frames.log(map_.name) if stored else None, changes)

    def _collect_groups(self, stage: Stage, rows: int) -> ChangeSet:
        shown = self._shown(stage, stored=True)
        additions = self._additions(shown.map, rows)
        touched = sum(len(self._changes.get(multiset.map.name, ())) for multiset in shown.multisets)
        if not additions and not touched:
            return ChangeSet.of([], stage.output)
        if rows > COLLECT_ROWS:
            # Summed separately, because what follows reads it twice, and many rows often fall into few groups.
            held, moved = self._touched.hold(stages.lower_stored_map_change(additions, shown.map))
            additions, rows = [f"SELECT * FROM {held}"], moved + touched
        sql = stages.lower_output_change(additions, shown, self._frames.log(shown.map.name), self._epoch)
        return self._collect_map_and_rows(stage, shown, sql, rows)

    def _collect_first_groups(self, stage: Stage, rows: int, expected: int | None) -> ChangeSet:
        shown = self._shown(stage, stored=False)
        additions = self._additions(shown.map, rows)
        if not (additions or shown.finish.always or any(of.map.name in self._changes for of in shown.multisets)):
            return ChangeSet.of([], stage.output)
        most = rows if expected is None else min(rows, expected)
        return self._collect_map_and_rows(stage, shown, stages.lower_first_output(additions, shown), most)

    def _collect_map_and_rows(self, stage: Stage, shown: StageOutput, sql: str, rows: int) -> ChangeSet:
        moved, change = self._collector.collect_map_and_rows(
            sql, shown.map, shown.finish, stage.name, stage.output, rows
        )
        self._changes[shown.map.name] = moved
        return change

    def _collect_maps(self, stage: Stage, rows: int) -> None:
        """Collect the maps of a stage, each with a job of its own; the map of groups is collected with the output
        rows."""
        source = stage.finish.source if isinstance(stage.finish, GroupEmission) else None
        read = looked_up(stage)
        for map_ in stage.maps:
            if map_.name != source and (additions := self._additions(map_, rows)):
                order, sql = map_.keys if map_.name in read else (), stages.lower_stored_map_change(additions, map_)
                landed = self._collector.collect_change(sql, map_.name, map_fields(map_), rows, order)
                # The query for the stage's rows reads it again.
                self._changes[map_.name] = self._collector.stage(landed, map_.name)

    def _forget_epoch(self) -> None:
        self._touched.forget()
        self._frames.forget_epoch()
        self._added.clear()
        self._rows.clear()
        self._replacing.clear()
        self._reads.queries.clear()
        self._changes = {}


def _trigger(stage: Stage, relation: str) -> Trigger:
    return next(trigger for trigger in stage.triggers if trigger.relation == relation)
