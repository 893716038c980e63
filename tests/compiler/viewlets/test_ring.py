"""Polynomials: expansion between parts, NULLs that count nothing, factors taken out again."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compiler.viewlets.meaning import polynomial
from tidemill.algebra.evaluate import evaluate_scalar
from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.scalars import Case, Cast, Column, Literal, Scalar
from tidemill.algebra.relational.walk import columns_in
from tidemill.algebra.text import text_of
from tidemill.compiler.viewlets.ring_calculus.polynomials import (
    ProductTerm,
    as_ring,
    collected,
    exact,
    expand,
    known,
    number_of,
    scalar_of,
    scaled,
)
from tidemill.model import types as t
from tidemill.model.types import BIGINT, INT

COLUMNS = {
    "a.i": Column("a.i", INT),
    "a.d": Column("a.d", t.Decimal(6, 2)),
    "b.i": Column("b.i", BIGINT, nullable=False),
    "b.d": Column("b.d", t.Decimal(4, 1)),
}


def owner(name: str) -> str:
    return name.partition(".")[0]


def scalars() -> st.SearchStrategy[Scalar]:
    leaves = st.sampled_from([*COLUMNS.values(), Literal(2, INT), Literal(Decimal("0.5"), t.Decimal(2, 1))])
    operators = st.sampled_from(("add", "subtract", "multiply"))
    return st.recursive(leaves, lambda below: st.builds(call, operators, below, below), max_leaves=5)


def rows() -> st.SearchStrategy[dict[str, Any]]:
    whole = st.integers(-3, 3)
    return st.fixed_dictionaries(
        {
            "a.i": whole | st.none(),
            "a.d": st.decimals(-3, 3, places=2) | st.none(),
            "b.i": whole,
            "b.d": st.decimals(-3, 3, places=1) | st.none(),
        }
    )


@given(scalar=scalars(), row=rows())
def test_expansion_keeps_the_value_and_null_counts_nothing(scalar: Scalar, row: dict[str, Any]) -> None:
    expanded = expand(scalar, owner)
    value = evaluate_scalar(scalar, row)
    assert polynomial(expanded, row) == (0 if value is None else Fraction(value))
    # Sums are taken apart between a and b, so no factor reads both.
    assert all(len({owner(n) for n in columns_in(f)}) <= 1 for term in expanded for f in term.factors)


@given(scalar=scalars(), row=rows())
def test_factorization_gives_back_the_value(scalar: Scalar, row: dict[str, Any]) -> None:
    expanded = expand(scalar, owner)
    for whole in (scalar_of(expanded), number_of(expanded)):
        value = evaluate_scalar(whole, row)
        assert (0 if value is None else Fraction(value)) == polynomial(expanded, row)
    assert evaluate_scalar(number_of(expanded), row) is not None


def test_common_factors_are_taken_out() -> None:
    a, b, c = (Column(name, BIGINT, nullable=False) for name in "abc")
    assert text_of(scalar_of((ProductTerm(1, (a, b)), ProductTerm(1, (a, c))))) == "a * (b + c)"


def test_like_terms_become_one_and_opposites_vanish() -> None:
    a, b = (Column(name, BIGINT) for name in "ab")
    assert collected([ProductTerm(1, (a, b)), ProductTerm(1, (b, a))]) == (ProductTerm(2, (a, b)),)
    assert collected([ProductTerm(1, (a,)), *scaled((ProductTerm(1, (a,)),), -1)]) == ()


def test_a_case_is_a_product_with_its_condition() -> None:
    price, rate = Column("p.price", t.Decimal(8, 2)), Column("r.rate", t.Decimal(4, 2))
    seen = call("is_not_null", call("multiply", price, rate))
    (term,) = expand(Case(((seen, Literal(1, BIGINT)),), Literal(0, BIGINT), BIGINT), owner)
    assert [text_of(factor) for factor in term.factors] == ["p.price IS NOT NULL", "r.rate IS NOT NULL"]


def test_a_product_that_sql_rounds_is_left_alone() -> None:
    wide = [Column(f"{name}.x", t.Decimal(38, 20)) for name in "ab"]
    rounded = call("multiply", *wide)
    assert exact(rounded) == rounded
    assert expand(rounded, owner) == (ProductTerm(1, (rounded,)),)


def test_an_overflow_of_sql_is_none_of_the_ring() -> None:
    large = Literal(2**62, BIGINT)
    assert evaluate_scalar(exact(call("multiply", large, large)), {}) == 2**124


def test_a_number_gets_the_digits_of_its_ring() -> None:
    assert evaluate_scalar(as_ring(Literal(3, INT), t.Decimal(38, 2)), {}) == Decimal("3.00")


@pytest.mark.parametrize("scalar", [Cast(COLUMNS["a.i"], BIGINT), call("add", COLUMNS["a.i"], COLUMNS["b.i"])])
def test_what_is_known_follows_from_the_columns(scalar: Scalar) -> None:
    assert [text_of(condition) for condition in known(scalar)] == ["a.i IS NOT NULL"]
