"""SKEWNESS and KURTOSIS, exactly, over the multiset of the values of their group.

Sums of third and fourth powers cancel in more digits than two doubles hold, so no subtraction would give them back.
"""

from __future__ import annotations

import math
from fractions import Fraction

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.function import AggregateFunction, WeightedArguments, double_type
from tidemill.algebra.aggregates.parameters import number


def _skewness(call: AggregateCall, members: WeightedArguments) -> float | None:
    """The third moment about the mean, on the scale of the second; NULL if all values are equal."""
    count, second, third, _ = _moments(members)
    if second == 0:
        return None
    return math.sqrt(count) * third / math.sqrt(second * second * second) + 0.0


def _kurtosis(call: AggregateCall, members: WeightedArguments) -> float | None:
    """The fourth moment about the mean, on the scale of the second, less 3: that of a normal distribution is 0."""
    count, second, _, fourth = _moments(members)
    if second == 0:
        return None
    return count * fourth / (second * second) - 3.0 + 0.0


def _moments(members: WeightedArguments) -> tuple[int, float, float, float]:
    """The number of values, and the sums of the squares, cubes and fourth powers of their distances from the mean."""
    values = [(float(row[0]), weight) for row, weight in members]
    count = sum(weight for _, weight in values)
    if not all(math.isfinite(value) for value, _ in values):
        return count, math.nan, math.nan, math.nan
    mean = sum((Fraction(value) * weight for value, weight in values), Fraction()) / count
    powers = (
        sum(((Fraction(value) - mean) ** power * weight for value, weight in values), Fraction()) for power in (2, 3, 4)
    )
    try:
        second, third, fourth = map(float, powers)
    except OverflowError:
        second = third = fourth = math.nan
    return count, second, third, fourth


MOMENTS = (
    AggregateFunction("skewness", double_type, _skewness, parameters=(number,)),
    AggregateFunction("kurtosis", double_type, _kurtosis, parameters=(number,)),
)
