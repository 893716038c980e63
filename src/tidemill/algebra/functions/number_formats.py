"""Texts read as numbers by a format: TO_NUMBER, as in ``TO_NUMBER('$12,454.8', '$99,999.9')``."""

from __future__ import annotations

import decimal
import re
from functools import lru_cache

from tidemill.algebra.functions.function import Function, always, takes
from tidemill.algebra.values.decimals import EXACT, unit
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault, TypeMismatch

FORMAT = re.compile(
    r"(?P<first>S|MI)?(?P<dollar>\$)?(?P<whole>[09]+(?:[,G][09]+)*)?(?:(?P<point>[.D])(?P<places>[09]*))?(?P<last>S|MI|PR)?"
)
DIGITS = re.compile("[0-9]*")
SIGNS = {"S": "+-", "MI": "-"}


@lru_cache(maxsize=256)
def parsed_format(text: str) -> re.Match[str]:
    """The parts of a format; what is none is refused."""
    found = FORMAT.fullmatch(text)
    if found is None or not (found["whole"] or found["places"]) or (found["first"] and found["last"]):
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
    digits = len(re.sub("[,G]", "", found["whole"] or "")) + places
    if digits > t.MAX_PRECISION:
        raise TypeMismatch(f"a DECIMAL has at most {t.MAX_PRECISION} digits, and the format {text!r} has {digits}")
    return t.Decimal(digits, places)


def try_to_number(text: str, format_: str) -> decimal.Decimal | None:
    """The number that ``text`` is by a format; NULL if it is none.

    >>> try_to_number("12,454.8-", "99,999.9S"), try_to_number("-5", "99")
    (Decimal('-12454.8'), None)
    """
    found = parsed_format(format_)
    text, negative = text.strip(" "), False
    if found["last"] == "PR" and text.startswith("<") and text.endswith(">"):
        text, negative = text[1:-1], True
    if text[:1] and text[0] in SIGNS.get(found["first"], ""):
        text, negative = text[1:], text[0] == "-"
    if text[-1:] and text[-1] in SIGNS.get(found["last"], ""):
        text, negative = text[:-1], text[-1] == "-"
    if found["dollar"]:
        text = text[1:] if text.startswith("$") else "?"
    number = _unsigned(text, found)
    return None if number is None else number.copy_negate() if negative and number else number


def _unsigned(text: str, found: re.Match[str]) -> decimal.Decimal | None:
    whole, point, places = text.partition(".")
    if not _whole_fits(whole, found["whole"] or "") or (point and not found["point"]):
        return None
    if len(places) > len(found["places"] or "") or not DIGITS.fullmatch(places):
        return None
    digits = whole.replace(",", "")
    if not digits and not places:
        return None
    return EXACT.quantize(decimal.Decimal(f"{digits or 0}.{places or 0}"), unit(len(found["places"] or "")))


def _whole_fits(text: str, format_: str) -> bool:
    """True if the groups of digits before the point are those of the format, of which the first may be missing.

    Of a group that begins with 0 all digits must be there.
    """
    groups, wanted = text.split(","), re.split("[,G]", format_)
    if len(groups) > len(wanted):
        return False
    groups = [""] * (len(wanted) - len(groups)) + groups
    return all(
        DIGITS.fullmatch(group) and (len(group) == len(want) if want.startswith("0") else len(group) <= len(want))
        for group, want in zip(groups, wanted, strict=True)
    )


def to_number(text: str, format_: str) -> decimal.Decimal:
    """The number that ``text`` is by a format; an error if it is none."""
    number = try_to_number(text, format_)
    if number is None:
        raise ArithmeticFault(f"{text!r} is not a number by {format_!r}", hint="Use TRY_TO_NUMBER to get NULL instead.")
    return number


_TYPES = takes(t.STRING, t.STRING, gives=t.Decimal(t.MAX_PRECISION, 0))

NUMBER_FORMATS = (
    Function("to_number", _TYPES, to_number, "to_number({args})", constants=(1,)),
    Function("try_to_number", _TYPES, try_to_number, "try_to_number({args})", constants=(1,), null_when=always),
)
