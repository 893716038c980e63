"""Spark's rules for the precision and scale of DECIMAL results, and rounding."""

from __future__ import annotations

from decimal import Decimal as Number

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.algebra.values import decimals
from tidemill.algebra.values.decimals import divided, fitted, quantized
from tidemill.model.errors import ArithmeticFault
from tidemill.model.types import MAX_PRECISION, Decimal


@pytest.mark.parametrize(
    ("rule", "left", "right", "result"),
    [
        (decimals.sum_type, Decimal(12, 2), Decimal(1, 0), Decimal(13, 2)),
        (decimals.sum_type, Decimal(38, 10), Decimal(38, 2), Decimal(38, 6)),
        (decimals.product_type, Decimal(12, 2), Decimal(13, 2), Decimal(26, 4)),
        (decimals.product_type, Decimal(26, 4), Decimal(13, 2), Decimal(38, 6)),
        (decimals.product_type, Decimal(38, 10), Decimal(38, 10), Decimal(38, 6)),
        (decimals.quotient_type, Decimal(12, 2), Decimal(12, 2), Decimal(27, 15)),
        (decimals.quotient_type, Decimal(38, 0), Decimal(38, 38), Decimal(38, 6)),
        (decimals.remainder_type, Decimal(12, 2), Decimal(5, 3), Decimal(5, 3)),
        (decimals.wider, Decimal(10, 0), Decimal(4, 2), Decimal(12, 2)),
        (decimals.wider, Decimal(38, 0), Decimal(38, 20), Decimal(38, 0)),
    ],
)
def test_result_types(rule: decimals.DecimalTypeRule, left: Decimal, right: Decimal, result: Decimal) -> None:
    assert rule(left, right) == result


@pytest.mark.parametrize(
    ("value", "rounded"),
    [("2.345", "2.35"), ("-2.345", "-2.35"), ("2.3449", "2.34"), ("-0.001", "0.00"), ("7", "7.00")],
)
def test_half_is_rounded_away_from_zero(value: str, rounded: str) -> None:
    assert str(quantized(Number(value), Decimal(5, 2))) == rounded


@pytest.mark.parametrize("value", ["999.995", "1000", "-1e9", "1e300"])
def test_too_many_digits(value: str) -> None:
    assert fitted(Number(value), Decimal(5, 2)) is None
    with pytest.raises(ArithmeticFault, match="does not fit DECIMAL"):
        quantized(Number(value), Decimal(5, 2))


def test_division_by_zero() -> None:
    with pytest.raises(ArithmeticFault, match="division by zero"):
        divided(Number(1), Number(0))


def test_quotients_keep_38_places() -> None:
    assert str(divided(Number(2), Number(3))) == "0." + "6" * 37 + "7"


numbers = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30, places=8)


@given(numbers, numbers)
def test_sums_of_wide_numbers_are_exact(left: Number, right: Number) -> None:
    scaled = int(left.scaleb(8, decimals.EXACT)) + int(right.scaleb(8, decimals.EXACT))
    assert decimals.EXACT.add(left, right) == Number(scaled).scaleb(-8, decimals.EXACT)


types = st.integers(1, MAX_PRECISION).flatmap(lambda p: st.builds(Decimal, st.just(p), st.integers(0, p)))


@given(types, types)
def test_result_types_are_types(left: Decimal, right: Decimal) -> None:
    for rule in (
        decimals.sum_type,
        decimals.product_type,
        decimals.quotient_type,
        decimals.remainder_type,
        decimals.wider,
    ):
        result = rule(left, right)
        assert 0 <= result.scale <= result.precision <= MAX_PRECISION
