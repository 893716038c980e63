"""Comparisons as ranges, simplified conditions on nested sums, and turning points."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.registry import finalize
from tidemill.algebra.evaluate import evaluate_scalar
from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.scalars import Call, Case, Cast, Column, Literal, Scalar
from tidemill.algebra.text import text_of
from tidemill.compiler.viewlets.ring_calculus.conditions import NEVER, is_fragile, plain, settled
from tidemill.compiler.viewlets.ring_calculus.ranges import bound_on, falls, is_empty, range_of
from tidemill.model import types as t
from tidemill.model.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING

A, B = Column("a.x", BIGINT), Column("b.x", t.Decimal(8, 2))


def number(value: int) -> Literal:
    return Literal(value, INT)


@pytest.mark.parametrize(
    ("condition", "below", "bound", "closed"),
    [
        (call("lt", A, B), False, "b.x", False),
        (call("ge", B, A), False, "b.x", True),
        (call("gt", call("subtract", A, B), number(1000)), True, "b.x + 1000.00", False),
        (call("gt", call("subtract", B, A), number(1000)), False, "b.x - 1000.00", False),
        (call("le", number(3), call("add", A, A)), None, "", False),
        (call("le", number(3), call("multiply", A, number(2))), None, "", False),
        (call("eq", A, B), None, "", False),
    ],
)
def test_limit(condition: Scalar, below: bool | None, bound: str, closed: bool) -> None:
    found = bound_on(condition, "a.x")
    if below is None:
        assert found is None
    else:
        assert found is not None
        assert (found.below, text_of(found.bound.scalar), found.bound.closed) == (below, bound, closed)


@pytest.mark.parametrize("type_", [DOUBLE, STRING, BOOLEAN])
def test_no_limit_where_not_every_runtime_has_the_order(type_: t.Type) -> None:
    assert bound_on(Call("lt", (Column("a.x", type_), Column("b.x", type_)), BOOLEAN), "a.x") is None


@given(a=st.integers(-9, 9), b=st.decimals(-9, 9, places=2), comparison=st.sampled_from(("lt", "le", "gt", "ge")))
def test_a_limit_says_what_the_condition_says(a: int, b: Decimal, comparison: str) -> None:
    condition = call(comparison, call("subtract", B, call("add", A, number(2))), number(1))
    found = bound_on(condition, "a.x")
    assert found is not None
    row: dict[str, Any] = {"a.x": a, "b.x": b}
    side = ("ge" if found.bound.closed else "gt") if found.below else ("le" if found.bound.closed else "lt")
    assert evaluate_scalar(call(side, A, found.bound.scalar), row) == evaluate_scalar(condition, row)


def test_two_limits_that_leave_nothing() -> None:
    above, below = (bound_on(call("gt", call("subtract", *pair), number(1000)), "a.x") for pair in ((A, B), (B, A)))
    near = bound_on(call("lt", A, call("add", B, number(2000))), "a.x")
    assert above is not None
    assert below is not None
    assert near is not None
    assert is_empty(above, below)
    assert not is_empty(above, near)
    assert not is_empty(above, above)
    assert range_of([above, above]) is None
    assert range_of([above, near]) == (above.bound, near.bound)


# -------------------------------------------------------------------------------------------------- nested aggregates

COUNT, SUM = Column("n1._weight", BIGINT, nullable=False), Column("n1.0", BIGINT, nullable=False)
NULL_SUM = finalize(AggregateCall("s", "sum", Column("y", BIGINT, nullable=False), BIGINT), [SUM], COUNT)


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        (call("lt", number(100), NULL_SUM), "100 < BIGINT_CHECKED(n1.0)"),
        (call("gt", A, call("coalesce", NULL_SUM, number(0))), "a.x > BIGINT_CHECKED(n1.0)"),
        (call("gt", number(1), NULL_SUM), "1 > CASE WHEN n1._weight = 0 THEN NULL ELSE BIGINT_CHECKED(n1.0) END"),
        (call("coalesce", call("gt", A, NULL_SUM), Literal(True, BOOLEAN)), None),
    ],
)
def test_cases_that_say_nothing_are_gone(condition: Scalar, text: str | None) -> None:
    assert text_of(plain(condition)) == (text_of(condition) if text is None else text)


def test_a_case_that_decides_everything_is_its_condition() -> None:
    holds = call("gt", A, number(3))
    one = Case(((holds, Literal(1, BIGINT)),), Literal(0, BIGINT), BIGINT)
    counted = finalize(AggregateCall("s", "sum", Literal(1, INT), BIGINT), [one], one)
    assert plain(call("le", number(1), counted)) == holds


def test_a_thing_compared_with_itself() -> None:
    assert settled(call("lt", A, A)) == NEVER
    assert text_of(settled(call("eq", A, A))) == "a.x IS NOT NULL"


def test_a_nested_sum_that_may_not_fit_is_no_reason_to_wait() -> None:
    wide = Column("n1.0", t.Decimal(38, 2))
    assert not is_fragile(call("lt", Literal(Decimal(100), t.Decimal(3, 0)), Cast(wide, t.Decimal(25, 2))))
    assert is_fragile(call("lt", number(1), call("divide", number(6), A)))


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (call("gt", call("multiply", Literal(Decimal("0.25"), t.Decimal(2, 2)), A), SUM), True),
        (call("gt", A, call("multiply", number(-2), SUM)), False),
        (call("lt", call("add", SUM, number(1)), A), True),
        (call("lt", call("subtract", A, SUM), number(0)), False),
        (call("ge", call("subtract", A, SUM), number(0)), True),
        (call("lt", call("multiply", SUM, A), number(0)), False),
        (call("eq", SUM, A), False),
    ],
)
def test_whether_a_condition_only_falls(condition: Scalar, expected: bool) -> None:
    assert falls(condition, {"n1.0"}) is expected
