"""All 22 queries of TPC-H as views, compared with the evaluator and DuckDB after every epoch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import pytest

import tidemill
from tests.answers import Answers, Bags, differ, empty_duckdb, inner
from tests.tpch.data import QUERIES, SCHEMA, Epoch, Rows
from tests.ways import opened
from tidemill.changes.zset import ZSet
from tidemill.compiler.frontends.script.statements import CreateTable
from tidemill.compiler.frontends.translate import parse
from tidemill.compiler.rewrites.push_down_filters import push_down_filters
from tidemill.model.coerce import coerce_row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NESTED = ("q2", "q4", "q13", "q16", "q20", "q21", "q22")
"""Queries with subqueries of every kind, and the outer join: those that go through Spark as well."""


@dataclass(frozen=True)
class Told:
    """The rows of views after each epoch of one history."""

    answers: Answers
    epochs: list[tuple[Epoch, Bags, Bags]]
    """Each epoch, and the rows of all views after it as the evaluator and DuckDB see them."""


@cache
def told(names: Sequence[str], epochs: int) -> Told:
    """The answers to these queries, computed once for all strategies and runtimes."""
    answers = Answers()
    for statement in parse(SCHEMA):
        assert isinstance(statement, CreateTable)
        answers.declare(statement.table)
    for name in names:
        answers.define(name, QUERIES[name])
        # FROM a, b, c ... WHERE means all triples first; with conditions where they belong it can be evaluated.
        answers.relations[name] = push_down_filters(answers.relations[name])
    seen = []
    with empty_duckdb() as duckdb:
        for epoch in Rows(seed=34).epochs(epochs):
            for table, pairs in epoch.items():
                fields = answers.fields(table)
                answers.rows[table].update_by(ZSet.summed((coerce_row(r, fields, table), w) for w, r in pairs))
            seen.append((epoch, answers.evaluator(), answers.duckdb(duckdb)))
    return Told(answers, seen)


class Watched:
    """Views under way, and the answers that they must give."""

    def __init__(self, warehouse: tidemill.Warehouse, strategy: str, names: Sequence[str], told: Told) -> None:
        self.warehouse = warehouse
        self.answers = told.answers
        self.seen = dict.fromkeys(names, 0)
        warehouse.sql(SCHEMA)
        for name in names:
            warehouse.sql(f"CREATE MATERIALIZED VIEW {name} WITH (strategy = '{strategy}') AS {QUERIES[name]}")

    def take(self, epoch: Epoch, evaluator: Bags, duckdb: Bags) -> None:
        """One epoch, after which all views must show what the others say."""
        self.warehouse.apply(epoch)
        for name in self.seen:
            shown = ZSet.of(inner(self.warehouse.view(name).rows(), self.answers.fields(name), name))
            for who, answers in (("the evaluator", evaluator), ("DuckDB", duckdb)):
                difference = differ(answers[name], shown, self.answers.fields(name))
                assert not difference, f"{name} is not what {who} says:\n{difference}"
            self.seen[name] += sum(1 for row in shown if any(value is not None for value in row))


def watch(warehouse: tidemill.Warehouse, strategy: str, names: Sequence[str], of: Told) -> Watched:
    watched = Watched(warehouse, strategy, names, of)
    for epoch, evaluator, duckdb in of.epochs:
        watched.take(epoch, evaluator, duckdb)
    return watched


@pytest.mark.turns("strategy")
@pytest.mark.parametrize("strategy", ["delta", "viewlet"])
@pytest.mark.parametrize("name", QUERIES)
def test_native(name: str, strategy: str) -> None:
    with opened("held") as warehouse:
        watched = watch(warehouse, strategy, [name], told(tuple(QUERIES), epochs=5))
    assert watched.seen[name], "no row was ever compared"


@pytest.mark.turns("way")
@pytest.mark.spark
@pytest.mark.parametrize("way", ["frames", "driver"])
def test_spark(way: str, spark: SparkSession) -> None:
    with opened(way, spark) as warehouse:
        watch(warehouse, "delta", NESTED, told(NESTED, epochs=2))
