"""APPROX_PERCENTILE by the quantile summaries of Greenwald and Khanna, as Spark keeps them.

A summary keeps some of the values in order. Which ones depends on how many values there are and on the accuracy, but
not on the values: a percentile is therefore the value at a position of the ordered multiset that follows from the
count, and is found there like an exact one. While twice the count is below the accuracy it keeps everything.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.function import AggregateFunction, WeightedArguments, same_type
from tidemill.algebra.aggregates.order_statistics import nth_value
from tidemill.algebra.aggregates.sums import count_rows
from tidemill.algebra.functions.comparison import order_key
from tidemill.model.array_tree import ArrayTree

BUFFER = 50_000
"""The number of values that are taken into a summary together."""

COMPRESSED_FROM = 10_000
"""The number of kept values from which a summary is compressed after each buffer."""


@dataclass(frozen=True, slots=True)
class KeptValue:
    """A value of a summary: its position in the order, ``gap`` values up to it, and the error of its rank."""

    position: int
    gap: int
    error: int


@dataclass(frozen=True, slots=True)
class Summary:
    """The kept values of a multiset of ``count`` values, of which neighbours are at most so far apart."""

    kept: tuple[KeptValue, ...]
    count: int
    relative_error: float

    def with_buffer(self, size: int) -> Summary:
        """The summary after ``size`` more values, none of which is less than those before."""
        added, count = list(self.kept), self.count
        for place in range(size):
            count += 1
            edge = not added or place == size - 1
            error = 0 if edge else math.floor(2 * self.relative_error * count)
            added.append(KeptValue(count - 1, 1, error))
        return Summary(tuple(added), count, self.relative_error)

    def compressed(self) -> Summary:
        """The summary without values whose neighbour to the right stands for them within the error."""
        limit = 2 * self.relative_error * self.count
        head, found = self.kept[-1], list[KeptValue]()
        for value in reversed(self.kept[1:-1]):
            if value.gap + head.gap + head.error < limit:
                head = KeptValue(head.position, head.gap + value.gap, head.error)
            else:
                found.append(head)
                head = value
        found.append(head)
        if len(self.kept) > 1:
            found.append(self.kept[0])
        return Summary(tuple(reversed(found)), self.count, self.relative_error)

    def positions(self, shares: Sequence[float]) -> list[int]:
        """The position of the value at each share of the count."""
        allowed = max(value.error + value.gap for value in self.kept) // 2
        found, place, reached = [0] * len(shares), 0, self.kept[0].gap
        for share, asked in sorted((share, asked) for asked, share in enumerate(shares)):
            if share <= self.relative_error or len(self.kept) == 1:
                found[asked] = self.kept[0].position
            elif share >= 1 - self.relative_error:
                found[asked] = self.kept[-1].position
            else:
                place, reached = self._search(place, reached, allowed, math.ceil(share * self.count))
                found[asked] = self.kept[place].position
        return found

    def _search(self, place: int, reached: int, allowed: int, rank: int) -> tuple[int, int]:
        """The first kept value from ``place`` on whose rank may be ``rank``, and the least rank that it may have."""
        while place < len(self.kept) - 1:
            if reached + self.kept[place].error - allowed <= rank <= reached + allowed:
                return place, reached
            place += 1
            reached += self.kept[place].gap
        return place, 0


@lru_cache(maxsize=256)
def summary(count: int, accuracy: int) -> Summary:
    """The summary of so many values in ascending order.

    >>> [value.position for value in summary(20, 5).kept]
    [0, 3, 7, 10, 12, 19]
    """
    found = Summary((), 0, 1 / accuracy)
    for start in range(0, count, BUFFER):
        size = min(BUFFER, count - start)
        found = found.with_buffer(size)
        if size == BUFFER and len(found.kept) >= COMPRESSED_FROM:
            found = found.compressed()
    return found.compressed()


@lru_cache(maxsize=4096)
def quantile_positions(count: int, accuracy: int, shares: tuple[float, ...]) -> tuple[int, ...]:
    """The position of each share among so many values in ascending order, counted from 0."""
    if 2 * count < accuracy:
        return tuple(_exact(count, accuracy, share) for share in shares)
    return tuple(summary(count, accuracy).positions(shares))


def _exact(count: int, accuracy: int, share: float) -> int:
    """The position where the summary keeps everything."""
    if share <= 1 / accuracy:
        return 0
    return count - 1 if share >= 1 - 1 / accuracy else math.ceil(share * count) - 1


def _shares(call: AggregateCall) -> tuple[float, ...]:
    share, _ = call.parameters
    return tuple(share) if isinstance(share, tuple | ArrayTree) else (share,)


def _positions(call: AggregateCall, count: int) -> set[int]:
    return set(quantile_positions(count, call.parameters[1], _shares(call)))


def _quantiles(call: AggregateCall, members: WeightedArguments) -> Any:
    share, accuracy = call.parameters
    ordered = sorted(members, key=lambda member: order_key(member[0][0]))
    places = quantile_positions(count_rows(call, ordered), accuracy, _shares(call))
    found = tuple(_through_double(nth_value(ordered, place)) for place in places)
    return found if isinstance(share, tuple | ArrayTree) else found[0]


def _through_double(value: Any) -> Any:
    """A value that was kept as a DOUBLE: whole numbers beyond 2 to the 53rd lose their last digits."""
    return int(float(value)) if type(value) is int else value


QUANTILES = (AggregateFunction("approx_percentile", same_type, _quantiles, positions=_positions),)
