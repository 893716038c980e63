"""Functions of dates and times that are defined by other expressions: conversions, patterns, parts, zones."""

from __future__ import annotations

from collections.abc import Sequence

from tidemill.algebra.expressions.arguments import Builder, DerivedFunction
from tidemill.algebra.expressions.arguments import constant as _constant
from tidemill.algebra.expressions.arguments import expect_arguments as _expect
from tidemill.algebra.expressions.conversions import cast, convert
from tidemill.algebra.expressions.scalars import Literal, Scalar
from tidemill.algebra.functions.function import Parameter, StrictParameter, expect
from tidemill.algebra.values.datetime.patterns import DEFAULT_PATTERN
from tidemill.model import types as t
from tidemill.model.errors import TypeMismatch, UnknownName
from tidemill.model.types import Type


def conversion(of: Type, lenient: bool = False) -> DerivedFunction:
    """A function that is a cast, ``TO_DATE(x)``, or that reads a text in a pattern, ``TO_DATE(x, 'd.M.yyyy')``."""

    def form(call: Builder, arguments: Sequence[Scalar]) -> Scalar:
        _expect(arguments, 1, 2)
        if len(arguments) == 1:
            return cast(arguments[0], of, lenient)
        taken = t.STRING if of == t.DATE else StrictParameter(t.STRING, (t.BOOLEAN,))
        return convert(_parsed(call, arguments[0], arguments[1], taken, lenient), of)

    return form


def _parsed(call: Builder, value: Scalar, pattern: Scalar, taken: Parameter, lenient: bool = False) -> Scalar:
    """The timestamp of a text in a pattern; for a date or timestamp the pattern does not matter."""
    expect(pattern.type, t.STRING)
    if isinstance(value.type, t.Date | t.Timestamp):
        return convert(value, t.TIMESTAMP)
    value = convert(value, expect(value.type, taken))
    return call("try_parse_timestamp" if lenient else "parse_timestamp", value, pattern)


def to_time(lenient: bool) -> DerivedFunction:
    """TO_TIME(text), a cast, or TO_TIME(text, pattern); TRY_TO_TIME gives NULL where there is no time."""

    def form(call: Builder, arguments: Sequence[Scalar]) -> Scalar:
        _expect(arguments, 1, 2)
        text = convert(arguments[0], expect(arguments[0].type, StrictParameter(t.STRING)))
        if len(arguments) == 1:
            return cast(text, t.TIME, lenient)
        return call("try_parse_time" if lenient else "parse_time", text, arguments[1])

    return form


def unix_timestamp(call: Builder, arguments: Sequence[Scalar]) -> Scalar:
    """UNIX_TIMESTAMP(x, pattern): the seconds from 1970 to a date or timestamp, or to that of a text in a pattern."""
    if not arguments:
        return call("now")
    _expect(arguments, 1, 2)
    value, pattern = (*arguments, Literal(DEFAULT_PATTERN, t.STRING))[:2]
    return call("whole_seconds", _parsed(call, value, pattern, StrictParameter(t.STRING)))


def make_timestamp(function: str, of_day: bool = True) -> DerivedFunction:
    """MAKE_TIMESTAMP of a date alone, if ``of_day``, of a date and a time, perhaps in a zone, or of all parts."""

    def form(call: Builder, arguments: Sequence[Scalar]) -> Scalar:
        if len(arguments) == 1 and of_day:
            return convert(convert(arguments[0], expect(arguments[0].type, StrictParameter(t.DATE))), t.TIMESTAMP)
        return call("timestamp_at" if len(arguments) in (2, 3) else function, *arguments)

    return form


def make_local_timestamp(function: str) -> DerivedFunction:
    """MAKE_TIMESTAMP_NTZ of a date and a time, or of all parts but a zone."""

    def form(call: Builder, arguments: Sequence[Scalar]) -> Scalar:
        if len(arguments) == 2:
            return call("local_timestamp_at", *arguments)
        _expect(arguments, 6, 6)
        return convert(call(function, *arguments), t.TIMESTAMP_NTZ)

    return form


def date_format(call: Builder, arguments: Sequence[Scalar]) -> Scalar:
    """DATE_FORMAT of a date, a timestamp or a time of day."""
    is_time = bool(arguments) and isinstance(arguments[0].type, t.Time)
    return call("write_time" if is_time else "write_timestamp", *arguments)


def to_local_timestamp(call: Builder, arguments: Sequence[Scalar]) -> Scalar:
    """TO_TIMESTAMP_NTZ(x), a cast, or TO_TIMESTAMP_NTZ(text, pattern)."""
    _expect(arguments, 1, 2)
    if len(arguments) == 1:
        return cast(arguments[0], t.TIMESTAMP_NTZ)
    value, pattern = arguments
    if isinstance(value.type, t.Date | t.Timestamp):
        expect(pattern.type, t.STRING)
        return convert(value, t.TIMESTAMP_NTZ)
    return call("parse_local_timestamp", convert(value, expect(value.type, StrictParameter(t.STRING))), pattern)


def convert_timezone(call: Builder, arguments: Sequence[Scalar]) -> Scalar:
    """CONVERT_TIMEZONE(from, to, local time), from UTC where no zone to come from is given."""
    _expect(arguments, 2, 3)
    zones = arguments if len(arguments) == 3 else (Literal("UTC", t.STRING), *arguments)
    return call("move_timezone", *zones)


def extract(call: Builder, arguments: Sequence[Scalar]) -> Scalar:
    """EXTRACT(part FROM value), with the part as a text literal."""
    _expect(arguments, 2, 2)
    if isinstance(arguments[0], Literal) and arguments[0].value is None:
        return Literal(None, t.DOUBLE)
    part = str(_constant(arguments[0], t.STRING, "the part")).lower()
    if isinstance(arguments[1].type, t.AnsiInterval | t.CalendarInterval):
        return _interval_part(call, PARTS.get(part, part), arguments[1])
    if part not in PARTS:
        raise UnknownName(f"there is no part {part} in a date", hint=f"Use one of {', '.join(sorted(PARTS))}.")
    return call(PARTS[part], arguments[1])


def _interval_part(call: Builder, part: str, value: Scalar) -> Scalar:
    """A field of an interval; one with a range of fields has no others."""
    field = part.removesuffix("_with_fraction")
    if field not in INTERVAL_PARTS or (isinstance(value.type, t.AnsiInterval) and not value.type.spans(field.upper())):
        raise TypeMismatch(f"there is no {field} in {value.type}")
    return call(f"interval_{field}s", value)


INTERVAL_PARTS = ("year", "month", "day", "hour", "minute", "second")
"""The fields of intervals."""

PARTS = {
    **dict.fromkeys(("year", "y", "years", "yr", "yrs"), "year"),
    "yearofweek": "year_of_week",
    **dict.fromkeys(("quarter", "qtr"), "quarter"),
    **dict.fromkeys(("month", "mon", "mons", "months"), "month"),
    **dict.fromkeys(("week", "w", "weeks"), "week"),
    **dict.fromkeys(("day", "d", "days"), "day"),
    **dict.fromkeys(("dayofweek", "dow"), "dayofweek"),
    **dict.fromkeys(("dayofweek_iso", "dow_iso"), "dayofweek_iso"),
    **dict.fromkeys(("dayofyear", "doy"), "dayofyear"),
    **dict.fromkeys(("hour", "h", "hours", "hr", "hrs"), "hour"),
    **dict.fromkeys(("minute", "m", "min", "mins", "minutes"), "minute"),
    **dict.fromkeys(("second", "s", "sec", "seconds", "secs"), "second_with_fraction"),
}
"""The parts that EXTRACT knows, and the functions that give them."""
