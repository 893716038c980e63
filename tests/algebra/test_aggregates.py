"""Aggregates from ring values: summed parts, finished, equal the evaluator's results."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.partial_sums import LOW, PartialSum
from tidemill.algebra.aggregates.registry import aggregate_type, finalize, partial_sums
from tidemill.algebra.aggregates.statistics import COVARIANCES, VARIANCES
from tidemill.algebra.evaluate import aggregate_value, evaluate_scalar
from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.scalars import Column, Literal, Scalar
from tidemill.algebra.values.decimals import EXACT
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault, TypeMismatch
from tidemill.model.types import Type

PRICE = t.Decimal(12, 2)
WEIGHT = Column("_weight", t.BIGINT, nullable=False)


def aggregate(function: str, argument: Scalar | None, filter: Scalar | None = None) -> AggregateCall:
    of = aggregate_type(function, argument.type if argument else None)
    return AggregateCall("v", function, argument, of, filter=filter)


@pytest.mark.parametrize(
    ("function", "argument", "result"),
    [
        ("count", None, "BIGINT"),
        ("count", t.STRING, "BIGINT"),
        ("sum", t.INT, "BIGINT"),
        ("sum", t.BIGINT, "BIGINT"),
        ("sum", PRICE, "DECIMAL(22,2)"),
        ("sum", t.Decimal(35, 4), "DECIMAL(38,4)"),
        ("sum", t.DOUBLE, "DOUBLE"),
        ("avg", t.INT, "DOUBLE"),
        ("avg", PRICE, "DECIMAL(16,6)"),
        ("avg", t.Decimal(38, 36), "DECIMAL(38,38)"),
        ("avg", t.DOUBLE, "DOUBLE"),
        ("min", t.DATE, "DATE"),
        ("max_by", PRICE, "DECIMAL(12,2)"),
        ("array_agg", t.STRING, "ARRAY<STRING>"),
        ("bool_and", t.BOOLEAN, "BOOLEAN"),
        ("var_samp", PRICE, "DOUBLE"),
        ("stddev_pop", t.BIGINT, "DOUBLE"),
    ],
)
def test_result_types(function: str, argument: Type | None, result: str) -> None:
    assert str(aggregate_type(function, argument)) == result


@pytest.mark.parametrize("argument", [t.STRING, t.DATE, t.BOOLEAN, None])
def test_sums_are_of_numbers(argument: Type | None) -> None:
    with pytest.raises(TypeMismatch, match="SUM takes numbers"):
        aggregate_type("sum", argument)


def test_what_cannot_be_null_needs_no_count() -> None:
    known = Column("x", PRICE, nullable=False)
    assert partial_sums(aggregate("sum", known)) == (PartialSum(known, t.Decimal(38, 2)),)
    assert partial_sums(aggregate("count", known)) == ()
    assert finalize(aggregate("count", known), (), WEIGHT) == WEIGHT


def test_aggregates_of_one_column_share_their_parts() -> None:
    nullable = Column("x", PRICE)
    assert partial_sums(aggregate("avg", nullable)) == partial_sums(aggregate("sum", nullable))
    assert partial_sums(aggregate("sum", nullable))[1:] == partial_sums(aggregate("count", nullable))


def test_sum_that_overflows() -> None:
    total = aggregate("sum", Column("x", t.BIGINT))
    members = [({"x": 2**63 - 1}, 2)]
    with pytest.raises(ArithmeticFault):
        aggregate_value(total, members)
    with pytest.raises(ArithmeticFault):
        through_parts(total, members)
    assert through_parts(aggregate("avg", Column("x", t.BIGINT)), members) == float(2**63 - 1)


def test_special_doubles() -> None:
    total = aggregate("sum", Column("x", t.DOUBLE))
    assert aggregate_value(total, [({"x": math.inf}, 1), ({"x": 1.0}, 1)]) == math.inf
    assert math.isnan(aggregate_value(total, [({"x": math.inf}, 1), ({"x": -math.inf}, 1)]))
    assert aggregate_value(total, [({"x": 1e308}, 2), ({"x": 1e308}, -1)]) == 1e308
    assert aggregate_value(total, [({"x": 1e308}, 3)]) == math.inf
    assert aggregate_value(total, [({"x": 0.1}, 1), ({"x": 1e20}, 1), ({"x": -1e20}, 1)]) == 0.1


def through_parts(call_: AggregateCall, members: list[tuple[dict[str, Any], int]]) -> Any:
    """The aggregate as a runtime computes it: sum the parts, then finish."""
    row: dict[str, Any] = {"_weight": sum(weight for _, weight in members)}
    seen: list[Scalar] = []
    for i, part in enumerate(partial_sums(call_)):
        terms = [(evaluate_scalar(part.argument, values), weight) for values, weight in members]
        row |= summed(f"p{i}", [(value, weight) for value, weight in terms if value is not None], part.of)
        seen.append(Column(f"p{i}", part.of, nullable=False))
    return evaluate_scalar(finalize(call_, seen, WEIGHT), row)


def summed(name: str, terms: list[tuple[Any, int]], of: Type) -> dict[str, Any]:
    """What expressions see of a sum: a DOUBLE in two halves."""
    if isinstance(of, t.Decimal):
        total = Decimal(0)
        for value, weight in terms:
            total = EXACT.add(total, EXACT.multiply(value, Decimal(weight)))
        return {name: total}
    exact = sum((Fraction(value) * weight for value, weight in terms), Fraction())
    if of != t.DOUBLE:
        return {name: int(exact)}
    return {name: float(exact), name + LOW: float(exact - Fraction(float(exact)))}


VALUES: dict[Type, st.SearchStrategy[Any]] = {
    t.INT: st.integers(-(2**31), 2**31 - 1),
    t.BIGINT: st.integers(-(2**58), 2**58),  # of eight of these, each three times, the sum is still a BIGINT
    PRICE: st.decimals(-(10**9), 10**9, places=2),
    t.DOUBLE: st.integers(-1000, 1000).map(float),
}


@pytest.mark.parametrize("type_", list(VALUES), ids=str)
@pytest.mark.parametrize("function", ["sum", "avg", "count"])
@pytest.mark.parametrize("filtered", [False, True])
@given(data=st.data())
def test_parts_say_what_the_evaluator_says(type_: Type, function: str, filtered: bool, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.none() | VALUES[type_], max_size=8))
    members = [({"x": value, "n": n}, data.draw(st.integers(1, 3))) for n, value in enumerate(values)]
    condition = call("gt", Column("n", t.INT), Literal(1, t.INT)) if filtered else None
    subject = aggregate(function, Column("x", type_), condition)
    assert through_parts(subject, members) == aggregate_value(subject, members)


@pytest.mark.parametrize("type_", list(VALUES), ids=str)
@pytest.mark.parametrize("function", [function.name for function in VARIANCES])
@pytest.mark.parametrize("filtered", [False, True])
@given(data=st.data())
def test_spreads_come_from_sums(type_: Type, function: str, filtered: bool, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.none() | VALUES[type_], max_size=8))
    members = [({"x": value, "n": n}, data.draw(st.integers(1, 3))) for n, value in enumerate(values)]
    condition = call("gt", Column("n", t.INT), Literal(1, t.INT)) if filtered else None
    subject = aggregate(function, Column("x", type_), condition)
    assert alike(through_parts(subject, members), aggregate_value(subject, members))


@pytest.mark.parametrize("function", [function.name for function in COVARIANCES])
@given(st.lists(st.tuples(st.none() | VALUES[t.INT], st.none() | VALUES[t.DOUBLE])))
def test_spreads_of_pairs_come_from_sums(function: str, pairs: list[tuple[int | None, float | None]]) -> None:
    members = [({"x": x, "y": y}, 1) for x, y in pairs]
    subject = replace(aggregate(function, Column("x", t.INT)), others=(Column("y", t.DOUBLE),))
    assert alike(through_parts(subject, members), aggregate_value(subject, members))


def alike(one: float | None, other: float | None) -> bool:
    """The same to the last digit or two: quotients and roots are rounded."""
    return one is other is None or math.isclose(one or 0.0, other or 0.0, rel_tol=1e-15, abs_tol=1e-300)


@pytest.mark.parametrize(("function", "truth"), [("bool_and", False), ("bool_or", True)])
@given(st.lists(st.none() | st.booleans()))
def test_one_value_decides(function: str, truth: bool, values: list[bool | None]) -> None:
    members = [({"x": value}, 1) for value in values]
    subject = aggregate(function, Column("x", t.BOOLEAN))
    known = [value for value in values if value is not None]
    expected = None if not known else truth if truth in known else not truth
    assert through_parts(subject, members) == aggregate_value(subject, members) == expected


def test_values_far_from_zero_keep_their_spread() -> None:
    members = [({"x": 1.7e9 + x}, 1) for x in (0.25, 0.75)]
    assert through_parts(aggregate("var_pop", Column("x", t.DOUBLE)), members) == 0.0625
    alone = [({"x": 0.1}, 3)]
    assert through_parts(aggregate("stddev_pop", Column("x", t.DOUBLE)), alone) == 0.0


@given(st.lists(VALUES[PRICE], min_size=1), st.lists(VALUES[PRICE]))
def test_deletions_take_back_what_insertions_brought(kept: list[Decimal], removed: list[Decimal]) -> None:
    subject = aggregate("avg", Column("x", PRICE))
    stays = [({"x": value}, 1) for value in kept]
    passing = [({"x": value}, weight) for value in removed for weight in (1, -1)]
    assert through_parts(subject, stays + passing) == aggregate_value(subject, stays)
