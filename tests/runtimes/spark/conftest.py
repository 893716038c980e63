"""A runtime on a store of its own, driven epoch by epoch as the engine does it, beside the evaluator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import pytest

from tidemill.algebra.evaluate import evaluate
from tidemill.algebra.node import Relation
from tidemill.changes.changeset import ChangeSet, Epoch
from tidemill.changes.zset import Row, ZSet
from tidemill.compiler.frontends.translate import translate
from tidemill.compiler.passes import compile_view
from tidemill.model.schema import Table
from tidemill.model.types import Field
from tidemill.runtimes.spark import dataframe_runtime
from tidemill.runtimes.spark.dataframe_runtime import DataFrameRuntime
from tidemill.runtimes.spark.execution import job_settings, results
from tidemill.runtimes.spark.sessions.session import given_session
from tidemill.storage.memory_store import MemoryStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Pairs = list[tuple[Row, int]]


class Driver:
    """One view over tables: ``apply`` commits an epoch, and checks the view against the evaluator each time."""

    def __init__(
        self, spark: SparkSession, tables: list[Table], query: str | Relation, strategy: str = "delta"
    ) -> None:
        self.tables = {table.name: table for table in tables}
        self.rows = {name: ZSet() for name in self.tables}
        fields = {table.name: table.fields for table in tables}
        self.relation = translate(query, fields).relation if isinstance(query, str) else query
        self.program = compile_view("v", self.relation, self.tables, strategy)
        self.store = MemoryStore()
        self.runtime = DataFrameRuntime(self.store, self.fields_of, lambda: given_session(spark))
        for stage in self.program.stages:
            self.runtime.install(stage)
        self.shown = ZSet()

    def fields_of(self, name: str) -> tuple[Field, ...]:
        outputs = {stage.name: stage.output for stage in self.program.stages}
        return outputs[name] if name in outputs else self.tables[name].fields

    def load(self) -> ZSet:
        """Fill the view from what the tables hold."""
        self.runtime.begin(self.store.epoch)
        stored = {}
        for stage in self.program.stages:
            stored[stage.name] = self.runtime.load(stage)
            self.runtime.absorb(stage.name, stored[stage.name])
        return self._commit(self.store.epoch, stored)

    def apply(self, **changes: Pairs) -> ZSet:
        """One epoch; returns the change of the view."""
        number = self.store.epoch + 1
        self.runtime.begin(number)
        given = {name: ChangeSet.of(pairs, self.tables[name].fields) for name, pairs in changes.items()}
        try:
            return self._commit(number, self._walk(given))
        except BaseException:
            self.runtime.rollback()
            raise

    def _walk(self, given: Mapping[str, ChangeSet]) -> dict[str, ChangeSet]:
        stored: dict[str, ChangeSet] = {}
        for name, change in given.items():
            kept = self.tables[name].kept
            stored[name] = self.runtime.check(self.tables[name], change) if kept else change
        for name in given:
            self._handle(name, stored[name])
        for stage in self.program.stages:
            stored[stage.name] = self.runtime.emit(stage)
            self._handle(stage.name, stored[stage.name])
        return stored

    def _handle(self, relation: str, change: ChangeSet) -> None:
        if not len(change):
            return
        for stage in self.program.stages:
            if relation in stage.inputs:
                self.runtime.fire(stage, relation, change)
        self.runtime.absorb(relation, change)

    def _commit(self, number: int, stored: dict[str, ChangeSet]) -> ZSet:
        for name in self.rows:
            if name in stored:
                self.rows[name].update_by(stored[name].zset())
        change = stored["v"].zset()
        assert len(change) == len(stored["v"]), "the net change comes summed, without zero weights"
        kept = {n: c for n, c in stored.items() if n not in self.tables or self.tables[n].kept}
        self.store.commit(Epoch(number, {**kept, **self.runtime.commit()}))
        self.shown.update_by(change)
        assert self.shown == evaluate(self.relation, self.rows)
        return change


@pytest.fixture
def drive(spark: SparkSession) -> Callable[..., Driver]:
    def make(tables: list[Table], query: str | Relation, strategy: str = "delta") -> Driver:
        return Driver(spark, tables, query, strategy)

    return make


@pytest.fixture
def bulk(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Make work on more than so many rows large: it is planned for many tasks, and Spark writes its results."""

    def above(limit: int) -> None:
        monkeypatch.setattr(dataframe_runtime, "COLLECT_ROWS", limit)
        monkeypatch.setattr(results, "COLLECT_ROWS", limit)
        monkeypatch.setattr(job_settings, "SINGLE_TASK_ROWS", min(limit, job_settings.SINGLE_TASK_ROWS))

    return above
