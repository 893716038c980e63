"""Times of day: from their parts, texts and numbers, cut off, compared, and beside a date.

A TIME has up to six digits of a second. Patterns of `to_time` and `try_to_time` have the letters of a day's time alone.
"""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Sequence
from typing import Any

from tidemill.algebra.functions.datetime.time_formats import check_constants, check_zone
from tidemill.algebra.functions.datetime.time_units import TIME_UNITS
from tidemill.algebra.functions.function import (
    Function,
    Inference,
    StrictParameter,
    always,
    expect,
    expect_count,
    takes,
)
from tidemill.algebra.functions.numbers.arithmetic import lenient
from tidemill.algebra.values.datetime.patterns import read_time, write_time
from tidemill.algebra.values.datetime.zones import to_utc, zone_of
from tidemill.algebra.values.decimals import EXACT
from tidemill.changes.arrow import DAY, microsecond_of_day, time_of_day
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault, TypeMismatch, Unsupported
from tidemill.model.types import Type

UNITS = {name: TIME_UNITS[name] for name in ("HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")}
"""Units of a time of day, in microseconds."""


def make_time(hour: int, minute: int, second: decimal.Decimal) -> datetime.time:
    """The time of an hour, a minute and a second with its fraction.

    >>> make_time(6, 30, decimal.Decimal("45.887"))
    datetime.time(6, 30, 45, 887000)
    """
    whole, rest = divmod(int(second * 1_000_000), 1_000_000)
    try:
        return datetime.time(hour, minute, whole, rest)
    except (ValueError, OverflowError):
        raise ArithmeticFault(f"{hour}:{minute}:{second} is no time of day") from None


def parse_time(text: str, pattern: str) -> datetime.time:
    """The time that a text says in a pattern; an error where it says none."""
    found = read_time(text, pattern)
    if found is None:
        raise ArithmeticFault(
            f"{text!r} is no time in the pattern {pattern!r}", hint="Use TRY_TO_TIME to get NULL instead."
        )
    return found


def time_trunc(unit: str, time: datetime.time) -> datetime.time:
    """The time without what is smaller than a unit.

    >>> time_trunc("minute", datetime.time(12, 34, 56))
    datetime.time(12, 34)
    """
    size = _unit(unit)
    return time_of_day(microsecond_of_day(time) // size * size)


def time_diff(unit: str, start: datetime.time, end: datetime.time) -> int:
    """Whole units from one time to another, negative where the second is earlier."""
    distance = microsecond_of_day(end) - microsecond_of_day(start)
    return distance // _unit(unit) if distance >= 0 else -(-distance // _unit(unit))


def _unit(name: str) -> int:
    if name.upper() not in UNITS:
        raise ArithmeticFault(f"a time of day has no unit {name!r}", hint=f"Units are {', '.join(UNITS)}.")
    return UNITS[name.upper()]


def time_after(micros: int) -> datetime.time:
    """The time so many microseconds after midnight; an error where the day does not have as many."""
    if not 0 <= micros < DAY:
        raise ArithmeticFault(f"there is no time of day {micros} microseconds after midnight")
    return time_of_day(micros)


def time_from_seconds(seconds: Any) -> datetime.time:
    """The time so many seconds after midnight."""
    if isinstance(seconds, float) and not math.isfinite(seconds):
        raise ArithmeticFault(f"there is no time of day {seconds} seconds after midnight")
    micros, rest = divmod(int(seconds * 1_000_000_000), 1000)
    found = time_after(micros)
    if rest:
        raise Unsupported(f"{seconds} seconds have nanoseconds", hint="Round them to six places first.")
    return found


def seconds_of_day(time: datetime.time) -> decimal.Decimal:
    """Seconds from midnight, with their fraction."""
    return EXACT.scaleb(decimal.Decimal(microsecond_of_day(time)), -6)


def at_time(day: datetime.date, time: datetime.time, zone: str = "UTC") -> datetime.datetime:
    """The timestamp of a day and a time of day, in a zone.

    >>> at_time(datetime.date(2024, 1, 1), datetime.time(12), "Europe/Paris")
    datetime.datetime(2024, 1, 1, 11, 0)
    """
    return to_utc(datetime.datetime.combine(day, time), zone_of(zone))


def time_plus(time: datetime.time, span: int) -> datetime.time:
    """The time later by an interval; an error where the day has ended.

    >>> time_plus(datetime.time(23), 1_800_000_000)
    datetime.time(23, 30)
    """
    return time_after(microsecond_of_day(time) + span)


def time_minus(time: datetime.time, span: int) -> datetime.time:
    """The time earlier by an interval; an error where the day had not begun."""
    return time_after(microsecond_of_day(time) - span)


def time_type(given: Type, *others: Type) -> Type:
    """The type to which an argument of a function of times is converted: any TIME is taken as it is."""
    if isinstance(given, t.Time):
        return given
    if given not in (t.VOID, *others):
        raise TypeMismatch(f"an argument of type TIME was expected, not {given}", hint="Convert it with CAST.")
    return t.TIME


_READ = (t.STRING, t.TIMESTAMP, t.TIMESTAMP_NTZ)
"""Types whose values TIME_TRUNC and TIME_DIFF take for times."""


def _cut_types(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    expect_count(types, 2, 2)
    of = time_type(types[1], *_READ)
    return (expect(types[0], t.STRING), of), of


def _difference_types(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    expect_count(types, 3, 3)
    return (expect(types[0], t.STRING), time_type(types[1], *_READ), time_type(types[2], *_READ)), t.BIGINT


def _taking_time(gives: Type) -> Inference:
    def infer(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
        expect_count(types, 1, 1)
        return (time_type(types[0]),), gives

    return infer


def _second_types(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    expect_count(types, 1, 1)
    if not t.is_numeric(types[0]) and types[0] != t.VOID:
        raise TypeMismatch(f"a number was expected, not {types[0]}", hint="Convert it with CAST.")
    return (t.BIGINT if types[0] == t.VOID else types[0],), t.TIME


def _moment_types(gives: Type) -> Inference:
    """A DATE, a TIME and perhaps a zone."""

    def infer(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
        expect_count(types, 2, 3)
        time = types[1] if isinstance(types[1], t.Time) else StrictParameter(t.TIME)
        return takes(StrictParameter(t.DATE), time, t.STRING, gives=gives, optional=1)(types)

    return infer


def _written_types(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    expect_count(types, 2, 2)
    return takes(time_type(types[0]), t.STRING, gives=t.STRING)(types)


def _moved_types(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    """A TIME and a day-time interval, whose seconds have six digits."""
    expect_count(types, 2, 2)
    time, span = types
    if not isinstance(time, t.Time) or not isinstance(span, t.DayTimeInterval):
        raise TypeMismatch(f"a day-time interval is added to a TIME, not {span} to {time}")
    return (time, span), t.TIME if span.end == "SECOND" else time


_PATTERN = takes(t.STRING, t.STRING, gives=t.TIME)
_WHOLE = takes(StrictParameter(t.BIGINT, (t.TINYINT, t.SMALLINT, t.INT)), gives=t.TIME)

TIMES_OF_DAY = (
    Function("make_time", takes(t.INT, t.INT, t.Decimal(16, 6), gives=t.TIME), make_time, "make_time({args})"),
    Function("parse_time", _PATTERN, parse_time, "to_time({args})", check=check_constants(reading=True)),
    Function(
        "try_parse_time",
        _PATTERN,
        read_time,
        "try_to_time({args})",
        null_when=always,
        check=check_constants(reading=True),
    ),
    Function("write_time", _written_types, write_time, "date_format({args})", check=check_constants(reading=False)),
    Function("time_trunc", _cut_types, time_trunc, "time_trunc({args})"),
    Function("time_diff", _difference_types, time_diff, "time_diff({args})"),
    Function("time_plus", _moved_types, time_plus, "({0} + {1})"),
    Function("time_minus", _moved_types, time_minus, "({0} - {1})"),
    Function("try_time_plus", _moved_types, lenient(time_plus), "try_add({0}, {1})", null_when=always, total=True),
    Function(
        "try_time_minus", _moved_types, lenient(time_minus), "try_subtract({0}, {1})", null_when=always, total=True
    ),
    Function("time_from_seconds", _second_types, time_from_seconds, "time_from_seconds({0})"),
    Function("time_from_millis", _WHOLE, lambda count: time_after(count * 1000), "time_from_millis({0})"),
    Function("time_from_micros", _WHOLE, time_after, "time_from_micros({0})"),
    Function("time_to_seconds", _taking_time(t.Decimal(14, 6)), seconds_of_day, "time_to_seconds({0})", total=True),
    Function(
        "time_to_millis",
        _taking_time(t.BIGINT),
        lambda time: microsecond_of_day(time) // 1000,
        "time_to_millis({0})",
        total=True,
    ),
    Function("time_to_micros", _taking_time(t.BIGINT), microsecond_of_day, "time_to_micros({0})", total=True),
    Function("timestamp_at", _moment_types(t.TIMESTAMP), at_time, "make_timestamp({args})", check=check_zone(2)),
    Function("local_timestamp_at", _moment_types(t.TIMESTAMP_NTZ), at_time, "make_timestamp_ntz({args})"),
)
