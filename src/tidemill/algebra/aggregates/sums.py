"""COUNT, SUM, AVG, their TRY_ forms, BOOL_AND and BOOL_OR."""

from __future__ import annotations

import decimal
import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.folds import CountFold, SumFold
from tidemill.algebra.aggregates.function import (
    AggregateFunction,
    AggregateKernel,
    WeightedArguments,
    converted_argument,
)
from tidemill.algebra.aggregates.moving import MovingCount, MovingSum
from tidemill.algebra.aggregates.parameters import condition, number_or_moment
from tidemill.algebra.aggregates.partial_sums import (
    PartialSum,
    SumRule,
    count_where,
    equals,
    filters,
    where_seen,
)
from tidemill.algebra.expressions.scalars import Call, Cast, Literal, Scalar
from tidemill.algebra.functions.datetime.interval_arithmetic import average, fitted
from tidemill.algebra.functions.datetime.intervals import whole_range
from tidemill.algebra.values.casts import checked
from tidemill.algebra.values.decimals import EXACT, bounded, divided, quantized
from tidemill.changes.arrow import canonical_double
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault
from tidemill.model.types import BIGINT, BOOLEAN, DOUBLE, Type, is_numeric

# --------------------------------------------------------------------------------------------------------- over values


def count_rows(call: AggregateCall, members: WeightedArguments) -> int:
    """The number of rows."""
    return sum(weight for _, weight in members)


def _sum(call: AggregateCall, members: WeightedArguments) -> Any:
    match call.of:
        case t.Decimal():
            return quantized(_sum_of_decimals(members), call.of)
        case t.Double():
            return sum_of_doubles(members)
        case t.AnsiInterval():
            return fitted(call.of, _whole_sum(members))
    return checked(t.BIGINT, _whole_sum(members))


def _whole_sum(members: WeightedArguments) -> int:
    return sum(row[0] * weight for row, weight in members)


def _average(call: AggregateCall, members: WeightedArguments) -> Any:
    count = count_rows(call, members)
    assert call.argument is not None
    match call.argument.type:
        case t.Decimal(_, scale):
            # Of DECIMAL(p, s) the sum is DECIMAL(p + 10, s) and the average DECIMAL(p + 4, s + 4), both cut at 38.
            assert isinstance(call.of, t.Decimal)
            summed = quantized(_sum_of_decimals(members), t.Decimal(t.MAX_PRECISION, scale))
            return quantized(divided(summed, decimal.Decimal(count)), call.of)
        case t.Floating():
            return canonical_double(sum_of_doubles(members) / count)
        case t.AnsiInterval():
            return average(call.of, _whole_sum(members), count)
    return float(_whole_sum(members)) / count


def _lenient(kernel: AggregateKernel) -> AggregateKernel:
    """``kernel`` with NULL in place of an overflow: the TRY_ forms."""

    def tried(call: AggregateCall, members: WeightedArguments) -> Any:
        try:
            return kernel(call, members)
        except ArithmeticFault:
            return None

    return tried


def _sum_of_decimals(members: WeightedArguments) -> decimal.Decimal:
    summed = decimal.Decimal(0)
    for row, weight in members:
        summed = EXACT.add(summed, EXACT.multiply(row[0], decimal.Decimal(weight)))
    return summed


def sum_of_doubles(members: WeightedArguments) -> float:
    """The double nearest to the exact sum. A NaN, or infinities of both signs, make it NaN."""
    special = [row[0] for row, weight in members if not math.isfinite(row[0]) and weight > 0]
    if special:
        return canonical_double(sum(special))
    summed = sum((Fraction(row[0]) * weight for row, weight in members if math.isfinite(row[0])), Fraction())
    try:
        return float(summed)
    except OverflowError:
        return math.inf if summed > 0 else -math.inf


def _all_true(call: AggregateCall, members: WeightedArguments) -> bool:
    return all(row[0] for row, _ in members)


def _some_true(call: AggregateCall, members: WeightedArguments) -> bool:
    return any(row[0] for row, _ in members)


# -------------------------------------------------------------------------------------------------- over partial sums


def _no_parts(call: AggregateCall) -> tuple[PartialSum, ...]:
    return ()


def _the_count(call: AggregateCall, sums: Sequence[Scalar], count: Scalar) -> Scalar:
    return count


def _values(call: AggregateCall) -> tuple[PartialSum, ...]:
    """The values themselves, in a type in which their sum cannot overflow."""
    assert call.argument is not None
    argument = call.argument
    match argument.type:
        case t.Integral():
            return (PartialSum(where_seen(call, _wide(argument, BIGINT)), BIGINT),)
        case t.Floating():
            return (PartialSum(where_seen(call, _wide(argument, DOUBLE)), DOUBLE),)
        case t.Decimal(_, scale):
            return (PartialSum(where_seen(call, argument), t.Decimal(t.MAX_PRECISION, scale)),)
        case t.AnsiInterval():
            return (PartialSum(where_seen(call, Call("interval_units", (argument,), BIGINT)), BIGINT),)
    raise AssertionError(f"a sum of {argument.type}")


def _wide(argument: Scalar, of: Type) -> Scalar:
    return argument if argument.type == of else Cast(argument, of)


def _averaged_values(call: AggregateCall) -> tuple[PartialSum, ...]:
    """As for SUM, but Spark averages BIGINT in DOUBLE, which does not overflow; the exact sum must not either."""
    assert call.argument is not None
    argument = call.argument
    if isinstance(argument.type, t.AnsiInterval):
        argument = Call("interval_units", (argument,), BIGINT)
    if argument.type != BIGINT:
        return _values(call)
    wide = where_seen(call, Cast(argument, t.Decimal(20, 0)))
    return (PartialSum(wide, t.Decimal(t.MAX_PRECISION, 0)),)


def _spark_sum(call: AggregateCall, total: Scalar) -> Scalar:
    """A sum in Spark's type for it, narrower than the ring's; a sum that does not fit is an error in Spark."""
    assert call.argument is not None
    if isinstance(call.argument.type, t.Decimal):
        return Cast(total, bounded(call.argument.type.precision + 10, call.argument.type.scale))
    return total


def _sum_value(call: AggregateCall, sums: Sequence[Scalar], count: Scalar) -> Scalar:
    total = _spark_sum(call, sums[0])
    if isinstance(call.of, t.AnsiInterval):
        return Call("interval_of_sum", (total,), call.of)
    return Call("bigint_checked", (total,), BIGINT) if call.of == BIGINT else total


def _try_sum_value(call: AggregateCall, sums: Sequence[Scalar], count: Scalar) -> Scalar:
    if isinstance(call.of, t.AnsiInterval):
        return Call("try_interval_of_sum", (sums[0],), call.of)
    return sums[0] if sums[0].type == call.of else Cast(sums[0], call.of, lenient=True)


def _try_average_value(call: AggregateCall, sums: Sequence[Scalar], count: Scalar) -> Scalar:
    if isinstance(call.of, t.AnsiInterval):
        return Call("try_interval_average", (sums[0], count), call.of)
    if not isinstance(call.of, t.Decimal):
        return _average_value(call, sums, count)
    return Call(
        "try_average", (_try_sum_value(replace(call, of=_spark_sum(call, sums[0]).type), sums, count), count), call.of
    )


def _average_value(call: AggregateCall, sums: Sequence[Scalar], count: Scalar) -> Scalar:
    if isinstance(call.of, t.AnsiInterval):
        return Call("interval_average", (sums[0], count), call.of)
    function = "average" if isinstance(call.of, t.Decimal) else "mean"
    return Call(function, (_spark_sum(call, sums[0]), count), call.of)


def _false_values(call: AggregateCall) -> tuple[PartialSum, ...]:
    """The number of values that are false: one decides."""
    assert call.argument is not None
    return (count_where([*filters(call), Call("not", (call.argument,), BOOLEAN)]),)


def _true_values(call: AggregateCall) -> tuple[PartialSum, ...]:
    assert call.argument is not None
    return (count_where([*filters(call), call.argument]),)


def _none_false(call: AggregateCall, sums: Sequence[Scalar], count: Scalar) -> Scalar:
    return equals(sums[0], 0)


def _some_counted(call: AggregateCall, sums: Sequence[Scalar], count: Scalar) -> Scalar:
    return Call("not", (equals(sums[0], 0),), BOOLEAN)


# --------------------------------------------------------------------------------------------------------- row by row


def _moving_count(call: AggregateCall) -> MovingCount | None:
    return None if call.others else MovingCount()


def _moving_sum(kernel: AggregateKernel, call: AggregateCall) -> MovingSum | None:
    if call.argument is None or not (is_numeric(call.argument.type) or isinstance(call.argument.type, t.AnsiInterval)):
        return None
    return MovingSum(partial(kernel, call))


def _sum_fold(kernel: AggregateKernel, call: AggregateCall) -> SumFold:
    return SumFold(MovingSum(partial(kernel, call)))


# -------------------------------------------------------------------------------------------------------- declarations


def _count_type(argument: Type | None) -> Type:
    return BIGINT


def _sum_type(argument: Type | None) -> Type | None:
    match argument:
        case t.Decimal(precision, scale):
            return bounded(precision + 10, scale)
        case t.Integral():
            return BIGINT
        case t.Floating():
            return DOUBLE
        case t.AnsiInterval():
            return argument
    return None


def _average_type(argument: Type | None) -> Type | None:
    match argument:
        case t.Decimal(precision, scale):
            return bounded(precision + 4, scale + 4)
        case t.Integral() | t.Floating():
            return DOUBLE
        case t.AnsiInterval():
            return whole_range(argument)
    return None


def _condition_type(argument: Type | None) -> Type | None:
    return BOOLEAN if argument == BOOLEAN else None


COUNT_RULE = SumRule(_no_parts, _the_count)
"""The number of rows that an aggregate sees."""

SUMS = (
    AggregateFunction(
        "count",
        _count_type,
        count_rows,
        empty=0,
        sums=COUNT_RULE,
        over_one_row=lambda call: Literal(1, BIGINT),
        moving=_moving_count,
        fold=lambda call: CountFold(rows=call.argument is None),
    ),
    AggregateFunction(
        "sum",
        _sum_type,
        _sum,
        parameters=(number_or_moment,),
        sums=SumRule(_values, _sum_value),
        over_one_row=converted_argument,
        moving=partial(_moving_sum, _sum),
        fold=partial(_sum_fold, _sum),
    ),
    AggregateFunction(
        "avg",
        _average_type,
        _average,
        parameters=(number_or_moment,),
        synonyms=("mean",),
        sums=SumRule(_averaged_values, _average_value),
        moving=partial(_moving_sum, _average),
        fold=partial(_sum_fold, _average),
    ),
    AggregateFunction(
        "try_sum",
        _sum_type,
        _lenient(_sum),
        parameters=(number_or_moment,),
        sums=SumRule(_averaged_values, _try_sum_value),
        over_one_row=converted_argument,
        moving=partial(_moving_sum, _lenient(_sum)),
        fold=partial(_sum_fold, _lenient(_sum)),
    ),
    AggregateFunction(
        "try_avg",
        _average_type,
        _lenient(_average),
        parameters=(number_or_moment,),
        sums=SumRule(_averaged_values, _try_average_value),
        moving=partial(_moving_sum, _lenient(_average)),
        fold=partial(_sum_fold, _lenient(_average)),
    ),
    AggregateFunction(
        "bool_and",
        _condition_type,
        _all_true,
        operands="conditions",
        parameters=(condition,),
        synonyms=("every",),
        idempotent=True,
        sums=SumRule(_false_values, _none_false),
    ),
    AggregateFunction(
        "bool_or",
        _condition_type,
        _some_true,
        operands="conditions",
        parameters=(condition,),
        synonyms=("any", "some"),
        idempotent=True,
        sums=SumRule(_true_values, _some_counted),
    ),
)
