"""DOUBLEs as integers, so that sums are exact after any number of additions and subtractions.

A finite double is a multiple of 2 ** -1074. NaN and the infinities are counted beside the sum, as in ring values.
"""

from __future__ import annotations

import math

from tidemill.changes.arrow import NAN

UNIT = 1074

FixedPointSum = tuple[int, int, int, int]
"""A sum in units, and the number of NaN, +inf and -inf."""

ZERO: FixedPointSum = (0, 0, 0, 0)


def scaled(value: float | None) -> FixedPointSum:
    """The numbers that a value adds to a sum; NULL adds nothing."""
    if value is None:
        return ZERO
    if not math.isfinite(value):
        return (0, int(value != value), int(value == math.inf), int(value == -math.inf))
    numerator, denominator = value.as_integer_ratio()
    return (numerator << (UNIT + 1 - denominator.bit_length()), 0, 0, 0)


def unscaled(total: int, nan: int, plus: int, minus: int) -> float:
    """The double nearest to a sum.

    >>> unscaled(*map(sum, zip(scaled(1e300), scaled(0.25), scaled(-1e300))))
    0.25
    """
    if nan or (plus and minus):
        return NAN
    if plus or minus:
        return math.inf if plus else -math.inf
    try:
        return total / (1 << UNIT)
    except OverflowError:
        return math.inf if total > 0 else -math.inf
