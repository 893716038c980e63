"""Text: joining, cutting, padding, searching and hashing. Positions count from 1 and characters are code points."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import reduce
from typing import Any, TypeVar

from tidemill.algebra.functions.function import (
    Function,
    Inference,
    StrictParameter,
    always,
    expect_all,
    expect_count,
    takes,
)
from tidemill.algebra.values.coercion import common_type
from tidemill.model import types as t
from tidemill.model.array_tree import ArrayTree, joined
from tidemill.model.errors import ArithmeticFault, TypeMismatch
from tidemill.model.types import Type

Text = TypeVar("Text", str, bytes)


def concat(of: Type, *values: Any) -> Any:
    """The values one after the other: texts, or arrays."""
    if isinstance(of, t.Array):
        return reduce(joined, values, ())
    return b"".join(values) if isinstance(of, t.Binary) else "".join(values)


def concat_ws(separator: str | None, *values: Any) -> str | None:
    """The texts that are not NULL, and the elements of arrays, with ``separator`` between them."""
    if separator is None:
        return None
    pieces = [piece for value in values for piece in (value if isinstance(value, tuple | ArrayTree) else (value,))]
    return separator.join(piece for piece in pieces if piece is not None)


def substring(text: Text, position: int, length: int = 2**31 - 1) -> Text:
    """``length`` characters from ``position``; a negative position counts from the end.

    >>> substring("tidemill", 5), substring("tidemill", -4, 2), substring("tidemill", 0, 2)
    ('mill', 'mi', 'ti')
    """
    start = position - 1 if position > 0 else position + len(text) if position < 0 else 0
    return text[max(start, 0) : max(start + length, 0)] if length > 0 else text[:0]


def initcap(text: str) -> str:
    """Each word, set off by spaces, with a capital."""
    return " ".join(word[:1].title() + word[1:].lower() for word in text.split(" "))


def trim(text: str, characters: str) -> str:
    """``text`` without ``characters`` at either end."""
    return text.strip(characters) if characters else text


def trim_left(text: str, characters: str) -> str:
    """``text`` without ``characters`` at its start."""
    return text.lstrip(characters) if characters else text


def trim_right(text: str, characters: str) -> str:
    """``text`` without ``characters`` at its end."""
    return text.rstrip(characters) if characters else text


def right(text: str, length: int) -> str:
    """The last ``length`` characters."""
    return text[-length:] if length > 0 else ""


def replace(text: str, search: str, replacement: str = "") -> str:
    """Every ``search`` replaced."""
    return text.replace(search, replacement) if search else text


def translate(text: str, characters: str, replacements: str) -> str:
    """Each of ``characters`` replaced by its counterpart, or dropped where there is none; the first mention counts."""
    table: dict[int, str | None] = {}
    for position, character in enumerate(characters):
        table.setdefault(ord(character), replacements[position] if position < len(replacements) else None)
    return text.translate(table)


def pad_left(text: Text, length: int, padding: Text | None = None) -> Text:
    """``text`` cut or filled from the left to ``length`` characters, by default with blanks, or bytes with zeros."""
    return _padding(text, length, padding) + text[: max(length, 0)]


def pad_right(text: Text, length: int, padding: Text | None = None) -> Text:
    """``text`` cut or filled from the right to ``length`` characters, by default with blanks, or bytes with zeros."""
    return text[: max(length, 0)] + _padding(text, length, padding)


def _padding(text: Text, length: int, padding: Text | None) -> Text:
    missing = max(length - len(text), 0)
    given: Any = padding if padding is not None else b"\0" if isinstance(text, bytes) else " "
    filled: Text = (given * missing)[:missing]
    return filled


def locate(search: str | None, text: str | None, position: int | None = 1) -> int | None:
    """Where ``search`` first stands in ``text``, from ``position`` on; 0 where it does not, or from nowhere on."""
    if position is None:
        return 0
    if search is None or text is None:
        return None
    if position < 1:
        return 0
    return text.find(search, position - 1) + 1 if search else 1


def split_part(text: str, delimiter: str, number: int) -> str:
    """The part of that number between delimiters, from the end where negative; empty beyond the parts."""
    if number == 0:
        raise ArithmeticFault("SPLIT_PART counts from 1, or from -1 at the end; 0 is no part")
    parts = text.split(delimiter) if delimiter else [text]
    index = number - 1 if number > 0 else len(parts) + number
    return parts[index] if 0 <= index < len(parts) else ""


def first_code(text: str) -> int:
    """ASCII: the code point of the first character; 0 for the empty text."""
    return ord(text[0]) if text else 0


def character(code: int) -> str:
    """CHR: the character of a code, modulo 256; empty below zero."""
    return "" if code < 0 else chr(code % 256)


def sha2(value: bytes, bits: int) -> str | None:
    """The SHA-2 digest of 224, 256 (or 0), 384 or 512 bits; NULL for any other."""
    name = {0: "sha256", 224: "sha224", 256: "sha256", 384: "sha384", 512: "sha512"}.get(bits)
    return hashlib.new(name, value).hexdigest() if name else None


def _concat_types(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    arrays = [type_ for type_ in types if isinstance(type_, t.Array)]
    types = [t.STRING if type_ == t.VARIANT else type_ for type_ in types]
    all_bytes = set(types) == {t.BINARY}
    of: Type = common_type(arrays) if arrays else t.BINARY if all_bytes else t.STRING
    if arrays and t.VOID in types:
        raise TypeMismatch("a bare NULL beside arrays", hint="Convert it with CAST.")
    return expect_all(types, (of,) * len(types)), of


def _reverse_types(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    return (tuple(types), types[0]) if len(types) == 1 and isinstance(types[0], t.Array | t.Binary) else _TEXT(types)


def _concat_ws_types(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
    expect_count(types, 1)
    wanted = [t.Array(t.STRING) if isinstance(type_, t.Array) else t.STRING for type_ in types]
    if isinstance(types[0], t.Array):
        raise TypeMismatch("the separator must be a STRING")
    return expect_all(types, wanted), t.STRING


def _locate_null(nullable: Sequence[bool]) -> bool:
    return any(nullable[:2])


def or_bytes(texts: Inference) -> Inference:
    """The signature of a function of texts that takes bytes just as well, if all its texts are bytes."""

    def infer(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
        wanted, of = texts(types)
        given = [type_ for type_, parameter in zip(types, wanted, strict=True) if parameter == t.STRING]
        if set(given) != {t.BINARY}:
            return wanted, of
        return tuple(map(_bytes_for, wanted)), _bytes_for(of)

    return infer


def _bytes_for(type_: Type) -> Type:
    return t.BINARY if type_ == t.STRING else type_


_TEXT = takes(t.STRING, gives=t.STRING)
_TEXTS = takes(t.STRING, t.STRING, gives=t.BOOLEAN)
_TRIM = takes(t.STRING, t.STRING, gives=t.STRING)
_PAD = takes(t.STRING, t.INT, t.STRING, gives=t.STRING, optional=1)
_COUNT = takes(t.STRING, t.INT, gives=t.STRING)
_LOCATE = takes(t.STRING, t.STRING, t.INT, gives=t.INT, optional=1)
_BYTES = StrictParameter(t.BINARY, (t.STRING,))
"""Argument of hash functions: a text is converted to bytes, a number is not."""
_HASH = takes(_BYTES, gives=t.STRING)

STRINGS = (
    Function("concat", _concat_types, concat, "concat({args})", typed=True, total=True),
    Function(
        "concat_ws",
        _concat_ws_types,
        concat_ws,
        "concat_ws({args})",
        strict=False,
        null_when=lambda n: n[0],
        total=True,
    ),
    Function("length", or_bytes(takes(t.STRING, gives=t.INT)), len, "length({0})", python="len({0})", total=True),
    Function("upper", _TEXT, str.upper, "upper({0})", python="{0}.upper()", total=True),
    Function("lower", _TEXT, str.lower, "lower({0})", python="{0}.lower()", total=True),
    Function("initcap", _TEXT, initcap, "initcap({0})", total=True),
    Function("reverse", _reverse_types, lambda text: text[::-1], "reverse({0})", python="{0}[::-1]", total=True),
    Function("trim", _TRIM, trim, "trim(BOTH {1} FROM {0})", total=True),
    Function("ltrim", _TRIM, trim_left, "trim(LEADING {1} FROM {0})", total=True),
    Function("rtrim", _TRIM, trim_right, "trim(TRAILING {1} FROM {0})", total=True),
    Function(
        "substring",
        or_bytes(takes(t.STRING, t.INT, t.INT, gives=t.STRING, optional=1)),
        substring,
        "substring({args})",
        total=True,
    ),
    Function("left", or_bytes(_COUNT), lambda text, length: text[: max(length, 0)], "left({0}, {1})", total=True),
    Function("right", _COUNT, right, "right({0}, {1})", total=True),
    Function("repeat", _COUNT, lambda text, times: text * times, "repeat({0}, {1})", python="({0} * {1})"),
    Function(
        "replace",
        takes(t.STRING, t.STRING, t.STRING, gives=t.STRING, optional=1),
        replace,
        "replace({args})",
        total=True,
    ),
    Function(
        "translate", takes(t.STRING, t.STRING, t.STRING, gives=t.STRING), translate, "translate({args})", total=True
    ),
    Function("lpad", or_bytes(_PAD), pad_left, "lpad({args})"),
    Function("rpad", or_bytes(_PAD), pad_right, "rpad({args})"),
    Function(
        "instr",
        takes(t.STRING, t.STRING, gives=t.INT),
        lambda text, sub: text.find(sub) + 1,
        "instr({args})",
        total=True,
    ),
    Function("locate", _LOCATE, locate, "locate({args})", strict=False, null_when=_locate_null, total=True),
    Function("position", _LOCATE, locate, "position({args})", strict=False, null_when=_locate_null, total=True),
    Function("startswith", _TEXTS, str.startswith, "startswith({args})", python="{0}.startswith({1})", total=True),
    Function("endswith", _TEXTS, str.endswith, "endswith({args})", python="{0}.endswith({1})", total=True),
    Function(
        "contains", _TEXTS, lambda text, part: part in text, "contains({args})", python="({1} in {0})", total=True
    ),
    Function("split_part", takes(t.STRING, t.STRING, t.INT, gives=t.STRING), split_part, "split_part({args})"),
    Function("ascii", takes(t.STRING, gives=t.INT), first_code, "ascii({0})"),
    Function("chr", takes(t.BIGINT, gives=t.STRING), character, "chr({0})"),
    Function("md5", _HASH, lambda value: hashlib.md5(value).hexdigest(), "md5({0})"),
    Function("sha1", _HASH, lambda value: hashlib.sha1(value).hexdigest(), "sha1({0})"),
    Function("sha2", takes(_BYTES, t.INT, gives=t.STRING), sha2, "sha2({0}, {1})", null_when=always),
    Function("space", takes(t.INT, gives=t.STRING), lambda count: " " * count, "space({0})"),
)
