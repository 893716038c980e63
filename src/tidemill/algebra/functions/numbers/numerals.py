"""Numbers in other bases than ten: BIN, HEX and CONV."""

from __future__ import annotations

from collections.abc import Sequence

from tidemill.algebra.functions.function import Function, always, expect, expect_count, takes
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault
from tidemill.model.types import Type

DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
WORD = 2**64
"""Numbers are those of 64 bits; a negative one counts as its bits do."""


def binary(value: int) -> str:
    """The bits of a BIGINT.

    >>> binary(13)
    '1101'
    """
    return f"{value % WORD:b}"


def hexadecimal(value: int | str | bytes) -> str:
    """The hexadecimal digits of a BIGINT, of bytes, or of the bytes of a text.

    >>> hexadecimal(-1), hexadecimal("Spark")
    ('FFFFFFFFFFFFFFFF', '537061726B')
    """
    if isinstance(value, int):
        return f"{value % WORD:X}"
    return (value.encode() if isinstance(value, str) else value).hex().upper()


def convert_base(text: str, source: int, target: int) -> str | None:
    """The number that ``text`` begins with, from one base to another; a negative ``target`` keeps its sign.

    NULL for the empty text, and for bases beyond 36 or below 2.

    >>> convert_base("100", 2, 10), convert_base("-10", 16, -10), convert_base("-10", 10, 16)
    ('4', '-16', 'FFFFFFFFFFFFFFF6')
    """
    text = text.strip(" ")
    if not (text and 2 <= source <= 36 and 2 <= abs(target) <= 36):
        return None
    negative = text.startswith("-")
    number = _read(text[negative:], source)
    if number >= WORD:
        raise ArithmeticFault(f"{text} has more than 64 bits", hint="Convert numbers that fit a BIGINT.")
    if negative and target > 0:
        number = -number % WORD if number < WORD // 2 else WORD - 1
    if target < 0 and number >= WORD // 2:
        negative, number = True, WORD - number
    return ("-" if negative and target < 0 else "") + _write(number, abs(target))


def _read(text: str, base: int) -> int:
    """The number up to the first character that is no digit in ``base``."""
    number = 0
    for character in text.upper():
        digit = DIGITS.find(character)
        if not 0 <= digit < base:
            break
        number = number * base + digit
    return number


def _write(number: int, base: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, base)
        digits = DIGITS[digit] + digits
    return digits or "0"


def _hex_types(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    expect_count(types, 1, 1)
    of = t.BIGINT if t.is_numeric(types[0]) else t.BINARY if types[0] == t.BINARY else t.STRING
    return (expect(types[0], of),), t.STRING


NUMERALS = (
    Function("bin", takes(t.BIGINT, gives=t.STRING), binary, "bin({0})", total=True),
    Function("hex", _hex_types, hexadecimal, "hex({0})", total=True),
    Function("conv", takes(t.STRING, t.INT, t.INT, gives=t.STRING), convert_base, "conv({args})", null_when=always),
)
