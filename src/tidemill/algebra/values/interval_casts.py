"""CAST to and from intervals: texts, numbers of the last field, and other fields of the same kind.

A cast to fewer fields cuts off what is below the last of them. ``Unfit`` stands for a value that is no such interval.
"""

from __future__ import annotations

import decimal
from decimal import ROUND_HALF_UP
from typing import Any

from tidemill.algebra.values.decimals import EXACT
from tidemill.model import types as t
from tidemill.model.intervals import MICROSECONDS, MONTHS, read_interval
from tidemill.model.types import AnsiInterval, Type

UNFIT = None
"""The result of a conversion that the value does not allow."""


def unit_size(type_: AnsiInterval, field: str) -> int:
    """A field in the unit that a type counts: months or microseconds."""
    return (MONTHS if isinstance(type_, t.YearMonthInterval) else MICROSECONDS)[field]


def can_cast_interval(source: Type, target: Type) -> bool:
    """True if CAST exists between these types, one of which is an interval and neither the other's own type."""
    match source, target:
        case t.String(), (t.AnsiInterval() | t.CalendarInterval()):
            return True
        case (t.YearMonthInterval(), t.YearMonthInterval()) | (t.DayTimeInterval(), t.DayTimeInterval()):
            return True
        case (t.AnsiInterval(), (t.Integral() | t.Decimal())) | ((t.Integral() | t.Decimal()), t.AnsiInterval()):
            return True
    return False


def to_interval(value: Any, source: Type, target: AnsiInterval) -> int | None:
    """A text, a number of units or another interval as ``target``; None where it is none.

    >>> to_interval(93_784_500_000, t.DAY_TIME, t.INTERVAL_DAY)
    86400000000
    """
    match source:
        case t.String():
            return read_interval(value, target)
        case t.AnsiInterval():
            return cut(value, target)
        case t.Decimal():
            size = decimal.Decimal(unit_size(target, target.end))
            number = int(EXACT.multiply(value, size).quantize(decimal.Decimal(1), ROUND_HALF_UP, EXACT))
        case _:
            number = int(value) * unit_size(target, target.end)
    return number if -target.limit <= number < target.limit else UNFIT


def cut(value: int, target: AnsiInterval) -> int:
    """An interval without what is less than the last field of ``target``."""
    size = 1 if target.end == "SECOND" else unit_size(target, target.end)
    whole = abs(value) // size * size
    return -whole if value < 0 else whole


def keeps_all(source: Type, target: Type) -> bool:
    """True if a cast from one interval type to another changes no value.

    >>> keeps_all(t.INTERVAL_DAY, t.DAY_TIME), keeps_all(t.DAY_TIME, t.INTERVAL_DAY)
    (True, False)
    """
    if not isinstance(source, AnsiInterval) or not isinstance(target, AnsiInterval):
        return False
    return source.FIELDS == target.FIELDS and source.FIELDS.index(source.end) <= source.FIELDS.index(target.end)


def number_of_units(value: int, source: AnsiInterval) -> decimal.Decimal:
    """An interval as a number of its last field, exactly for seconds.

    >>> number_of_units(1_500_000, t.DayTimeInterval("SECOND", "SECOND")), number_of_units(14, t.YEAR_MONTH)
    (Decimal('1.5'), Decimal('14'))
    """
    size = unit_size(source, source.end)
    if source.end == "SECOND":
        return EXACT.divide(decimal.Decimal(value), decimal.Decimal(size))
    return decimal.Decimal(abs(value) // size * (-1 if value < 0 else 1))
