"""BITMAP_CONSTRUCT_AGG, BITMAP_OR_AGG and BITMAP_AND_AGG: bitmaps of 4096 bytes, over the multiset of a group."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from operator import and_, or_

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.function import AggregateFunction, WeightedArguments
from tidemill.algebra.aggregates.parameters import bitmap, bitmap_position
from tidemill.model.errors import ArithmeticFault
from tidemill.model.types import BIGINT, BINARY, Type

BITMAP_BYTES = 4096
BITMAP_BITS = 8 * BITMAP_BYTES


def _constructed(call: AggregateCall, members: WeightedArguments) -> bytes:
    """A bitmap with a bit at each position; the lowest bit of the first byte is at 0."""
    found = bytearray(BITMAP_BYTES)
    for row, _ in members:
        if not 0 <= row[0] < BITMAP_BITS:
            raise ArithmeticFault(f"a bitmap has positions from 0 to {BITMAP_BITS - 1}, not {row[0]}")
        found[row[0] // 8] |= 1 << row[0] % 8
    return bytes(found)


def _combined(
    combine: Callable[[int, int], int], start: bytes, call: AggregateCall, members: WeightedArguments
) -> bytes:
    """All bitmaps combined bit by bit; of longer ones the first 4096 bytes, shorter ones end in zeros."""
    numbers = (int.from_bytes(_sized(row[0]), "little") for row, _ in members)
    return reduce(combine, numbers, int.from_bytes(start, "little")).to_bytes(BITMAP_BYTES, "little")


def _sized(value: bytes) -> bytes:
    return value[:BITMAP_BYTES].ljust(BITMAP_BYTES, b"\0")


def _bitmap_type(argument: Type | None) -> Type | None:
    return BINARY if argument in (BIGINT, BINARY) else None


NO_BITS = bytes(BITMAP_BYTES)
ALL_BITS = b"\xff" * BITMAP_BYTES

_declared = partial(AggregateFunction, infer=_bitmap_type, idempotent=True)

BITMAPS = (
    _declared(
        "bitmap_construct_agg",
        kernel=_constructed,
        operands="positions",
        parameters=(bitmap_position,),
        empty=NO_BITS,
        spark="bitmap_construct_agg({0}) {there}",
    ),
    _declared(
        "bitmap_or_agg",
        kernel=partial(_combined, or_, NO_BITS),
        operands="bitmaps",
        parameters=(bitmap,),
        empty=NO_BITS,
        spark="bitmap_or_agg({0}) {there}",
    ),
    _declared(
        "bitmap_and_agg",
        kernel=partial(_combined, and_, ALL_BITS),
        operands="bitmaps",
        parameters=(bitmap,),
        empty=ALL_BITS,
        spark="bitmap_and_agg({0}) {there}",
    ),
)
