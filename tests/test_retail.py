"""Twenty pipelines in the manner of TPC-DS as views, compared with the evaluator, DuckDB and Spark."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest

from tests.answers import Answers, Bags, differ, empty_duckdb, inner
from tests.retail.data import PIPELINES, SCHEMA, Epoch, Rows
from tests.ways import opened
from tidemill.changes.zset import ZSet
from tidemill.compiler.frontends.script.statements import CreateTable
from tidemill.compiler.frontends.translate import parse
from tidemill.compiler.rewrites.push_down_filters import push_down_filters
from tidemill.model.coerce import coerce_row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


NOT_ASKED_OF_DUCKDB = frozenset({"sales_per_class"})
"""Its median of DECIMALs is rounded to their digits, and its quotient of them is a DOUBLE."""


def declared() -> Answers:
    """The tables and pipelines, without rows."""
    answers = Answers()
    for statement in parse(SCHEMA):
        assert isinstance(statement, CreateTable)
        answers.declare(statement.table)
    for name, query in PIPELINES.items():
        answers.define(name, query)
        answers.relations[name] = push_down_filters(answers.relations[name])
    return answers


@cache
def told(epochs: int) -> tuple[Answers, list[tuple[Epoch, Bags, Bags]]]:
    """Each epoch of a history, and the rows of all views after it by the evaluator and by DuckDB."""
    answers, seen = declared(), []
    with empty_duckdb() as duckdb:
        for epoch in Rows(seed=8).epochs(epochs):
            for table, pairs in epoch.items():
                fields = answers.fields(table)
                answers.rows[table].update_by(ZSet.summed((coerce_row(r, fields, table), w) for w, r in pairs))
            seen.append((epoch, answers.evaluator(), answers.duckdb(duckdb, leaving=NOT_ASKED_OF_DUCKDB)))
    return answers, seen


@pytest.mark.turns("way")
@pytest.mark.parametrize("way", ["held", "llvm"])
def test_views_follow_their_tables(way: str) -> None:
    answers, history = told(epochs=3)
    counts = dict.fromkeys(PIPELINES, 0)
    with opened(way) as warehouse:
        warehouse.sql(SCHEMA)
        for name, query in PIPELINES.items():
            warehouse.sql(f"CREATE MATERIALIZED VIEW {name} WITH (require = 'incremental') AS {query}")
        for epoch, evaluator, duckdb in history:
            warehouse.apply(epoch)
            for name in PIPELINES:
                fields = answers.fields(name)
                shown = ZSet.of(inner(warehouse.view(name).rows(), fields, name))
                for who, bags in (("the evaluator", evaluator), ("DuckDB", duckdb)):
                    difference = differ(bags.get(name, shown), shown, fields)
                    assert not difference, f"{name} is not what {who} says:\n{difference}"
                counts[name] += len(shown)
    assert all(counts.values()), f"no row was ever compared of {[name for name, rows in counts.items() if not rows]}"


@pytest.mark.spark
def test_spark_gives_the_same_answers(spark: SparkSession) -> None:
    answers, history = told(epochs=3)
    evaluator = history[-1][1]
    for name, bag in answers.spark(spark).items():
        assert not differ(evaluator[name], bag, answers.fields(name)), name
