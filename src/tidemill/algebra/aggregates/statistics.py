"""Variances, covariances and correlation, of values as DOUBLE, as in Spark.

For values that are close together and far from zero almost all digits of the two terms cancel; so the rounding errors
of products are summed as a partial sum of their own, and both halves of the double-double sums are used: about 32
digits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import partial

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.folds import VarianceFold
from tidemill.algebra.aggregates.function import ALL_ARGUMENTS, AggregateFunction, WeightedArguments, double_type
from tidemill.algebra.aggregates.parameters import number
from tidemill.algebra.aggregates.partial_sums import LOW, PartialSum, SumRule, equals, unless, where_seen
from tidemill.algebra.aggregates.sums import count_rows
from tidemill.algebra.expressions.scalars import Call, Cast, Column, Literal, Scalar
from tidemill.algebra.functions.numbers.variance import correlation
from tidemill.model.types import BIGINT, DOUBLE

# --------------------------------------------------------------------------------------------------------- over values


def _variance(sample: bool, root: bool, call: AggregateCall, members: WeightedArguments) -> float | None:
    """The mean product of the distances of two arguments from their means, or of one twice; or its root."""
    count = count_rows(call, members) - sample
    if count == 0:
        return None
    mean = deviation_of(members, 0, len(call.others)) / count + 0.0
    return math.sqrt(mean) if root else mean


def _correlation(call: AggregateCall, members: WeightedArguments) -> float | None:
    if count_rows(call, members) == 1:
        return None
    return correlation(deviation_of(members, 0, 1), deviation_of(members, 0, 0), deviation_of(members, 1, 1))


def deviation_of(members: WeightedArguments, one: int, other: int) -> float:
    """The sum of products of the distances from the means, over the arguments at two positions, as DOUBLEs.

    It is the exact one. A product that leaves the range of DOUBLE leaves no number.
    """
    pairs = [(float(row[one]), float(row[other]), weight) for row, weight in members]
    if not all(math.isfinite(x * y) for x, y, _ in pairs) or not all(math.isfinite(x) for x, _, _ in pairs):
        return math.nan
    count = sum(weight for _, _, weight in pairs)
    mean = sum((Fraction(x) * weight for x, _, weight in pairs), Fraction()) / count
    return float(sum(((Fraction(x) - mean) * Fraction(y) * weight for x, y, weight in pairs), Fraction())) + 0.0


# -------------------------------------------------------------------------------------------------- over partial sums


def _products(call: AggregateCall) -> tuple[PartialSum, ...]:
    """Sums of the arguments, and of the product of the two, or of one with itself."""
    arguments = doubles(call)
    return sums_of(call, arguments, [(arguments[0], arguments[-1])])


def _products_and_squares(call: AggregateCall) -> tuple[PartialSum, ...]:
    one, other = doubles(call)
    return sums_of(call, [one, other], [(one, other), (one, one), (other, other)])


def sums_of(
    call: AggregateCall, arguments: Sequence[Scalar], pairs: Sequence[tuple[Scalar, Scalar]]
) -> tuple[PartialSum, ...]:
    """Sums of ``arguments``, and for each of ``pairs`` that of its products and that of their rounding errors."""
    products = [Call(name, pair, DOUBLE) for pair in pairs for name in ("multiply", "product_error")]
    return tuple(PartialSum(where_seen(call, scalar), DOUBLE) for scalar in (*arguments, *products))


def doubles(call: AggregateCall) -> list[Scalar]:
    """The arguments as DOUBLEs."""
    assert call.argument is not None
    return [one if one.type == DOUBLE else Cast(one, DOUBLE) for one in (call.argument, *call.others)]


def _variance_value(sample: bool, root: bool, call: AggregateCall, sums: Sequence[Scalar], count: Scalar) -> Scalar:
    """A variance or covariance over at least one row; that of a sample needs two."""
    one, other = (sums[0], sums[1]) if call.others else (sums[0], sums[0])
    deviation = deviation_value(one, other, sums[-2:], count)
    if sample:
        rows = Call("subtract", (count, Literal(1, BIGINT)), BIGINT)
        variance = unless(equals(count, 1), Call("mean", (deviation, rows), DOUBLE), DOUBLE)
    else:
        variance = Call("mean", (deviation, count), DOUBLE)
    return Call("sqrt", (variance,), DOUBLE) if root else variance


def _correlation_value(call: AggregateCall, sums: Sequence[Scalar], count: Scalar) -> Scalar:
    one, other, *products = sums
    both = deviation_value(one, other, products[0:2], count)
    alone = [deviation_value(x, x, products[i : i + 2], count) for x, i in ((one, 2), (other, 4))]
    return unless(equals(count, 1), Call("correlation", (both, *alone), DOUBLE), DOUBLE)


def deviation_value(one: Scalar, other: Scalar, products: Sequence[Scalar], count: Scalar) -> Scalar:
    """The sum of products of the distances of two arguments from their means."""
    halves = [half for total in (one, other, *products) for half in (total, _low(total))]
    deviation = Call("deviation", (count, *halves), DOUBLE)
    # Cancellation may leave a negative number, which no sum of squares is.
    return Call("greatest", (deviation, Literal(0.0, DOUBLE)), DOUBLE) if one is other else deviation


def _low(total: Scalar) -> Scalar:
    """The low half of a DOUBLE sum; none for a computed value."""
    return Column(total.name + LOW, DOUBLE, nullable=False) if isinstance(total, Column) else Literal(0.0, DOUBLE)


# -------------------------------------------------------------------------------------------------------- declarations


def _declared(
    name: str, arguments: int, *, sample: bool, root: bool = False, synonyms: tuple[str, ...] = ()
) -> AggregateFunction:
    fold = partial(VarianceFold, sample=sample, root=root) if arguments == 1 else None
    return AggregateFunction(
        name,
        double_type,
        partial(_variance, sample, root),
        parameters=(number,) * arguments,
        synonyms=synonyms,
        required=ALL_ARGUMENTS,
        sums=SumRule(_products, partial(_variance_value, sample, root), reads_low=True),
        fold=None if fold is None else lambda call: fold(),
    )


VARIANCES = (
    _declared("var_pop", 1, sample=False),
    _declared("var_samp", 1, sample=True, synonyms=("variance",)),
    _declared("stddev_pop", 1, sample=False, root=True),
    _declared("stddev_samp", 1, sample=True, root=True, synonyms=("std", "stddev")),
)

COVARIANCES = (
    _declared("covar_pop", 2, sample=False),
    _declared("covar_samp", 2, sample=True),
    AggregateFunction(
        "corr",
        double_type,
        _correlation,
        parameters=(number, number),
        required=ALL_ARGUMENTS,
        sums=SumRule(_products_and_squares, _correlation_value, reads_low=True),
    ),
)

STATISTICS = (*VARIANCES, *COVARIANCES)
