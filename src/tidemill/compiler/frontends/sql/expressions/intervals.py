"""INTERVAL literals, and lengths of time as SQL spells them."""

from __future__ import annotations

from sqlglot import exp

from tidemill.algebra.expressions.scalars import Literal, Scalar
from tidemill.compiler.frontends.sql.expressions.translator import ExpressionTranslator
from tidemill.compiler.frontends.sql.grammar.sql_text import SqlText
from tidemill.compiler.frontends.sql.grammar.translation_marks import mark_translated
from tidemill.compiler.frontends.sql.names.data_types import interval_type
from tidemill.model.errors import ParseError, TypeMismatch
from tidemill.model.intervals import MICROSECONDS, UNITS, read_fields, read_units, type_of_units
from tidemill.model.partition_lengths import is_calendar
from tidemill.model.types import AnsiInterval, DayTimeInterval, YearMonthInterval

DAY = MICROSECONDS["DAY"]

Interval = tuple[int, AnsiInterval]
"""Months or microseconds, and the type that says which."""


def from_interval_literal(expressions: ExpressionTranslator, node: exp.Interval) -> Scalar:
    """``INTERVAL '1-2' YEAR TO MONTH``, ``INTERVAL 5 DAYS``, ``INTERVAL '1 day 2 hours'``."""
    return Literal(*read_literal(node, expressions.source), typed=True)


def read_literal(node: exp.Interval, source: SqlText) -> Interval:
    """The value and the type of an interval literal."""
    unit = node.args.get("unit")
    mark_translated(node, node.this, *([unit] if unit else []))
    with source.locating(node):
        if unit is None:
            return interval_of(node.this.name)
        of = interval_type(*unit.name.split(" TO "))
        return _fields_of(node.this.name, of), of


def _fields_of(text: str, of: AnsiInterval) -> int:
    """The value of a text such as ``1 02:03:04``."""
    value = read_fields(text.strip() if isinstance(of, YearMonthInterval) else text, of)
    if value is None:
        raise ParseError(f"'{text}' is no {of}", hint=f"Write {_EXAMPLES[type(of)]}.")
    return value


_EXAMPLES: dict[type[AnsiInterval], str] = {
    YearMonthInterval: "INTERVAL '1-2' YEAR TO MONTH or INTERVAL '3' MONTH",
    DayTimeInterval: "INTERVAL '1 02:03:04.5' DAY TO SECOND or INTERVAL '90' MINUTE",
}


def interval_of(text: str) -> Interval:
    """The interval that numbers and units are, such as ``1 day 2 hours``.

    >>> interval_of("90 minutes")
    (5400000000, DayTimeInterval(start='MINUTE', end='MINUTE'))
    """
    found = read_units(text)
    if found is None:
        units = ", ".join(unit.upper() for unit in UNITS)
        raise ParseError(
            f"'{text}' is no interval", hint=f"Give whole numbers, or decimals of seconds; units: {units}."
        )
    (months, days, micros), units_found = found
    of = type_of_units(units_found)
    if of is None:
        raise TypeMismatch(
            "an interval is made of years and months, or of days and less",
            hint="Add one after the other: d + INTERVAL '1' MONTH + INTERVAL '2' DAY; or use MAKE_INTERVAL.",
        )
    value = months if isinstance(of, YearMonthInterval) else days * DAY + micros
    if not -of.limit <= value < of.limit:
        raise ParseError(f"'{text}' is too long for an interval")
    return value, of


def microseconds_of(interval: Interval) -> int:
    """A length of time in microseconds; a number of months has none.

    >>> microseconds_of(interval_of("2 seconds"))
    2000000
    """
    value, of = interval
    if isinstance(of, YearMonthInterval):
        raise TypeMismatch("a length of time is no number of months", hint="Months differ in length; use days.")
    return value


def format_period(every: int) -> str:
    """The length of a partition as SQL text: a duration, or a number of months (see ``model.partition_lengths``).

    >>> format_period(60_000_000), format_period(-1), format_period(-3), format_period(-24)
    ('1 MINUTE', '1 MONTH', '3 MONTHS', '2 YEARS')
    """
    if not is_calendar(every):
        return format_duration(every)
    count, unit = (-every // 12, "YEAR") if every % 12 == 0 else (-every, "MONTH")
    return f"{count} {unit}{'' if count == 1 else 'S'}"


def format_duration(length: int) -> str:
    """A duration in microseconds as SQL text, in the longest unit that measures them.

    >>> format_duration(60_000_000), format_duration(90_000_000), format_duration(2 * DAY)
    ('1 MINUTE', '90 SECONDS', '2 DAYS')
    """
    sizes = {**MICROSECONDS, "MILLISECOND": 1000, "MICROSECOND": 1}
    unit, size = next((unit, size) for unit, size in sizes.items() if length % size == 0)
    return f"{length // size} {unit}{'' if length == size else 'S'}"
