"""COUNT_MIN_SKETCH: rows of counters, of which each value adds to one in every row, in the bytes of Spark's sketch."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from itertools import islice

from tidemill.algebra.aggregates.approximate.java_random import java_ints
from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.function import AggregateFunction, WeightedArguments
from tidemill.algebra.functions.text.hashes import murmur3
from tidemill.model.types import BINARY

PRIME = 2**31 - 1


def _sketch(call: AggregateCall, members: WeightedArguments) -> bytes:
    error, confidence, seed = call.parameters
    width, depth = math.ceil(2 / error), math.ceil(-math.log1p(-confidence) / math.log(2))
    factors = list(islice(java_ints(seed), depth))
    table, total = [[0] * width for _ in range(depth)], 0
    for row, weight in members:
        if row[0] is not None:
            total += weight
            for counters, place in zip(table, _places(row[0], factors, width), strict=True):
                counters[place] += weight
    cells = [cell for counters in table for cell in counters]
    return struct.pack(f">iqii{depth}q{len(cells)}q", 1, total, depth, width, *factors, *cells)


def _places(value: int | str | bytes, factors: list[int], width: int) -> Iterator[int]:
    """The counter of each row for a value: whole numbers by multiplication, texts and bytes by two hashes."""
    if isinstance(value, int):
        for factor in factors:
            product = _signed(factor * value, 64)
            yield (_signed(product + (product >> 32), 64) & PRIME) % width
        return
    data = value.encode() if isinstance(value, str) else value
    first = murmur3("bytes", data, 0)
    second = murmur3("bytes", data, first)
    for row in range(len(factors)):
        yield abs(_signed(first + row * second, 32)) % width


def _signed(word: int, bits: int) -> int:
    word %= 1 << bits
    return word - (1 << bits) if word >> bits - 1 else word


COUNT_MIN = (AggregateFunction("count_min_sketch", lambda argument: BINARY, _sketch, sees_nulls=True, empty=b""),)
