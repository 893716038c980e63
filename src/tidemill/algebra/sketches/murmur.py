"""MurmurHash3 with 128 bits for machines of 64, by which the sketches of Apache DataSketches hash their values."""

from __future__ import annotations

import math
import struct

UPDATE_SEED = 9001
"""The seed with which all sketches hash their values."""

W64 = 2**64 - 1
C1, C2 = 0x87C37B91114253D5, 0x4CF5AD432745937F


def murmur128(data: bytes, seed: int = UPDATE_SEED) -> tuple[int, int]:
    """The two halves of the hash.

    >>> [hex(half) for half in murmur128(b"tide")]
    ['0xe47b634f129a829', '0x77bf477665b6eba2']
    """
    first, second = seed, seed
    whole = len(data) // 16 * 16
    for low, high in struct.iter_unpack("<QQ", data[:whole]):
        first = _rotated(first ^ _mixed(low, C1, 31, C2), 27)
        first = ((first + second) * 5 + 0x52DCE729) & W64
        second = _rotated(second ^ _mixed(high, C2, 33, C1), 31)
        second = ((second + first) * 5 + 0x38495AB5) & W64
    low, high = struct.unpack("<QQ", data[whole:].ljust(16, b"\0"))
    second ^= _mixed(high, C2, 33, C1)
    first ^= _mixed(low, C1, 31, C2)
    first, second = first ^ len(data), second ^ len(data)
    first = (first + second) & W64
    second = (second + first) & W64
    first, second = finished(first), finished(second)
    first = (first + second) & W64
    return first, (second + first) & W64


def _rotated(word: int, distance: int) -> int:
    return (word << distance | word >> 64 - distance) & W64


def _mixed(word: int, one: int, distance: int, other: int) -> int:
    return _rotated(word * one & W64, distance) * other & W64


def finished(word: int) -> int:
    """The last step of the hash, which spreads all bits of a word over all of them."""
    word = (word ^ word >> 33) * 0xFF51AFD7ED558CCD & W64
    word = (word ^ word >> 33) * 0xC4CEB9FE1A85EC53 & W64
    return word ^ word >> 33


def hashed_bytes(value: object) -> bytes:
    """The bytes of a value that are hashed: a whole number and a DOUBLE have eight, an array those of its elements.

    Elements that are NULL count as zero. Nothing is hashed of an empty text, of no bytes and of an empty array.
    """
    match value:
        case bytes():
            return value
        case str():
            return value.encode()
        case bool() | int():
            return struct.pack("<q", value)
        case float():
            return struct.pack("<d", 0.0 if value == 0.0 else math.nan if math.isnan(value) else value)
    raise TypeError(f"{type(value).__name__} has no hash")
