"""Values as Spark writes them as text and reads them back. Readers return None for text that is no such value."""

from __future__ import annotations

import datetime
import decimal
import math
import re
from typing import Any

from tidemill.algebra.values.datetime.zones import to_utc, zone_of
from tidemill.algebra.values.singles import nearest_single, shortest_text
from tidemill.changes.arrow import canonical_double
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault, Unsupported
from tidemill.model.intervals import write_interval
from tidemill.model.types import Type
from tidemill.model.whole_numbers import whole_number

BLANKS = "".join(map(chr, range(33))) + "\x7f"
"""Characters that Spark strips around numbers, dates and booleans: space and control characters."""

SPACES = "".join(map(chr, range(33)))
"""Characters that Java strips around the name of a zone."""

_TRUE = {"t", "true", "y", "yes", "1"}
_FALSE = {"f", "false", "n", "no", "0"}
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
_DOUBLE = re.compile(_DECIMAL.pattern + "[dDfF]?", re.ASCII)
_SPECIAL = re.compile(r"(?P<sign>[+-]?)(?P<infinity>inf|infinity)|nan", re.ASCII | re.IGNORECASE)
_DATE = re.compile(
    r"(?P<sign>[+-]?)(?P<year>\d{4,7})(-(?P<month>\d{1,2})(-(?P<day>\d{1,2})([ T].*)?)?)?", re.ASCII | re.DOTALL
)
_TIMESTAMP = re.compile(
    r"(?P<sign>[+-]?)(?P<year>\d{4,6})(-(?P<month>\d{1,2})(-(?P<day>\d{1,2})([ T](?P<hour>\d{1,2})"
    r"(:(?P<minute>\d{1,2})(:(?P<second>\d{1,2})(\.(?P<fraction>\d*))?(?P<zone>[^\d.].*)?)?)?)?)?)?",
    re.ASCII | re.DOTALL,
)
_TIME = re.compile(
    rf"(T(?=\d)|[{re.escape(BLANKS)}]*(?=\d+:))(?P<hour>\d{{1,2}})"
    r"(:(?P<minute>\d{1,2})(:(?P<second>\d{1,2})(\.(?P<fraction>\d*))?)?)?",
    re.ASCII,
)


def write(value: Any, type_: Type) -> str:
    """``value`` as CAST(... AS STRING) writes it.

    >>> write(1.0, t.DOUBLE), write((1, None), t.Array(t.INT))
    ('1.0', '[1, null]')
    """
    match type_:
        case t.Boolean():
            return "true" if value else "false"
        case t.Float():
            return write_number(value, shortest_text(value))
        case t.Double():
            return write_number(value, repr(value))
        case t.Decimal():
            return format(value if value else value.copy_abs(), "f")
        case t.Date():
            return f"{value:%Y-%m-%d}".rjust(10, "0")
        case t.Time():
            return write_time(value)
        case t.Timestamp():
            return write_timestamp(value)
        case t.AnsiInterval() | t.CalendarInterval():
            return write_interval(value, type_)
        case t.Binary():
            return bytes(value).decode(errors="replace")
        case t.Array(element):
            return "[" + ", ".join(_write_inner(v, element) for v in value) + "]"
        case t.Map(key, element):
            entries = (f"{write(k, key)} -> {_write_inner(v, element)}" for k, v in value)
            return "{" + ", ".join(entries) + "}"
        case t.Struct(fields):
            return "{" + ", ".join(_write_inner(v, f.type) for v, f in zip(value, fields, strict=True)) + "}"
    return str(value)


def _write_inner(value: Any, type_: Type) -> str:
    return "null" if value is None else write(value, type_)


def write_number(value: float, shortest: str) -> str:
    """A number, of which ``shortest`` has the digits, as Java writes it: from ten million on with an exponent.

    >>> write_number(0.5, "0.5"), write_number(1e7, "1e7"), write_number(1.25e-5, "0.0000125")
    ('0.5', '1.0E7', '1.25E-5')
    """
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        plain = format(decimal.Decimal(shortest), "f")
        return plain if "." in plain else plain + ".0"
    sign, digits, exponent = decimal.Decimal(shortest).as_tuple()
    text = "".join(map(str, digits)).rstrip("0") or "0"
    power = len(digits) + int(exponent) - 1
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{power}"


def write_timestamp(value: datetime.datetime) -> str:
    """A timestamp with as many digits of its second as it needs."""
    whole = f"{value:%Y-%m-%d %H:%M:%S}".rjust(19, "0")
    return f"{whole}.{value.microsecond:06}".rstrip("0") if value.microsecond else whole


def write_time(value: datetime.time) -> str:
    """A time of day with as many digits of its second as it needs."""
    return value.isoformat().rstrip("0") if value.microsecond else value.isoformat()


def decoded(value: bytes) -> str | None:
    """The text that bytes are in UTF-8; None where they are none."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def read_boolean(text: str) -> bool | None:
    """``t``, ``true``, ``y``, ``yes``, ``1`` and their opposites, in any case."""
    word = text.strip(BLANKS).lower()
    return True if word in _TRUE else False if word in _FALSE else None


def read_integer(text: str) -> int | None:
    """Digits with an optional sign."""
    stripped = text.strip(BLANKS)
    return whole_number(stripped) if _INTEGER.fullmatch(stripped) else None


def read_decimal(text: str) -> decimal.Decimal | None:
    """A number with optional fraction and exponent; None where the exponent is beyond those that Java has."""
    stripped = text.strip(BLANKS)
    if not _DECIMAL.fullmatch(stripped):
        return None
    try:
        return decimal.Decimal(stripped)
    except decimal.InvalidOperation:
        return None


def read_double(text: str) -> float | None:
    """A number as Java reads it, or a name of infinity or NaN."""
    stripped = text.strip(BLANKS)
    if _DOUBLE.fullmatch(stripped):
        return canonical_double(float(stripped.rstrip("dDfF")))
    if found := _SPECIAL.fullmatch(stripped):
        return canonical_double(float((found["sign"] or "") + "inf" if found["infinity"] else "nan"))
    return None


def read_float(text: str) -> float | None:
    """As ``read_double``, rounded to 32 bits once."""
    double = read_double(text)
    if double is None or not math.isfinite(double):
        return double
    return nearest_single(decimal.Decimal(text.strip(BLANKS).rstrip("dDfF")))


def read_date(text: str) -> datetime.date | None:
    """``yyyy``, ``yyyy-m``, ``yyyy-m-d``, and anything after a ``T`` or a blank."""
    found = _DATE.fullmatch(text.strip(BLANKS))
    return _day(found) if found else None


def _day(found: re.Match[str]) -> datetime.date | None:
    """The day of a year, a month and a day; years that Python does not have are refused, as Spark has them."""
    year, month, day = (int(found[part] or 1) for part in ("year", "month", "day"))
    known = 1 <= year <= 9999 and found["sign"] != "-"
    try:
        date = datetime.date(year if known else 2000 + year % 400, month, day)
    except ValueError:
        return None
    if not known:
        raise Unsupported(f"the day {found.group()!r} lies outside the years 1 to 9999")
    return date


def read_time(text: str) -> datetime.time | None:
    """A time of day, ``h:m``, ``h:m:s`` or with a fraction, of which six digits count, and a half of the day behind it.

    >>> read_time("1:30 pm"), read_time("24:00")
    (datetime.time(13, 30), None)
    """
    given = text.rstrip(" ")
    half = given[-2:].lower() if len(given) > 2 and given[-2:].lower() in ("am", "pm") else ""
    found = _TIME.fullmatch(given.removesuffix(given[-2:] if half else "").rstrip(BLANKS))
    if not found:
        return None
    hour, minute, second = (int(found[part] or 0) for part in ("hour", "minute", "second"))
    if half:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if half == "pm" else 0)
    try:
        return datetime.time(hour, minute, second, int((found["fraction"] or "").ljust(6, "0")[:6]))
    except ValueError:
        return None


def read_timestamp(text: str, zoned: bool = True) -> datetime.datetime | None:
    """A date, or a date and a time of day with up to six digits of the second, and a zone, used only where ``zoned``.

    >>> read_timestamp("2024-5-1T1:30:00+02:00")
    datetime.datetime(2024, 4, 30, 23, 30)
    """
    found = _TIMESTAMP.fullmatch(text.strip(BLANKS))
    if not found:
        if zoned and read_time(text):
            raise Unsupported(f"{text!r} is a time of the day on which it is read", hint="Write the date as well.")
        return None
    day = _day(found)
    if day is None:
        return None
    micros = int((found["fraction"] or "").ljust(6, "0")[:6])
    hour, minute, second = (int(found[part] or 0) for part in ("hour", "minute", "second"))
    try:
        zone = zone_of((found["zone"] or "UTC").strip(SPACES))
        local = datetime.datetime.combine(day, datetime.time(hour, minute, second, micros))
    except (ArithmeticFault, ValueError):
        return None
    return to_utc(local, zone) if zoned else local
