"""Histograms of durations: a mean hides what a few wait for."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

__all__ = ["BOUNDS", "Latencies"]

BOUNDS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""Seconds up to which a range goes; the last one has no end."""


class Latencies:
    """Counts of durations by range, and their sum.

    >>> found = Latencies()
    >>> for seconds in (0.0001, 0.2, 40):
    ...     found.add(seconds)
    >>> [count for _, count in found.cumulative()]
    [1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 3]
    """

    __slots__ = ("counts", "seconds")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.seconds = 0.0

    def add(self, seconds: float) -> None:
        """Count one."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds

    def cumulative(self) -> Iterator[tuple[float, int]]:
        """For each bound, infinity the last, how many did not take longer."""
        return zip((*BOUNDS, float("inf")), accumulate(self.counts), strict=True)
