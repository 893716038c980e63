"""All 22 queries of TPC-H as views, compared with the evaluator and DuckDB after every epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

import tidemill
from tests.answers import Answers, differ, inner
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


class Watched:
    """Views under way, and the answers that they must give."""

    def __init__(self, warehouse: tidemill.Warehouse, strategy: str, names: Sequence[str]) -> None:
        self.warehouse = warehouse
        self.answers = Answers()
        self.seen = dict.fromkeys(names, 0)
        warehouse.sql(SCHEMA)
        for statement in parse(SCHEMA):
            assert isinstance(statement, CreateTable)
            self.answers.declare(statement.table)
        for name in names:
            warehouse.sql(f"CREATE MATERIALIZED VIEW {name} WITH (strategy = '{strategy}') AS {QUERIES[name]}")
            self.answers.define(name, QUERIES[name])
            # FROM a, b, c ... WHERE means all triples first; with conditions where they belong it can be evaluated.
            self.answers.relations[name] = push_down_filters(self.answers.relations[name])

    def take(self, epoch: Epoch) -> None:
        """One epoch, after which all views must show what the others say."""
        self.warehouse.apply(epoch)
        for table, pairs in epoch.items():
            fields = self.answers.fields(table)
            self.answers.rows[table].update_by(ZSet.summed((coerce_row(r, fields, table), w) for w, r in pairs))
        for who, answers in (("the evaluator", self.answers.evaluator()), ("DuckDB", self.answers.duckdb())):
            for name, rows in answers.items():
                difference = differ(rows, self._rows(name), self.answers.fields(name))
                assert not difference, f"{name} is not what {who} says:\n{difference}"
        for name in self.seen:
            self.seen[name] += sum(1 for row in self._rows(name) if any(value is not None for value in row))

    def _rows(self, name: str) -> ZSet:
        return ZSet.of(inner(self.warehouse.view(name).rows(), self.answers.fields(name), name))


def watch(warehouse: tidemill.Warehouse, strategy: str, names: Sequence[str], epochs: int) -> Watched:
    watched = Watched(warehouse, strategy, names)
    for epoch in Rows(seed=34).epochs(epochs):
        watched.take(epoch)
    return watched


@pytest.mark.parametrize("strategy", ["delta", "viewlet"])
@pytest.mark.parametrize("name", QUERIES)
def test_native(name: str, strategy: str) -> None:
    with opened("held") as warehouse:
        watched = watch(warehouse, strategy, [name], epochs=5)
    assert watched.seen[name], "no row was ever compared"


@pytest.mark.spark
@pytest.mark.parametrize("way", ["frames", "driver"])
def test_spark(way: str, spark: SparkSession) -> None:
    with opened(way, spark) as warehouse:
        watch(warehouse, "delta", NESTED, epochs=2)
