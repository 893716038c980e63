"""Which runtime runs what. Both read the same store, so a view may move between them at any epoch."""

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
from tidemill.runtimes.runtime import Runtime
from tidemill.storage.store import Store

if TYPE_CHECKING:
    from tidemill.runtimes.spark.dataframe_runtime import SparkRuntime
    from tidemill.runtimes.spark.driver_runtime import DriverRuntime
    from tidemill.runtimes.spark.execution.spark_types import DataFrame, SparkSession

DRIVER_WORK = choose.NATIVE_WORK
"""On Spark, work on up to this many rows is done by the driver, over the rows that Spark finds for it."""

RUNTIMES = ("auto", "native", "spark")


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
        self._spark: SparkRuntime | None = None
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
        wanted = check_runtime_name(needs.option) if needs.option != "auto" else self._wanted
        if needs.row_wise:
            return "native", choose.ROW_WISE.text
        return choose.choose_runtime(
            wanted, work=work, rows=self.rows, in_memory=self._in_memory, by_partitions=needs.by_partitions
        )

    def runtime_for(self, work: int, needs: RuntimeNeeds = ANY_RUNTIME) -> Runtime:
        """The chosen runtime, started if need be."""
        return self.runtime(self.choose(work, needs)[0], work)

    def runtime(self, name: str, work: int) -> Runtime:
        """The runtime called ``name`` for work on so many rows, started if need be."""
        if name == "native":
            return self.native
        return self.driver if work <= DRIVER_WORK else self.spark

    @property
    def native(self) -> NativeRuntime:
        """The program in this process."""
        if self._native is None:
            self._native = NativeRuntime(self._store, self.fields_of, backend=self._backend, room=self.room)
        return self._native

    @property
    def spark(self) -> SparkRuntime:
        """The program on Spark: the session that was given, or a local one that starts now."""
        if self._spark is None:
            from tidemill.runtimes.spark.dataframe_runtime import SparkRuntime
            from tidemill.runtimes.spark.execution.session import given_session

            self._spark = SparkRuntime(self._store, self.fields_of, lambda: given_session(self.session))
        return self._spark

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
        found = [runtime.counters for runtime in (self._spark, self._driver) if runtime is not None]
        return sum(c.jobs for c in found), sum(c.bytes_read for c in found), sum(c.bytes_written for c in found)

    def base_reads(self, stage: str) -> Counter[str]:
        """How many rows of each relation this process has read to keep a stage with lineage fresh."""
        found = (runtime.base_reads(stage) for runtime in (self._native, self._driver) if runtime is not None)
        return sum(map(Counter, found), Counter())

    def frame(self, table: pa.Table) -> DataFrame:
        """Rows as a Spark frame of the warehouse's session."""
        return self.session.createDataFrame(table.combine_chunks())

    def forget_relation(self, name: str) -> None:
        """Let go of a relation that is dropped."""
        for runtime in (self._native, self._driver):
            if runtime is not None:
                runtime.forget(name)

    def forget_entries(
        self, stages: Sequence[tuple[Stage, Sequence[ExpiredEntries]]], rows: Sequence[ExpiredEntries]
    ) -> None:
        """Let go of what the store has forgotten: of the state of stages, and of relations."""
        if self._native is not None:
            for stage, forgotten in stages:
                self._native.forget_entries(stage, forgotten)
            for one in rows:
                self._native.forget_rows(one)
        self.forget_files([*(stage.name for stage, _ in stages), *(one.map for one in rows)])

    def forget_files(self, relations: Iterable[str]) -> None:
        """Let go of what stands on files of the store, for a vacuum may have deleted them; what is in memory stays."""
        if self._driver is not None:
            for name in relations:
                self._driver.forget(name)

    def forget(self, but: Sequence[Runtime] = ()) -> None:
        """Drop the runtimes, all ``but`` those given: what they hold in memory is read again when next needed."""
        if self._native is not None and self._native not in but:
            self._native.free()
            self._native = None
        self._spark = self._spark if self._spark in but else None
        self._driver = self._driver if self._driver in but else None


def check_runtime_name(runtime: str) -> str:
    """``runtime`` where it is one that exists."""
    if runtime not in RUNTIMES:
        raise SetupError(f'there is no runtime "{runtime}"', hint=f"Use one of {', '.join(RUNTIMES)}.")
    return runtime
