"""Timestamps from their parts, and moved or compared by units; days and months by name."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Sequence
from typing import Any

from tidemill.algebra.functions.datetime.time import add_days, add_microseconds, add_months, out_of_range
from tidemill.algebra.functions.function import Function, always, expect_count, takes
from tidemill.algebra.values.casts import MICROSECOND, microseconds
from tidemill.algebra.values.datetime.zones import to_utc, zone_of
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault, TypeMismatch
from tidemill.model.types import Type

EPOCH = datetime.datetime(1970, 1, 1)
MONTH_UNITS = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}
TIME_UNITS = {
    "WEEK": 604_800_000_000, "DAY": 86_400_000_000, "DAYOFYEAR": 86_400_000_000, "HOUR": 3_600_000_000,
    "MINUTE": 60_000_000, "SECOND": 1_000_000, "MILLISECOND": 1000, "MICROSECOND": 1,
}  # fmt: skip
UNITS = (*MONTH_UNITS, *TIME_UNITS)
DIFFERENCE_UNITS = tuple(unit for unit in UNITS if unit != "DAYOFYEAR")
"""Units of TIMESTAMPADD and TIMESTAMPDIFF: so many months, or so many microseconds."""

WEEKDAYS = ("MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def timestamp_add(unit: str, count: int, instant: datetime.datetime) -> datetime.datetime:
    """TIMESTAMPADD: the instant so many units later.

    >>> timestamp_add("MONTH", 1, datetime.datetime(2024, 1, 31))
    datetime.datetime(2024, 2, 29, 0, 0)
    """
    if unit in MONTH_UNITS:
        return add_months(instant, count * MONTH_UNITS[unit])
    return add_microseconds(instant, count * TIME_UNITS[unit])


def timestamp_difference(unit: str, start: datetime.datetime, end: datetime.datetime) -> int:
    """TIMESTAMPDIFF: whole units from ``start`` to ``end``, without the rest.

    >>> timestamp_difference("MONTH", datetime.datetime(2024, 1, 31), datetime.datetime(2024, 2, 29))
    0
    """
    if unit in TIME_UNITS:
        return _quotient((end - start) // MICROSECOND, TIME_UNITS[unit])
    day = end.date()
    if day > start.date() and end.time() < start.time():
        day -= datetime.timedelta(days=1)
    elif day < start.date() and end.time() > start.time():
        day += datetime.timedelta(days=1)
    # Days count within their month, of which none has more than 31.
    months = _quotient(_packed(day) - _packed(start.date()), 32)
    return _quotient(months, MONTH_UNITS[unit])


def _packed(day: datetime.date) -> int:
    return (day.year * 12 + day.month) * 32 + day.day


def _quotient(number: int, divisor: int) -> int:
    return number // divisor if number >= 0 else -(-number // divisor)


def time_bucket(
    types: Sequence[Type], size: int, instant: datetime.datetime, origin: datetime.datetime = EPOCH
) -> datetime.datetime:
    """The start of the bucket of an instant: buckets are so many months or microseconds long, and one starts at origin.

    >>> time_bucket((t.YEAR_MONTH,), 1, datetime.datetime(2024, 2, 29, 9), datetime.datetime(2024, 1, 31, 10))
    datetime.datetime(2024, 1, 31, 10, 0)
    """
    if isinstance(types[0], t.DayTimeInterval):
        return add_microseconds(origin, (instant - origin) // MICROSECOND // size * size)
    months = (instant.year - origin.year) * 12 + instant.month - origin.month
    start = add_months(origin, months // size * size)
    return start if start <= instant else add_months(origin, (months // size - 1) * size)


def _bucket_types(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    expect_count(types, 2, 3)
    size = t.DAY_TIME if types[0] == t.VOID else types[0]
    if not isinstance(size, t.AnsiInterval):
        raise TypeMismatch(f"TIME_BUCKET takes an interval, not {types[0]}", hint="Write INTERVAL '15' MINUTE.")
    instant = t.TIMESTAMP if types[1] == t.VOID else types[1]
    if not isinstance(instant, t.Timestamp) or any(given not in (instant, t.VOID) for given in types[2:]):
        raise TypeMismatch(f"TIME_BUCKET takes timestamps of one type, not {', '.join(map(str, types[1:]))}")
    return (size, instant, *(instant for _ in types[2:])), instant


def _check_bucket(values: Sequence[Any]) -> None:
    if values[0] is not None and values[0] <= 0:
        raise TypeMismatch("TIME_BUCKET takes an interval that is longer than nothing")


def make_timestamp(
    year: int, month: int, day: int, hour: int, minute: int, second: decimal.Decimal, zone: str = "UTC"
) -> datetime.datetime:
    """The timestamp of its parts, in a zone; second 60 is the first of the next minute.

    >>> make_timestamp(2019, 6, 30, 23, 59, decimal.Decimal(60))
    datetime.datetime(2019, 7, 1, 0, 0)
    """
    found = try_make_timestamp(year, month, day, hour, minute, second, zone)
    if found is None:
        raise ArithmeticFault(
            f"{year}-{month}-{day} {hour}:{minute}:{second} is no timestamp",
            hint="Use TRY_MAKE_TIMESTAMP to get NULL instead.",
        )
    return found


def try_make_timestamp(
    year: int, month: int, day: int, hour: int, minute: int, second: decimal.Decimal, zone: str = "UTC"
) -> datetime.datetime | None:
    """As ``make_timestamp``, with NULL where there is no such timestamp; a zone must be one all the same."""
    place = zone_of(zone)
    whole, rest = divmod(int(second * 1_000_000), 1_000_000)
    next_minute = whole == 60 and not rest
    known = year if 1 <= year <= 9999 else 2000 + year % 400  # the calendar repeats itself after 400 years
    try:
        local = datetime.datetime(known, month, day, hour, minute, 0 if next_minute else whole, rest)
        local += datetime.timedelta(minutes=1 if next_minute else 0)
    except ValueError:
        return None
    except OverflowError:
        raise out_of_range() from None
    if known != year:
        raise out_of_range()
    return to_utc(local, place)


def next_day(day: datetime.date, name: str) -> datetime.date:
    """The first day after ``day`` that has this name, of two letters, three, or all."""
    wanted = name.upper()
    for number, known in enumerate(WEEKDAYS):
        if wanted in (known[:2], known[:3], known):
            return add_days(day, (number - day.weekday() - 1) % 7 + 1)
    raise ArithmeticFault(f"there is no day of the week {name!r}", hint="Use MONDAY, MON or MO, and so on.")


def _spell_unit(arguments: Sequence[str], types: Sequence[Type], of: Type) -> str:
    """The unit is a word, not a text."""
    name = "timestampadd" if isinstance(of, t.Timestamp) else "timestampdiff"
    return f"{name}({arguments[0].strip(chr(39))}, {arguments[1]}, {arguments[2]})"


def _added_types(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    instant = types[2] if types[2:] == [t.TIMESTAMP_NTZ] else t.TIMESTAMP
    return takes(t.STRING, t.BIGINT, instant, gives=instant)(types)


_PARTS = takes(
    t.INT, t.INT, t.INT, t.INT, t.INT, t.Decimal(16, 6), t.STRING, gives=t.TIMESTAMP, optional=1
)  # fmt: skip

TIME_UNIT_FUNCTIONS = (
    Function(
        "timestamp_add",
        _added_types,
        timestamp_add,
        "timestampadd({args})",
        constants=(0,),
        spelling=_spell_unit,
    ),
    Function(
        "timestamp_difference",
        takes(t.STRING, t.TIMESTAMP, t.TIMESTAMP, gives=t.BIGINT),
        timestamp_difference,
        "timestampdiff({args})",
        constants=(0,),
        spelling=_spell_unit,
        total=True,
    ),
    Function(
        "time_bucket",
        _bucket_types,
        time_bucket,
        "time_bucket({args})",
        of_types=True,
        constants=(0, 2),
        check=_check_bucket,
    ),
    Function("timestamp_of_parts", _PARTS, make_timestamp, "make_timestamp({args})"),
    Function("try_timestamp_of_parts", _PARTS, try_make_timestamp, "try_make_timestamp({args})", null_when=always),
    Function(
        "whole_seconds",
        takes(t.TIMESTAMP, gives=t.BIGINT),
        lambda instant: _quotient(microseconds(instant), 1_000_000),
        "unix_timestamp({0})",
        total=True,
    ),
    Function("next_day", takes(t.DATE, t.STRING, gives=t.DATE), next_day, "next_day({args})"),
    Function(
        "dayname",
        takes(t.DATE, gives=t.STRING),
        lambda day: WEEKDAYS[day.weekday()][:3].title(),
        "dayname({0})",
        total=True,
    ),
    Function(
        "monthname", takes(t.DATE, gives=t.STRING), lambda day: MONTHS[day.month - 1], "monthname({0})", total=True
    ),
    Function(
        "year_of_week",
        takes(t.DATE, gives=t.INT),
        lambda day: day.isocalendar().year,
        "extract(YEAROFWEEK FROM {0})",
        total=True,
    ),
)
