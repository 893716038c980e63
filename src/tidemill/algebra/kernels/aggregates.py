"""Aggregates of a bag of values, each with its weight: what each one means, in the plainest Python."""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any

from tidemill.algebra.functions.comparison import order_key
from tidemill.algebra.functions.variance import correlation
from tidemill.algebra.relational.aggregates import MULTISET_AGGREGATES, SUMS, AggregateCall, known
from tidemill.algebra.relational.ordering import sort_key
from tidemill.algebra.values.casts import checked
from tidemill.algebra.values.decimals import EXACT, divided, quantized
from tidemill.changes.arrow import canonical_double
from tidemill.changes.zset import Row
from tidemill.model import types as t

WeightedArguments = Sequence[tuple[Row, int]]
"""What a call looks at in each row (argument, others, terms of its order, in this order), and the row's weight."""

AggregateKernel = Callable[[AggregateCall, WeightedArguments], Any]
"""The value of a call over at least one row, of which none has a NULL where the call skips it."""


def total(call: AggregateCall, members: WeightedArguments) -> Any:
    """The value of ``call`` over rows that its FILTER has let through."""
    if call.argument is None and call.function == "count":
        return sum(weight for _, weight in members)
    seen = _seen(call, members)
    if not seen and call.function in EMPTY:
        return EMPTY[call.function]
    if not seen and call.function in SUMS | MULTISET_AGGREGATES:
        return None
    return AGGREGATE_KERNELS[call.function](call, seen)


EMPTY: dict[str, Any] = {"count": 0, "array_agg": ()}
"""The values of aggregates over no rows; all others are NULL."""


def _seen(call: AggregateCall, members: WeightedArguments) -> WeightedArguments:
    """The rows that ``call`` looks at: without NULLs, and each once where it is over DISTINCT."""
    arguments = (call.argument, *call.others)
    seen = members
    for place in [arguments.index(scalar) for scalar in known(call)]:
        seen = [member for member in seen if member[0][place] is not None]
    if call.distinct:
        once = {row[: len(arguments)]: row for row, _ in seen}
        seen = [(row, 1) for row in once.values()]
    return seen


# ---------------------------------------------------------------------------------------------------------- from sums


def _count(call: AggregateCall, members: WeightedArguments) -> int:
    return sum(weight for _, weight in members)


def _sum(call: AggregateCall, members: WeightedArguments) -> Any:
    match call.of:
        case t.Decimal():
            return quantized(_sum_of_decimals(members), call.of)
        case t.Double():
            return _sum_of_doubles(members)
    return checked(t.BIGINT, sum(row[0] * weight for row, weight in members))


def _average(call: AggregateCall, members: WeightedArguments) -> Any:
    count = _count(call, members)
    assert call.argument is not None
    match call.argument.type:
        case t.Decimal(_, scale):
            # Of DECIMAL(p, s) the sum is DECIMAL(p + 10, s) and the average DECIMAL(p + 4, s + 4), both cut at 38.
            assert isinstance(call.of, t.Decimal)
            summed = quantized(_sum_of_decimals(members), t.Decimal(t.MAX_PRECISION, scale))
            return quantized(divided(summed, decimal.Decimal(count)), call.of)
        case t.Double():
            return canonical_double(_sum_of_doubles(members) / count)
    return float(sum(row[0] * weight for row, weight in members)) / count


def _sum_of_decimals(members: WeightedArguments) -> decimal.Decimal:
    summed = decimal.Decimal(0)
    for row, weight in members:
        summed = EXACT.add(summed, EXACT.multiply(row[0], decimal.Decimal(weight)))
    return summed


def _sum_of_doubles(members: WeightedArguments) -> float:
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


def _spread(call: AggregateCall, members: WeightedArguments) -> float | None:
    """The mean product of the distances of two arguments from their means, or of one twice; or its root."""
    count = _count(call, members) - call.function.endswith("_samp")
    if count == 0:
        return None
    mean = _deviation(members, 0, len(call.others)) / count + 0.0
    return math.sqrt(mean) if call.function.startswith("stddev") else mean


def _correlation(call: AggregateCall, members: WeightedArguments) -> float | None:
    if _count(call, members) == 1:
        return None
    return correlation(_deviation(members, 0, 1), _deviation(members, 0, 0), _deviation(members, 1, 1))


def _deviation(members: WeightedArguments, one: int, other: int) -> float:
    """The sum of products of the distances from the means, over the arguments at two places, as DOUBLEs.

    It is the exact one. A product that leaves the range of DOUBLE leaves no number.
    """
    pairs = [(float(row[one]), float(row[other]), weight) for row, weight in members]
    if not all(math.isfinite(x * y) for x, y, _ in pairs) or not all(math.isfinite(x) for x, _, _ in pairs):
        return math.nan
    count = sum(weight for _, _, weight in pairs)
    mean = sum((Fraction(x) * weight for x, _, weight in pairs), Fraction()) / count
    return float(sum(((Fraction(x) - mean) * Fraction(y) * weight for x, y, weight in pairs), Fraction())) + 0.0


# ---------------------------------------------------------------------------------------------------------- from bags


def _least(call: AggregateCall, members: WeightedArguments) -> Any:
    return min((row[0] for row, _ in members), key=order_key)


def _greatest(call: AggregateCall, members: WeightedArguments) -> Any:
    return max((row[0] for row, _ in members), key=order_key)


def _least_by(call: AggregateCall, members: WeightedArguments) -> Any:
    """Of several rows with the least other argument, the one with the least argument, NULL before all."""
    return min((row for row, _ in members), key=lambda row: (order_key(row[1]), order_key(row[0])))[0]


def _greatest_by(call: AggregateCall, members: WeightedArguments) -> Any:
    return max((row for row, _ in members), key=lambda row: (order_key(row[1]), order_key(row[0])))[0]


def _array(call: AggregateCall, members: WeightedArguments) -> tuple[Any, ...]:
    return tuple(_expanded(sorted(members, key=lambda member: order_key(member[0][0]))))


def _text(call: AggregateCall, members: WeightedArguments) -> str:
    """The values in the order of WITHIN GROUP; those that are equal in it, and all where there is none, ascending."""
    (separator,) = call.parameters
    ordered = sorted(members, key=lambda member: (sort_key(member[0][1:], call.order), order_key(member[0][0])))
    return str(separator).join(_expanded(ordered))


def _expanded(members: WeightedArguments) -> Iterable[Any]:
    return (row[0] for row, weight in members for _ in range(weight))


def _mode(call: AggregateCall, members: WeightedArguments) -> Any:
    """The value that comes most often: of several such the least, or the greatest where the order is descending."""
    (descending,) = call.parameters
    times: dict[Any, int] = {}
    for row, weight in members:
        times[row[0]] = times.get(row[0], 0) + weight
    most = max(times.values())
    often = [value for value, count in times.items() if count == most]
    return (max if descending else min)(often, key=order_key)


def _percentile(call: AggregateCall, members: WeightedArguments) -> Any:
    """The value at a share of the way through all values in order, or one for each of several shares."""
    share, descending = call.parameters
    place = _between if call.function == "percentile_cont" else _at
    ordered = sorted(members, key=lambda member: order_key(member[0][0]), reverse=descending)
    if isinstance(share, tuple):
        return tuple(place(call, ordered, one) for one in share)
    return place(call, ordered, share)


def _between(call: AggregateCall, ordered: WeightedArguments, share: float) -> float:
    """On the line between the two values around the place, in DOUBLE and by the very steps of Spark."""
    position = _position(share, _count(call, ordered))
    lower, higher = math.floor(position), math.ceil(position)
    one, other = (float(_nth(ordered, place)) for place in (lower, higher))
    if lower == higher or one == other:
        return one
    return canonical_double((higher - position) * one + (position - lower) * other)


def _at(call: AggregateCall, ordered: WeightedArguments, share: float) -> Any:
    """The first value up to which at least that share of all values lies."""
    value = _nth(ordered, _reached(share, _count(call, ordered)))
    element = call.of.element if isinstance(call.of, t.Array) else call.of
    return float(value) if element == t.DOUBLE else value


def _position(share: float, count: int) -> float:
    return (count - 1) * share


def _reached(share: float, count: int) -> int:
    return max(math.ceil(count * share) - 1, 0)


def percentile_places(call: AggregateCall, count: int) -> set[int]:
    """Which of so many values in ascending order a percentile looks at, counted from 0.

    >>> median = AggregateCall("m", "percentile_cont", None, t.DOUBLE, parameters=(0.5, False))
    >>> percentile_places(median, 10)
    {4, 5}
    """
    share, descending = call.parameters
    places = set()
    for one in share if isinstance(share, tuple) else (share,):
        if call.function == "percentile_cont":
            places |= {math.floor(_position(one, count)), math.ceil(_position(one, count))}
        else:
            places.add(_reached(one, count))
    return {count - 1 - place for place in places} if descending else places


def _nth(ordered: WeightedArguments, place: int) -> Any:
    for row, weight in ordered:
        place -= weight
        if place < 0:
            return row[0]
    raise IndexError("there are not so many values")


AGGREGATE_KERNELS: dict[str, AggregateKernel] = {
    "array_agg": _array,
    "avg": _average,
    "bool_and": _all_true,
    "bool_or": _some_true,
    "corr": _correlation,
    "count": _count,
    **dict.fromkeys(("covar_pop", "covar_samp", "var_pop", "var_samp", "stddev_pop", "stddev_samp"), _spread),
    "max": _greatest,
    "max_by": _greatest_by,
    "min": _least,
    "min_by": _least_by,
    "mode": _mode,
    "percentile_cont": _percentile,
    "percentile_disc": _percentile,
    "string_agg": _text,
    "sum": _sum,
}
"""The aggregates by name. One that is added here is looked up like those that are built in, and sees NULLs, too."""
