"""Numbers by a format: read by TO_NUMBER, ``TO_NUMBER('$12,454.8', '$99,999.9')``, and written by TO_CHAR."""

from __future__ import annotations

import decimal
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from tidemill.algebra.functions.function import Function, StrictParameter, always, takes
from tidemill.algebra.values.decimals import EXACT, unit
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault, TypeMismatch

FORMAT = re.compile(
    r"(?P<first>S|MI)?(?P<dollar>\$)?(?P<whole>[09]+(?:[,G][09]+)*)?(?:(?P<point>[.D])(?P<places>[09]*))?(?P<last>S|MI|PR)?"
)
SIGNS = {"S": "+-", "MI": "-"}
NO_BREAK = "\x85\xa0\u2007\u202f"
"""Blanks of Python that are none for Java."""


@lru_cache(maxsize=256)
def parsed_format(text: str) -> re.Match[str]:
    """The parts of a format; what is none is refused."""
    found = FORMAT.fullmatch(text.upper())
    if found is None or not (found["whole"] or found["places"]) or (found["first"] and found["first"] == found["last"]):
        raise TypeMismatch(
            f"{text!r} is not a format of numbers",
            hint="Write S or MI, $, digits 0 or 9 with commas between them, a point and digits; or S, MI or PR last.",
        )
    return found


def format_type(text: str) -> t.Decimal:
    """The type of the numbers that a format reads.

    >>> str(format_type("$99,999.9"))
    'DECIMAL(6,1)'
    """
    found = parsed_format(text)
    places = len(found["places"] or "")
    digits = sum(map(len, _groups(found))) + places
    if digits > t.MAX_PRECISION:
        raise TypeMismatch(f"a DECIMAL has at most {t.MAX_PRECISION} digits, and the format {text!r} has {digits}")
    return t.Decimal(digits, places)


def _groups(found: re.Match[str]) -> list[str]:
    """The groups of digits before the point."""
    return re.split("[,G]", found["whole"]) if found["whole"] else []


# ------------------------------------------------------------------------------------------------------------ reading


def try_to_number(text: str, format_: str) -> decimal.Decimal | None:
    """The number that ``text`` is by a format; NULL if it is none.

    >>> try_to_number("12,454.8-", "99,999.9S"), try_to_number("-5", "99")
    (Decimal('-12454.8'), None)
    """
    found, reader = parsed_format(format_), _Reader(text)
    bracket = found["last"] == "PR" and bool(reader.take("<"))
    negative = reader.take(SIGNS.get(found["first"], "")) == "-"
    if found["dollar"] and not reader.take("$"):
        return None
    whole, groups = reader.digits(_groups(found)) if found["whole"] else "", _groups(found)
    point = bool(found["point"] and reader.take("."))
    places = reader.digits([found["places"]], exact=False) if found["places"] else ""
    negative ^= reader.take(SIGNS.get(found["last"], "")) == "-"
    if bracket != bool(found["last"] == "PR" and reader.take(">")):
        return None
    if whole is None or places is None or reader.rest or not whole + places:
        return None
    return _number(whole, places, point, bool(groups), negative != bracket, format_)


def _number(whole: str, places: str, point: bool, groups: bool, negative: bool, format_: str) -> decimal.Decimal:
    of = format_type(format_)
    # Without a point in the text, all its digits are before it.
    number = decimal.Decimal(f"{whole or 0}.{places or 0}" if point else f"{whole}{places}")
    if not groups and not point and number:
        raise ArithmeticFault(
            f"{number} does not fit the format {format_!r}", hint="It has no digits before the point."
        )
    rounded = EXACT.quantize(number, unit(of.scale))
    return rounded.copy_negate() if negative and rounded else rounded


class _Reader:
    """The rest of a text that is read by a format."""

    def __init__(self, text: str) -> None:
        self.rest = text

    def take(self, wanted: str) -> str:
        """The next character, if it is one of ``wanted``."""
        found = self.rest[:1]
        if not found or found not in wanted:
            return ""
        self.rest = self.rest[1:]
        return found

    def digits(self, wanted: Sequence[str], exact: bool = True) -> str | None:
        """The next digits, blanks between them left out; None if their groups are not those that are wanted.

        The first groups may be missing, and digits of others too, but for a group that begins with 0.
        """
        end = next((place for place, one in enumerate(self.rest) if not _belongs(one)), len(self.rest))
        found, self.rest = "".join(one for one in self.rest[:end] if not _is_blank(one)), self.rest[end:]
        groups = found.split(",")
        if len(groups) > len(wanted):
            return None
        groups = [""] * (len(wanted) - len(groups)) + groups
        fits = all(
            len(group) == len(want) if exact and want.startswith("0") else len(group) <= len(want)
            for group, want in zip(groups, wanted, strict=True)
        )
        return "".join(groups) if fits else None


def _belongs(one: str) -> bool:
    """True for a digit, a comma or a blank."""
    return one == "," or _is_blank(one) or (one.isdecimal() and one < "\U00010000")


def _is_blank(one: str) -> bool:
    return one.isspace() and one not in NO_BREAK


def to_number(text: str, format_: str) -> decimal.Decimal:
    """The number that ``text`` is by a format; an error if it is none."""
    number = try_to_number(text, format_)
    if number is None:
        raise ArithmeticFault(f"{text!r} is not a number by {format_!r}", hint="Use TRY_TO_NUMBER to get NULL instead.")
    return number


# ------------------------------------------------------------------------------------------------------------ writing


def to_char(value: decimal.Decimal, format_: str) -> str:
    """A number written by a format: ``#`` for each digit if it has more than the format.

    >>> to_char(decimal.Decimal("-12454.8"), "99G999D9S"), to_char(decimal.Decimal(78), "$000.99"), to_char(
    ...     decimal.Decimal(1000), "99")
    ('12,454.8-', '$078.00', '##')
    """
    found, negative = parsed_format(format_), value < 0
    whole, places = _digits_of(value, found)
    text = "<" if found["last"] == "PR" and negative else ""
    text += _sign(found["first"], negative) if found["first"] else ""
    text += "$" if found["dollar"] else ""
    text = _with_groups(text, whole, _groups(found))
    if found["point"]:
        text = (text[:-1] + "0" if text.endswith(" ") else text) + "." + places
    text = _without_lone_point(_signed(text, found["last"], negative))
    return "0" if text in ("", "+", "-") else text


def _digits_of(value: decimal.Decimal, found: re.Match[str]) -> tuple[str, str]:
    """The digits before the point, with blanks in front, and those behind it, with zeros, as many as the format has."""
    whole, _, places = f"{value.copy_abs():f}".partition(".")
    whole, places = whole.lstrip("0"), places.rstrip("0")
    wide, long = sum(map(len, _groups(found))), len(found["places"] or "")
    if len(whole) > wide or len(places) > long:
        return "#" * wide, "#" * long
    return whole.rjust(wide), places.ljust(long, "0")


def _with_groups(text: str, whole: str, groups: Sequence[str]) -> str:
    """``text`` with the digits of all groups behind it; a sign moves behind the blanks that follow it."""
    digits = iter(whole)
    for number, group in enumerate(groups):
        if number:
            text = text + "," if text[-1:].isdecimal() else _with_blank(text)
        for _ in group:
            digit = next(digits)
            text = text + digit if digit != " " else text + "0" if group.startswith("0") else _with_blank(text)
    return text


def _with_blank(text: str) -> str:
    kept = text.rstrip("+-<")
    return f"{kept} {text[len(kept) :]}"


def _signed(text: str, last: str | None, negative: bool) -> str:
    """``text`` with the sign that a format has last, which stands right behind the number."""
    if not last:
        return text
    if last == "MI" and not negative:
        return text + " "
    text = _without_lone_point(text)
    if last == "PR" and not negative:
        return text + "  "
    mark = ">" if last == "PR" else _sign(last, negative)
    kept = text.rstrip(" ")
    return kept + mark + text[len(kept) :]


def _sign(kind: str, negative: bool) -> str:
    return "-" if negative else "+" if kind == "S" else " "


def _without_lone_point(text: str) -> str:
    """``text`` with a blank for a point behind which no digit stands."""
    place = text.find(".")
    alone = place >= 0 and text[place + 1 : place + 2] in ("", " ")
    return f"{text[:place]} {text[place + 1 :]}" if alone else text


_TYPES = takes(t.STRING, t.STRING, gives=t.Decimal(t.MAX_PRECISION, 0))


def _written_types(types: Sequence[t.Type]) -> tuple[tuple[t.Type, ...], t.Type]:
    (pattern,), _ = takes(StrictParameter(t.STRING), gives=t.STRING)(types[1:])
    return (types[0], pattern), t.STRING


def _check_format(values: Sequence[Any]) -> None:
    parsed_format(str(values[1]))


NUMBER_FORMATS = (
    Function("to_number", _TYPES, to_number, "to_number({args})", constants=(1,)),
    Function("try_to_number", _TYPES, try_to_number, "try_to_number({args})", constants=(1,), null_when=always),
    Function(
        "number_to_char", _written_types, to_char, "to_char({args})", constants=(1,), check=_check_format, total=True
    ),
)
