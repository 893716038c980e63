"""The Nexmark queries over tables: every one fresh after every epoch, as the evaluator, DuckDB and Spark see it.

Left out are those that are about their source: Q10 (writing files), Q12 (the clock of the machine), Q13 (a side input
file) and Q14 (a function in Java).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.answers import Answers, differ, inner
from tests.nexmark.auctions import House
from tests.nexmark.queries import QUERIES, SCHEMA
from tests.ways import NATIVE, opened
from tidemill.changes.zset import ZSet
from tidemill.compiler.frontends.script.statements import CreateTable
from tidemill.compiler.frontends.translate import parse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ONLY_SPARK = {"q5_hot_items", "q7_highest_bid", "q8_new_users", "q11_sessions"}
"""DuckDB has no window() and session_window()."""

EPOCHS = 12


def play(query: str, way: str, epochs: int, spark: SparkSession | None = None, seed: int = 1) -> tuple[Answers, ZSet]:
    """Run a history past a view, comparing it with the evaluator after every epoch; what it shows in the end."""
    house, answers = House(seed), Answers()
    with opened(way, spark) as warehouse:
        warehouse.sql(SCHEMA)
        for statement in parse(SCHEMA):
            assert isinstance(statement, CreateTable)
            answers.declare(statement.table)
        warehouse.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
        answers.define("v", query)
        shown = ZSet()
        for epoch in house.epochs(epochs):
            warehouse.apply(epoch)
            for table, changes in epoch.items():
                answers.rows[table].update_by(ZSet.summed((row, weight) for weight, row in changes))
            shown = ZSet.of(inner(warehouse.view("v").rows(), answers.fields("v"), "v"))
            difference = differ(answers.evaluator()["v"], shown, answers.fields("v"))
            assert not difference, f"epoch {warehouse.epoch}:\n{difference}"
    return answers, shown


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("way", NATIVE)
def test_native(name: str, way: str) -> None:
    for seed in range(3):
        answers, shown = play(QUERIES[name], way, EPOCHS, seed=seed)
        if name not in ONLY_SPARK:
            assert not differ(answers.duckdb()["v"], shown, answers.fields("v"))


@pytest.mark.spark
@pytest.mark.parametrize("name", QUERIES)
def test_spark(name: str, spark: SparkSession, interpreted_spark: SparkSession) -> None:
    answers, shown = play(QUERIES[name], "frames", 2, spark)
    assert not differ(answers.spark(interpreted_spark)["v"], shown, answers.fields("v"))
