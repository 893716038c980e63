"""Placement of views on runtimes. All runtimes read the same store, so a view may move between them at any epoch.

Only this module knows the concrete runtimes and their user-visible names (``RUNTIMES``); all others use the protocol
``Runtime``.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from logging import INFO
from typing import TYPE_CHECKING

import pyarrow as pa

from tidemill.algebra.node import Relation
from tidemill.changes.changeset import ChangeSet
from tidemill.compiler import choose
from tidemill.compiler.statistics.epoch_costs import SparkCosts, TriggerCosts, on_spark
from tidemill.engine.catalog.views.view import ANY_RUNTIME, RuntimeNeeds
from tidemill.engine.telemetry.events import WAREHOUSE, tell
from tidemill.model.errors import SetupError, TidemillError
from tidemill.model.schema import Table
from tidemill.model.types import Field
from tidemill.program.expiry.entries import ExpiredEntries
from tidemill.program.maps import Map
from tidemill.program.stages import Stage
from tidemill.runtimes.native.runtime import NativeRuntime
from tidemill.runtimes.runtime import (
    FieldsOf,
    FilledStage,
    NotAnswered,
    ReadTable,
    RowLookup,
    Runtime,
    TemporaryRuntime,
)
from tidemill.storage.compaction.consolidate import difference
from tidemill.storage.store import AsOf, ReadableStore, Store

if TYPE_CHECKING:
    from tidemill.runtimes.duckdb.answer import MemoryLimit
    from tidemill.runtimes.spark.dataframe_runtime import DataFrameRuntime
    from tidemill.runtimes.spark.driver_runtime import DriverRuntime
    from tidemill.runtimes.spark.execution.spark_types import DataFrame, SparkSession
    from tidemill.runtimes.spark.sessions.job_counters import Counters
    from tidemill.runtimes.spark.task_runtime import TaskRuntime

DRIVER_WORK = choose.LOOKUP_WORK
"""Number of rows up to which, on Spark, work is done by the driver, over rows that Spark looks up for it."""

LEAST_TASK_WORK, MOST_TASK_WORK = choose.LEAST_TASK_WORK, choose.MOST_TASK_WORK
"""Number of rows above which, and up to which, on Spark, changes of views that can be sharded are the work of tasks."""

AUTO, NATIVE, SPARK = RUNTIMES = ("auto", "native", "spark")
"""The values of the option ``runtime``."""


class Placement:
    """The runtimes of a warehouse, each started on first use. ``rows`` is the number of stored rows of its tables."""

    def __init__(
        self, store: Store, wanted: str, session: SparkSession | None, in_memory: bool, backend: str | None = None
    ) -> None:
        self._store = store
        self._wanted = check_runtime_name(wanted)
        self.backend = backend
        self._given = session
        self.in_memory = in_memory
        self._native: NativeRuntime | None = None
        self._dataframes: DataFrameRuntime | None = None
        self._driver: DriverRuntime | None = None
        self._tasks: TaskRuntime | None = None
        self._spark_reason = ""
        self.before_spark: Callable[[str], None] = lambda reason: None
        """Called with the reason before runtime ``auto`` starts a Spark session."""
        self.rows = 0
        self.fields_of: Callable[[str], tuple[Field, ...]] = lambda name: ()
        self.table_of: Callable[[str], Table | None] = lambda name: None
        self.room: Callable[[], int | None] = lambda: None

    def work_class(self, work: int) -> tuple[bool, ...]:
        """Everything that the choice of a runtime depends on beside the needs of a view, for this many rows of work."""
        large = self.rows > choose.NATIVE_ROWS
        # Changes of up to so many rows stay where they are under any budget.
        beyond_native = work > choose.LOOKUP_WORK and work > choose.most_native_work(self.room())
        return large, beyond_native, work > DRIVER_WORK, LEAST_TASK_WORK < work <= MOST_TASK_WORK

    def choose(self, work: int, needs: RuntimeNeeds = ANY_RUNTIME) -> tuple[str, str]:
        """The name of the runtime for this many rows of work and a view with these needs, and the reason."""
        wanted = self._option(needs)
        if needs.row_wise:
            return NATIVE, (choose.ROW_WISE_IN_DRIVER if wanted == SPARK else choose.ROW_WISE).text
        return choose.choose_runtime(
            wanted, work=work, rows=self.rows, in_memory=self.in_memory, room=self._room_for(work)
        )

    def _room_for(self, work: int) -> int | None:
        """The bytes that a memory budget leaves, for work so large that it may matter where it is done."""
        return self.room() if work > choose.LOOKUP_WORK else None

    def _option(self, needs: RuntimeNeeds) -> str:
        """The runtime that a view asks for, or else the warehouse."""
        return check_runtime_name(needs.option) if needs.option != AUTO else self._wanted

    def runtime_for(self, work: int, needs: RuntimeNeeds = ANY_RUNTIME) -> Runtime:
        """The chosen runtime, started if necessary."""
        if not self.is_on_spark(work, needs):
            return self.native
        if needs.sharded and LEAST_TASK_WORK < work <= MOST_TASK_WORK:
            return self.tasks
        return self.driver if work <= DRIVER_WORK else self.dataframes

    def runtimes_on_spark(self, work: int, needs: RuntimeNeeds) -> dict[str, Runtime]:
        """The runtimes, by name, on which Spark can run triggers for this many rows of work; none if it does not."""
        if not self.is_on_spark(work, needs):
            return {}
        found: list[Runtime] = [self.driver] if work <= DRIVER_WORK else []
        if needs.sharded and LEAST_TASK_WORK < work <= MOST_TASK_WORK:
            found.append(self.tasks)
        return {runtime.name: runtime for runtime in (*found, self.dataframes)}

    def is_on_spark(self, work: int, needs: RuntimeNeeds = ANY_RUNTIME) -> bool:
        """True if work on this many rows is done by Spark, or over rows that Spark looks up."""
        name, reason = self.choose(work, needs)
        if name == SPARK and reason != choose.ASKED.text:
            self._spark_reason = reason
        return name == SPARK

    def answers_in_columns(self, work: int, needs: RuntimeNeeds = ANY_RUNTIME) -> bool:
        """True if DuckDB is asked first for a one-off query over this many stored rows."""
        return self._option(needs) != SPARK and choose.scans_in_columns(work)

    def answer_in_columns(self, relation: Relation, read: ReadTable) -> ChangeSet:
        """The rows of a query by DuckDB, unsummed; raises ``NotAnswered`` if a runtime must answer it."""
        from tidemill.runtimes.duckdb.answer import answer

        return answer(relation, read, self._duckdb_limit())

    def why_not_in_columns(self, relation: Relation) -> str:
        """The reason why DuckDB cannot answer a query, so that a runtime must; empty if it has a translation."""
        from tidemill.runtimes.duckdb.relations import lower_query

        try:
            lower_query(relation)
        except NotAnswered as reason:
            return str(reason)
        return ""

    def interrupt(self, thread: int) -> None:
        """End the query that DuckDB runs for a thread, if it does."""
        if "duckdb" in sys.modules:
            from tidemill.runtimes.duckdb.interrupt import interrupt

            interrupt(thread)

    def fill_in_columns(self, runtime: Runtime, stage: Stage, work: int, read: ReadTable) -> FilledStage | None:
        """The contents of a stage by DuckDB, over this many stored rows of a view's inputs; None if ``runtime`` must
        load it. Once they are stored, it reads them when a change first needs them."""
        if not self.may_fill_in_columns(runtime, work):
            return None
        filled = self._filled(stage, read)
        if filled is not None:
            self.native.leave_in_store(stage)
        return filled

    def compute_in_columns(self, stage: Stage, work: int, read: ReadTable) -> FilledStage | None:
        """The contents of a stage by DuckDB, of which no runtime knows; None if a runtime must compute them."""
        return self._filled(stage, read) if choose.scans_in_columns(work) else None

    def refill(self, runtime: Runtime, stage: Stage, read: ReadTable) -> FilledStage | None:
        """The change of the rows of a stage that is computed again in an epoch, and its new maps, unless ``runtime``
        has these when the epoch ends; None if its triggers must run after all."""
        if runtime is self._native:
            filled = self._filled(stage, read)
            return None if filled is None else FilledStage(self._changed(stage, filled.rows), filled.maps)
        spark = self._tasks if runtime is self._tasks else self._dataframes
        assert spark is not None
        try:
            return FilledStage(spark.refill(stage), {})
        except TidemillError:  # triggers will say what is wrong, if they meet it
            return None

    def _changed(self, stage: Stage, new: ChangeSet) -> ChangeSet:
        """The change from the stored rows of a stage to ``new``."""
        if not self._store.rows(stage.name):
            return new
        old = self._store.read(stage.name, stage.output)
        return ChangeSet.of_arrow(difference(old, new.arrow(), Map(stage.name, stage.output)), stage.output)

    def has_columnar_fill(self, stage: Stage) -> bool:
        """True if DuckDB knows all that a stage does."""
        from tidemill.runtimes.duckdb.fill import is_translated

        return is_translated(stage)

    def may_fill_in_columns(self, runtime: Runtime, work: int) -> bool:
        """True if DuckDB is asked for what ``runtime`` would compute from so many stored rows."""
        return runtime is self._native and choose.scans_in_columns(work)

    def stays_in_python(self, stage: Stage) -> bool:
        """True if the runtime in this process has no machine code for a stage."""
        return self.native.stays_in_python(stage)

    @property
    def spark_costs(self) -> SparkCosts:
        """Predicted seconds of what is done on Spark, by as many tasks as the session runs at the same time."""
        from tidemill.runtimes.spark.sessions.session import cores_of

        return on_spark(cores_of(self._branch()))

    def trigger_costs(self, runtime: Runtime) -> TriggerCosts:
        """Predicted seconds of triggers on a ``runtime`` of Spark."""
        if runtime is self._driver:
            return self.spark_costs.driver
        return self.spark_costs.tasks if runtime is self._tasks else self.spark_costs.frames

    def _filled(self, stage: Stage, read: ReadTable) -> FilledStage | None:
        from tidemill.runtimes.duckdb.fill import fill_stage

        try:
            return fill_stage(stage, read, self._duckdb_limit())
        except NotAnswered:
            return None

    def _duckdb_limit(self) -> MemoryLimit | None:
        """Half of what a memory budget leaves: the other half is for the rows that go in and come out."""
        from tidemill.runtimes.duckdb.answer import MemoryLimit

        room = self.room()
        return None if room is None else MemoryLimit(room // 2, self._store.temporary_folder())

    def scanning(self, runtime: Runtime, rows: int) -> Runtime:
        """The runtime that scans this many rows for ``runtime``.

        The driver applies small changes to state of any size, but does not scan large state.
        """
        return self.dataframes if runtime is self._driver and rows > DRIVER_WORK else runtime

    @property
    def lookup(self) -> RowLookup:
        """Index lookup of single rows: in this process, or by a Spark job."""
        return self.driver if self.is_on_spark(0) else self.native

    def runtime_at(self, epoch: int) -> Runtime:
        """A temporary runtime over the snapshot of the store at an epoch."""
        return NativeRuntime(AsOf(self._store, epoch), self.fields_of, backend="python")

    def runtime_over(self, contents: ReadableStore, fields_of: FieldsOf) -> TemporaryRuntime:
        """A temporary runtime in this process over other contents than those of the warehouse."""
        return NativeRuntime(contents, fields_of, backend=self.backend, like=self._native)

    @property
    def native(self) -> NativeRuntime:
        """The runtime in this process."""
        if self._native is None:
            self._native = NativeRuntime(
                self._store,
                self.fields_of,
                backend=self.backend,
                room=self.room,
                table_of=self.table_of,
                in_files=not self.in_memory,
            )
        return self._native

    @property
    def dataframes(self) -> DataFrameRuntime:
        """The runtime that runs programs as Spark DataFrames, in the given session or a local one."""
        if self._dataframes is None:
            from tidemill.runtimes.spark.dataframe_runtime import DataFrameRuntime

            self._dataframes = DataFrameRuntime(self._store, self.fields_of, self._branch)
        return self._dataframes

    @property
    def driver(self) -> DriverRuntime:
        """The runtime in the Spark driver, over rows that Spark looks up: for small changes."""
        if self._driver is None:
            from tidemill.runtimes.spark.driver_runtime import DriverRuntime

            self._driver = DriverRuntime(self._store, self.fields_of, self._branch)
        return self._driver

    @property
    def tasks(self) -> TaskRuntime:
        """The runtime that runs programs in Spark tasks, over rows that they look up in files: for bulk changes."""
        if self._tasks is None:
            from tidemill.runtimes.spark.task_runtime import TaskRuntime

            self._tasks = TaskRuntime(self._store, self.fields_of, self._branch, lambda name: self.table_of(name))
        return self._tasks

    @property
    def session(self) -> SparkSession:
        """The user's Spark session, or a local one, started if necessary."""
        if self._given is None:
            from tidemill.runtimes.spark.sessions.session import local_session

            tell(WAREHOUSE, INFO, "starting Spark", phase="spark", reason=self._spark_reason or "asked for")
            if self._spark_reason:
                self.before_spark(self._spark_reason)
            self._given = local_session()
        return self._given

    def _branch(self) -> SparkSession:
        """A session of our own on the same cluster. Its workers open the files of an object store themselves."""
        from tidemill.runtimes.spark.sessions.session import given_session

        return given_session(self.session, () if self._store.access() is None else ("obstore",))

    def spark_counters(self) -> list[Counters]:
        """The costs of the last epoch by each way through Spark that was used so far."""
        started = (self._dataframes, self._tasks, self._driver)
        return [runtime.counters for runtime in started if runtime is not None]

    @property
    def started(self) -> list[Runtime]:
        """The runtimes that have been used so far."""
        return [runtime for runtime in self._all if runtime is not None]

    @property
    def _all(self) -> tuple[Runtime | None, ...]:
        return self._native, self._driver, self._tasks, self._dataframes

    def base_reads(self, stage: str) -> Counter[str]:
        """The number of rows of each relation that this process has read to maintain a stage with lineage."""
        return sum((Counter(runtime.base_reads(stage)) for runtime in self.started), Counter())

    def frame(self, table: pa.Table) -> DataFrame:
        """Rows as a Spark frame of the warehouse's session."""
        from tidemill.runtimes.spark.execution.arrow_frames import frame_of_arrow

        return frame_of_arrow(self.session, table)

    def forget_relation(self, name: str) -> None:
        """Release the state of a dropped relation."""
        for runtime in self.started:
            runtime.forget(name)

    def forget_entries(
        self, stages: Sequence[tuple[Stage, Sequence[ExpiredEntries]]], rows: Sequence[ExpiredEntries]
    ) -> None:
        """Release expired entries that the store has dropped, of the state of stages and of relations."""
        for runtime in self.started:
            for stage, forgotten in stages:
                runtime.forget_entries(stage, forgotten)
            for one in rows:
                runtime.forget_rows(one)

    def forget_files(self, relations: Iterable[str]) -> None:
        """Release references to files of the store, which a vacuum may have deleted; state in memory stays."""
        for runtime in self.started:
            for name in relations:
                runtime.forget_files(name)

    def take_part(self, runtimes: Sequence[Runtime]) -> None:
        """Record that the next epoch runs on ``runtimes``; all others miss it."""
        for runtime in self._all:
            if runtime is not None and runtime not in runtimes:
                runtime.miss_epoch()

    def release_paused(self) -> None:
        """Release the memory of paused state, which has missed epochs."""
        for runtime in self.started:
            runtime.release_paused()

    def release_state(self, wanted: int) -> int:
        """Release state of runtimes that was not used for long, at the beginning of an epoch; returns its bytes.

        A warehouse in memory would not get along with less."""
        return 0 if self.in_memory else sum(runtime.release_state(wanted) for runtime in self.started)

    def sparing_memory(self) -> AbstractContextManager[None]:
        """Context in which the native runtime has released its state, and looks up in the store what it needs."""
        return nullcontext() if self._native is None else self._native.sparing_memory()

    def forget(self) -> None:
        """Drop the runtimes; their state is loaded again on next use."""
        for runtime in self.started:
            runtime.free()
        self._native = self._dataframes = self._driver = self._tasks = None


def check_runtime_name(runtime: str) -> str:
    """Return ``runtime`` if it exists, or raise."""
    if runtime not in RUNTIMES:
        raise SetupError(f'there is no runtime "{runtime}"', hint=f"Use one of {', '.join(RUNTIMES)}.")
    return runtime


def reads_files_only(runtime: str) -> bool:
    """True if a runtime needs a store in files."""
    return runtime == SPARK
