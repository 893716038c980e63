"""Integers that bound comparisons with a DOUBLE: the first or last for which the comparison holds."""

from __future__ import annotations

from math import inf, isnan, nan, nextafter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.algebra.functions.numbers.integer_bounds import (
    GREATEST,
    LEAST,
    integer_above,
    integer_below,
    integer_from,
    integer_to,
)

EDGES = (
    *(float(sign * (2**power) + more) for sign in (1, -1) for power in (0, 52, 53, 54, 62, 63) for more in (-2, 0, 2)),
    *(nextafter(2.0**63, 0), nextafter(-(2.0**63), 0), nextafter(-(2.0**63), -inf), inf, -inf, nan, 0.0, -0.0, 0.5),
)


def holds(name: str, value: int, bound: float) -> bool:
    """``CAST(value AS DOUBLE) name bound``, NaN being larger than all numbers."""
    if isnan(bound):
        return name in ("lt", "le")
    number = float(value)
    return {"lt": number < bound, "le": number <= bound, "gt": number > bound, "ge": number >= bound}[name]


def check(bound: float) -> None:
    for name, first in (("ge", integer_from(bound)), ("gt", integer_above(bound))):
        if first is None:
            assert not holds(name, GREATEST, bound)
        else:
            assert holds(name, first, bound)
            assert first == LEAST or not holds(name, first - 1, bound)
    for name, last in (("le", integer_to(bound)), ("lt", integer_below(bound))):
        if last is None:
            assert not holds(name, LEAST, bound)
        else:
            assert holds(name, last, bound)
            assert last == GREATEST or not holds(name, last + 1, bound)


@pytest.mark.parametrize("bound", EDGES)
def test_edges(bound: float) -> None:
    check(bound)


@given(st.one_of(st.floats(), st.floats(-1e19, 1e19), st.integers(LEAST, GREATEST).map(float)))
def test_any_bound(bound: float) -> None:
    check(bound)
