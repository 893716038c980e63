"""Which runtime runs what. All read the same store, so a view may move between them at any epoch.

This module alone knows which runtimes there are, and what users call them (``RUNTIMES``); whoever else has one knows
its protocol.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from tidemill.compiler import choose
from tidemill.engine.catalog.view import ANY_RUNTIME, RuntimeNeeds
from tidemill.model.errors import SetupError
from tidemill.model.types import Field
from tidemill.program.stages import Stage
from tidemill.program.state_expiry import ExpiredEntries
from tidemill.runtimes.native.runtime import NativeRuntime
from tidemill.runtimes.runtime import RowLookup, Runtime
from tidemill.storage.store import AsOf, Store

if TYPE_CHECKING:
    from tidemill.runtimes.spark.dataframe_runtime import DataFrameRuntime
    from tidemill.runtimes.spark.driver_runtime import DriverRuntime
    from tidemill.runtimes.spark.execution.spark_types import DataFrame, SparkSession

DRIVER_WORK = choose.NATIVE_WORK
"""On Spark, work on up to this many rows is done by the driver, over the rows that Spark finds for it."""

AUTO, NATIVE, SPARK = RUNTIMES = ("auto", "native", "spark")
"""What users can ask for."""


class Placement:
    """The runtimes of a warehouse, each started when it is first needed. ``rows`` are the stored rows of its tables."""

    def __init__(
        self, store: Store, wanted: str, session: SparkSession | None, in_memory: bool, backend: str | None = None
    ) -> None:
        self._store = store
        self._wanted = check_runtime_name(wanted)
        self._backend = backend
        self._given = session
        self._in_memory = in_memory
        self._native: NativeRuntime | None = None
        self._dataframes: DataFrameRuntime | None = None
        self._driver: DriverRuntime | None = None
        self.rows = 0
        self.fields_of: Callable[[str], tuple[Field, ...]] = lambda name: ()
        self.room: Callable[[], int | None] = lambda: None

    def work_class(self, work: int) -> tuple[bool, ...]:
        """All that the choice of a runtime depends on beside the needs of a view, for work on so many rows."""
        limits = (choose.NATIVE_WORK, choose.PARTITION_WORK, DRIVER_WORK)
        return (self.rows > choose.NATIVE_ROWS, *(work > most for most in limits))

    def choose(self, work: int, needs: RuntimeNeeds = ANY_RUNTIME) -> tuple[str, str]:
        """The runtime for work on so many rows, for a view with these needs, and why."""
        wanted = check_runtime_name(needs.option) if needs.option != AUTO else self._wanted
        if needs.row_wise:
            return NATIVE, choose.ROW_WISE.text
        return choose.choose_runtime(
            wanted, work=work, rows=self.rows, in_memory=self._in_memory, by_partitions=needs.by_partitions
        )

    def runtime_for(self, work: int, needs: RuntimeNeeds = ANY_RUNTIME) -> Runtime:
        """The chosen runtime, started if need be."""
        if not self.is_on_spark(work, needs):
            return self.native
        return self.driver if work <= DRIVER_WORK else self.dataframes

    def is_on_spark(self, work: int, needs: RuntimeNeeds = ANY_RUNTIME) -> bool:
        """True if work on so many rows is done by Spark, or over rows that Spark finds."""
        return self.choose(work, needs)[0] == SPARK

    def scanning(self, runtime: Runtime, rows: int) -> Runtime:
        """The runtime that goes through all of so many rows for ``runtime``.

        The driver takes small changes to state of any size, but not all of its rows.
        """
        return self.dataframes if runtime is self._driver and rows > DRIVER_WORK else runtime

    @property
    def lookup(self) -> RowLookup:
        """Finds single rows at the cost of these rows: in this process, or by a job of Spark."""
        return self.driver if self.is_on_spark(0) else self.native

    def past(self, epoch: int) -> Runtime:
        """A runtime over what the store had at an epoch, to be read and let go of."""
        return NativeRuntime(AsOf(self._store, epoch), self.fields_of, backend="python")

    @property
    def native(self) -> NativeRuntime:
        """The program in this process."""
        if self._native is None:
            self._native = NativeRuntime(self._store, self.fields_of, backend=self._backend, room=self.room)
        return self._native

    @property
    def dataframes(self) -> DataFrameRuntime:
        """The program as DataFrames on Spark: the session that was given, or a local one that starts now."""
        if self._dataframes is None:
            from tidemill.runtimes.spark.dataframe_runtime import DataFrameRuntime
            from tidemill.runtimes.spark.execution.session import given_session

            self._dataframes = DataFrameRuntime(self._store, self.fields_of, lambda: given_session(self.session))
        return self._dataframes

    @property
    def driver(self) -> DriverRuntime:
        """The program in the driver, over rows that Spark finds: for small work."""
        if self._driver is None:
            from tidemill.runtimes.spark.driver_runtime import DriverRuntime
            from tidemill.runtimes.spark.execution.session import given_session

            self._driver = DriverRuntime(self._store, self.fields_of, lambda: given_session(self.session))
        return self._driver

    @property
    def session(self) -> SparkSession:
        """The user's Spark session, or a local one, started if need be."""
        if self._given is None:
            from tidemill.runtimes.spark.execution.session import local_session

            self._given = local_session()
        return self._given

    def spark_counters(self) -> tuple[int, int, int]:
        """Jobs, bytes read and bytes written of the last epoch on Spark; nothing where Spark was not asked."""
        found = [runtime.counters for runtime in (self._dataframes, self._driver) if runtime is not None]
        return sum(c.jobs for c in found), sum(c.bytes_read for c in found), sum(c.bytes_written for c in found)

    @property
    def started(self) -> list[Runtime]:
        """The runtimes that have been needed so far."""
        runtimes: tuple[Runtime | None, ...] = (self._native, self._driver, self._dataframes)
        return [runtime for runtime in runtimes if runtime is not None]

    def base_reads(self, stage: str) -> Counter[str]:
        """How many rows of each relation this process has read to keep a stage with lineage fresh."""
        return sum((Counter(runtime.base_reads(stage)) for runtime in self.started), Counter())

    def frame(self, table: pa.Table) -> DataFrame:
        """Rows as a Spark frame of the warehouse's session."""
        return self.session.createDataFrame(table.combine_chunks())

    def forget_relation(self, name: str) -> None:
        """Let go of a relation that is dropped."""
        for runtime in self.started:
            runtime.forget(name)

    def forget_entries(
        self, stages: Sequence[tuple[Stage, Sequence[ExpiredEntries]]], rows: Sequence[ExpiredEntries]
    ) -> None:
        """Let go of what the store has forgotten: of the state of stages, and of relations."""
        for runtime in self.started:
            for stage, forgotten in stages:
                runtime.forget_entries(stage, forgotten)
            for one in rows:
                runtime.forget_rows(one)

    def forget_files(self, relations: Iterable[str]) -> None:
        """Let go of what stands on files of the store, for a vacuum may have deleted them; what is in memory stays."""
        for runtime in self.started:
            for name in relations:
                runtime.forget_files(name)

    def take_part(self, runtimes: Sequence[Runtime]) -> None:
        """The epoch to come runs on ``runtimes``; all others will be behind."""
        for runtime in self.started:
            if runtime not in runtimes:
                runtime.miss_epoch()

    def release_paused(self) -> None:
        """Give back the memory of all that has missed epochs."""
        for runtime in self.started:
            runtime.release_paused()

    def forget(self) -> None:
        """Drop the runtimes: what they hold in memory is read again when next needed."""
        for runtime in self.started:
            runtime.free()
        self._native = self._dataframes = self._driver = None


def check_runtime_name(runtime: str) -> str:
    """``runtime`` where it is one that exists."""
    if runtime not in RUNTIMES:
        raise SetupError(f'there is no runtime "{runtime}"', hint=f"Use one of {', '.join(RUNTIMES)}.")
    return runtime


def reads_files_only(runtime: str) -> bool:
    """True if a runtime that was asked for needs a store in files."""
    return runtime == SPARK
