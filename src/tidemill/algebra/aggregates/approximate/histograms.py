"""HISTOGRAM_NUMERIC: bins at the values themselves, of which the nearest two are merged when there are too many.

With as many bins as there are different values they are exact. Beyond that the bins depend on the order in which values
arrive, in Spark as well; here it is ascending.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

from tidemill.algebra.aggregates.approximate.java_random import java_doubles
from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.function import AggregateFunction, WeightedArguments
from tidemill.algebra.functions.comparison import order_key
from tidemill.algebra.values.casts import cast_value, microseconds, timestamp_of
from tidemill.algebra.values.singles import single
from tidemill.model.types import (
    DATE,
    DOUBLE,
    FLOAT,
    AnsiInterval,
    Array,
    Decimal,
    Field,
    Integral,
    Struct,
    Timestamp,
    TimestampNtz,
    Type,
    is_numeric,
)

Bin = tuple[float, float]
"""The place of a bin, and the number of values in it."""

TIE_SEED = 31183
"""The seed of the generator that decides between pairs of bins that are equally near."""


def _histogram(call: AggregateCall, members: WeightedArguments) -> Any:
    (count,) = call.parameters
    bins, ties = list[Bin](), java_doubles(TIE_SEED)
    for row, weight in sorted(members, key=lambda member: order_key(member[0][0])):
        place = _as_double(row[0])
        if not bins or bins[-1][0] != place:
            bins.append((place, 0.0))
        for _ in range(weight):
            if bins[-1][0] != place:
                bins.append((place, 0.0))
            bins[-1] = (place, bins[-1][1] + 1.0)
            if len(bins) > count:
                _merge_nearest(bins, ties)
    assert call.argument is not None
    return tuple((_from_double(place, call.argument.type), height) for place, height in bins)


def _merge_nearest(bins: list[Bin], ties: Iterator[float]) -> None:
    """Replace the nearest two neighbours by one, between them by their heights; ties are decided by chance."""
    least, found, equal = bins[1][0] - bins[0][0], 0, 1
    for place in range(1, len(bins) - 1):
        distance = bins[place + 1][0] - bins[place][0]
        if distance < least:
            least, found, equal = distance, place, 1
        elif distance == least:
            equal += 1
            found = place if next(ties) <= 1.0 / equal else found
    (left, lower), (right, higher) = bins[found : found + 2]
    height = lower + higher
    bins[found : found + 2] = [(left * (lower / height) + right / height * higher, height)]


def _as_double(value: Any) -> float:
    match value:
        case datetime.datetime():
            return float(microseconds(value))
        case datetime.date():
            return float((value - EPOCH).days)
    return float(value)


def _from_double(place: float, of: Type) -> Any:
    """The place of a bin as a value of the argument's type: whole numbers of units are cut off."""
    if isinstance(of, Integral | AnsiInterval):
        return int(place)
    if isinstance(of, Timestamp | TimestampNtz):
        return timestamp_of(int(place))
    if of == DATE:
        return EPOCH + datetime.timedelta(days=int(place))
    if isinstance(of, Decimal):
        return cast_value(place, DOUBLE, of)
    return single(place) if of == FLOAT else place


def _bins_type(argument: Type | None) -> Type | None:
    """Bins with places of the argument's type."""
    if argument is None or not (is_numeric(argument) or argument == DATE or isinstance(argument, MOMENTS)):
        return None
    return Array(Struct((Field("x", argument), Field("y", DOUBLE))))


MOMENTS = (Timestamp, TimestampNtz, AnsiInterval)
EPOCH = datetime.date(1970, 1, 1)

HISTOGRAMS = (
    AggregateFunction("histogram_numeric", _bins_type, _histogram, operands="numbers, dates, timestamps or intervals"),
)
