"""Subqueries in expressions beside Spark's own: the same answers, or its refusal and what is done about it."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException

import tidemill
from tests.answers import Answers, differ
from tests.compiler.nested import NESTED
from tests.compiler.shop import TABLES, VALUES
from tidemill.changes.zset import ZSet
from tidemill.model.schema import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

REFUSED = {
    "nested_eq_two",
    "nested_mixed_arg",
    "nested_only_arg",
    "nested_skip",
    "nested_scalar",
    "nested_grouped_select",
    "nested_join_on",
    "nested_inner_from_total",
    "nested_filtered",
    "nested_in_value",
    "nested_in_having",
    "nested_as_outer_key",
}
"""Outer columns that Spark takes in WHERE and HAVING only, of the query next outside only; no subqueries in ON."""


def rows_of(table: Table, chance: random.Random) -> ZSet:
    def value(position: int) -> object:
        field = table.fields[position]
        known = chance.choice(VALUES[type(field.type)])
        return None if field.nullable and chance.random() < 0.2 else known

    return ZSet.of(tuple(map(value, range(len(table.fields)))) for _ in range(7))


@pytest.mark.parametrize("name", NESTED)
def test_answers_of_spark(name: str, interpreted_spark: SparkSession) -> None:
    chance = random.Random(name)
    known = Answers()
    for table in TABLES.values():
        if table.name in NESTED[name]:
            known.declare(table)
            known.rows[table.name] = rows_of(table, chance)
    known.define(name, NESTED[name])
    if name in REFUSED:
        with pytest.raises(AnalysisException):
            known.spark(interpreted_spark)
    else:
        assert differ(known.spark(interpreted_spark)[name], known.evaluator()[name], known.fields(name)) == ""


def test_what_spark_refuses_is_verified_by_the_evaluator(spark: SparkSession) -> None:
    with tidemill.open(":memory:", runtime="spark", spark=spark) as warehouse:
        warehouse.sql(f"CREATE TABLE edges (a INT, b INT); CREATE MATERIALIZED VIEW v AS {NESTED['nested_skip']}")
        warehouse.apply({"edges": [(+1, (1, 1)), (+1, (1, 2)), (+1, (0, None))]})
        assert warehouse.view("v").rows() == [(1,), (1,)]
        assert warehouse.view("v").verify().ok
