"""APPROX_COUNT_DISTINCT by HyperLogLog++, as Spark has it: over hashes of 64 bits, with dense registers alone.

A hash chooses a register by its first bits, and the register keeps the greatest number of zeros that begin the rest.
What is kept of a value is therefore the number of its register and that count (``hash_register``), so a group holds a
bounded number of entries however many values it has. A deleted value takes its entry with it only if no other value has
the same one, and then the register falls back to the next.
"""

from __future__ import annotations

import math
from bisect import bisect_left

from tidemill.algebra.aggregates.approximate.bias import MOST_BITS, corrections
from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.function import AggregateFunction, WeightedArguments
from tidemill.algebra.functions.text.hash_registers import RANK_BITS
from tidemill.model.types import BIGINT

NEIGHBOURS = 6
"""The number of measured biases that are averaged."""


def register_bits(relative_error: float) -> int:
    """The number of bits that choose a register, for a standard deviation of at most ``relative_error``.

    >>> register_bits(0.05), register_bits(0.39)
    (9, 4)
    """
    return math.ceil(2.0 * math.log(1.106 / relative_error) / math.log(2.0))


def _count(call: AggregateCall, members: WeightedArguments) -> int:
    (bits,) = call.parameters
    registers: dict[int, int] = {}
    for row, _ in members:
        place, rank = divmod(row[0], 1 << RANK_BITS)
        registers[place] = max(registers.get(place, 0), rank)
    return estimate(bits, registers)


def estimate(bits: int, registers: dict[int, int]) -> int:
    """The number of different values that fill these registers; those that are not there are empty.

    >>> estimate(9, {3: 1, 77: 2, 500: 1})
    3
    """
    size = 1 << bits
    empty = size - len(registers)
    inverse = float(empty) + sum(1.0 / (1 << rank) for rank in registers.values())
    raw = _constant(bits, size) / inverse
    if empty:
        by_empty = size * math.log(size / empty)
        if (bits <= MOST_BITS and by_empty <= corrections(bits).threshold) or raw <= 2.5 * size:
            return math.floor(by_empty + 0.5)
    unbiased = raw - _bias(bits, raw) if bits <= MOST_BITS and raw < 5.0 * size else raw
    return math.floor(unbiased + 0.5)


def _constant(bits: int, size: int) -> float:
    shares = {4: 0.673, 5: 0.697, 6: 0.709}
    return (shares[bits] if bits in shares else 0.7213 / (1.0 + 1.079 / size)) * size * size


def _bias(bits: int, raw: float) -> float:
    """The mean bias of the measured estimates that are nearest to ``raw``."""
    estimates, biases = corrections(bits).estimates, corrections(bits).biases
    low = max(bisect_left(estimates, raw) - NEIGHBOURS + 1, 0)
    high = min(low + NEIGHBOURS, len(estimates))
    while high < len(estimates) and (raw - estimates[high]) ** 2 < (raw - estimates[low]) ** 2:
        low, high = low + 1, high + 1
    total = 0.0
    for bias in biases[low:high]:
        total += bias
    return total / (high - low)


DISTINCT_COUNTS = (
    AggregateFunction("approx_count_distinct", lambda argument: BIGINT, _count, idempotent=True, empty=0),
)
