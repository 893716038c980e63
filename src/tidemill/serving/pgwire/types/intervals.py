"""Intervals as PostgreSQL has them: months, days and microseconds, which are not converted to each other."""

from __future__ import annotations

import datetime
import re
from typing import Any

from tidemill.model import types as t
from tidemill.model.types import Type

__all__ = ["interval_parts", "interval_text", "read_interval"]

DAY = 86_400_000_000
_UNITS = {
    "year": (12, 0, 0),
    "mon": (1, 0, 0),
    "month": (1, 0, 0),
    "week": (0, 7, 0),
    "day": (0, 1, 0),
    "hour": (0, 0, 3_600_000_000),
    "minute": (0, 0, 60_000_000),
    "min": (0, 0, 60_000_000),
    "second": (0, 0, 1_000_000),
    "sec": (0, 0, 1_000_000),
    "millisecond": (0, 0, 1_000),
    "microsecond": (0, 0, 1),
}
_ITEM = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([a-z]+?)s?(?=[\s\d+-]|$)", re.IGNORECASE)
_CLOCK = re.compile(r"\s*([+-]?)(\d+):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,6}))?)?")


def interval_parts(value: Any, of: Type) -> tuple[int, int, int]:
    """The months, days and microseconds of a value as readers get it.

    >>> interval_parts(14, t.YearMonthInterval()), interval_parts(datetime.timedelta(hours=-25), t.DayTimeInterval())
    ((14, 0, 0), (0, -1, -3600000000))
    """
    if isinstance(of, t.YearMonthInterval):
        return value, 0, 0
    if isinstance(of, t.CalendarInterval):
        months, days, micros = value
        return months, days, micros
    micros = value // datetime.timedelta(microseconds=1)
    days, rest = divmod(abs(micros), DAY)
    return (0, -days, -rest) if micros < 0 else (0, days, rest)


def interval_text(months: int, days: int, micros: int) -> str:
    """An interval in PostgreSQL's own style.

    >>> interval_text(14, -3, 3_600_500_000), interval_text(0, 0, 0), interval_text(-1, 0, -1)
    ('1 year 2 mons -3 days +01:00:00.5', '00:00:00', '-1 mons -00:00:00.000001')
    """
    years = abs(months) // 12 * (-1 if months < 0 else 1)
    parts, negative = [], False
    for count, unit in ((years, "year"), (months - years * 12, "mon"), (days, "day")):
        if count:
            sign = "+" if negative and count > 0 else ""
            parts.append(f"{sign}{count} {unit}{'' if count == 1 else 's'}")
            negative = count < 0
    if micros or not parts:
        sign = "-" if micros < 0 else "+" if negative else ""
        seconds, fraction = divmod(abs(micros), 1_000_000)
        minutes, seconds = divmod(seconds, 60)
        hours, minutes = divmod(minutes, 60)
        tail = f".{fraction:06}".rstrip("0") if fraction else ""
        parts.append(f"{sign}{hours:02}:{minutes:02}:{seconds:02}{tail}")
    return " ".join(parts)


def read_interval(text: str) -> tuple[int, int, int] | None:
    """The months, days and microseconds of a text in PostgreSQL's style; None if it is none.

    >>> read_interval("1 year 2 mons -3 days +01:00:00.5"), read_interval("soon")
    ((14, -3, 3600500000), None)
    """
    months = days = micros = 0
    text, at = text.strip(), 0
    if not text:
        return None
    while at < len(text):
        if (clock := _CLOCK.match(text, at)) is not None:
            sign, hours, minutes, seconds, fraction = clock.groups()
            found = (int(hours) * 3600 + int(minutes) * 60 + int(seconds or 0)) * 1_000_000
            found += int((fraction or "").ljust(6, "0"))
            micros, at = micros + (-found if sign == "-" else found), clock.end()
        elif (item := _ITEM.match(text, at)) is not None and (unit := item[2].lower()) in _UNITS:
            per_month, per_day, per_micro = _UNITS[unit]
            count = float(item[1]) if "." in item[1] else int(item[1])
            if isinstance(count, float) and not per_micro:
                return None
            months, days, micros = (
                months + int(count * per_month),
                days + int(count * per_day),
                micros + round(count * per_micro),
            )
            at = item.end()
        else:
            return None
        at += len(text[at:]) - len(text[at:].lstrip())
    return months, days, micros
