"""Values of intervals: their arithmetic, their fields, and making them.

Inside, a year-month interval is a number of months, a day-time interval one of microseconds, and a calendar interval a
tuple of months, days and microseconds.
"""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP
from typing import Any

from tidemill.algebra.functions.datetime.time import add_days, add_microseconds, add_months
from tidemill.algebra.functions.numbers.mathematics import width_bucket as bucket_of
from tidemill.algebra.values.casts import microseconds
from tidemill.algebra.values.decimals import EXACT
from tidemill.changes.arrow import microsecond_of_day
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault
from tidemill.model.intervals import MICROSECONDS, Calendar
from tidemill.model.types import Type

DAY = MICROSECONDS["DAY"]
MONTH_LIMIT, DAY_LIMIT, MICROSECOND_LIMIT = 1 << 31, 1 << 31, 1 << 63


def too_long() -> ArithmeticFault:
    """The error for an interval that does not fit its type."""
    return ArithmeticFault("an interval is too long for its type", hint="Use TRY_ADD or its like to get NULL instead.")


def divided_by_zero() -> ArithmeticFault:
    """The error for an interval divided by zero."""
    return ArithmeticFault("an interval is divided by zero", hint="Use TRY_DIVIDE to get NULL instead.")


def fitted(of: Type, value: int) -> int:
    """``value`` if an interval of type ``of`` can have it; else an error."""
    assert isinstance(of, t.AnsiInterval)
    if -of.limit <= value < of.limit:
        return value
    raise too_long()


def calendar(months: int, days: int, micros: int) -> Calendar:
    """A calendar interval, if each of its parts fits."""
    limits = (MONTH_LIMIT, DAY_LIMIT, MICROSECOND_LIMIT)
    if all(-limit <= part < limit for part, limit in zip((months, days, micros), limits, strict=True)):
        return months, days, micros
    raise too_long()


# ---------------------------------------------------------------------------------------------------------- arithmetic


def add(of: Type, left: Any, right: Any) -> Any:
    """The sum of two intervals of one type."""
    if isinstance(of, t.CalendarInterval):
        return calendar(*(a + b for a, b in zip(left, right, strict=True)))
    return fitted(of, left + right)


def subtract(of: Type, left: Any, right: Any) -> Any:
    """The difference of two intervals of one type."""
    if isinstance(of, t.CalendarInterval):
        return calendar(*(a - b for a, b in zip(left, right, strict=True)))
    return fitted(of, left - right)


def negate(of: Type, value: Any) -> Any:
    """The interval in the other direction."""
    return calendar(*(-part for part in value)) if isinstance(of, t.CalendarInterval) else fitted(of, -value)


def absolute(of: Type, value: int) -> int:
    """The length of an interval."""
    return fitted(of, abs(value))


def multiply(of: Type, value: Any, number: Any) -> Any:
    """An interval so many times, rounded to its unit with halves away from zero.

    >>> multiply(t.YEAR_MONTH, 5, decimal.Decimal("0.5"))
    3
    """
    if isinstance(of, t.CalendarInterval):
        return _scaled(value, lambda part: part * float(number))
    return fitted(of, _rounded(_product(value, number)))


def divide(of: Type, value: Any, number: Any) -> Any:
    """A part of an interval, rounded to its unit with halves away from zero.

    >>> divide(t.YEAR_MONTH, -15, 2)
    -8
    """
    if not number:
        raise divided_by_zero()
    if isinstance(of, t.CalendarInterval):
        return _scaled(value, lambda part: part / float(number))
    if isinstance(number, int):
        whole = (2 * abs(value) + abs(number)) // (2 * abs(number))
        return fitted(of, whole if (value < 0) == (number < 0) else -whole)
    if isinstance(number, decimal.Decimal):
        return fitted(of, _rounded(EXACT.divide(decimal.Decimal(value), number)))
    return fitted(of, _rounded(value / number))


def _product(value: int, number: Any) -> Any:
    return EXACT.multiply(decimal.Decimal(value), number) if isinstance(number, decimal.Decimal) else value * number


def _rounded(number: Any) -> int:
    """The whole number next to ``number``, halves away from zero."""
    if isinstance(number, int):
        return number
    if isinstance(number, float):
        if not math.isfinite(number):
            raise too_long()
        number = decimal.Decimal(number)
    return int(number.to_integral_value(ROUND_HALF_UP, EXACT))


def _scaled(value: Calendar, scale: Callable[[float], float]) -> Calendar:
    """A calendar interval scaled: what is left of a month is cut off, of a day it goes into microseconds."""
    scaled = [scale(float(part)) for part in value]
    if not all(map(math.isfinite, scaled)):
        raise too_long()
    months, days, micros = scaled
    whole_days = math.trunc(days)
    return calendar(math.trunc(months), whole_days, math.floor(micros + DAY * (days - whole_days) + 0.5))


def whole_quotient(types: Sequence[Type], left: int, right: int) -> int:
    """DIV: how often an interval goes into another one. As in Spark it has the bits of the intervals."""
    if not right:
        raise divided_by_zero()
    assert isinstance(types[0], t.AnsiInterval)
    whole = abs(left) // abs(right)
    limit = types[0].limit
    return -limit if whole == limit else whole if (left < 0) == (right < 0) else -whole


def sign(value: int) -> float:
    """Minus one, zero or one."""
    return float((value > 0) - (value < 0))


def add_to_moment(types: Sequence[Type], moment: Any, value: Any) -> Any:
    """A date or timestamp moved by an interval: months first, then days, then the rest."""
    match types[1]:
        case t.YearMonthInterval():
            return add_months(moment, value)
        case t.DayTimeInterval() if isinstance(types[0], t.Date):
            return add_days(moment, field(value, DAY))
        case t.DayTimeInterval():
            return add_microseconds(moment, value)
    months, days, micros = value
    moved = add_months(moment, months)
    if isinstance(types[0], t.Timestamp):
        return add_microseconds(moved, days * DAY + micros)
    if micros:
        raise ArithmeticFault("hours and less cannot be added to a DATE", hint="Convert it to TIMESTAMP with CAST.")
    return add_days(moved, days)


def subtract_from_moment(types: Sequence[Type], moment: Any, value: Any) -> Any:
    """A date or timestamp moved back by an interval."""
    return add_to_moment(types, moment, negate(types[1], value))


def between_dates(end: datetime.date, start: datetime.date) -> int:
    """The days from one date to another, in microseconds."""
    return (end.toordinal() - start.toordinal()) * DAY


def between_timestamps(end: datetime.datetime, start: datetime.datetime) -> int:
    """The microseconds from one timestamp to another."""
    return microseconds(end) - microseconds(start)


def between_times(end: datetime.time, start: datetime.time) -> int:
    """The microseconds from one time of day to another."""
    return microsecond_of_day(end) - microsecond_of_day(start)


# ------------------------------------------------------------------------------------------------- fields and making


def field(value: int, size: int, within: int = 0) -> int:
    """Times that ``size`` goes into an interval, or into what is left of it beyond multiples of ``within``."""
    rest = abs(value) % within if within else abs(value)
    return -(rest // size) if value < 0 else rest // size


def seconds(value: int) -> decimal.Decimal:
    """The seconds of an interval beyond its whole minutes, a DECIMAL(8,6)."""
    rest = abs(value) % MICROSECONDS["MINUTE"]
    return EXACT.scaleb(decimal.Decimal(-rest if value < 0 else rest), -6)


def make_year_month(years: int = 0, months: int = 0) -> int:
    """MAKE_YM_INTERVAL."""
    return fitted(t.YEAR_MONTH, years * 12 + months)


def make_day_time(days: int = 0, hours: int = 0, minutes: int = 0, secs: decimal.Decimal = decimal.Decimal(0)) -> int:
    """MAKE_DT_INTERVAL."""
    whole = days * DAY + hours * MICROSECONDS["HOUR"] + minutes * MICROSECONDS["MINUTE"]
    return fitted(t.DAY_TIME, whole + int(EXACT.scaleb(secs, 6)))


def make_interval(
    years: int = 0,
    months: int = 0,
    weeks: int = 0,
    days: int = 0,
    hours: int = 0,
    minutes: int = 0,
    secs: decimal.Decimal = decimal.Decimal(0),
) -> Calendar:
    """MAKE_INTERVAL.

    >>> make_interval(1, 2, 1, 1)
    (14, 8, 0)
    """
    time = hours * MICROSECONDS["HOUR"] + minutes * MICROSECONDS["MINUTE"] + int(EXACT.scaleb(secs, 6))
    return calendar(years * 12 + months, weeks * 7 + days, time)


def width_bucket(value: int, low: int, high: int, buckets: int) -> int | None:
    """The number of the one of equal ``buckets`` from ``low`` to ``high`` that has an interval, as WIDTH_BUCKET."""
    return bucket_of(float(value), float(low), float(high), buckets)


def units(value: int) -> int:
    """The number that an interval is inside, for sums."""
    return value


def of_units(of: Type, value: Any) -> int:
    """The interval that a sum is, if it fits."""
    return fitted(of, int(value))


def average(of: Type, total: Any, count: int) -> int:
    """The last step of AVG."""
    return int(divide(of, fitted(of, int(total)), count))
