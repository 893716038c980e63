"""The Nexmark queries over tables: every one fresh after every epoch, as the evaluator, DuckDB and Spark see it.

Left out are those that are about their source: Q10 (writing files), Q12 (the clock of the machine), Q13 (a side input
file) and Q14 (a function in Java).
"""

from __future__ import annotations

from functools import cache, cached_property
from typing import TYPE_CHECKING

import pytest

from tests.answers import Answers, differ, inner
from tests.nexmark.auctions import House
from tests.nexmark.queries import QUERIES, SCHEMA
from tests.ways import NATIVE, opened
from tidemill.changes.zset import Row, ZSet
from tidemill.compiler.frontends.script.statements import CreateTable
from tidemill.compiler.frontends.translate import parse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ONLY_SPARK = {"q5_hot_items", "q7_highest_bid", "q8_new_users", "q11_sessions"}
"""DuckDB has no window() and session_window()."""

EPOCHS = 12


Epoch = dict[str, list[tuple[int, Row]]]


class Told:
    """A history, and what a query over it must give: by the evaluator after every epoch, by others in the end."""

    def __init__(self, query: str, epochs: int, seed: int) -> None:
        self.answers = Answers()
        self.query = query
        for statement in parse(SCHEMA):
            assert isinstance(statement, CreateTable)
            self.answers.declare(statement.table)
        self.answers.define("v", query)
        self.epochs = [(epoch, self._after(epoch)) for epoch in House(seed).epochs(epochs)]

    def _after(self, epoch: Epoch) -> ZSet:
        for table, changes in epoch.items():
            self.answers.rows[table].update_by(ZSet.summed((row, weight) for weight, row in changes))
        return self.answers.evaluator()["v"]

    @cached_property
    def by_duckdb(self) -> ZSet:
        return self.answers.duckdb()["v"]


@cache
def told(name: str, epochs: int, seed: int) -> Told:
    """The answers to a query, computed once for all ways of a runtime."""
    return Told(QUERIES[name], epochs, seed)


def play(told: Told, way: str, spark: SparkSession | None = None) -> ZSet:
    """Run a history past a view, comparing it with the evaluator after every epoch; what it shows in the end."""
    with opened(way, spark) as warehouse:
        warehouse.sql(SCHEMA)
        warehouse.sql(f"CREATE MATERIALIZED VIEW v AS {told.query}")
        shown, fields = ZSet(), told.answers.fields("v")
        for epoch, expected in told.epochs:
            warehouse.apply(epoch)
            shown = ZSet.of(inner(warehouse.view("v").rows(), fields, "v"))
            difference = differ(expected, shown, fields)
            assert not difference, f"epoch {warehouse.epoch}:\n{difference}"
    return shown


@pytest.mark.turns("way")
@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("way", NATIVE)
def test_native(name: str, way: str) -> None:
    for seed in range(3):
        history = told(name, EPOCHS, seed)
        shown = play(history, way)
        if name not in ONLY_SPARK:
            assert not differ(history.by_duckdb, shown, history.answers.fields("v"))


@pytest.mark.spark
@pytest.mark.parametrize("name", QUERIES)
def test_spark(name: str, spark: SparkSession, interpreted_spark: SparkSession) -> None:
    history = told(name, 2, seed=1)
    shown = play(history, "frames", spark)
    assert not differ(history.answers.spark(interpreted_spark)["v"], shown, history.answers.fields("v"))
