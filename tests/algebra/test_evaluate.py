"""The meaning of each relation, on Z-sets small enough to check by eye."""

from __future__ import annotations

import math

import pytest

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.evaluate import evaluate, evaluate_scalar
from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.scalars import Case, Column, Literal, Named
from tidemill.algebra.relational.relations import (
    Aggregate,
    Change,
    Distinct,
    Filter,
    Join,
    Project,
    Scan,
    UnionAll,
    Values,
)
from tidemill.changes.zset import ZSet
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault
from tidemill.model.types import Field

ORDERS = Scan("orders", "o", (Field("who", t.STRING), Field("n", t.INT)))
WHO, N = Column("o.who", t.STRING), Column("o.n", t.INT)
TABLES = {"orders": ZSet({("ann", 1): 2, ("bob", None): 1, (None, 5): 1, ("bob", 7): -1})}


def test_scan_and_change() -> None:
    assert evaluate(ORDERS, TABLES) == TABLES["orders"]
    change = Change("orders", "o", ORDERS.columns)
    assert evaluate(change, {change.source: ZSet({("eve", 1): -1})}) == ZSet({("eve", 1): -1})


def test_values() -> None:
    assert evaluate(Values(((1,), (1,), (2,)), (Field("n", t.INT),)), {}) == ZSet({(1,): 2, (2,): 1})


def test_filter_keeps_only_what_is_true() -> None:
    kept = evaluate(Filter(ORDERS, call("lt", N, Literal(6, t.INT))), TABLES)
    assert kept == ZSet({("ann", 1): 2, (None, 5): 1})


def test_project_adds_the_weights_of_rows_that_become_equal() -> None:
    assert evaluate(Project(ORDERS, (Named("who", WHO),)), TABLES) == ZSet({("ann",): 2, (None,): 1})


def test_join_multiplies_weights_and_null_never_matches() -> None:
    other = Scan("orders", "p", ORDERS.columns)
    joined = Join(ORDERS, other, call("eq", WHO, Column("p.who", t.STRING)))
    assert evaluate(joined, TABLES) == ZSet(
        {
            ("ann", 1, "ann", 1): 4,
            ("bob", None, "bob", None): 1,
            ("bob", None, "bob", 7): -1,
            ("bob", 7, "bob", None): -1,
            ("bob", 7, "bob", 7): 1,
        }
    )
    assert sum(evaluate(Join(ORDERS, other), TABLES).values()) == 9


def test_union_all_is_the_sum() -> None:
    assert evaluate(UnionAll((ORDERS, ORDERS)), TABLES) == TABLES["orders"] + TABLES["orders"]


def test_distinct_keeps_positive_rows_once() -> None:
    assert evaluate(Distinct(ORDERS), TABLES) == ZSet({("ann", 1): 1, ("bob", None): 1, (None, 5): 1})


COUNT = AggregateCall("n", "count", None, t.BIGINT)
SUM = AggregateCall("total", "sum", N, t.BIGINT)


def test_groups_exist_while_they_have_rows() -> None:
    grouped = evaluate(Aggregate(ORDERS, (Named("who", WHO),), (COUNT, SUM)), TABLES)
    assert grouped == ZSet({("ann", 2, 2): 1, (None, 1, 5): 1})


def test_global_aggregate_over_nothing_has_a_row() -> None:
    assert evaluate(Aggregate(ORDERS, (), (COUNT, SUM)), {"orders": ZSet()}) == ZSet({(0, None): 1})
    assert evaluate(Aggregate(ORDERS, (Named("who", WHO),), (COUNT,)), {"orders": ZSet()}) == ZSet()


def test_group_by_nan() -> None:
    readings = Scan("readings", "r", (Field("x", t.DOUBLE),))
    doubled = Named("x", call("multiply", Column("r.x", t.DOUBLE), Literal(2.0, t.DOUBLE)))
    tables = {"readings": ZSet({(math.nan,): 1, (math.inf,): 2, (-0.0,): 1})}
    groups = evaluate(Aggregate(Project(readings, (doubled,)), (Named("x", Column("x", t.DOUBLE)),), (COUNT,)), tables)
    assert groups == ZSet({(math.nan, 1): 1, (math.inf, 2): 1, (0.0, 1): 1})


def test_branches_not_taken_are_not_computed() -> None:
    fails = call("div", Literal(1, t.INT), Column("zero", t.INT))
    row = {"zero": 0, "p": True, "none": None}
    guarded = Case(((Column("p", t.BOOLEAN), Literal(7, t.BIGINT)),), fails, t.BIGINT)
    assert evaluate_scalar(guarded, row) == 7
    assert evaluate_scalar(call("coalesce", Literal(7, t.BIGINT), fails), row) == 7
    refused = call("eq", fails, fails)
    assert evaluate_scalar(call("and", call("not", Column("p", t.BOOLEAN)), refused), row) is False
    assert evaluate_scalar(call("or", Column("p", t.BOOLEAN), refused), row) is True
    assert evaluate_scalar(call("add", Column("none", t.INT), fails), row) is None
    with pytest.raises(ArithmeticFault, match="division by zero"):
        evaluate_scalar(fails, row)
