"""MODE and percentiles: values at positions that the whole multiset of a group decides."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.function import (
    ALL_ARGUMENTS,
    AggregateFunction,
    WeightedArguments,
    double_type,
    same_type,
)
from tidemill.algebra.aggregates.sums import count_rows
from tidemill.algebra.functions.comparison import order_key
from tidemill.algebra.functions.datetime.intervals import whole_range
from tidemill.changes.arrow import canonical_double
from tidemill.model import types as t
from tidemill.model.array_tree import ArrayTree
from tidemill.model.errors import ArithmeticFault
from tidemill.model.types import Type


def _mode(call: AggregateCall, members: WeightedArguments) -> Any:
    """The most frequent value: the least of several, or the greatest if the order is descending."""
    (descending,) = call.parameters
    times: dict[Any, int] = {}
    for row, weight in members:
        times[row[0]] = times.get(row[0], 0) + weight
    most = max(times.values())
    often = [value for value, count in times.items() if count == most]
    return (max if descending else min)(often, key=order_key)


def _percentile(
    value_at: Callable[[AggregateCall, WeightedArguments, float], Any], call: AggregateCall, members: WeightedArguments
) -> Any:
    """The value at a fraction of all values in order, or one for each of several fractions."""
    share, descending = call.parameters
    ordered = sorted(members, key=lambda member: order_key(member[0][0]), reverse=descending)
    if isinstance(share, tuple | ArrayTree):
        return tuple(value_at(call, ordered, one) for one in share) or None
    return value_at(call, ordered, share)


def _of_frequencies(call: AggregateCall, members: WeightedArguments) -> Any:
    """The percentile of values that each count as often as the second argument says; NULL if none counts."""
    for (_, frequency), _ in members:
        if frequency < 0:
            raise ArithmeticFault(f"PERCENTILE takes frequencies that are not negative, not {frequency}")
    counted = [((value,), frequency * weight) for (value, frequency), weight in members if frequency]
    return _percentile(_between, call, counted) if counted else None


def _between(call: AggregateCall, ordered: WeightedArguments, share: float) -> Any:
    """Linear interpolation between the two values around the position, in DOUBLE and by exactly Spark's steps."""
    position = _position(share, count_rows(call, ordered))
    lower, higher = math.floor(position), math.ceil(position)
    one, other = (float(nth_value(ordered, place)) for place in (lower, higher))
    between = one if lower == higher or one == other else (higher - position) * one + (position - lower) * other
    # Of intervals the fraction is cut off.
    return canonical_double(between) if isinstance(_element(call.of), t.Floating) else int(between)


def _element(of: Type) -> Type:
    return of.element if isinstance(of, t.Array) else of


def _at(call: AggregateCall, ordered: WeightedArguments, share: float) -> Any:
    """The first value up to which at least that share of all values lies."""
    value = nth_value(ordered, _reached(share, count_rows(call, ordered)))
    return float(value) if isinstance(_element(call.of), t.Floating) else value


def _position(share: float, count: int) -> float:
    return (count - 1) * share


def _reached(share: float, count: int) -> int:
    return max(math.ceil(count * share) - 1, 0)


def _around(share: float, count: int) -> set[int]:
    position = _position(share, count)
    return {math.floor(position), math.ceil(position)}


def _exactly(share: float, count: int) -> set[int]:
    return {_reached(share, count)}


def _positions(of_share: Callable[[float, int], set[int]], call: AggregateCall, count: int) -> set[int]:
    """The positions, counted from 0, that a percentile looks at of so many values in ascending order.

    >>> median = AggregateCall("m", "percentile_cont", None, t.DOUBLE, parameters=(0.5, False))
    >>> _positions(_around, median, 10)
    {4, 5}
    """
    share, descending = call.parameters
    shares = share if isinstance(share, tuple | ArrayTree) else (share,)
    found = set[int]().union(*(of_share(one, count) for one in shares))
    return {count - 1 - place for place in found} if descending else found


def nth_value(ordered: WeightedArguments, place: int) -> Any:
    """The first argument of the row at ``place``, counted from 0, of rows in order."""
    for row, weight in ordered:
        place -= weight
        if place < 0:
            return row[0]
    raise IndexError("there are not so many values")


def percentile_type(argument: Type | None) -> Type | None:
    """The type of a percentile: a DOUBLE, or of intervals one with all fields of its kind."""
    return whole_range(argument) if isinstance(argument, t.AnsiInterval) else double_type(argument)


ORDER_STATISTICS = (
    AggregateFunction("mode", same_type, _mode, depends_on_order=True),
    AggregateFunction(
        "percentile_cont",
        percentile_type,
        partial(_percentile, _between),
        positions=partial(_positions, _around),
        interpolates=True,
    ),
    AggregateFunction("percentile_of_frequencies", percentile_type, _of_frequencies, required=ALL_ARGUMENTS),
    AggregateFunction(
        "percentile_disc", percentile_type, partial(_percentile, _at), positions=partial(_positions, _exactly)
    ),
)
