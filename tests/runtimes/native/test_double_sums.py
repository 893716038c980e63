"""DOUBLE sums: exact where their bits fit, and the same again after whatever came has left."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.model.errors import ArithmeticFault
from tidemill.runtimes.native.state import double_sums

# Money, lengths, rates: numbers whose sum has fewer than 107 bits from its first to its last.
NUMBERS = st.integers(-(2**53), 2**53).map(lambda number: number / 2**20)
ANY = NUMBERS | st.sampled_from([math.nan, math.inf, -math.inf])
WEIGHTED = st.lists(st.tuples(ANY, st.integers(-5, 5).filter(bool)), max_size=12)


@given(WEIGHTED, st.lists(ANY))
def test_what_leaves_takes_away_what_it_brought(terms: list[tuple[float, int]], stay: list[float]) -> None:
    base = double_sums.plus(*double_sums.ZERO, stay, [])
    there = double_sums.plus(*base, [], terms)
    assert double_sums.plus(*there, [], [(term, -weight) for term, weight in terms]) == base


@given(st.lists(NUMBERS), st.integers(1, 1000))
def test_sum_is_the_rounded_exact_sum(terms: list[float], weight: int) -> None:
    high, low, special = double_sums.plus(*double_sums.ZERO, [], [(term, weight) for term in terms])
    exact = weight * sum(map(Fraction, terms))
    assert (high, special) == (float(exact), 0)
    assert Fraction(high) + Fraction(low) == exact


@given(WEIGHTED, WEIGHTED)
def test_difference_leads_from_old_to_new(before: list[tuple[float, int]], after: list[tuple[float, int]]) -> None:
    old, new = (double_sums.plus(*double_sums.ZERO, [], terms) for terms in (before, after))
    change = double_sums.difference(new, old)
    assert change is not None
    assert double_sums.combine(old, change) == new


def test_difference_is_none_where_no_double_double_has_it() -> None:
    old = double_sums.plus(*double_sums.ZERO, [1e200, 1e100], [])
    new = double_sums.plus(*double_sums.ZERO, [3.0, 1e-60], [])
    assert double_sums.difference(new, old) is None


@pytest.mark.parametrize(
    ("terms", "seen"),
    [
        ([1.0, math.inf], "inf"),
        ([1.0, -math.inf], "-inf"),
        ([math.inf, -math.inf], "nan"),
        ([math.nan, math.inf], "nan"),
        ([1e308, 1e308, -1e308], "1e+308"),
        ([-0.0], "0.0"),
    ],
)
def test_seen_value(terms: list[float], seen: str) -> None:
    high, _, special = double_sums.plus(*double_sums.ZERO, terms, [])
    assert str(double_sums.seen(high, special)) == seen


def test_sum_out_of_range_is_an_error() -> None:
    with pytest.raises(ArithmeticFault, match="leaves the range of DOUBLE"):
        double_sums.plus(*double_sums.ZERO, [1e308, 1e308], [])


@given(st.tuples(*[st.integers(-(2**62), 2**62)] * 3))
def test_packed_counts(counts: tuple[int, int, int]) -> None:
    assert double_sums.unpack(double_sums.pack(*counts)) == counts
