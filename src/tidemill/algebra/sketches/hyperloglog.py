"""HyperLogLog sketches of Apache DataSketches, of the kind with eight bits for a register.

The library does the arithmetic. Up to a few hundred values a sketch holds all that it has seen, and its estimate is
their number; beyond that it depends on the order of arrival, in Spark as well, which here is ascending.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

from tidemill.algebra.sketches.murmur import hashed_bytes, murmur128
from tidemill.model.errors import ArithmeticFault, SetupError

DEFAULT_LG, LEAST_LG, MOST_LG = 12, 4, 21
"""The binary logarithm of the number of registers: the default, and its bounds."""


def _library() -> Any:
    try:
        import datasketches
    except ImportError:
        raise SetupError("HLL sketches need the package datasketches", hint="pip install datasketches") from None
    return datasketches


def sketch_of(values: Iterable[object], lg: int) -> bytes:
    """The bytes of the sketch of values; empty texts and bytes are left out.

    >>> estimate(sketch_of([1, 2, 2, 3], 12))
    3
    """
    library = _library()
    sketch = library.hll_sketch(lg, library.tgt_hll_type.HLL_8)
    foreign = [value for value in values if not _taken(sketch, value)]
    if not foreign:
        return bytes(sketch.serialize_updatable())
    both = library.hll_union(lg)
    both.update(sketch)
    for value in foreign:
        both.update(library.hll_sketch.deserialize(_single(value, lg)))
    return bytes(both.get_result(library.tgt_hll_type.HLL_8).serialize_updatable())


def _taken(sketch: Any, value: object) -> bool:
    """Add a value that the library takes as it is, or none at all; bytes it does not take."""
    if isinstance(value, bytes) and value:
        return False
    if value not in ("", b""):
        sketch.update(value)
    return True


def _single(value: object, lg: int) -> bytes:
    """The bytes of a sketch of one value: its place among all, and how many zeros begin the rest of its hash."""
    low, high = murmur128(hashed_bytes(value))
    zeros = 64 - high.bit_length()
    coupon = (min(zeros, 62) + 1) << 26 | low & (1 << 26) - 1
    return struct.pack("<8BI28x", 2, 1, 7, lg, 3, 0, 1, 8, coupon)


def read(data: bytes) -> Any:
    """The sketch with these bytes; an ArithmeticFault if they are none."""
    try:
        return _library().hll_sketch.deserialize(data)
    except (ValueError, IndexError, RuntimeError):
        raise ArithmeticFault("these bytes are no HLL sketch") from None


def estimate(data: bytes) -> int:
    """The number of different values, rounded."""
    return int(read(data).get_estimate() + 0.5)


def union(sketches: Iterable[bytes], lg: int) -> bytes:
    """The bytes of the sketch of all values of some sketches, with so many registers."""
    library = _library()
    both = library.hll_union(lg)
    for data in sketches:
        both.update(read(data))
    return bytes(both.get_result(library.tgt_hll_type.HLL_8).serialize_updatable())
