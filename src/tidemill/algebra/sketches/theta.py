"""Theta sketches: the least hashes of a set, up to a number of them, and the limit below which they lie.

A sketch is determined by the set of its hashes: of more than ``2**lg`` the least ``2**lg`` stay, and the limit is the
next one. So it does not matter in which order values come, nor how they were split among sketches that are combined.
Bytes are those of Apache DataSketches: hashes in ascending order, as differences of so many bits as the largest needs.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidemill.algebra.sketches.murmur import hashed_bytes, murmur128
from tidemill.model.errors import ArithmeticFault

NO_LIMIT = 2**63 - 1
SEED_HASH = 0x93CC
"""The hash of the seed, by which sketches that hash otherwise are told apart."""

FAMILY = 3
"""The number of compact theta sketches among all kinds of sketches."""

READ_ONLY, EMPTY, COMPACT, ORDERED, SINGLE = 2, 4, 8, 16, 32
"""The flags of a sketch."""

DEFAULT_LG, LEAST_LG, MOST_LG = 12, 4, 26
"""The binary logarithm of the number of hashes that are kept: the default, and its bounds."""


@dataclass(frozen=True, slots=True)
class Theta:
    """Hashes in ascending order, all below ``limit``."""

    hashes: tuple[int, ...] = ()
    limit: int = NO_LIMIT

    @property
    def empty(self) -> bool:
        """True if there is no value at all, not merely none that was kept."""
        return not self.hashes and self.limit == NO_LIMIT

    @property
    def estimate(self) -> float:
        """The number of different values: exact while all hashes are kept."""
        return len(self.hashes) / (self.limit / 2**63) if self.limit < NO_LIMIT else float(len(self.hashes))


def hash_of(value: object) -> int:
    """The hash of a value; 0 for nothing, which is not taken."""
    piece = hashed_bytes(value)
    return murmur128(piece)[0] >> 1 if piece else 0


def sketch_of(values: Iterable[object], lg: int) -> Theta:
    """The sketch of values, of which empty texts, bytes and arrays are left out.

    >>> sketch_of([1, 2, 3, 3, ""], 12).estimate
    3.0
    """
    return trimmed({hash_ for value in values if (hash_ := hash_of(value))}, NO_LIMIT, lg)


def trimmed(hashes: Iterable[int], limit: int, lg: int) -> Theta:
    """The least ``2**lg`` of hashes below ``limit``."""
    kept = sorted(hash_ for hash_ in hashes if hash_ < limit)
    if len(kept) > 1 << lg:
        limit, kept = kept[1 << lg], kept[: 1 << lg]
    return Theta(tuple(kept), limit)


def union(sketches: Iterable[Theta], lg: int) -> Theta:
    """The sketch of all values of some sketches."""
    found, limit = set[int](), NO_LIMIT
    for one in sketches:
        found |= set(one.hashes)
        limit = min(limit, one.limit)
    return trimmed(found, limit, lg)


def intersection(sketches: Sequence[Theta]) -> Theta:
    """The sketch of the values that all sketches have; of no sketch an empty one."""
    if not sketches or any(one.empty for one in sketches):
        return Theta()
    limit = min(one.limit for one in sketches)
    shared = set(sketches[0].hashes).intersection(*(one.hashes for one in sketches[1:]))
    return Theta(tuple(sorted(hash_ for hash_ in shared if hash_ < limit)), limit)


def difference(one: Theta, other: Theta) -> Theta:
    """The sketch of the values of ``one`` that ``other`` does not have."""
    if one.empty:
        return one
    limit, left_out = min(one.limit, other.limit), set(other.hashes)
    return Theta(tuple(hash_ for hash_ in one.hashes if hash_ < limit and hash_ not in left_out), limit)


# ------------------------------------------------------------------------------------------------------------- bytes


def to_bytes(sketch: Theta) -> bytes:
    """The bytes of a sketch.

    >>> to_bytes(sketch_of([1], 12)).hex()
    '01030300003acc9315f97dcbbd86a105'
    """
    flags, exact = READ_ONLY | COMPACT | ORDERED, sketch.limit == NO_LIMIT
    if sketch.empty:
        return struct.pack("<6BH", 1, 3, FAMILY, 0, 0, flags | EMPTY, 0)
    if not sketch.hashes:
        return struct.pack("<6BHIfQ", 3, 3, FAMILY, 0, 0, flags, SEED_HASH, 0, 1.0, sketch.limit)
    if len(sketch.hashes) == 1 and exact:
        return struct.pack("<6BHQ", 1, 3, FAMILY, 0, 0, flags | SINGLE, SEED_HASH, sketch.hashes[0])
    return _compressed(sketch, flags)


def _compressed(sketch: Theta, flags: int) -> bytes:
    steps = [hash_ - before for before, hash_ in zip((0, *sketch.hashes), sketch.hashes, strict=False)]
    width, count = max(steps).bit_length(), len(steps)
    size = (count.bit_length() + 7) // 8
    exact = sketch.limit == NO_LIMIT
    head = struct.pack("<6BH", 1 if exact else 2, 4, FAMILY, width, size, flags, SEED_HASH)
    packed = 0
    for step in steps:
        packed = packed << width | step
    bits = width * count
    length = (bits + 7) // 8
    body = (packed << 8 * length - bits).to_bytes(length, "big")
    return head + (b"" if exact else struct.pack("<Q", sketch.limit)) + count.to_bytes(size, "little") + body


def from_bytes(data: bytes) -> Theta:
    """The sketch with these bytes; an ArithmeticFault if they are none."""
    try:
        return _read(data)
    except (struct.error, IndexError, ValueError):
        raise ArithmeticFault("these bytes are no theta sketch") from None


def _read(data: bytes) -> Theta:
    longs, version, family, width, size, flags = struct.unpack_from("<6B", data)
    longs &= 0x3F
    if family != FAMILY or version not in (3, 4):
        raise ValueError("another kind of sketch")
    if flags & EMPTY:
        return Theta()
    if version == 4:
        return _decompressed(data, longs > 1, width, size)
    if longs == 1:
        return Theta(struct.unpack_from("<Q", data, 8))
    (count,) = struct.unpack_from("<I", data, 8)
    (limit,) = struct.unpack_from("<Q", data, 16) if longs > 2 else (NO_LIMIT,)
    return Theta(tuple(sorted(struct.unpack_from(f"<{count}Q", data, 8 * longs))), limit)


def _decompressed(data: bytes, limited: bool, width: int, size: int) -> Theta:
    place = 16 if limited else 8
    (limit,) = struct.unpack_from("<Q", data, 8) if limited else (NO_LIMIT,)
    count = int.from_bytes(data[place : place + size], "little")
    body = data[place + size :]
    if 8 * len(body) < width * count:
        raise ValueError("too few bytes")
    packed = int.from_bytes(body, "big") >> 8 * len(body) - width * count
    hashes, reached = [], 0
    for left in range(count - 1, -1, -1):
        reached += packed >> width * left & (1 << width) - 1
        hashes.append(reached)
    return Theta(tuple(hashes), limit)
