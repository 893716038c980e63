"""Intervals: their arithmetic, their fields, and making them.

Inside, a year-month interval is a number of months, a day-time interval one of microseconds, and a calendar interval a
tuple of months, days and microseconds. ``algebra.expressions.interval_operators`` decides which of these functions an
operator means.
"""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP
from typing import Any

from tidemill.algebra.functions.datetime.time import add_days, add_microseconds, add_months
from tidemill.algebra.functions.function import Function, Inference, always, expect, expect_count, takes
from tidemill.algebra.functions.numbers.mathematics import width_bucket as bucket_of
from tidemill.algebra.values.casts import microseconds
from tidemill.algebra.values.decimals import EXACT
from tidemill.changes.arrow import microsecond_of_day
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault, TypeMismatch
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
    """How often ``size`` goes into an interval, or into what is left of it beyond multiples of ``within``."""
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


# -------------------------------------------------------------------------------------------------------------- types


def _is_interval(type_: Type) -> bool:
    return isinstance(type_, t.AnsiInterval | t.CalendarInterval)


def _alike(gives: Type | None = None, count: int = 2) -> Inference:
    """The signature of ``count`` intervals of one type."""

    def infer(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
        expect_count(types, count, count)
        if not _is_interval(types[0]) or len(set(types)) != 1:
            raise TypeMismatch("intervals of one kind were expected")
        return tuple(types), gives or types[0]

    return infer


def whole_range(type_: Type) -> Type:
    """The type with all fields of an interval's kind."""
    match type_:
        case t.YearMonthInterval():
            return t.YEAR_MONTH
        case t.DayTimeInterval():
            return t.DAY_TIME
    return type_


def _scaling(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    """An interval and a number; a product or quotient has all fields of its kind."""
    expect_count(types, 2, 2)
    if not _is_interval(types[0]) or not t.is_numeric(types[1]):
        raise TypeMismatch(f"an interval and a number were expected, not {types[0]} and {types[1]}")
    return tuple(types), whole_range(types[0])


def _moving(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    """A DATE or TIMESTAMP and an interval; hours and less only move a TIMESTAMP."""
    expect_count(types, 2, 2)
    moment, span = types
    of_time = isinstance(span, t.DayTimeInterval) and span != t.INTERVAL_DAY
    if not isinstance(moment, t.Timestamp) and (not isinstance(moment, t.Date) or of_time):
        raise TypeMismatch(f"{span} cannot be added to {moment}")
    return tuple(types), moment


def _bucket_types(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    expect_count(types, 4, 4)
    spans, _ = _alike(count=3)(types[:3])
    return (*spans, expect(types[3], t.BIGINT)), t.BIGINT


def _from_interval(gives: Type) -> Inference:
    def infer(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
        expect_count(types, 1, 1)
        if not _is_interval(types[0]):
            raise TypeMismatch(f"an interval was expected, not {types[0]}")
        return tuple(types), gives

    return infer


def _sum_types(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    """Only made by aggregates, which give the type of the result themselves."""
    return tuple(types), t.DAY_TIME


# ------------------------------------------------------------------------------------------------------- declarations


def _tried(apply: Callable[..., Any]) -> Callable[..., Any]:
    def tried(*arguments: Any) -> Any:
        try:
            return apply(*arguments)
        except ArithmeticFault:
            return None

    return tried


def _with_try(
    name: str, infer: Inference, apply: Callable[..., Any], spark: str, tried: str, *, of_types: bool = False
) -> tuple[Function, Function]:
    """A function, and its form that gives NULL in place of an error."""
    return (
        Function(name, infer, apply, spark, typed=not of_types, of_types=of_types),
        Function(
            f"try_{name}",
            infer,
            _tried(apply),
            tried,
            typed=not of_types,
            of_types=of_types,
            null_when=always,
            total=True,
        ),
    )


def _months(part: Callable[[int], int]) -> Callable[..., int]:
    """A field of the months, or in a calendar interval of its months."""
    return lambda value: part(value[0] if isinstance(value, tuple) else value)


def _micros(part: Callable[[int], Any]) -> Callable[..., Any]:
    return lambda value: part(value[2] if isinstance(value, tuple) else value)


def _days(value: Any) -> int:
    """The days of an interval, those in its time too."""
    return value[1] + field(value[2], DAY) if isinstance(value, tuple) else field(value, DAY)


def _part(name: str, gives: Type, apply: Callable[..., Any], word: str) -> Function:
    return Function(name, _from_interval(gives), apply, f"extract({word} FROM {{0}})", total=True)


def units_sql(text: str, of: Type) -> str:
    """Spark SQL for the months or microseconds of an interval of type ``of``."""
    if isinstance(of, t.YearMonthInterval):
        return f"CAST(CAST({text} AS INTERVAL MONTH) AS BIGINT)"
    return f"CAST(CAST(CAST({text} AS INTERVAL SECOND) AS DECIMAL(20,6)) * 1000000 AS BIGINT)"


def _units_sql(arguments: Sequence[str], types: Sequence[Type], of: Type) -> str:
    return units_sql(arguments[0], types[0])


def of_units_sql(text: str, of: Type) -> str:
    """Spark SQL for the interval of type ``of`` that counts ``text`` months or microseconds."""
    if isinstance(of, t.YearMonthInterval):
        return f"CAST(CAST({text} AS INTERVAL MONTH) AS {of})"
    return f"CAST(CAST(CAST({text} AS DECIMAL(20,0)) * 0.000001BD AS INTERVAL SECOND) AS {of})"


def _sum_sql(arguments: Sequence[str], types: Sequence[Type], of: Type) -> str:
    return of_units_sql(arguments[0], of)


def _try_sum_sql(arguments: Sequence[str], types: Sequence[Type], of: Type) -> str:
    assert isinstance(of, t.AnsiInterval)
    fits = f"{arguments[0]} BETWEEN CAST('{-of.limit}' AS DECIMAL(20,0)) AND CAST('{of.limit - 1}' AS DECIMAL(20,0))"
    return f"CASE WHEN {fits} THEN {of_units_sql(arguments[0], of)} END"


def _average_sql(arguments: Sequence[str], types: Sequence[Type], of: Type) -> str:
    return f"({of_units_sql(arguments[0], of)} / {arguments[1]})"


def _try_average_sql(arguments: Sequence[str], types: Sequence[Type], of: Type) -> str:
    return f"({_try_sum_sql(arguments, types, of)} / {arguments[1]})"


_SECONDS = t.Decimal(18, 6)
_INTS = (t.INT, t.INT)

INTERVALS = (
    *_with_try("interval_add", _alike(), add, "({0} + {1})", "try_add({0}, {1})"),
    *_with_try("interval_subtract", _alike(), subtract, "({0} - {1})", "try_subtract({0}, {1})"),
    *_with_try("interval_multiply", _scaling, multiply, "({0} * {1})", "try_multiply({0}, {1})"),
    *_with_try("interval_divide", _scaling, divide, "({0} / {1})", "try_divide({0}, {1})"),
    *_with_try("add_interval", _moving, add_to_moment, "({0} + {1})", "try_add({0}, {1})", of_types=True),
    *_with_try(
        "subtract_interval", _moving, subtract_from_moment, "({0} - {1})", "try_subtract({0}, {1})", of_types=True
    ),
    Function("interval_negate", _alike(count=1), negate, "(- {0})", typed=True),
    Function("interval_positive", _alike(count=1), lambda value: value, "(+ {0})", python="{0}", total=True),
    Function("interval_abs", _alike(count=1), absolute, "abs({0})", typed=True),
    Function("interval_sign", _from_interval(t.DOUBLE), sign, "sign({0})", total=True),
    Function("interval_div", _alike(t.BIGINT), whole_quotient, "({0} div {1})", of_types=True),
    Function(
        "interval_width_bucket",
        _bucket_types,
        width_bucket,
        "width_bucket({args})",
        null_when=always,
        total=True,
    ),
    Function("subtract_dates", takes(t.DATE, t.DATE, gives=t.INTERVAL_DAY), between_dates, "({0} - {1})", total=True),
    Function(
        "subtract_timestamps",
        takes(t.TIMESTAMP, t.TIMESTAMP, gives=t.DAY_TIME),
        between_timestamps,
        "({0} - {1})",
        total=True,
    ),
    Function(
        "subtract_times",
        takes(t.TIME, t.TIME, gives=t.DayTimeInterval("HOUR", "SECOND")),
        between_times,
        "({0} - {1})",
        total=True,
    ),
    _part("interval_years", t.INT, _months(lambda value: field(value, 12)), "YEAR"),
    _part("interval_months", t.TINYINT, _months(lambda value: field(value, 1, 12)), "MONTH"),
    _part("interval_days", t.INT, _days, "DAY"),
    _part("interval_hours", t.TINYINT, _micros(lambda value: field(value, MICROSECONDS["HOUR"], DAY)), "HOUR"),
    _part(
        "interval_minutes",
        t.TINYINT,
        _micros(lambda value: field(value, MICROSECONDS["MINUTE"], MICROSECONDS["HOUR"])),
        "MINUTE",
    ),
    _part("interval_seconds", t.Decimal(8, 6), _micros(seconds), "SECOND"),
    Function(
        "make_ym_interval", takes(*_INTS, gives=t.YEAR_MONTH, optional=2), make_year_month, "make_ym_interval({args})"
    ),
    Function(
        "make_dt_interval",
        takes(*_INTS, t.INT, _SECONDS, gives=t.DAY_TIME, optional=4),
        make_day_time,
        "make_dt_interval({args})",
    ),
    Function(
        "make_interval",
        takes(*_INTS, *_INTS, *_INTS, _SECONDS, gives=t.CALENDAR_INTERVAL, optional=7),
        make_interval,
        "make_interval({args})",
    ),
    Function(
        "try_make_interval",
        takes(*_INTS, *_INTS, *_INTS, _SECONDS, gives=t.CALENDAR_INTERVAL, optional=6),
        _tried(make_interval),
        "try_make_interval({args})",
        null_when=always,
        total=True,
    ),
    Function("interval_units", _from_interval(t.BIGINT), units, "", python="{0}", spelling=_units_sql, total=True),
    Function("interval_of_sum", _sum_types, of_units, "", typed=True, spelling=_sum_sql),
    Function(
        "try_interval_of_sum",
        _sum_types,
        _tried(of_units),
        "",
        typed=True,
        spelling=_try_sum_sql,
        null_when=always,
        total=True,
    ),
    Function("interval_average", _sum_types, average, "", typed=True, spelling=_average_sql),
    Function(
        "try_interval_average",
        _sum_types,
        _tried(average),
        "",
        typed=True,
        spelling=_try_average_sql,
        null_when=always,
        total=True,
    ),
)

INTERNAL_INTERVALS = tuple(one for one in INTERVALS if not one.name.removeprefix("try_").startswith("make_"))
"""Those that operators and other functions stand for; users cannot call them by name."""
