"""One property: what a view showed first, plus all that it emitted, is what the final tables say.

Asked of generated warehouses: by the evaluator after every epoch, by DuckDB and Spark at the end.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import hypothesis
import pytest

import tidemill
from tests.answers import Answers, differ, inner
from tests.generators import Scenario, scenarios
from tests.ways import NATIVE, SPARK, opened, taking
from tidemill.changes.zset import ZSet
from tidemill.compiler.frontends.script.statements import CreateTable
from tidemill.compiler.frontends.translate import parse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NATIVE_SCENARIOS = 30
REOPENED_SCENARIOS = 2
COMPILED_SCENARIOS = 3  # every stage of every scenario is compiled: half a second each
SPARK_SCENARIOS = 5


class Trial:
    """A generated scenario on a warehouse, and what its views have emitted so far.

    With a ``folder`` the warehouse is closed and opened again before every epoch.
    """

    def __init__(self, warehouse: tidemill.Warehouse, scenario: Scenario, folder: str | None = None) -> None:
        self._warehouse = warehouse
        self._folder = folder
        self._scenario = scenario
        self._emitted: dict[str, ZSet] = {}
        self.steps = 0
        self.answers = Answers()

    def run(self) -> None:
        """Play the whole history. A failure prints it as a golden file that only lacks its answers."""
        hypothesis.note(repr(self._scenario))
        for table in self._scenario.tables:
            text = f"CREATE {'STREAM' if table.stream else 'TABLE'} {table.sql()}"
            (statement,) = parse(text)
            assert isinstance(statement, CreateTable)
            self.answers.declare(statement.table)
            self._warehouse.sql(text)
        for number, epoch in enumerate(self._scenario.epochs):
            if number == self._scenario.before:
                self._create_views()
            if self._folder is not None:
                self._warehouse.close()
                self._warehouse = tidemill.open(self._folder, runtime="native")
            before = self._warehouse.epoch
            self._warehouse.apply(epoch)
            for table_name, changes in epoch.items():
                self.answers.rows[table_name].update_by(ZSet.summed((row, weight) for weight, row in changes))
            self._listen(since=before)
            self.steps += 1

    def close(self) -> None:
        """Let go of the warehouse that is open now."""
        self._warehouse.close()

    def _create_views(self) -> None:
        for (name, query), strategy in zip(self._scenario.views, self._scenario.strategies, strict=True):
            self._warehouse.sql(f"CREATE MATERIALIZED VIEW {name} WITH (strategy = '{strategy}') AS {query}")
            self.answers.define(name, query)
            self._emitted[name] = ZSet.of(inner(self._warehouse.view(name).rows(), self.answers.fields(name), name))

    def _listen(self, since: int) -> None:
        for name, total in self._emitted.items():
            fields = self.answers.fields(name)
            changes = self._warehouse.view(name).changes(since=since)
            rows = inner((row for _, row in changes), fields, name)
            total.update_by(ZSet.summed(zip(rows, (weight for weight, _ in changes), strict=True)))
            shown = ZSet.of(inner(self._warehouse.view(name).rows(), fields, name))
            assert not differ(shown, total, fields), f"{name}: the feed's sum is not the view"
        self.compare("the evaluator", self.answers.evaluator())

    def compare(self, who: str, answers: dict[str, ZSet]) -> None:
        for name, rows in answers.items():
            difference = differ(rows, self._emitted[name], self.answers.fields(name))
            assert not difference, f"{name} is not what {who} says:\n{difference}"


def _on_native(scenario: Scenario) -> int:
    """Play a scenario in this process; returns how many epochs were compared."""
    with opened("held") as warehouse:
        trial = Trial(warehouse, scenario)
        trial.run()
        if scenario.duckdb:
            trial.compare("DuckDB", trial.answers.duckdb())
        return trial.steps


def _on_spark(scenario: Scenario, way: str, spark: SparkSession) -> int:
    """Play a scenario on Spark; returns how many epochs were compared."""
    with opened(way, spark) as warehouse:
        trial = Trial(warehouse, scenario)
        trial.run()
        # Spark takes fewer kinds of subqueries and recursion than we do; all other views are compared.
        trial.compare("Spark", trial.answers.spark(spark, lenient=True))
        return trial.steps


@hypothesis.settings(max_examples=NATIVE_SCENARIOS)
@hypothesis.given(scenarios())
def test_native(scenario: Scenario) -> None:
    _on_native(scenario)


@pytest.mark.parametrize("way", NATIVE)
def test_native_reopened(way: str) -> None:
    @hypothesis.settings(max_examples=COMPILED_SCENARIOS if way == "llvm" else REOPENED_SCENARIOS)
    @hypothesis.given(scenarios())
    def reopened(scenario: Scenario) -> None:
        with TemporaryDirectory() as folder, taking(way):
            trial = Trial(tidemill.open(folder, runtime="native"), scenario, folder)
            trial.run()
            trial.close()

    reopened()


@pytest.mark.spark
@pytest.mark.parametrize("way", SPARK)
def test_spark(way: str, spark: SparkSession) -> None:
    @hypothesis.settings(max_examples=SPARK_SCENARIOS, phases=[hypothesis.Phase.generate])
    @hypothesis.given(scenarios(views=2, epochs=3))
    def on_spark(scenario: Scenario) -> None:
        _on_spark(scenario, way, spark)

    on_spark()


@pytest.mark.long
def test_fuzz() -> None:
    """New scenarios in this process until the time is up."""
    _fuzz(_on_native, batch=200, epochs=30)


@pytest.mark.long
@pytest.mark.spark
def test_fuzz_spark(spark: SparkSession) -> None:
    """New scenarios on Spark until the time is up."""
    _fuzz(lambda scenario: _on_spark(scenario, "frames", spark), batch=10, epochs=12)


def _fuzz(play: Callable[[Scenario], int], *, batch: int, epochs: int) -> None:
    """Play batches of scenarios until the time is up, and tell how much was tried."""
    until = time.monotonic() + float(os.environ.get("FUZZ_SECONDS", "600"))
    steps: list[int] = []

    @hypothesis.settings(max_examples=batch)
    @hypothesis.given(scenarios(epochs=epochs, least=epochs // 2))
    def play_some(scenario: Scenario) -> None:
        steps.append(play(scenario))

    while time.monotonic() < until:
        play_some()
        print(f"{len(steps):,} scenarios, {sum(steps):,} epochs, no difference", flush=True)
