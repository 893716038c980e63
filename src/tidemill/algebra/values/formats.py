"""Values as Spark writes them as text and reads them back. Readers return None for text that is no such value."""

from __future__ import annotations

import datetime
import decimal
import math
import re
from typing import Any

from tidemill.algebra.values.singles import nearest_single, shortest_text
from tidemill.changes.arrow import canonical_double
from tidemill.model import types as t
from tidemill.model.types import Type

BLANKS = "".join(map(chr, range(33))) + "\x7f"
"""Characters that Spark strips around numbers, dates and booleans: space and control characters."""

_TRUE = {"t", "true", "y", "yes", "1"}
_FALSE = {"f", "false", "n", "no", "0"}
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
_DOUBLE = re.compile(_DECIMAL.pattern + "[dDfF]?", re.ASCII)
_SPECIAL = re.compile(r"(?P<sign>[+-]?)(?P<infinity>inf|infinity)|nan", re.ASCII | re.IGNORECASE)
_DATE = re.compile(r"\+?(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.ASCII | re.DOTALL)
_TIMESTAMP = re.compile(
    r"\+?(?P<year>\d{4})(-(?P<month>\d{1,2})(-(?P<day>\d{1,2})"
    r"([ T](?P<hour>\d{1,2})(:(?P<minute>\d{1,2})(:(?P<second>\d{1,2})(\.(?P<fraction>\d*))?)?)?(?P<zone>.+)?)?)?)?",
    re.ASCII,
)
_ZONE = re.compile(
    r"\s*(Z|UTC|GMT|(UTC|GMT)?(?P<sign>[+-])(?P<hours>\d{1,2})(:?(?P<minutes>\d{2}))?)",
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
        case t.Timestamp():
            return write_timestamp(value)
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
    return int(stripped) if _INTEGER.fullmatch(stripped) else None


def read_decimal(text: str) -> decimal.Decimal | None:
    """A number with optional fraction and exponent."""
    stripped = text.strip(BLANKS)
    return decimal.Decimal(stripped) if _DECIMAL.fullmatch(stripped) else None


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
    if not found:
        return None
    year, month, day = (int(part or 1) for part in found.groups())
    try:
        return datetime.date(year, month, day)
    except ValueError:
        return None


def read_timestamp(text: str, zoned: bool = True) -> datetime.datetime | None:
    """A date, or a date and a time of day with up to six digits of the second. If ``zoned``, its offset is taken off.

    >>> read_timestamp("2024-5-1T1:30+02:00")
    datetime.datetime(2024, 4, 30, 23, 30)
    """
    found = _TIMESTAMP.fullmatch(text.strip(BLANKS))
    if not found or (found["hour"] and not found["minute"] and not found["zone"]):
        return None
    offset = _read_zone(found["zone"])
    if offset is None:
        return None
    micros = int((found["fraction"] or "").ljust(6, "0")[:6])
    year, month, day = (int(found[part] or 1) for part in ("year", "month", "day"))
    hour, minute, second = (int(found[part] or 0) for part in ("hour", "minute", "second"))
    try:
        return datetime.datetime(year, month, day, hour, minute, second, micros) - (offset if zoned else NO_TIME)
    except (ValueError, OverflowError):
        return None


NO_TIME = datetime.timedelta()


def _read_zone(text: str | None) -> datetime.timedelta | None:
    if text is None:
        return datetime.timedelta()
    found = _ZONE.fullmatch(text)
    if not found:
        return None
    offset = datetime.timedelta(hours=int(found["hours"] or 0), minutes=int(found["minutes"] or 0))
    return -offset if found["sign"] == "-" else offset
