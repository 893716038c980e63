"""Bounds of integers for comparisons with a DOUBLE.

``CAST(x AS DOUBLE) > d`` holds from some integer on, because the cast never falls as x grows. That integer bounds a
range of x in an ordered map, whose keys are no DOUBLEs. The cast rounds integers beyond 2^53, so the integer next to
``d`` need not be the first one. NaN is larger than all numbers, as Spark compares. A bound that no BIGINT reaches is
NULL.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from math import ceil, floor, inf, isnan, nextafter

from tidemill.algebra.functions.function import Function, expect_count
from tidemill.model import types as t
from tidemill.model.types import Type

LEAST, GREATEST = -(1 << 63), (1 << 63) - 1


def integer_from(bound: float) -> int | None:
    """The least BIGINT that as a DOUBLE is ``bound`` or more.

    >>> integer_from(2.5), integer_from(-2.5), integer_from(float("-inf")) == LEAST, integer_from(float("nan"))
    (3, -2, True, None)
    >>> integer_from(2.0**53 + 4) == 2**53 + 3, float(2**53 + 3) == 2.0**53 + 4
    (True, True)
    """
    if isnan(bound) or bound > float(GREATEST):
        return None
    if bound <= LEAST:
        return LEAST
    low, high = floor(nextafter(bound, -inf)), ceil(bound)
    return low + bisect_left(range(low, high), bound, key=float)


def integer_above(bound: float) -> int | None:
    """The least BIGINT that as a DOUBLE is more than ``bound``.

    >>> integer_above(2.0), integer_above(2.5), integer_above(9.3e18)
    (3, 3, None)
    """
    return None if isnan(bound) or bound == inf else integer_from(nextafter(bound, inf))


def integer_to(bound: float) -> int | None:
    """The greatest BIGINT that as a DOUBLE is ``bound`` or less.

    >>> integer_to(2.5), integer_to(float("nan")) == GREATEST, integer_to(-9.3e18)
    (2, True, None)
    """
    above = integer_above(bound)
    return GREATEST if above is None else None if above == LEAST else above - 1


def integer_below(bound: float) -> int | None:
    """The greatest BIGINT that as a DOUBLE is less than ``bound``.

    >>> integer_below(2.0), integer_below(2.5)
    (1, 2)
    """
    least = integer_from(bound)
    return GREATEST if least is None else None if least == LEAST else least - 1


def _of_double(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    expect_count(types, 1, 1)
    return (t.DOUBLE,), t.BIGINT


def _not_in_spark(arguments: Sequence[str], types: Sequence[Type], of: Type) -> str:
    raise AssertionError("ranges of ordered maps are summed in this process")


INTEGER_BOUNDS = tuple(
    Function(name, _of_double, apply, "", spelling=_not_in_spark, null_when=lambda arguments: True, total=True)
    for name, apply in {
        "integer_from": integer_from,
        "integer_above": integer_above,
        "integer_to": integer_to,
        "integer_below": integer_below,
    }.items()
)
