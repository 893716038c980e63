"""Differences in which most digits cancel: exact in Python, and to about 32 digits in Spark."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.algebra.functions.numbers.variance import correlation, deviation, product_error
from tidemill.algebra.functions.registry import FUNCTIONS
from tidemill.model.types import BIGINT, DOUBLE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLOATS = st.floats(-1e100, 1e100).filter(lambda x: x == 0 or abs(x) > 1e-100)


@given(FLOATS, FLOATS)
def test_a_product_and_its_error_are_exact(left: float, right: float) -> None:
    assert Fraction(left * right) + Fraction(product_error(left, right)) == Fraction(left) * Fraction(right)


@pytest.mark.parametrize("pair", [(math.inf, 1.0), (1e200, 1e200), (1e301, 1e-5), (math.nan, 1.0)])
def test_what_is_too_large_has_no_error(pair: tuple[float, float]) -> None:
    assert product_error(*pair) == 0.0


def halves(exact: Fraction) -> tuple[float, float]:
    high = float(exact)
    return high, float(exact - Fraction(high))


def sums(pairs: list[tuple[float, float]]) -> tuple[float, ...]:
    """The sums that a deviation is computed from."""
    one = sum((Fraction(x) for x, _ in pairs), Fraction())
    other = sum((Fraction(y) for _, y in pairs), Fraction())
    products = sum((Fraction(x * y) for x, y in pairs), Fraction())
    errors = sum((Fraction(product_error(x, y)) for x, y in pairs), Fraction())
    return (*halves(one), *halves(other), *halves(products), *halves(errors))


def exact(pairs: list[tuple[float, float]]) -> float:
    mean = sum((Fraction(x) for x, _ in pairs), Fraction()) / len(pairs)
    return float(sum(((Fraction(x) - mean) * Fraction(y) for x, y in pairs), Fraction()))


CLOSE = [[(1.7e9 + i / 7, 3e8 - i / 3) for i in range(n)] for n in (1, 2, 3, 50)]


@pytest.mark.parametrize("pairs", CLOSE, ids=len)
def test_deviations_are_exact(pairs: list[tuple[float, float]]) -> None:
    assert deviation(len(pairs), *sums(pairs)) == pytest.approx(exact(pairs), rel=1e-15)


def test_no_number_no_deviation() -> None:
    assert math.isnan(deviation(1, math.inf, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0))


def test_what_does_not_vary_is_not_correlated() -> None:
    assert correlation(0.0, 0.0, 2.0) is None
    assert correlation(2.0, 4.0, 1.0) == 1.0


@pytest.mark.spark
def test_deviations_in_spark(spark: SparkSession) -> None:
    names = [f"a{i}" for i in range(9)]
    text = FUNCTIONS["deviation"].spell(names, DOUBLE, [BIGINT, *[DOUBLE] * 8])
    cases = [(len(pairs), *sums(pairs)) for pairs in CLOSE]
    frame = spark.createDataFrame(cases, ", ".join(f"{n} {'BIGINT' if n == 'a0' else 'DOUBLE'}" for n in names))
    found = [row[0] for row in frame.selectExpr(text).collect()]
    assert found == [pytest.approx(deviation(*case), rel=1e-14) for case in cases]


@pytest.mark.spark
def test_errors_of_products_in_spark(spark: SparkSession) -> None:
    pairs = [(0.1, 0.3), (1e200, 1e200), (math.inf, 1.0), (1e10 / 3, -7e-3), (None, 1.0)]
    text = FUNCTIONS["product_error"].spell(["x", "y"], DOUBLE, [DOUBLE, DOUBLE])
    found = [row[0] for row in spark.createDataFrame(pairs, "x DOUBLE, y DOUBLE").selectExpr(text).collect()]
    assert found == [None if x is None else product_error(x, y) for x, y in pairs]
