"""The line through pairs of a dependent value y and an independent value x: REGR_SLOPE(y, x) and others.

All are computed from sums, those of products with their rounding errors, as covariances are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.function import ALL_ARGUMENTS, AggregateFunction, WeightedArguments, double_type
from tidemill.algebra.aggregates.parameters import real
from tidemill.algebra.aggregates.partial_sums import PartialSum, SumRule
from tidemill.algebra.aggregates.statistics import deviation_of, deviation_value, doubles, sums_of
from tidemill.algebra.aggregates.sums import COUNT_RULE, count_rows, sum_of_doubles
from tidemill.algebra.expressions.scalars import Call, Scalar
from tidemill.algebra.functions.numbers.variance import determination, intercept, slope
from tidemill.model.types import BIGINT, DOUBLE, Type

Y, X = 0, 1
"""The places of the arguments."""

# --------------------------------------------------------------------------------------------------------- over values


def _sum(place: int, members: WeightedArguments) -> float:
    return sum_of_doubles([((row[place],), weight) for row, weight in members])


def _deviation(one: int, other: int, call: AggregateCall, members: WeightedArguments) -> float:
    return deviation_of(members, one, other)


def _slope(call: AggregateCall, members: WeightedArguments) -> float | None:
    return slope(deviation_of(members, Y, X), deviation_of(members, X, X))


def _intercept(call: AggregateCall, members: WeightedArguments) -> float | None:
    both, alone = deviation_of(members, Y, X), deviation_of(members, X, X)
    return intercept(both, alone, _sum(Y, members), _sum(X, members), count_rows(call, members))


def _determination(call: AggregateCall, members: WeightedArguments) -> float | None:
    return determination(*(deviation_of(members, *pair) for pair in ((Y, X), (Y, Y), (X, X))))


# -------------------------------------------------------------------------------------------------- over partial sums


def _alone(place: int, call: AggregateCall) -> tuple[PartialSum, ...]:
    value = doubles(call)[place]
    return sums_of(call, [value], [(value, value)])


def _alone_value(call: AggregateCall, sums: Sequence[Scalar], count: Scalar) -> Scalar:
    return deviation_value(sums[0], sums[0], sums[1:], count)


def _together(pairs: Sequence[tuple[int, int]], call: AggregateCall) -> tuple[PartialSum, ...]:
    values = doubles(call)
    return sums_of(call, values, [(values[one], values[other]) for one, other in pairs])


def _deviations(pairs: Sequence[tuple[int, int]], sums: Sequence[Scalar], count: Scalar) -> tuple[Scalar, ...]:
    """The deviation of each of ``pairs``, from the sums that ``_together`` makes for them."""
    products = sums[2:]
    return tuple(
        deviation_value(sums[one], sums[other], products[2 * place : 2 * place + 2], count)
        for place, (one, other) in enumerate(pairs)
    )


def _both_value(call: AggregateCall, sums: Sequence[Scalar], count: Scalar) -> Scalar:
    return _deviations(_PRODUCT, sums, count)[0]


def _slope_value(call: AggregateCall, sums: Sequence[Scalar], count: Scalar) -> Scalar:
    return Call("slope", _deviations(_LINE, sums, count), DOUBLE)


def _intercept_value(call: AggregateCall, sums: Sequence[Scalar], count: Scalar) -> Scalar:
    return Call("intercept", (*_deviations(_LINE, sums, count), sums[Y], sums[X], count), DOUBLE)


def _determination_value(call: AggregateCall, sums: Sequence[Scalar], count: Scalar) -> Scalar:
    return Call("determination", _deviations(_ALL_PAIRS, sums, count), DOUBLE)


_PRODUCT = ((Y, X),)
_LINE = ((Y, X), (X, X))
_ALL_PAIRS = ((Y, X), (Y, Y), (X, X))

# -------------------------------------------------------------------------------------------------------- declarations


def _declared(name: str, kernel: Callable[[AggregateCall, WeightedArguments], Any], rule: SumRule) -> AggregateFunction:
    return AggregateFunction(name, double_type, kernel, parameters=_PAIR, required=ALL_ARGUMENTS, sums=rule)


def _bigint(argument: Type | None) -> Type:
    return BIGINT


_PAIR = (real, real)

REGRESSIONS = (
    AggregateFunction(
        "regr_count", _bigint, count_rows, parameters=_PAIR, required=ALL_ARGUMENTS, empty=0, sums=COUNT_RULE
    ),
    _declared("regr_sxx", partial(_deviation, X, X), SumRule(partial(_alone, X), _alone_value, reads_low=True)),
    _declared("regr_syy", partial(_deviation, Y, Y), SumRule(partial(_alone, Y), _alone_value, reads_low=True)),
    _declared(
        "regr_sxy", partial(_deviation, Y, X), SumRule(partial(_together, _PRODUCT), _both_value, reads_low=True)
    ),
    _declared("regr_slope", _slope, SumRule(partial(_together, _LINE), _slope_value, reads_low=True)),
    _declared("regr_intercept", _intercept, SumRule(partial(_together, _LINE), _intercept_value, reads_low=True)),
    _declared("regr_r2", _determination, SumRule(partial(_together, _ALL_PAIRS), _determination_value, reads_low=True)),
)
