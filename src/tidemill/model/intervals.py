"""Intervals as text, as Spark writes and reads them.

A year-month interval is a number of months, a day-time interval one of microseconds; a calendar interval is a tuple of
months, days and microseconds. Readers return None for a text that is no such value.
"""

from __future__ import annotations

import re
from typing import Any

from tidemill.model.types import AnsiInterval, CalendarInterval, DayTimeInterval, YearMonthInterval
from tidemill.model.whole_numbers import whole_number

Calendar = tuple[int, int, int]
"""Months, days and microseconds."""

SECOND = 1_000_000
MICROSECONDS = {"DAY": 86_400 * SECOND, "HOUR": 3_600 * SECOND, "MINUTE": 60 * SECOND, "SECOND": SECOND}
"""The fields of a day-time interval in microseconds."""

MONTHS = {"YEAR": 12, "MONTH": 1}
"""The fields of a year-month interval in months."""

UNITS: dict[str, tuple[int, int]] = {
    "year": (0, 12),
    "month": (0, 1),
    "week": (1, 7),
    "day": (1, 1),
    "hour": (2, MICROSECONDS["HOUR"]),
    "minute": (2, MICROSECONDS["MINUTE"]),
    "second": (2, SECOND),
    "millisecond": (2, 1000),
    "microsecond": (2, 1),
}
"""For each unit the place of what it counts (months, days, microseconds), and how many of them."""

FIELD_OF_UNIT = {"week": "DAY", "millisecond": "SECOND", "microsecond": "SECOND"}
"""The fields of units that have another name."""

_BLANK = "".join(map(chr, range(33)))
_SEPARATOR = {"DAY": " ", "HOUR": ":", "MINUTE": ":"}
_LEADING = {"DAY": r"\d{1,9}", "HOUR": r"\d{1,10}", "MINUTE": r"\d{1,12}", "SECOND": r"\d{1,13}"}
_RANGE = {"HOUR": 24, "MINUTE": 60, "SECOND": 60, "MONTH": 12}
_FRACTION = r"(?:\.(?P<fraction>\d{1,9}))?"
_ITEM = re.compile(
    r"(?P<sign>[+-]?)[\s\0-\x20]*(?P<whole>\d*)(?P<fraction>\.\d*)?[\s\0-\x20]+(?P<unit>[a-z]+?)s?(?:[\s\0-\x20]+|$)",
    re.ASCII | re.IGNORECASE,
)
_WORD = re.compile(r"interval[\s\0-\x20]+", re.IGNORECASE)


# ------------------------------------------------------------------------------------------------------------- writing


def write_interval(value: Any, type_: AnsiInterval | CalendarInterval) -> str:
    """An interval as CAST to STRING writes it.

    >>> write_interval(14, YearMonthInterval()), write_interval(5_500_000, DayTimeInterval("SECOND", "SECOND"))
    ("INTERVAL '1-2' YEAR TO MONTH", "INTERVAL '05.5' SECOND")
    """
    if isinstance(type_, CalendarInterval):
        return write_calendar(value)
    return f"INTERVAL '{write_fields(value, type_)}' {str(type_).removeprefix('INTERVAL ')}"


def write_fields(value: int, type_: AnsiInterval) -> str:
    """The part of an interval that stands in quotes.

    >>> write_fields(-93_784_500_000, DayTimeInterval())
    '-1 02:03:04.5'
    """
    sign, rest = "-" if value < 0 else "", abs(value)
    if isinstance(type_, YearMonthInterval):
        return f"{sign}{_write_months(rest, type_)}"
    return f"{sign}{_write_microseconds(rest, type_)}"


def _write_months(months: int, type_: YearMonthInterval) -> str:
    if type_.start == type_.end:
        return str(months // MONTHS[type_.start])
    return f"{months // 12}-{months % 12}"


def _write_microseconds(rest: int, type_: AnsiInterval) -> str:
    parts = []
    for field in type_.FIELDS:
        if not type_.spans(field):
            continue
        if field == "SECOND":
            fraction = f".{rest % SECOND:06}".rstrip("0").rstrip(".")
            parts.append(f"{rest // SECOND:02}{fraction}")
            break
        whole, rest = divmod(rest, MICROSECONDS[field])
        parts.append(f"{whole:{'' if field == 'DAY' else '02'}}")
        if field != type_.end:
            parts.append(_SEPARATOR[field])
    return "".join(parts)


def write_calendar(value: Calendar) -> str:
    """A calendar interval by its units, without those that are zero.

    >>> write_calendar((14, -3, 3_600_500_000))
    '1 years 2 months -3 days 1 hours 0.5 seconds'
    """
    months, days, micros = value
    parts = [*_split(months, (("years", 12), ("months", 1))), *([f"{days} days"] if days else [])]
    parts += _split(micros, (("hours", MICROSECONDS["HOUR"]), ("minutes", MICROSECONDS["MINUTE"])))
    rest = _toward_zero(micros, MICROSECONDS["MINUTE"])[1]
    if rest:
        whole, fraction = divmod(abs(rest), SECOND)
        digits = f"{whole}.{fraction:06}".rstrip("0").rstrip(".")
        parts.append(f"{'-' if rest < 0 else ''}{digits} seconds")
    return " ".join(parts) or "0 seconds"


def _split(value: int, units: tuple[tuple[str, int], ...]) -> list[str]:
    parts = []
    for name, size in units:
        whole, value = _toward_zero(value, size)
        if whole:
            parts.append(f"{whole} {name}")
    return parts


def _toward_zero(value: int, size: int) -> tuple[int, int]:
    """The quotient and the remainder, both with the sign of ``value``."""
    whole, rest = divmod(abs(value), size)
    return (-whole, -rest) if value < 0 else (whole, rest)


# ------------------------------------------------------------------------------------------------------------- reading


def read_interval(text: str, type_: AnsiInterval) -> int | None:
    """The interval of a text: the fields alone, or as a literal of that very type.

    >>> read_interval("1-2", YearMonthInterval()), read_interval("interval -'3' hour", DayTimeInterval("HOUR", "HOUR"))
    (14, -10800000000)
    """
    stripped = text.strip(_BLANK)
    found = _literal(type_).fullmatch(stripped)
    sign, fields = (found["sign"], found["fields"]) if found else ("", stripped)
    value = read_fields(fields, type_)
    return -value if value is not None and sign == "-" else value


def _literal(type_: AnsiInterval) -> re.Pattern[str]:
    fields = r"\s+TO\s+".join(dict.fromkeys((type_.start, type_.end)))
    return re.compile(rf"INTERVAL\s+(?P<sign>[+-]?)'(?P<fields>[^']*)'\s+{fields}", re.ASCII | re.IGNORECASE)


def read_fields(text: str, type_: AnsiInterval) -> int | None:
    """The interval of what stands in the quotes of a literal; None too where it does not fit.

    >>> read_fields("-1 02:03:04.5", DayTimeInterval()), read_fields("1 25", DayTimeInterval("DAY", "HOUR"))
    (-93784500000, None)
    """
    found = _fields(type_).fullmatch(text)
    if not found:
        return None
    parts, sizes = found.groupdict(), MONTHS if isinstance(type_, YearMonthInterval) else MICROSECONDS
    fraction = (parts.pop("fraction", None) or "").ljust(6, "0")[:6]
    negative, total = parts.pop("sign") == "-", int(fraction)
    for field, digits in parts.items():
        assert digits is not None
        if field != type_.start and whole_number(digits) >= _RANGE[field]:
            return None
        total += whole_number(digits) * sizes[field]
    value = -total if negative else total
    return value if -type_.limit <= value < type_.limit else None


def _fields(type_: AnsiInterval) -> re.Pattern[str]:
    """The pattern of the fields of a type, each in a group of its name."""
    if isinstance(type_, YearMonthInterval):
        pattern = "-".join(rf"(?P<{field}>\d+)" for field in type_.FIELDS if type_.spans(field))
        return re.compile(rf"(?P<sign>[+-]?){pattern}", re.ASCII)
    pattern = ""
    for field in type_.FIELDS:
        if type_.spans(field):
            digits = _LEADING[field] if field == type_.start else r"\d{1,2}"
            after = _FRACTION if field == "SECOND" else _SEPARATOR[field] if field != type_.end else ""
            pattern += rf"(?P<{field}>{digits}){after}"
    return re.compile(rf"(?P<sign>[+-]?){pattern}", re.ASCII)


def read_units(text: str) -> tuple[Calendar, list[str]] | None:
    """The interval of numbers and units such as ``1 year -2 days``, and the units in it; None where it is none.

    >>> read_units("interval 1 week 1.5 seconds")
    ((0, 7, 1500000), ['week', 'second'])
    """
    rest = text.strip(_BLANK).lower()
    if word := _WORD.match(rest):
        rest = rest[word.end() :]
    totals, units, place = [0, 0, 0], list[str](), 0
    while place < len(rest):
        found = _ITEM.match(rest, place)
        counted = _counted(found) if found else None
        if found is None or counted is None:
            return None
        totals[UNITS[found["unit"]][0]] += counted
        units.append(found["unit"])
        place = found.end()
    fits = all(-limit <= total < limit for total, limit in zip(totals, (1 << 31, 1 << 31, 1 << 63), strict=True))
    return ((totals[0], totals[1], totals[2]), units) if units and fits else None


def _counted(item: re.Match[str]) -> int | None:
    """Amount that a number with a unit counts; None where it is none. Seconds alone have a fraction."""
    unit, whole, fraction = item["unit"], item["whole"], item["fraction"]
    if unit not in UNITS or not (whole or (fraction and len(fraction) > 1)):
        return None
    if fraction is not None and (unit != "second" or len(fraction) > 10):
        return None
    value = whole_number(whole or "0") * UNITS[unit][1] + int((fraction or "")[1:7].ljust(6, "0"))
    return -value if item["sign"] == "-" else value


def read_calendar(text: str) -> Calendar | None:
    """The calendar interval of a text.

    >>> read_calendar("1 year 2 days")
    (12, 2, 0)
    """
    found = read_units(text)
    return found[0] if found else None


def type_of_units(units: list[str]) -> AnsiInterval | None:
    """The type of a literal with these units: from the longest to the shortest; None where months and days mix.

    >>> str(type_of_units(["week", "minute"]))
    'INTERVAL DAY TO MINUTE'
    """
    named = {FIELD_OF_UNIT.get(unit, unit.upper()) for unit in units}
    for kind in (YearMonthInterval, DayTimeInterval):
        fields = [field for field in kind.FIELDS if field in named]
        if fields and len(fields) == len(named):
            return kind(fields[0], fields[-1])
    return None
