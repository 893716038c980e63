"""Time zones as Java names them, and local times in them. Timestamps are UTC."""

from __future__ import annotations

import datetime
import re
import zoneinfo
from functools import cache

from tidemill.model.errors import ArithmeticFault

SHORT_NAMES = {
    "ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo", "AST": "America/Anchorage", "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare", "CNT": "America/St_Johns", "CST": "America/Chicago", "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris", "EST": "-05:00", "HST": "-10:00",
    "IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata", "JST": "Asia/Tokyo", "MIT": "Pacific/Apia",
    "MST": "-07:00", "NET": "Asia/Yerevan", "NST": "Pacific/Auckland", "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix", "PRT": "America/Puerto_Rico", "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal", "VST": "Asia/Ho_Chi_Minh",
}  # fmt: skip
"""Java's abbreviations of zones."""

NOT_IN_JAVA = frozenset({"EST", "HST", "MST", "ROC", "Factory", "localtime", "posixrules"})
"""Names of the time zone database that Java leaves out."""

_ONE_DIGIT_HOUR = re.compile(r"([+-])(\d):", re.ASCII)
_ONE_DIGIT_MINUTE = re.compile(r"([+-])(\d\d):(\d)$", re.ASCII)
_OFFSET = re.compile(
    r"(?P<sign>[+-])((?P<hour>\d)|(?P<hours>\d\d)(?:(?P<colon>:?)(?P<minutes>\d\d)(?:(?P=colon)(?P<seconds>\d\d))?)?)",
    re.ASCII,
)
MOST_SECONDS = 18 * 3600
"""The greatest offset from UTC that Java has."""


@cache
def zone_names() -> frozenset[str]:
    """The names of all regions."""
    return frozenset(zoneinfo.available_timezones() - NOT_IN_JAVA)


@cache
def zone_of(name: str) -> datetime.tzinfo:
    """The zone of a name: a region, one of Java's abbreviations, or an offset from UTC.

    >>> zone_of("+1:30"), zone_of("PST")
    (datetime.timezone(datetime.timedelta(seconds=5400)), zoneinfo.ZoneInfo(key='America/Los_Angeles'))
    """
    spelled = _ONE_DIGIT_MINUTE.sub(r"\1\2:0\3", _ONE_DIGIT_HOUR.sub(r"\g<1>0\2:", name, count=1), count=1)
    spelled = SHORT_NAMES.get(spelled, spelled)
    if spelled in ("Z", "UTC", "GMT", "UT"):
        return datetime.UTC
    offset = next((spelled.removeprefix(p) for p in ("UTC", "GMT", "UT") if spelled.startswith(p)), spelled)
    if (seconds := offset_seconds(offset)) is not None:
        return fixed_zone(seconds)
    if spelled in zone_names():
        return zoneinfo.ZoneInfo(spelled)
    raise ArithmeticFault(
        f"there is no time zone {name!r}", hint="Name a region, such as 'Europe/Paris', or an offset, such as '+02:00'."
    )


def offset_seconds(text: str) -> int | None:
    """The seconds of an offset such as ``+02:00``; None if the text is none."""
    found = _OFFSET.fullmatch(text)
    if not found:
        return None
    hours, minutes, seconds = (int(part or 0) for part in (found["hours"], found["minutes"], found["seconds"]))
    total = (hours + int(found["hour"] or 0)) * 3600 + minutes * 60 + seconds
    if minutes > 59 or seconds > 59 or total > MOST_SECONDS:
        return None
    return -total if found["sign"] == "-" else total


def fixed_zone(seconds: int) -> datetime.tzinfo:
    """The zone so many seconds ahead of UTC."""
    return datetime.timezone(datetime.timedelta(seconds=seconds))


def to_utc(local: datetime.datetime, zone: datetime.tzinfo) -> datetime.datetime:
    """The instant of a local time: the earlier of two, and in a gap by the offset before it.

    >>> to_utc(datetime.datetime(2024, 3, 31, 2, 30), zone_of("Europe/Berlin"))
    datetime.datetime(2024, 3, 31, 1, 30)
    """
    try:
        return local - (local.replace(tzinfo=zone).utcoffset() or datetime.timedelta())
    except OverflowError:
        raise out_of_range() from None


def from_utc(instant: datetime.datetime, zone: datetime.tzinfo) -> datetime.datetime:
    """The local time of an instant.

    >>> from_utc(datetime.datetime(2024, 3, 31, 1, 30), zone_of("Europe/Berlin"))
    datetime.datetime(2024, 3, 31, 3, 30)
    """
    try:
        return instant.replace(tzinfo=datetime.UTC).astimezone(zone).replace(tzinfo=None, fold=0)
    except OverflowError:
        raise out_of_range() from None


def out_of_range() -> ArithmeticFault:
    """The error for an instant that cannot be represented."""
    return ArithmeticFault("a timestamp lies outside the years 1 to 9999")
