"""Dates and timestamps: their parts, their arithmetic, and cutting them off. Timestamps are UTC microseconds."""

from __future__ import annotations

import calendar
import datetime
import decimal
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP
from typing import Any, TypeVar

from tidemill.algebra.functions.function import Function, Inference, StrictParameter, always, expect_count, takes
from tidemill.algebra.values.casts import MIDNIGHT, cast_value, microseconds, timestamp_of
from tidemill.algebra.values.decimals import EXACT
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault, TypeMismatch
from tidemill.model.types import Type

Day = TypeVar("Day", datetime.date, datetime.datetime)

EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()
SECONDS_IN_DAY = 86_400


def out_of_range() -> ArithmeticFault:
    """The error for a day that the calendar here does not have."""
    return ArithmeticFault("a date lies outside the years 1 to 9999")


def add_days(day: datetime.date, days: int) -> datetime.date:
    """The day so many days later."""
    try:
        return day + datetime.timedelta(days=days)
    except OverflowError:
        raise out_of_range() from None


def add_months(day: Day, months: int) -> Day:
    """The same day so many months later, or that month's last where it is shorter.

    >>> add_months(datetime.date(2024, 1, 31), 1)
    datetime.date(2024, 2, 29)
    """
    years, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    if not 1 <= years <= 9999:
        raise out_of_range()
    last = calendar.monthrange(years, month + 1)[1]
    return day.replace(year=years, month=month + 1, day=min(day.day, last))


def add_microseconds(instant: datetime.datetime, micros: int) -> datetime.datetime:
    """The instant so many microseconds later."""
    return timestamp_of(microseconds(instant) + micros)


def last_day(day: datetime.date) -> datetime.date:
    """The last day of the month."""
    return day.replace(day=calendar.monthrange(day.year, day.month)[1])


def months_between(end: datetime.datetime, start: datetime.datetime, rounded: bool = True) -> float:
    """Months from ``start`` to ``end``: whole between equal days or last days of a month, else in months of 31 days."""
    months = (end.year - start.year) * 12 + end.month - start.month
    if end.day == start.day or (_is_last_day(end) and _is_last_day(start)):
        return float(months)
    seconds = (end.day - start.day) * SECONDS_IN_DAY + _second_of_day(end) - _second_of_day(start)
    exact = months + seconds / (31 * SECONDS_IN_DAY)
    if not rounded:
        return exact
    eighth = decimal.Decimal("1e-8")
    return float(decimal.Decimal(repr(exact)).quantize(eighth, ROUND_HALF_UP, EXACT))


def _is_last_day(day: datetime.datetime) -> bool:
    return day.day == calendar.monthrange(day.year, day.month)[1]


def _second_of_day(instant: datetime.datetime) -> int:
    return instant.hour * 3600 + instant.minute * 60 + instant.second


def trunc(day: datetime.date, unit: str) -> datetime.date | None:
    """TRUNC: the first day of the year, quarter, month or week; NULL for any other unit."""
    cut = _DAY_UNITS.get(unit.lower())
    return cut(day) if cut else None


def date_trunc(unit: str, instant: datetime.datetime) -> datetime.datetime | None:
    """DATE_TRUNC: the first instant of a unit, from a year to a microsecond; NULL for anything else."""
    unit = unit.lower()
    if cut := _DAY_UNITS.get(unit):
        return datetime.datetime.combine(cut(instant.date()), MIDNIGHT)
    return _CLOCK_UNITS[unit](instant) if unit in _CLOCK_UNITS else None


def _quarter(day: datetime.date) -> datetime.date:
    return day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1)


_DAY_UNITS: dict[str, Callable[[datetime.date], datetime.date]] = {
    **dict.fromkeys(("year", "yyyy", "yy"), lambda day: day.replace(month=1, day=1)),
    "quarter": _quarter,
    **dict.fromkeys(("month", "mon", "mm"), lambda day: day.replace(day=1)),
    "week": lambda day: add_days(day, -day.weekday()),
}

_CLOCK_UNITS: dict[str, Callable[[datetime.datetime], datetime.datetime]] = {
    **dict.fromkeys(("day", "dd"), lambda instant: instant.replace(hour=0, minute=0, second=0, microsecond=0)),
    "hour": lambda instant: instant.replace(minute=0, second=0, microsecond=0),
    "minute": lambda instant: instant.replace(second=0, microsecond=0),
    "second": lambda instant: instant.replace(microsecond=0),
    "millisecond": lambda instant: instant.replace(microsecond=instant.microsecond // 1000 * 1000),
    "microsecond": lambda instant: instant,
}


def make_date(year: int, month: int, day: int) -> datetime.date:
    """The date of a year, a month and a day."""
    try:
        return datetime.date(year, month, day)
    except ValueError as error:
        raise ArithmeticFault(f"{year}-{month}-{day} is no date", detail=f"{error}.") from None


def second_with_fraction(of: Type, instant: datetime.datetime | datetime.time) -> decimal.Decimal:
    """The second with its fraction, a DECIMAL(8,6), or one of fewer places of a TIME that has fewer digits."""
    assert isinstance(of, t.Decimal)
    micros = decimal.Decimal(instant.second * 1_000_000 + instant.microsecond)
    return EXACT.scaleb(micros, -6).quantize(decimal.Decimal(1).scaleb(-of.scale))


def timestamp_seconds(seconds: Any) -> datetime.datetime:
    """The instant so many seconds after 1970."""
    type_: Type = t.DOUBLE if isinstance(seconds, float) else t.BIGINT
    if isinstance(seconds, decimal.Decimal):
        type_ = t.Decimal(t.MAX_PRECISION, 6)
        if EXACT.remainder(EXACT.scaleb(seconds, 6), decimal.Decimal(1)):
            raise ArithmeticFault(f"{seconds} seconds have more than six places", hint="Round them first.")
    instant: datetime.datetime = cast_value(seconds, type_, t.TIMESTAMP)
    return instant


def _seconds_types(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    expect_count(types, 1, 1)
    if not t.is_numeric(types[0]) and types[0] != t.VOID:
        raise TypeMismatch(f"a number was expected, not {types[0]}")
    return (t.BIGINT if types[0] == t.VOID else types[0],), t.TIMESTAMP


def _moment_types(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    """A DATE or a TIMESTAMP and a number; the result is of the same type as the first."""
    expect_count(types, 2, 2)
    moment = types[0] if isinstance(types[0], t.Timestamp) else t.DATE
    return takes(moment, t.INT, gives=moment)(types)


def _instant_types(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    """A TIMESTAMP, with or without a time zone, and a number; the result is of the same type as the first."""
    expect_count(types, 2, 2)
    instant = types[0] if isinstance(types[0], t.Timestamp) else t.TIMESTAMP
    return takes(instant, t.BIGINT, gives=instant)(types)


def _date_part(name: str, compute: Callable[[datetime.date], int], python: str = "", spark: str = "") -> Function:
    spelling = spark or f"{name}({{0}})"
    return Function(name, takes(t.DATE, gives=t.INT), compute, spelling, python=python, total=True)


def _time_part(name: str) -> Function:
    def compute(instant: datetime.datetime) -> int:
        return int(getattr(instant, name))

    return Function(name, _clock_types(t.INT), compute, f"{name}({{0}})", python=f"{{0}}.{name}", total=True)


def _clock_types(gives: Type) -> Inference:
    """A TIMESTAMP, or a TIME of any precision, which is taken as it is."""

    def infer(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
        instant = types[0] if types and isinstance(types[0], t.Time) else t.TIMESTAMP
        return takes(instant, gives=gives)(types)

    return infer


def _fraction_types(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    digits = types[0].precision if types and isinstance(types[0], t.Time) else t.TIME_DIGITS
    return _clock_types(t.Decimal(2 + digits, digits))(types)


_DAYS = takes(t.DATE, StrictParameter(t.INT, (t.TINYINT, t.SMALLINT, t.STRING)), gives=t.DATE)
_MONTHS = takes(t.DATE, t.INT, gives=t.DATE)
_COUNT = takes(StrictParameter(t.BIGINT, (t.TINYINT, t.SMALLINT, t.INT)), gives=t.TIMESTAMP)
_SINCE_1970 = takes(StrictParameter(t.TIMESTAMP, (t.TIMESTAMP_NTZ,)), gives=t.BIGINT)

TIME = (
    _date_part("year", lambda day: day.year, "{0}.year"),
    _date_part("quarter", lambda day: (day.month + 2) // 3, "({0}.month + 2) // 3"),
    _date_part("month", lambda day: day.month, "{0}.month"),
    _date_part("day", lambda day: day.day, "{0}.day"),
    _date_part("week", lambda day: day.isocalendar().week, spark="weekofyear({0})"),
    _date_part("dayofweek", lambda day: day.isoweekday() % 7 + 1, "({0}.isoweekday() % 7 + 1)"),
    _date_part("dayofweek_iso", datetime.date.isoweekday, "{0}.isoweekday()", spark="(weekday({0}) + 1)"),
    _date_part("weekday", datetime.date.weekday, "{0}.weekday()"),
    _date_part("dayofyear", lambda day: day.timetuple().tm_yday),
    _time_part("hour"),
    _time_part("minute"),
    _time_part("second"),
    Function(
        "second_with_fraction",
        _fraction_types,
        second_with_fraction,
        "extract(SECOND FROM {0})",
        typed=True,
    ),
    Function("add_days", _DAYS, add_days, "date_add({0}, {1})"),
    Function("date_add", _DAYS, add_days, "date_add({0}, {1})"),
    Function("date_sub", _DAYS, lambda day, days: add_days(day, -days), "date_sub({0}, {1})"),
    Function(
        "datediff",
        takes(t.DATE, t.DATE, gives=t.INT),
        lambda end, start: (end - start).days,
        "datediff({0}, {1})",
        total=True,
    ),
    Function("add_months", _MONTHS, add_months, "add_months({0}, {1})"),
    Function("add_months_to", _moment_types, add_months, "({0} + make_ym_interval(0, {1}))"),
    Function(
        "add_microseconds",
        _instant_types,
        add_microseconds,
        "CAST(timestamp_micros(unix_micros(CAST({0} AS TIMESTAMP)) + {1}) AS {type})",
    ),
    Function("last_day", takes(t.DATE, gives=t.DATE), last_day, "last_day({0})"),
    Function(
        "months_between",
        takes(t.TIMESTAMP, t.TIMESTAMP, t.BOOLEAN, gives=t.DOUBLE, optional=1),
        months_between,
        "months_between({args})",
    ),
    Function("trunc", takes(t.DATE, t.STRING, gives=t.DATE), trunc, "trunc({args})", null_when=always),
    Function(
        "date_trunc",
        takes(t.STRING, t.TIMESTAMP, gives=t.TIMESTAMP),
        date_trunc,
        "date_trunc({args})",
        null_when=always,
    ),
    Function("make_date", takes(t.INT, t.INT, t.INT, gives=t.DATE), make_date, "make_date({args})"),
    Function(
        "unix_date",
        takes(StrictParameter(t.DATE), gives=t.INT),
        lambda day: day.toordinal() - EPOCH_DAY,
        "unix_date({0})",
        total=True,
    ),
    Function(
        "date_from_unix_date",
        takes(t.INT, gives=t.DATE),
        lambda days: add_days(datetime.date(1970, 1, 1), days),
        "date_from_unix_date({0})",
    ),
    Function("unix_seconds", _SINCE_1970, lambda instant: microseconds(instant) // 1_000_000, "unix_seconds({0})"),
    Function("unix_millis", _SINCE_1970, lambda instant: microseconds(instant) // 1000, "unix_millis({0})"),
    Function("unix_micros", _SINCE_1970, microseconds, "unix_micros({0})"),
    Function("timestamp_seconds", _seconds_types, timestamp_seconds, "timestamp_seconds({0})"),
    Function("timestamp_millis", _COUNT, lambda count: timestamp_of(count * 1000), "timestamp_millis({0})"),
    Function("timestamp_micros", _COUNT, timestamp_of, "timestamp_micros({0})"),
)
