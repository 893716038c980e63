"""Bitmaps of Spark: numbers spread over buckets of 32,768 bits each, and the bits of one bucket as bytes."""

from __future__ import annotations

from tidemill.algebra.functions.function import Function, StrictParameter, takes
from tidemill.model import types as t

BITS = 8 * 4096
"""The bits of a bucket."""


def bucket_number(value: int) -> int:
    """The bucket of a number: from 1 on for positive ones, from 0 down for others.

    >>> bucket_number(1), bucket_number(32769), bucket_number(0), bucket_number(-32768)
    (1, 2, 0, -1)
    """
    return 1 + (value - 1) // BITS if value > 0 else -(-value // BITS)


def bit_position(value: int) -> int:
    """The bit of a number within its bucket.

    >>> bit_position(1), bit_position(32769), bit_position(-5)
    (0, 0, 5)
    """
    return (value - 1) % BITS if value > 0 else -value % BITS


def bit_count(bitmap: bytes) -> int:
    """The number of bits that are set."""
    return int.from_bytes(bitmap).bit_count()


BITMAPS = (
    Function(
        "bitmap_bit_position",
        takes(t.BIGINT, gives=t.BIGINT),
        bit_position,
        "bitmap_bit_position({0})",
        total=True,
    ),
    Function(
        "bitmap_bucket_number",
        takes(t.BIGINT, gives=t.BIGINT),
        bucket_number,
        "bitmap_bucket_number({0})",
        total=True,
    ),
    Function(
        "bitmap_count",
        takes(StrictParameter(t.BINARY, null=False), gives=t.BIGINT),
        bit_count,
        "bitmap_count({0})",
        total=True,
    ),
)
