"""Numbers as text for readers: FORMAT_NUMBER, with commas between thousands."""

from __future__ import annotations

import decimal
import math
import re
from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN
from typing import Any

from tidemill.algebra.functions.function import Function, StrictParameter, always, expect, expect_count
from tidemill.algebra.values.decimals import unit
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault, TypeMismatch, Unsupported
from tidemill.model.types import Type

ROOMY = decimal.Context(prec=1500)
"""Holds every double exactly, with any number of places that somebody would ask for."""

PATTERN = re.compile(r"(?P<whole>(?=[#0])#*(?:,#*)?0*)(?:\.(?P<places>0*)(?P<more>#*))?")
"""The patterns of Java's ``DecimalFormat`` that have digits alone: ``#,##0.00##``."""

DETAIL = "A pattern has #, 0, one comma and a point, such as #,##0.00."


def format_number(value: Any, places: int | str) -> str | None:
    """``value`` with so many places, rounded half to even, or by a pattern; NULL for a negative number of places.

    >>> format_number(12332.5, 0), format_number(-0.001, 2), format_number(12332.12349, "###.###")
    ('12,332', '-0.00', '12332.123')
    """
    if isinstance(places, str) and places:
        return _by_pattern(value, places)
    least = int(places or 0)
    return None if least < 0 else _written(value, least, least, digits=1, group=3)


def _by_pattern(value: Any, pattern: str) -> str:
    found = PATTERN.fullmatch(pattern)
    if found is None:
        raise ArithmeticFault(f"FORMAT_NUMBER cannot write numbers by {pattern!r} yet", detail=DETAIL)
    whole, least = found["whole"], len(found["places"] or "")
    group = len(whole) - whole.index(",") - 1 if "," in whole else 0
    return _written(value, least, least + len(found["more"] or ""), digits=max(whole.count("0"), 1), group=group)


def _written(value: Any, least: int, most: int, *, digits: int, group: int) -> str:
    """``value`` with ``least`` to ``most`` places and at least so many ``digits`` before the point."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "∞" if value > 0 else "-∞"
    rounded = _exact(value, most).quantize(unit(most), ROUND_HALF_EVEN, ROOMY)
    whole, _, fraction = f"{rounded.copy_abs():f}".partition(".")
    fraction = fraction[:least] + fraction[least:].rstrip("0")
    whole = whole.lstrip("0").rjust(digits, "0")
    sign = "-" if rounded.is_signed() else ""
    return sign + _grouped(whole, group) + (f".{fraction}" if fraction else "")


def _exact(value: Any, places: int) -> decimal.Decimal:
    """The number that is rounded: of a double that needs no rounding the digits of its shortest text, as in Java."""
    short = decimal.Decimal(repr(value)) if isinstance(value, float) else decimal.Decimal(value)
    return short if -int(short.as_tuple().exponent) <= places else decimal.Decimal(value)


def _grouped(whole: str, size: int) -> str:
    """Digits with a comma between groups of ``size``, counted from the end."""
    if not size:
        return whole
    head = len(whole) % size
    groups = [whole[:head], *(whole[place : place + size] for place in range(head, len(whole), size))]
    return ",".join(filter(None, groups))


def check_pattern(values: Sequence[Any]) -> None:
    """Refuse a pattern that has more in it than digits."""
    if isinstance(values[1], str) and values[1] and not PATTERN.fullmatch(values[1]):
        raise Unsupported(f"FORMAT_NUMBER cannot write numbers by {values[1]!r} yet", detail=DETAIL)


def _types(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    expect_count(types, 2, 2)
    value, places = types
    if not (t.is_numeric(value) or value == t.VOID):
        raise TypeMismatch(f"a number was expected, not {value}", hint="Convert it with CAST.")
    return (value, places if places == t.STRING else expect(places, StrictParameter(t.INT))), t.STRING


NUMBER_TEXT = (
    Function("format_number", _types, format_number, "format_number({args})", null_when=always, check=check_pattern),
)
