"""Hashes of values: CRC32, and Spark's HASH (Murmur3, 32 bits) and XXHASH64, which go over several values of any type.

The hash of one value is the seed for the next one, a NULL leaves the seed as it is, and an array or struct stands for
its elements one after the other.
"""

from __future__ import annotations

import datetime
import decimal
import hmac
import re
import struct
import zlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from tidemill.algebra.functions.function import Function, StrictParameter, never, takes
from tidemill.algebra.values.casts import microseconds
from tidemill.algebra.values.decimals import EXACT
from tidemill.changes.arrow import microsecond_of_day
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault, TypeMismatch
from tidemill.model.types import Type

SEED = 42
W32, W64 = 2**32 - 1, 2**64 - 1
EPOCH = datetime.date(1970, 1, 1)
LONG_DIGITS = 18
"""DECIMALs of at most so many digits are hashed as BIGINTs, wider ones by their bytes."""

P1, P2, P3, P4, P5 = (
    0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5,
)  # fmt: skip
"""The primes of XXH64."""

Encoded = tuple[str, Any]
"""The form in which a value is hashed, ``int`` of 32 bits, ``long`` of 64 or ``bytes``, and the number or bytes."""


# ---------------------------------------------------------------------------------------------------------- Murmur3


def murmur3(kind: str, value: Any, seed: int) -> int:
    """The Murmur3 hash of 32 bits, as Spark computes it: it mixes each byte behind the last whole word alone."""
    if kind == "bytes":
        whole = len(value) // 4 * 4
        words = [*struct.unpack(f"<{whole // 4}I", value[:whole]), *(_signed_byte(byte) for byte in value[whole:])]
        length = len(value)
    else:
        words, length = ([value & W32], 4) if kind == "int" else ([value & W32, value >> 32 & W32], 8)
    for word in words:
        word = _rotated(word * 0xCC9E2D51 & W32, 15, 32) * 0x1B873593 & W32
        seed = (_rotated(seed ^ word, 13, 32) * 5 + 0xE6546B64) & W32
    seed ^= length
    seed = (seed ^ seed >> 16) * 0x85EBCA6B & W32
    seed = (seed ^ seed >> 13) * 0xC2B2AE35 & W32
    return seed ^ seed >> 16


def _signed_byte(byte: int) -> int:
    return byte - 256 & W32 if byte > 127 else byte


def _rotated(word: int, distance: int, bits: int) -> int:
    return (word << distance | word >> bits - distance) & (1 << bits) - 1


# ------------------------------------------------------------------------------------------------------------ XXH64


def xxh64(kind: str, value: Any, seed: int) -> int:
    """The XXH64 hash: that of the bytes of a value, the lowest one first."""
    data = value if kind == "bytes" else value.to_bytes(4 if kind == "int" else 8, "little", signed=True)
    found, place = _stripes(data, seed)
    found = found + len(data) & W64
    while place + 8 <= len(data):
        found ^= _round(0, int.from_bytes(data[place : place + 8], "little"))
        found = (_rotated(found, 27, 64) * P1 + P4) & W64
        place += 8
    if place + 4 <= len(data):
        found ^= int.from_bytes(data[place : place + 4], "little") * P1 & W64
        found = (_rotated(found, 23, 64) * P2 + P3) & W64
        place += 4
    for byte in data[place:]:
        found = _rotated(found ^ byte * P5 & W64, 11, 64) * P1 & W64
    found = (found ^ found >> 33) * P2 & W64
    found = (found ^ found >> 29) * P3 & W64
    return found ^ found >> 32


def _stripes(data: bytes, seed: int) -> tuple[int, int]:
    """The hash of the stripes of 32 bytes, and where they end."""
    if len(data) < 32:
        return seed + P5 & W64, 0
    lanes = [seed + P1 + P2 & W64, seed + P2 & W64, seed, seed - P1 & W64]
    end = len(data) // 32 * 32
    for place in range(0, end, 32):
        lanes = [_round(lane, word) for lane, word in zip(lanes, struct.unpack_from("<4Q", data, place), strict=True)]
    found = sum(_rotated(lane, distance, 64) for lane, distance in zip(lanes, (1, 7, 12, 18), strict=True)) & W64
    for lane in lanes:
        found = ((found ^ _round(0, lane)) * P1 + P4) & W64
    return found, end


def _round(lane: int, word: int) -> int:
    return _rotated(lane + word * P2 & W64, 31, 64) * P1 & W64


# ---------------------------------------------------------------------------------------------------- values of types


def type_code(of: Type) -> str:
    """The form in which values of a type are hashed, as a text that a program can hold.

    >>> type_code(t.Array(t.Struct((t.Field("a", t.INT), t.Field("b", t.STRING)))))
    '[{is}'
    """
    match of:
        case t.Array(element):
            return f"[{type_code(element)}"
        case t.Struct(fields):
            return "{" + "".join(type_code(field.type) for field in fields) + "}"
        case t.Decimal(precision, _):
            return "m" if precision <= LONG_DIGITS else "M"
    if type(of) not in _CODES:
        raise TypeMismatch(f"a value of type {of} has no hash")
    return _CODES[type(of)]


_CODES: dict[type[Type], str] = {
    t.Boolean: "b", t.TinyInt: "i", t.SmallInt: "i", t.Int: "i", t.BigInt: "l", t.Float: "f", t.Double: "d",
    t.String: "s", t.Binary: "B", t.Date: "D", t.Timestamp: "T", t.TimestampNtz: "T", t.Time: "H", t.Void: "v",
    t.YearMonthInterval: "i", t.DayTimeInterval: "l", t.CalendarInterval: "c",
}  # fmt: skip


@lru_cache(maxsize=1024)
def _encoder(code: str) -> Callable[[Any], list[Encoded]]:
    """The function from a value of that form to all that is hashed of it."""
    if code[0] == "[":
        element = _encoder(code[1:])
        return lambda value: [piece for item in value if item is not None for piece in element(item)]
    if code[0] == "{":
        members = [_encoder(member) for member in _split(code[1:-1])]
        return lambda value: [
            piece for encode, item in zip(members, value, strict=True) if item is not None for piece in encode(item)
        ]
    if code == "c":
        return lambda value: [("long", value[2]), ("int", value[1]), ("int", value[0])]
    encode = _ENCODERS[code]
    return lambda value: [encode(value)]


def _split(codes: str) -> list[str]:
    """The codes of several types that stand one after the other."""
    found, start, depth = [], 0, 0
    for place, sign in enumerate(codes):
        depth += (sign == "{") - (sign == "}")
        if not depth and sign != "[":
            found.append(codes[start : place + 1])
            start = place + 1
    return found


def _unscaled(value: decimal.Decimal) -> int:
    return int(value.scaleb(-int(value.as_tuple().exponent), EXACT))


def _wide(value: decimal.Decimal) -> Encoded:
    """The bytes of a whole number as Java has them: the highest first, as few as hold it and its sign."""
    number = _unscaled(value)
    return "bytes", number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)


_ENCODERS: dict[str, Callable[[Any], Encoded]] = {
    "b": lambda value: ("int", int(value)),
    "i": lambda value: ("int", value),
    "l": lambda value: ("long", value),
    "f": lambda value: ("int", struct.unpack("<i", struct.pack("<f", value))[0]),
    "d": lambda value: ("long", struct.unpack("<q", struct.pack("<d", value))[0]),
    "m": lambda value: ("long", _unscaled(value)),
    "M": _wide,
    "s": lambda value: ("bytes", value.encode()),
    "B": lambda value: ("bytes", value),
    "D": lambda value: ("int", (value - EPOCH).days),
    "T": lambda value: ("long", microseconds(value)),
    "H": lambda value: ("long", microsecond_of_day(value) * 1000),
}


def _folded(mix: Callable[[str, Any, int], int], bits: int) -> Callable[..., int]:
    """A hash over pairs of a value and the code of its type."""

    def apply(*pairs: Any) -> int:
        seed = SEED
        for value, code in zip(pairs[::2], pairs[1::2], strict=True):
            if value is not None:
                for piece in _encoder(code)(value):
                    seed = mix(*piece, seed)
        return seed - (1 << bits) if seed >> bits - 1 else seed

    return apply


def keyed_hash(key: bytes, message: bytes, algorithm: str = "SHA-256") -> bytes:
    """HMAC: the hash of a message that only those with the key can compute.

    >>> keyed_hash(b"key", b"message", "MD5").hex()
    '4e4748e62b463521f6775fbf921234b5'
    """
    if not key:
        raise ArithmeticFault("HMAC needs a key of at least one byte")
    found = ALGORITHM.fullmatch(algorithm)
    if found is None:
        raise ArithmeticFault(f"HMAC has no algorithm {algorithm!r}", hint="Use MD5, SHA-1, SHA-256 and so on.")
    return hmac.digest(key, message, f"sha{found['bits']}" if found["bits"] else "md5")


ALGORITHM = re.compile("MD5|SHA-?(?P<bits>1|224|256|384|512)", re.IGNORECASE | re.ASCII)


def _pairs(gives: Type) -> Callable[[Sequence[Type]], tuple[tuple[Type, ...], Type]]:
    def infer(types: Sequence[Type]) -> tuple[tuple[Type, ...], Type]:
        return tuple(types), gives

    return infer


def _spelled(name: str) -> Callable[[Sequence[str], Sequence[Type], Type], str]:
    """The call in Spark, which knows the types of its arguments."""

    def spelling(arguments: Sequence[str], types: Sequence[Type], of: Type) -> str:
        return f"{name}({', '.join(arguments[::2])})"

    return spelling


_BYTES = StrictParameter(t.BINARY, (t.STRING,))

HASHES = (
    Function("hmac", takes(_BYTES, _BYTES, t.STRING, gives=t.BINARY, optional=1), keyed_hash, "hmac({args})"),
    Function(
        "crc32",
        takes(_BYTES, gives=t.BIGINT),
        zlib.crc32,
        "crc32({0})",
        total=True,
    ),
    Function(
        "hash",
        _pairs(t.INT),
        _folded(murmur3, 32),
        "hash({args})",
        strict=False,
        null_when=never,
        spelling=_spelled("hash"),
        total=True,
    ),
    Function(
        "xxhash64",
        _pairs(t.BIGINT),
        _folded(xxh64, 64),
        "xxhash64({args})",
        strict=False,
        null_when=never,
        spelling=_spelled("xxhash64"),
        total=True,
    ),
)
