"""The numbers of ``java.util.Random``, a linear congruential generator of 48 bits, which Spark's algorithms draw."""

from __future__ import annotations

from collections.abc import Iterator

STATE_BITS = 48
INT_BOUND = 2**31 - 1


def _states(seed: int) -> Iterator[int]:
    state = (seed ^ 0x5DEECE66D) % (1 << STATE_BITS)
    while True:
        state = (state * 0x5DEECE66D + 0xB) % (1 << STATE_BITS)
        yield state


def java_doubles(seed: int) -> Iterator[float]:
    """Numbers between 0 and 1.

    >>> round(next(java_doubles(42)), 6)
    0.727564
    """
    states = _states(seed)
    for state in states:
        yield ((state >> STATE_BITS - 26 << 27) + (next(states) >> STATE_BITS - 27)) / (1 << 53)


def java_ints(seed: int) -> Iterator[int]:
    """Whole numbers from 0 on, below 2 to the 31st minus 1.

    >>> next(java_ints(1))
    1569548985
    """
    for state in _states(seed):
        bits = state >> STATE_BITS - 31
        if bits < INT_BOUND:
            yield bits
