"""FORMAT_STRING: values in the places of a pattern, by the rules of Java's ``Formatter``: ``%d``, ``%-10s``, ``%,.2f``.

Dates and timestamps by ``%t``, hash codes by ``%h`` and hexadecimal fractions by ``%a`` are refused.
"""

from __future__ import annotations

import datetime
import decimal
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP
from functools import lru_cache
from typing import Any

from tidemill.algebra.functions.function import Function, expect, expect_count
from tidemill.algebra.values.casts import microseconds
from tidemill.algebra.values.formats import write
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault, TypeMismatch, Unsupported
from tidemill.model.types import Type
from tidemill.model.whole_numbers import whole_number

DIRECTIVE = re.compile(
    r"%(?:(?P<index>\d+)\$)?(?P<flags>[-#+ 0,(<]*)(?P<width>\d+)?(?:\.(?P<precision>\d+))?"
    r"(?P<time>[tT])?(?P<kind>[a-zA-Z%])",
    re.ASCII,
)
ROOMY = decimal.Context(prec=2000, rounding=ROUND_HALF_UP)
"""Holds every double with any number of places that somebody would ask for."""

EPOCH = datetime.date(1970, 1, 1)
MOST = 10_000
"""The greatest width and number of places; Java has no such bound."""

ALLOWED = {
    "b": "-", "s": "-", "c": "-", "d": "-+ 0,(", "o": "-#0", "x": "-#0", "e": "-#+ 0(", "f": "-#+ 0,(", "g": "-+ 0,(",
    "%": "-", "n": "",
}  # fmt: skip
"""The conversions, and the flags that each takes."""


@dataclass(frozen=True, slots=True)
class Directive:
    """``%[index$][flags][width][.precision]kind``: where a value stands, and how it is written."""

    kind: str
    upper: bool
    flags: str
    place: int | None
    width: int
    precision: int | None

    def padded(self, text: str) -> str:
        """``text`` with blanks up to the width."""
        missing = " " * (self.width - _units(text))
        return text + missing if "-" in self.flags else missing + text


Piece = str | Directive
Writer = Callable[[Directive, Any, Type], str]


def format_string(types: Sequence[Type], pattern: str | None, *values: Any) -> str | None:
    """``pattern`` with ``values`` in the places of its directives.

    >>> format_string([t.STRING, t.INT, t.STRING], "%05d|%-4s|%2$S%%", 42, "ab")
    '00042|ab  |AB%'
    """
    if pattern is None:
        return None
    return "".join(piece if isinstance(piece, str) else _written(piece, types[1:], values) for piece in parsed(pattern))


def _written(directive: Directive, types: Sequence[Type], values: Sequence[Any]) -> str:
    if directive.place is None:
        return "\n" if directive.kind == "n" else directive.padded("%")
    if directive.place >= len(values):
        raise ArithmeticFault(f"FORMAT_STRING has no value for its directive %{directive.kind}")
    value, of = _inner(values[directive.place], types[directive.place])
    writer = _WRITERS[directive.kind]
    text = _null(directive) if value is None else writer(directive, value, of)
    return text.upper() if directive.upper else text


def _inner(value: Any, of: Type) -> tuple[Any, Type]:
    """A value in Spark's inner form: a date is the number of its day, a timestamp that of its microsecond."""
    if value is None:
        return value, of
    if isinstance(of, t.Timestamp):
        return microseconds(value), t.BIGINT
    return ((value - EPOCH).days, t.INT) if isinstance(of, t.Date) else (value, of)


def _null(directive: Directive) -> str:
    text = "false" if directive.kind == "b" else "null"
    return directive.padded(_cut(text, directive.precision))


# ------------------------------------------------------------------------------------------------------------ pattern


@lru_cache(maxsize=1024)
def parsed(pattern: str) -> tuple[Piece, ...]:
    """The texts and directives of a pattern; an error where it is none."""
    return tuple(_pieces(pattern))


def _pieces(pattern: str) -> Iterator[Piece]:
    start = ordinary = 0
    last: int | None = None
    while start < len(pattern):
        end = pattern.find("%", start)
        if end < 0:
            yield pattern[start:]
            return
        found = DIRECTIVE.match(pattern, end)
        if found is None:
            raise _wrong(pattern[end : end + 8])
        if end > start:
            yield pattern[start:end]
        directive, ordinary = _directive(found, ordinary, last)
        last = directive.place if directive.place is not None else last
        yield directive
        start = found.end()


def _directive(found: re.Match[str], ordinary: int, last: int | None) -> tuple[Directive, int]:
    """A directive, and how many values have been used that were not chosen by their number."""
    text, written, flags = found[0], found["kind"], found["flags"]
    kind = written.lower() if written in "BSCXEG" else written
    if found["time"] or kind not in ALLOWED:
        raise _unsupported(text)
    width = whole_number(found["width"] or "0")
    precision = whole_number(found["precision"]) if found["precision"] else None
    _check_flags(kind, flags.replace("<", "", 1), found["width"] is not None, text)
    if precision is not None and kind in "cdoxn%":
        raise _wrong(text)
    if max(width, precision or 0) > MOST or (kind == "n" and found["width"]):
        raise _wrong(text)
    place: int | None = None
    if kind not in "n%":
        if "<" in flags:
            if last is None:
                raise _wrong(text)
            place = last
        elif found["index"]:
            place = whole_number(found["index"]) - 1
            if place < 0:
                raise _wrong(text)
        else:
            place, ordinary = ordinary, ordinary + 1
    return Directive(kind, written != kind, flags.replace("<", ""), place, width, precision), ordinary


def _check_flags(kind: str, flags: str, wide: bool, text: str) -> None:
    together = ("+" in flags and " " in flags) or ("-" in flags and "0" in flags)
    unwanted = any(flag not in ALLOWED[kind] for flag in flags)
    if len(set(flags)) < len(flags) or together or unwanted or (not wide and ("-" in flags or "0" in flags)):
        raise _wrong(text)


def _wrong(text: str) -> ArithmeticFault:
    return ArithmeticFault(f"{text!r} is no directive of FORMAT_STRING", hint="Write %d, %s, %.2f; %% for a percent.")


def _unsupported(text: str) -> ArithmeticFault:
    return ArithmeticFault(f"FORMAT_STRING cannot write {text!r} yet", detail="It knows %b %s %c %d %o %x %e %f %g.")


# ------------------------------------------------------------------------------------------------------------- values


def _boolean(directive: Directive, value: Any, of: Type) -> str:
    text = "true" if value or not isinstance(of, t.Boolean) else "false"
    return directive.padded(_cut(text, directive.precision))


def _text(directive: Directive, value: Any, of: Type) -> str:
    text = str(value) if isinstance(of, t.Decimal) else write(value, of)
    return directive.padded(_cut(text, directive.precision))


def _character(directive: Directive, value: Any, of: Type) -> str:
    if not isinstance(of, t.Integral) or isinstance(of, t.BigInt) or not 0 <= value <= 0x10FFFF:
        raise _unfit(directive, of)
    return directive.padded("?" if 0xD800 <= value < 0xE000 else chr(value))


def _whole(directive: Directive, value: Any, of: Type) -> str:
    if not isinstance(of, t.Integral):
        raise _unfit(directive, of)
    return _number(directive, str(abs(value)), negative=value < 0)


def _digits(directive: Directive, value: Any, of: Type) -> str:
    """Octal and hexadecimal digits, of a negative number those of its bits."""
    if not isinstance(of, t.Integral):
        raise _unfit(directive, of)
    octal = directive.kind == "o"
    prefix = "" if "#" not in directive.flags else "0" if octal else "0x"
    text = format(value if value >= 0 else value + (1 << of.bits), "o" if octal else "x")
    if "0" in directive.flags:
        text = text.rjust(directive.width - len(prefix), "0")
    return directive.padded(prefix + text)


def _fraction(directive: Directive, value: Any, of: Type) -> str:
    if not isinstance(of, t.Floating):
        raise _unfit(directive, of)
    if not math.isfinite(value):
        text = "NaN" if math.isnan(value) else "Infinity"
        signed = text if math.isnan(value) else _signed(directive, text, negative=value < 0)
        return directive.padded(signed)
    magnitude = decimal.Decimal(repr(abs(value)))
    precision = 6 if directive.precision is None else directive.precision
    form = {"e": _scientific, "f": _plain, "g": _general}[directive.kind]
    text = form(magnitude, precision)
    _check_digits(abs(value), magnitude, text)
    if "#" in directive.flags and precision == 0:
        mantissa, exponent, power = text.partition("e")
        text = f"{mantissa}.{exponent}{power}"
    return _number(directive, text, negative=value < 0)


def _check_digits(value: float, magnitude: decimal.Decimal, text: str) -> None:
    """Refuse more digits of a double than are sure: versions of Java differ in the last ones."""
    significant = len(text.partition("e")[0].replace(".", "").lstrip("0"))
    unsure = len(magnitude.as_tuple().digits) >= SURE_DIGITS and significant > SURE_DIGITS
    if unsure or (2**53 <= value < 2**63 and decimal.Decimal(value) != magnitude):
        raise ArithmeticFault(
            f"FORMAT_STRING cannot write so many digits of {value!r}", hint="Convert it to DECIMAL, or round it."
        )


SURE_DIGITS = 15


def _plain(magnitude: decimal.Decimal, places: int) -> str:
    return format(magnitude.quantize(decimal.Decimal(1).scaleb(-places), context=ROOMY), "f")


def _scientific(magnitude: decimal.Decimal, places: int) -> str:
    power = magnitude.adjusted() if magnitude else 0
    digits = _plain(magnitude.scaleb(-power, ROOMY), places)
    if digits.startswith("10"):
        power, digits = power + 1, _plain(magnitude.scaleb(-power - 1, ROOMY), places)
    return f"{digits}e{'-' if power < 0 else '+'}{abs(power):02}"


def _general(magnitude: decimal.Decimal, precision: int) -> str:
    """A number with ``precision`` digits in all; an exponent if it is small, or if more stood before the point."""
    precision = max(precision, 1)
    if not magnitude:
        return _plain(magnitude, precision - 1)
    rounded = ROOMY.create_decimal(_scientific(magnitude, precision - 1))
    if not decimal.Decimal("0.0001") <= rounded < decimal.Decimal(10) ** precision:
        return _scientific(magnitude, precision - 1)
    return _plain(magnitude, precision - rounded.adjusted() - 1)


def _number(directive: Directive, magnitude: str, negative: bool) -> str:
    """A number with its sign, commas between thousands and zeros up to the width, as the flags say."""
    whole, point, rest = magnitude.partition(".")
    if "," in directive.flags and whole.isdigit():
        whole = f"{int(whole):,}"
    text = whole + point + rest
    if "0" in directive.flags:
        text = text.rjust(directive.width - len(_signed(directive, "", negative)), "0")
    return directive.padded(_signed(directive, text, negative))


def _signed(directive: Directive, text: str, negative: bool) -> str:
    if negative:
        return f"({text})" if "(" in directive.flags else f"-{text}"
    return ("+" if "+" in directive.flags else " " if " " in directive.flags else "") + text


def _unfit(directive: Directive, of: Type) -> ArithmeticFault:
    return ArithmeticFault(f"%{directive.kind} of FORMAT_STRING does not write {of}", hint="Convert it with CAST.")


def _units(text: str) -> int:
    """The length of a text in Java: characters beyond 16 bits count twice."""
    return len(text) + sum(one > "\uffff" for one in text)


def _cut(text: str, length: int | None) -> str:
    if length is None or _units(text) <= length:
        return text
    kept = text.encode("utf-16-le")[: 2 * length]
    whole = kept.decode("utf-16-le", errors="ignore")
    return whole if _units(whole) == length else whole + "?"


_WRITERS: dict[str, Writer] = {
    "b": _boolean, "s": _text, "c": _character, "d": _whole, "o": _digits, "x": _digits,
    "e": _fraction, "f": _fraction, "g": _fraction,
}  # fmt: skip


def _check(values: Sequence[Any]) -> None:
    """Refuse a constant pattern that is none, or that is not known here."""
    try:
        parsed(str(values[0]))
    except ArithmeticFault as fault:
        raise Unsupported(fault.what, detail=fault.detail, hint=fault.hint) from None


def _types(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    expect_count(types, 1)
    for of in types[1:]:
        if not isinstance(of, WRITTEN):
            raise TypeMismatch(f"FORMAT_STRING cannot write {of} yet", hint="Convert it with CAST(... AS STRING).")
    return (expect(types[0], t.STRING), *types[1:]), t.STRING


WRITTEN = (t.Void, t.Boolean, t.Integral, t.Floating, t.Decimal, t.String, t.Date, t.Timestamp)
"""Types of values whose text in Java is known."""

FORMAT_STRINGS = (
    Function(
        "format_string",
        _types,
        format_string,
        "format_string({args})",
        strict=False,
        of_types=True,
        null_when=lambda nullable: nullable[0],
        check=lambda values: _check(values) if values[0] is not None else None,
    ),
)
