"""One property: the first rows of a view plus all emitted changes equal its query over the final tables.

Asked of generated warehouses: by the evaluator after every epoch, by DuckDB and Spark at the end. Small ones are drawn
by hypothesis; the others have one history each, and many views are compared over it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import hypothesis
import pytest

import tidemill
from tests.answers import Answers, differ, inner
from tests.generators import Scenario, many_views, scenarios
from tests.matrix.programs import compiling_equal_views_once
from tests.ways import NATIVE, SPARK, STORED, TREES, interpreting, opened, taking
from tidemill.changes.zset import ZSet
from tidemill.compiler.frontends.script.statements import CreateTable
from tidemill.compiler.frontends.translate import parse
from tidemill.model.errors import TidemillError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NATIVE_SCENARIOS = 50
VIEWS = {"held": 100, "columns": 100, "stored": 50, "fresh": 50, "budget": 25, "llvm": 25, "trees": 25}
VIEWS |= {"driver": 20, "tasks": 10, "bulk": 10, "refilled": 10}
"""Views over one history: fewer where each of their stages is compiled, or is a job in every epoch."""


class Differs(AssertionError):
    """A view is not what it should be."""

    def __init__(self, view: str, how: str) -> None:
        super().__init__(f"{view}: {how}")
        self.view = view


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
        """Play the whole history."""
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
            if differ(shown, total, fields):
                raise Differs(name, "the feed's sum is not the view")
        self.compare("the evaluator", self.answers.evaluator())

    def compare(self, who: str, answers: dict[str, ZSet]) -> None:
        for name, rows in answers.items():
            difference = differ(rows, self._emitted[name], self.answers.fields(name))
            if difference:
                raise Differs(name, f"not what {who} says:\n{difference}")


def _on_native(scenario: Scenario, way: str = "held") -> int:
    """Play a scenario in this process; returns how many epochs were compared."""
    with opened(way) as warehouse:
        trial = Trial(warehouse, scenario)
        trial.run()
        trial.compare("DuckDB", trial.answers.duckdb(leaving=scenario.unlike_duckdb))
        return trial.steps


def _on_spark(scenario: Scenario, way: str, spark: SparkSession) -> int:
    """Play a scenario on Spark; returns how many epochs were compared."""
    with opened(way, spark) as warehouse:
        trial = Trial(warehouse, scenario)
        trial.run()
        # Spark takes fewer kinds of subqueries and recursion than we do; all other views are compared.
        trial.compare("Spark", trial.answers.spark(interpreting(spark), lenient=True))
        return trial.steps


def _reopened(scenario: Scenario, way: str) -> None:
    with TemporaryDirectory() as folder, taking(way):
        trial = Trial(tidemill.open(folder, runtime="native"), scenario, folder)
        trial.run()
        trial.close()


def _require_right(scenario: Scenario, play: Callable[[Scenario], object]) -> None:
    """Play a scenario of many views. One that is wrong is told with the shortest history in which it is."""
    try:
        play(scenario)
    except Differs as found:
        fails = partial(_differs, play)
        alone = scenario.only(found.view)
        found.add_note(repr(alone.shrunk(fails) if fails(alone) else scenario))
        raise


def _differs(play: Callable[[Scenario], object], scenario: Scenario) -> bool:
    try:
        play(scenario)
    except Differs:
        return True
    except TidemillError:  # a row that leaves must have come
        return False
    return False


@hypothesis.settings(max_examples=NATIVE_SCENARIOS)
@hypothesis.given(scenarios())
def test_native(scenario: Scenario) -> None:
    hypothesis.note(repr(scenario))
    _on_native(scenario)


@pytest.mark.turns("way", 3)
@pytest.mark.parametrize("way", [*NATIVE, *STORED, *TREES])
def test_many_views_of_one_history(way: str, random_seed: int) -> None:
    """Ways with as many views have the same, which are compiled once."""
    with compiling_equal_views_once():
        _require_right(many_views(random_seed, VIEWS[way]), partial(_on_native, way=way))


@pytest.mark.turns("way", 3)
@pytest.mark.parametrize("way", [*NATIVE, *STORED, *TREES])
def test_reopened(way: str, random_seed: int) -> None:
    """The warehouse is closed and opened again before every epoch; its views are compiled once."""
    with compiling_equal_views_once():
        _require_right(many_views(random_seed + 1, VIEWS[way] // 8, epochs=3), partial(_reopened, way=way))


@pytest.mark.turns("way", 2)
@pytest.mark.spark
@pytest.mark.parametrize("way", [way for way in SPARK if way in VIEWS])
def test_spark(way: str, random_seed: int, spark: SparkSession) -> None:
    _require_right(many_views(random_seed, VIEWS[way], epochs=3), partial(_on_spark, way=way, spark=spark))


@pytest.mark.long
def test_fuzz(random_seed: int) -> None:
    """New scenarios in this process until the time is up."""
    _fuzz(_on_native, random_seed, batch=200, epochs=30)


@pytest.mark.long
@pytest.mark.spark
def test_fuzz_spark(random_seed: int, spark: SparkSession) -> None:
    """New scenarios on Spark until the time is up."""
    _fuzz(lambda scenario: _on_spark(scenario, "bulk", spark), random_seed, batch=10, epochs=12)


def _fuzz(play: Callable[[Scenario], int], seed: int, *, batch: int, epochs: int) -> None:
    """Play batches of scenarios until the time is up, and tell how much was tried."""
    until = time.monotonic() + float(os.environ.get("FUZZ_SECONDS", "600"))
    steps: list[int] = []

    @hypothesis.settings(max_examples=batch)
    @hypothesis.given(scenarios(epochs=epochs, least=epochs // 2))
    def play_some(scenario: Scenario) -> None:
        hypothesis.note(repr(scenario))
        steps.append(play(scenario))

    for number in count(seed):
        hypothesis.seed(number)(play_some)()
        print(f"{len(steps):,} scenarios, {sum(steps):,} epochs, no difference", flush=True)
        if time.monotonic() > until:
            return
