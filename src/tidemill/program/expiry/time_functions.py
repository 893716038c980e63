"""Time functions: the earliest values that functions of a time can have, given the earliest time.

A function is here if its value is late where its argument is: it moves a time by a constant at most, or counts units of
time. What it counts is a number, such as seconds since 1970 or a year, and has a bound like a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from tidemill.algebra.expressions.scalars import Call, Cast, Literal, Scalar
from tidemill.model.partition_lengths import period_number, period_start
from tidemill.model.types import (
    BIGINT,
    DATE,
    INT,
    SMALLINT,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    Date,
    DayTimeInterval,
    Double,
    Type,
)

SECOND = 1_000_000
HOUR = 3_600 * SECOND
DAY = 24 * HOUR

FAR = 16 * HOUR
"""More than any time zone is apart from UTC."""

MONTHS = {"year": 366, "yyyy": 366, "yy": 366, "quarter": 92, "month": 31, "mon": 31, "mm": 31, "week": 7}
UNITS = {
    **{unit: days * DAY for unit, days in MONTHS.items()},
    "day": DAY,
    "dd": DAY,
    "hour": HOUR,
    "minute": 60 * SECOND,
    "second": SECOND,
    "millisecond": 1_000,
    "microsecond": 1,
}
"""The longest that a unit of DATE_TRUNC can be, in microseconds."""

TIMES = (DATE, TIMESTAMP, TIMESTAMP_NTZ)
WHOLE_NUMBERS = (TINYINT, SMALLINT, INT, BIGINT)

SCALES = {"unix_micros": 1, "unix_millis": 1_000, "unix_seconds": SECOND, "whole_seconds": SECOND, "unix_date": DAY}
"""Functions that count units since 1970, and the length of the unit."""

INSTANTS = {"timestamp_micros": 1, "timestamp_millis": 1_000, "timestamp_seconds": SECOND, "date_from_unix_date": DAY}
"""Their inverses."""


class TimeBound(NamedTuple):
    """The earliest value of a time; infinite if it is never a value, but always NULL. ``nulls``: it may be NULL."""

    low: float
    nulls: bool = True

    def later(self, by: float) -> TimeBound:
        """The bound of a time that is so much later."""
        return TimeBound(self.low + by, self.nulls)

    def divided(self, by: float) -> TimeBound:
        """The bound of the number of whole units that have gone by."""
        return TimeBound(math.floor(self.low / by) if by % 1 else self.low // by, self.nulls)._finite(self)

    def times(self, by: int) -> TimeBound:
        """The bound of a time, by a number of units of this length."""
        return TimeBound(self.low * by, self.nulls)

    def _finite(self, before: TimeBound) -> TimeBound:
        return self if math.isfinite(before.low) else before


BoundOf = Callable[[Scalar], TimeBound | None]
"""The bound of an argument; None if there is none."""


def cast_bound(cast: Cast, bound: TimeBound) -> TimeBound | None:
    """The bound of a time, or of a number that follows from one, as another type."""
    before, after = cast.input.type, cast.of
    bound = TimeBound(bound.low, bound.nulls or cast.lenient)
    if before in TIMES and after in TIMES:
        return whole_days(bound) if isinstance(after, Date) else bound
    if before in TIMES and after == BIGINT:
        return bound.divided(SECOND)
    if before in WHOLE_NUMBERS and (after in WHOLE_NUMBERS or isinstance(after, Double)):
        return bound
    return None


def function_bound(call: Call, bound_of: BoundOf) -> TimeBound | None:
    """The bound of the value of a function; None if it has none."""
    found = _of_moved_time(call, bound_of) or _of_partition(call, bound_of)
    found = found or _of_count(call, bound_of) or _of_number(call, bound_of)
    return whole_days(found) if found is not None and isinstance(call.type, Date) else found


def _of_moved_time(call: Call, bound_of: BoundOf) -> TimeBound | None:
    """The bound of a time that is moved."""
    match call:
        case Call("add_microseconds", (time, Literal(value=int(by)))):
            moved: float = by
        case Call("add_days" | "date_add", (time, Literal(value=int(days)))):
            moved = days * DAY
        case Call("date_sub", (time, Literal(value=int(days)))):
            moved = -days * DAY
        case Call("add_months_to" | "add_months", (time, Literal(value=int(months)))):
            moved = (28 * months - 4) * DAY if months >= 0 else (31 * months - 1) * DAY
        case Call("timestamp_add", (Literal(value=str(unit)), Literal(value=int(many)), time)):
            if unit.lower() not in UNITS:
                return None
            moved = min(many, 0) * UNITS[unit.lower()]
        case Call("date_trunc", (Literal(value=str(unit)), time)) | Call("trunc", (time, Literal(value=str(unit)))):
            if unit.lower() not in UNITS:
                return None
            moved = 1 - UNITS[unit.lower()]
        case Call("time_bucket", (Literal(value=int(size), of=DayTimeInterval()), time, *_)):
            moved = 1 - size
        case Call("from_utc_timestamp" | "to_utc_timestamp", (time, _)):
            moved = -FAR
        case Call("move_timezone", (_, _, time)):
            moved = -2 * FAR
        case Call("last_day", (time,)):
            moved = 0
        case Call("next_day", (time, _)):
            bound = bound_of(time)
            return None if bound is None else TimeBound(bound.low)
        case _:
            return None
    bound = bound_of(time)
    return None if bound is None else bound.later(moved)


def _of_partition(call: Call, bound_of: BoundOf) -> TimeBound | None:
    """The bound of the number of a partition, or of its first instant."""
    match call:
        case Call("partition_number", (time, Literal(value=int(every)))):
            bound = bound_of(time)
            return None if bound is None else numbered(bound, every)
        case Call("partition_start", (number, Literal(value=int(every)))) | Call(
            "partition_time", (_, number, Literal(value=int(every)))
        ):
            bound = bound_of(number)
            return None if bound is None else started(bound, every)
    return None


def _of_count(call: Call, bound_of: BoundOf) -> TimeBound | None:
    """The bound of a number of units since 1970, or of the time that it stands for."""
    if len(call.arguments) != 1 or call.function not in ("year", *SCALES, *INSTANTS):
        return None
    bound = bound_of(call.arguments[0])
    if bound is None or not math.isfinite(bound.low):
        return bound
    if call.function == "year":
        return TimeBound(1_969 + bound.low // ((366 if bound.low >= 0 else 365) * DAY), bound.nulls)
    if call.function in SCALES:
        return bound.divided(SCALES[call.function])
    return bound.times(INSTANTS[call.function])


def _of_number(call: Call, bound_of: BoundOf) -> TimeBound | None:
    """The bound of a number that is computed from one, none of which becomes less where it does not."""
    match call:
        case Call("subtract", (number, Call("pmod" | "remainder", (same, Literal(value=int(over)))))) if (
            number == same and over > 0
        ):
            bound = bound_of(number)
            return None if bound is None else bound.divided(over).times(over)
        case Call("subtract", (number, Literal(value=int(by)))):
            bound = bound_of(number)
            return None if bound is None else bound.later(-by)
        case Call("add", (number, Literal(value=int(by)))) | Call("add", (Literal(value=int(by)), number)):
            bound = bound_of(number)
            return None if bound is None else bound.later(by)
        case Call("div" | "divide", (number, Literal(value=int() | float() as over))) if over > 0:
            bound = bound_of(number)
            return None if bound is None else bound.divided(over)
        case Call("multiply", (number, Literal(value=int(by)))) | Call("multiply", (Literal(value=int(by)), number)):
            bound = bound_of(number) if by > 0 else None
            return None if bound is None else bound.times(by)
        case Call("floor_whole", (number,)):
            return bound_of(number)
    return None


def may_have_bound(type_: Type) -> bool:
    """True if values of a type are compared with bounds where they are stored: times and whole numbers."""
    return type_ in (*TIMES, *WHOLE_NUMBERS)


def whole_days(bound: TimeBound) -> TimeBound:
    """The bound of the day of a time."""
    return bound.divided(DAY).times(DAY)


def numbered(bound: TimeBound, every: int) -> TimeBound:
    """The bound of the number of the partition that a time is in."""
    return TimeBound(period_number(int(bound.low), every), bound.nulls) if math.isfinite(bound.low) else bound


def started(bound: TimeBound, every: int) -> TimeBound:
    """The bound of the first instant of the partition with a number."""
    return TimeBound(period_start(int(bound.low), every), bound.nulls) if math.isfinite(bound.low) else bound
