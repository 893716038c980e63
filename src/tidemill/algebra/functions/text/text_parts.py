"""Parts of text and tests of it: pieces between delimiters, replaced stretches, masks and check digits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidemill.algebra.functions.function import Function, StrictParameter, always, expect_all, expect_count, takes
from tidemill.algebra.functions.text.strings import Text, or_bytes, substring
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault, TypeMismatch
from tidemill.model.types import Type

DIGITS = "0123456789"


def substring_index(text: str, delimiter: str, count: int) -> str:
    """The text before ``count`` delimiters, or behind as many from the end where negative.

    >>> substring_index("www.apache.org", ".", 2), substring_index("www.apache.org", ".", -2)
    ('www.apache', 'apache.org')
    """
    if not delimiter or count == 0:
        return ""
    return _before(text, delimiter, count) if count > 0 else _behind(text, delimiter, -count)


def _before(text: str, delimiter: str, count: int) -> str:
    end = -1
    for _ in range(count):
        end = text.find(delimiter, end + 1)
        if end < 0:
            return text
    return text[:end]


def _behind(text: str, delimiter: str, count: int) -> str:
    start = len(text) - len(delimiter) + 1
    for _ in range(count):
        start = text.rfind(delimiter, 0, start - 1 + len(delimiter)) if start > 0 else -1
        if start < 0:
            return text
    return text[start + len(delimiter) :]


def find_in_set(text: str, items: str) -> int:
    """The place of ``text`` among items with commas between them; 0 if it is not there or has a comma itself.

    >>> find_in_set("ab", "abc,b,ab,c,def")
    3
    """
    found = items.split(",")
    return found.index(text) + 1 if text in found else 0


def nth_text(number: int | None, *texts: str | None) -> str | None:
    """ELT: the text of that number, counted from 1; a number without a text is an error."""
    if number is None:
        return None
    if not 1 <= number <= len(texts):
        raise ArithmeticFault(f"ELT has no text {number}: it counts from 1 to {len(texts)}")
    return texts[number - 1]


def overlay(text: Text, replacement: Text, position: int, length: int = -1) -> Text:
    """``text`` with ``replacement`` for ``length`` characters from ``position`` on; by default as many as it has.

    >>> overlay("Spark SQL", "tructured", 2, 4)
    'Structured SQL'
    """
    kept = length if length >= 0 else len(replacement)
    return substring(text, 1, position - 1) + replacement + substring(text, position + kept)


def nth_position(text: str, search: str, position: int, occurrence: int) -> int:
    """INSTR with a place to start from, backward from the end where negative, and which occurrence is meant.

    >>> nth_position("abcabc", "b", 1, 2), nth_position("abcabc", "b", -1, 1)
    (5, 5)
    """
    if occurrence < 1:
        raise ArithmeticFault(f"INSTR counts occurrences from 1, not {occurrence}")
    if not search:
        return 1
    if position == 0:
        return 0
    start = position - 1 if position > 0 else min(len(text) + position, len(text) - len(search))
    for place in range(start, len(text) - len(search) + 1, 1) if position > 0 else range(start, -1, -1):
        if text.startswith(search, place):
            occurrence -= 1
            if not occurrence:
                return place + 1
    return 0


def mask(
    text: str | None,
    upper: str | None = "X",
    lower: str | None = "x",
    digit: str | None = "n",
    other: str | None = None,
) -> str | None:
    """``text`` with one character for each capital, small letter, digit and other; NULL keeps those of its kind.

    >>> mask("AbCD123-@$#", "Q", "q", "d", "o")
    'QqQQdddoooo'
    """
    return None if text is None else "".join(_masked(character, upper, lower, digit, other) for character in text)


def _masked(character: str, upper: str | None, lower: str | None, digit: str | None, other: str | None) -> str:
    if character.isupper():
        return character if upper is None else upper
    if character.islower():
        return character if lower is None else lower
    if character.isdecimal():
        return character if digit is None else digit
    return character if other is None else other


def quote(text: str) -> str:
    """``text`` in single quotes, with a backslash before each quote in it."""
    return "'" + text.replace("'", "\\'") + "'"


def luhn_check(text: str) -> bool:
    """True if the last digit is the check digit of the others by the algorithm of Luhn.

    >>> luhn_check("79927398713"), luhn_check("79927398714")
    (True, False)
    """
    if not text or any(character not in DIGITS for character in text):
        return False
    digits = [int(character) for character in reversed(text)]
    return (sum(digits[::2]) + sum(sum(divmod(2 * digit, 10)) for digit in digits[1::2])) % 10 == 0


def _elt_types(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    expect_count(types, 2)
    return expect_all(types, (t.INT, *[t.STRING] * (len(types) - 1))), t.STRING


def _check_mask(values: Sequence[Any]) -> None:
    for value in values[1:]:
        if isinstance(value, str) and len(value) != 1:
            raise TypeMismatch(f"MASK puts one character in place of another, not {value!r}")


def encoded(text: str | bytes) -> bytes:
    """The bytes of a text in UTF-8; bytes are themselves."""
    return text.encode() if isinstance(text, str) else text


_OVERLAY = or_bytes(takes(t.STRING, t.STRING, t.INT, t.INT, gives=t.STRING, optional=1))


def _overlay_types(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    if (t.BINARY in types[:2]) != (types[:2] == [t.BINARY] * 2):
        raise TypeMismatch("OVERLAY of a text and of bytes", hint="Convert one of them with CAST.")
    return _OVERLAY(types)


_MASK = StrictParameter(t.STRING)

TEXT_PARTS = (
    Function(
        "octet_length",
        or_bytes(takes(t.STRING, gives=t.INT)),
        lambda text: len(encoded(text)),
        "octet_length({0})",
        total=True,
    ),
    Function(
        "bit_length",
        or_bytes(takes(t.STRING, gives=t.INT)),
        lambda text: 8 * len(encoded(text)),
        "bit_length({0})",
        total=True,
    ),
    Function(
        "substring_index",
        takes(t.STRING, t.STRING, t.INT, gives=t.STRING),
        substring_index,
        "substring_index({args})",
        total=True,
    ),
    Function("find_in_set", takes(t.STRING, t.STRING, gives=t.INT), find_in_set, "find_in_set({args})", total=True),
    Function("elt", _elt_types, nth_text, "elt({args})", strict=False, null_when=always),
    Function(
        "overlay",
        _overlay_types,
        overlay,
        "overlay({args})",
        total=True,
    ),
    Function("instr_from", takes(t.STRING, t.STRING, t.INT, t.INT, gives=t.INT), nth_position, "instr({args})"),
    Function(
        "mask",
        takes(_MASK, _MASK, _MASK, _MASK, _MASK, gives=t.STRING, optional=4),
        mask,
        "mask({args})",
        strict=False,
        null_when=lambda nullable: nullable[0],
        constants=(1, 2, 3, 4),
        check=_check_mask,
        total=True,
    ),
    Function("quote", takes(t.STRING, gives=t.STRING), quote, "quote({0})", total=True),
    Function("luhn_check", takes(t.STRING, gives=t.BOOLEAN), luhn_check, "luhn_check({0})", total=True),
)
