"""Bytes: texts encoded and decoded, hexadecimal digits, Base64, and whether bytes are a text at all."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from typing import Any

from tidemill.algebra.functions.function import Function, Inference, always, takes
from tidemill.algebra.values import formats
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault, TypeMismatch

CHARSETS = {
    "us-ascii": "ascii",
    "iso-8859-1": "latin-1",
    "utf-8": "utf-8",
    "utf-16": "utf-16-be",
    "utf-16be": "utf-16-be",
    "utf-16le": "utf-16-le",
    "utf-32": "utf-32-be",
}
"""Spark's names of encodings, and Python's. A text in UTF-16 begins with a mark of its byte order."""

ORDER_MARK = b"\xfe\xff"

_OUTSIDE_BASE32 = re.compile("[^A-Za-z2-7]")
_OUTSIDE_BASE64 = re.compile("[^A-Za-z0-9+/=]")


def encode(text: str, charset: str) -> bytes:
    """The bytes of a text in an encoding; a character that it does not have is an error.

    >>> encode("é", "UTF-8"), encode("a", "utf-16")
    (b'\\xc3\\xa9', b'\\xfe\\xff\\x00a')
    """
    try:
        found = text.encode(_python_name(charset))
    except UnicodeEncodeError:
        raise ArithmeticFault(f"{text!r} has characters that {charset} does not have") from None
    return ORDER_MARK + found if charset.lower() == "utf-16" and text else found


def decode(value: bytes, charset: str) -> str:
    """The text that bytes are in an encoding; bytes that are none are an error."""
    name = _python_name(charset)
    if charset.lower() == "utf-16" and value[:2] in (ORDER_MARK, ORDER_MARK[::-1]):
        name = "utf-16"  # reads the mark
    try:
        return value.decode(name)
    except UnicodeDecodeError:
        raise ArithmeticFault(f"X'{value.hex()}' is no text in {charset}") from None


def _python_name(charset: str) -> str:
    if charset.lower() not in CHARSETS:
        raise ArithmeticFault(f"there is no encoding {charset!r}", hint=f"Use one of {', '.join(CHARSETS).upper()}.")
    return CHARSETS[charset.lower()]


def unhex(text: str) -> bytes | None:
    """The bytes that hexadecimal digits spell; of an odd number the first stands alone. NULL for anything else.

    >>> unhex("F"), unhex("0g")
    (b'\\x0f', None)
    """
    if not re.fullmatch("[0-9a-fA-F]*", text):
        return None
    return bytes.fromhex("0" * (len(text) % 2) + text)


def to_base64(value: bytes) -> str:
    """Bytes in Base64, in lines of 76 characters as in MIME."""
    text = base64.b64encode(value).decode()
    return "\r\n".join(text[start : start + LINE] for start in range(0, len(text), LINE))


LINE = 76
"""Characters of a line of Base64."""


def unbase64(text: str) -> bytes:
    """The bytes that a text spells in Base64; characters that do not belong to it are left out, as in MIME."""
    digits, _, rest = _OUTSIDE_BASE64.sub("", text).partition("=")
    padding = {0: 0, 2: 2, 3: 1}.get(len(digits) % 4)
    if padding is None or ("=" in text and padding != 1 + len(rest)):
        raise ArithmeticFault(f"{text!r} is no Base64")
    return base64.b64decode(digits + "=" * padding)


def from_base32(text: str) -> bytes:
    """The bytes that a text spells in Base32, up to a padding; characters that do not belong to it are left out.

    >>> from_base32("mzxw 6ytb=oi"), from_base32("M")
    (b'fooba', b'\\x03')
    """
    digits = _OUTSIDE_BASE32.sub("", text.partition("=")[0]).upper()
    whole, rest = digits[: len(digits) // 8 * 8], digits[len(digits) // 8 * 8 :]
    found = base64.b32decode(whole)
    if not rest:
        return found
    # Bits beyond the last whole byte are dropped; a single digit makes a byte with bits of those before it.
    bits = int.from_bytes(base64.b32decode(digits[-8:].rjust(8, "A") if len(rest) == 1 else rest.rjust(8, "A")))
    count = max(5 * len(rest) // 8, 1)
    dropped = 2 if len(rest) == 1 else 5 * len(rest) - 8 * count
    return found + (bits >> dropped & (1 << 8 * count) - 1).to_bytes(count)


def _read_base64(text: str) -> bytes | None:
    """As ``unbase64``, but nothing may stand between the characters except blanks."""
    return None if re.search(r"[^A-Za-z0-9+/=\s]", text) else unbase64(text)


def to_binary(text: str, form: str = "hex") -> bytes:
    """The bytes that a text spells in a form: ``hex``, ``utf-8`` or ``base64``; anything else is an error."""
    reader = _FORMS.get(form.lower())
    if reader is None:
        raise ArithmeticFault(f"there is no form {form!r} of bytes", hint="Use hex, utf-8 or base64.")
    found = reader(text)
    if found is None:
        raise ArithmeticFault(f"{text!r} is no text of the form {form}", hint="Use TRY_TO_BINARY to get NULL.")
    return found


def _check_form(values: Sequence[Any]) -> None:
    if len(values) > 1 and isinstance(values[1], str) and values[1].lower() not in _FORMS:
        raise TypeMismatch(f"there is no form {values[1]!r} of bytes", hint="Use hex, utf-8 or base64.")


_FORMS: dict[str, Callable[[str], bytes | None]] = {
    "hex": unhex,
    "utf-8": str.encode,
    "utf8": str.encode,
    "base64": _read_base64,
}


def validate_utf8(value: str | bytes) -> str:
    """The text that bytes are in UTF-8; bytes that are none are an error."""
    found = try_validate_utf8(value)
    if found is None:
        raise ArithmeticFault(f"{value!r} is no text in UTF-8", hint="Use TRY_VALIDATE_UTF8 to get NULL.")
    return found


def try_validate_utf8(value: str | bytes) -> str | None:
    """The text that bytes are in UTF-8, or NULL; a text is one."""
    return value if isinstance(value, str) else formats.decoded(value)


def make_valid_utf8(value: str | bytes) -> str:
    """The text that bytes are in UTF-8, with a mark in the place of what is none."""
    return value if isinstance(value, str) else value.decode(errors="replace")


def _text_or_bytes(gives: t.Type) -> Inference:
    """One argument: bytes, or what becomes a text."""

    def infer(types: Sequence[t.Type]) -> tuple[tuple[t.Type, ...], t.Type]:
        return takes(t.BINARY if types[:1] == [t.BINARY] else t.STRING, gives=gives)(types)

    return infer


def try_to_binary(text: str, form: str = "hex") -> bytes | None:
    """As ``to_binary``, with NULL in place of an error."""
    try:
        return to_binary(text, form)
    except ArithmeticFault:
        return None


_TO_BINARY = takes(t.STRING, t.STRING, gives=t.BINARY, optional=1)

BYTES = (
    Function("encode", takes(t.STRING, t.STRING, gives=t.BINARY), encode, "encode({args})"),
    Function("decode_bytes", takes(t.BINARY, t.STRING, gives=t.STRING), decode, "decode({args})"),
    Function(
        "base64",
        takes(t.BINARY, gives=t.STRING),
        to_base64,
        "base64({0})",
        total=True,
    ),
    Function("unbase64", takes(t.STRING, gives=t.BINARY), unbase64, "unbase64({0})"),
    Function(
        "to_base32",
        takes(t.BINARY, gives=t.STRING),
        lambda value: base64.b32encode(value).decode(),
        "to_base32({0})",
        total=True,
    ),
    Function("from_base32", takes(t.STRING, gives=t.BINARY), from_base32, "from_base32({0})"),
    Function("unhex", takes(t.STRING, gives=t.BINARY), unhex, "unhex({0})", null_when=always, total=True),
    Function("to_binary", _TO_BINARY, to_binary, "to_binary({args})", check=_check_form),
    Function(
        "try_to_binary",
        _TO_BINARY,
        try_to_binary,
        "try_to_binary({args})",
        null_when=always,
        total=True,
        check=_check_form,
    ),
    Function(
        "is_valid_utf8",
        _text_or_bytes(t.BOOLEAN),
        lambda value: try_validate_utf8(value) is not None,
        "is_valid_utf8({0})",
        total=True,
    ),
    Function(
        "make_valid_utf8",
        _text_or_bytes(t.STRING),
        make_valid_utf8,
        "make_valid_utf8({0})",
        total=True,
    ),
    Function("validate_utf8", _text_or_bytes(t.STRING), validate_utf8, "validate_utf8({0})"),
    Function(
        "try_validate_utf8",
        _text_or_bytes(t.STRING),
        try_validate_utf8,
        "try_validate_utf8({0})",
        null_when=always,
        total=True,
    ),
)
