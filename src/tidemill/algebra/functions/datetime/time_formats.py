"""Timestamps as texts of a pattern, and in time zones.

Patterns are Spark's, such as `yyyy-MM-dd HH:mm:ss`: the letters `G y M L d D E a h H k K m s S q Q g V z v O X x Z`,
texts in quotes, and optional parts in brackets. `E`, `q` and `Q` only write, and so do the names of zones, `z` and `v`.
`F` is refused, as versions of Java disagree on it. `to_timestamp`, `to_date` and `unix_timestamp`, which are among the
forms below, take a pattern as well; a text that does not fit it is an error, and NULL in `try_to_timestamp` and
`try_to_date`. Zones are regions, Java's abbreviations, or offsets. A local time that daylight saving skips or repeats
is taken with the offset before the change.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import Any

from tidemill.algebra.functions.function import Function, always, takes
from tidemill.algebra.values.casts import timestamp_of
from tidemill.algebra.values.datetime.patterns import (
    DEFAULT_PATTERN,
    check_pattern,
    read_local_pattern,
    read_pattern,
    write_pattern,
)
from tidemill.algebra.values.datetime.zones import from_utc, to_utc, zone_of
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault, Unsupported


def from_unixtime(seconds: int, pattern: str = DEFAULT_PATTERN) -> str:
    """The instant so many seconds after 1970, written in a pattern."""
    return write_pattern(timestamp_of(seconds * 1_000_000), pattern)


def parse_timestamp(text: str, pattern: str) -> datetime.datetime:
    """The timestamp that a text says in a pattern; an error where it says none."""
    return _found(read_pattern(text, pattern), text, pattern)


def _found(read: datetime.datetime | None, text: str, pattern: str) -> datetime.datetime:
    if read is None:
        raise ArithmeticFault(
            f"{text!r} is no timestamp in the pattern {pattern!r}", hint="Use TRY_TO_TIMESTAMP to get NULL instead."
        )
    return read


def parse_local_timestamp(text: str, pattern: str) -> datetime.datetime:
    """The local time that a text says in a pattern; an error where it says none."""
    return _found(read_local_pattern(text, pattern), text, pattern)


def move_timezone(source: str, target: str, local: datetime.datetime) -> datetime.datetime:
    """The local time in one zone when it is ``local`` in another.

    >>> move_timezone("Europe/Paris", "America/New_York", datetime.datetime(2024, 1, 1, 12))
    datetime.datetime(2024, 1, 1, 6, 0)
    """
    return from_utc(to_utc(local, zone_of(source)), zone_of(target))


def check_constants(reading: bool) -> Callable[[Sequence[Any]], None]:
    """Refuse a constant pattern, the second argument, that is none."""

    def check(values: Sequence[Any]) -> None:
        if len(values) > 1 and isinstance(values[1], str):
            _refused(lambda: check_pattern(values[1], reading))

    return check


def check_zone(position: int) -> Callable[[Sequence[Any]], None]:
    """Refuse a constant zone, the argument at ``position``, that is none."""

    def check(values: Sequence[Any]) -> None:
        if len(values) > position and isinstance(values[position], str):
            _refused(lambda: zone_of(values[position]))

    return check


def check_zones(values: Sequence[Any]) -> None:
    """Refuse constant zones, the first two arguments, that are none."""
    check_zone(0)(values)
    check_zone(1)(values)


def _refused(attempt: Callable[[], object]) -> None:
    """Try something with a constant; what fails is refused, before any row is there."""
    try:
        attempt()
    except ArithmeticFault as fault:
        raise Unsupported(fault.what, detail=fault.detail, hint=fault.hint) from None


_PATTERN = takes(t.STRING, t.STRING, gives=t.TIMESTAMP)
_ZONE = takes(t.TIMESTAMP, t.STRING, gives=t.TIMESTAMP)

TIME_FORMATS = (
    Function(
        "write_timestamp",
        takes(t.TIMESTAMP, t.STRING, gives=t.STRING),
        write_pattern,
        "date_format({args})",
        check=check_constants(reading=False),
    ),
    Function(
        "from_unixtime",
        takes(t.BIGINT, t.STRING, gives=t.STRING, optional=1),
        from_unixtime,
        "from_unixtime({args})",
        check=check_constants(reading=False),
    ),
    Function("parse_timestamp", _PATTERN, parse_timestamp, "to_timestamp({args})", check=check_constants(reading=True)),
    Function(
        "try_parse_timestamp",
        _PATTERN,
        read_pattern,
        "try_to_timestamp({args})",
        null_when=always,
        check=check_constants(reading=True),
    ),
    Function(
        "parse_local_timestamp",
        takes(t.STRING, t.STRING, gives=t.TIMESTAMP_NTZ),
        parse_local_timestamp,
        "to_timestamp_ntz({args})",
        check=check_constants(reading=True),
    ),
    Function(
        "move_timezone",
        takes(t.STRING, t.STRING, t.TIMESTAMP_NTZ, gives=t.TIMESTAMP_NTZ),
        move_timezone,
        "convert_timezone({args})",
        check=check_zones,
    ),
    Function(
        "to_utc_timestamp",
        _ZONE,
        lambda instant, zone: to_utc(instant, zone_of(zone)),
        "to_utc_timestamp({args})",
        check=check_zone(1),
    ),
    Function(
        "from_utc_timestamp",
        _ZONE,
        lambda instant, zone: from_utc(instant, zone_of(zone)),
        "from_utc_timestamp({args})",
        check=check_zone(1),
    ),
)
