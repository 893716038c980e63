"""The time partitions of a stage that must be recomputed in an epoch, and their order (see ``program.stages``).

Which partitions read another one follows from partition numbers alone (``PartitionSlice.readers``), so untouched ones
are never visited. A partition whose result is unchanged does not propagate.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from itertools import islice

from tidemill.algebra.relational.time_partitions import (
    MOST_PARTITIONS,
    PartitionSlice,
    last_beginning,
    too_many_partitions,
)
from tidemill.program.stages import TimePartitionEmission

TouchedPartitions = Mapping[str, Set[int]]
"""For each feed the numbers of its changed partitions; a feed without partitions has number 0."""


RecomputePartitions = Callable[[Sequence[int]], bool]
"""Recomputes partitions that do not read each other, and returns true if one has changed; empty ones are removed."""

PARTITIONS_PER_BATCH = 20
"""Number of partitions that are computed together if none reads another one."""


def recompute_partitions(
    emission: TimePartitionEmission, before: range, now: range, touched: TouchedPartitions, make: RecomputePartitions
) -> None:
    """Recompute every affected partition, in order of time.

    ``before`` are the partitions that existed before the epoch, ``now`` those that exist after it. Where rows lie far
    apart, the partitions in the gap between them read nothing: if the first of these has no rows, none of them has.
    """
    waiting = _PendingPartitions(before, now)
    gaps: dict[int, tuple[int, int]] = {}
    for first, last in _readers(emission, touched):
        waiting.add(first, last)
    for first, last in _moved(before, now):
        if last - first < MOST_PARTITIONS:
            waiting.add(first, last)
            continue
        for begin, end, reads in _split_by_reads(emission, touched, before, now, (first, last)):
            if not reads:
                gaps[begin] = begin + 1, end
            waiting.add(begin, end if reads else begin)
    _require_limit(before, now, gaps.values())
    own = [slice_ for slice_ in emission.slices if emission.map_of(slice_) == emission.kept]
    numbers = iter(waiting)
    while made := list(islice(numbers, 1 if own or gaps else PARTITIONS_PER_BATCH)):
        if not make(made):
            continue
        for slice_ in own:
            waiting.add(*slice_.readers(made[0]))
        if made[0] in gaps:
            if made[0] in now:
                raise too_many_partitions(now[0], now[-1])
            waiting.add(*gaps[made[0]])


def _require_limit(before: range, now: range, gaps: Collection[tuple[int, int]]) -> None:
    """Refuse more new partitions than there can be, those in gaps left out."""
    # Only new ones are limited: a view that forgets its inputs can accumulate any number of partitions.
    both = range(max(before.start, now.start), min(before.stop, now.stop))
    skipped = sum(last - first + 1 for first, last in gaps if first in now or last in now)
    if len(now) - len(both) - skipped > MOST_PARTITIONS:
        raise too_many_partitions(now[0], now[-1])


def partitions_read(emission: TimePartitionEmission, slice_: PartitionSlice, number: int, now: range) -> range:
    """The partitions that a slice reads around partition ``number``, as far as there can be rows in them."""
    every = next((feed.every for feed in emission.feeds if feed.name == slice_.feed), emission.every)
    low, high = -(-now[0] * emission.every // every), last_beginning(now[-1], emission.every, every)
    low = low if slice_.low is None else max(low, slice_.low.at(number))
    high = high if slice_.high is None else min(high, slice_.high.at(number))
    return range(low, high + 1)


def _readers(emission: TimePartitionEmission, touched: TouchedPartitions) -> Iterator[tuple[float, float]]:
    """The partitions that read a changed partition of a feed."""
    for feed in emission.feeds:
        numbers = touched.get(feed.name, frozenset())
        if numbers and not feed.every:
            yield -math.inf, math.inf
        else:
            read = [slice_ for slice_ in emission.slices if slice_.feed == feed.name]
            yield from (slice_.readers(number) for number in numbers for slice_ in read)


def _moved(before: range, now: range) -> Iterator[tuple[int, int]]:
    """The partitions that are new or gone, and those that were or are the first: the first is computed differently.

    >>> list(_moved(range(3, 9), range(2, 10))), list(_moved(range(3, 9), range(3, 9)))
    ([(2, 3), (9, 9)], [])
    """
    if not before or not now or before[-1] < now[0] or now[-1] < before[0]:
        yield from ((numbers[0], numbers[-1]) for numbers in (before, now) if numbers)
        return
    if before[0] != now[0]:
        yield min(before[0], now[0]), max(before[0], now[0])
    if before[-1] != now[-1]:
        yield min(before[-1], now[-1]) + 1, max(before[-1], now[-1])


def _split_by_reads(
    emission: TimePartitionEmission,
    touched: TouchedPartitions,
    before: range,
    now: range,
    stretch: tuple[int, int],
) -> Iterator[tuple[int, int, bool]]:
    """Pieces of a stretch of partitions that are new or gone: those that may read rows, and the gaps between them.

    Rows are in feed partitions that are touched, or lie before all that is new or gone at the end. So the others are
    read by touched ones' readers, or by the partitions that follow as far as their slices reach back.
    """
    at, last = stretch
    ends = (at, at), (last, last)
    for begin, end in sorted((*ends, *_readers(emission, touched), *_looking_back(emission, before, now))):
        low, high = max(begin, at), min(end, last)
        if low > high:
            continue
        if low > at:
            yield at, int(low) - 1, False
        yield int(low), int(high), True
        at = int(high) + 1


def _looking_back(emission: TimePartitionEmission, before: range, now: range) -> Iterator[tuple[float, float]]:
    """The partitions after the last one that exists before and after the epoch, that read rows up to there."""
    if not all(feed.every for feed in emission.feeds):
        yield -math.inf, math.inf
    elif before and now:
        last = min(before[-1], now[-1])
        for feed in emission.feeds:
            place = last_beginning(last, emission.every, feed.every)
            for slice_ in emission.slices:
                if slice_.feed == feed.name:
                    yield last + 1, slice_.readers(place)[1]


class _PendingPartitions:
    """The partitions to be recomputed, in order; later ones may be added meanwhile.

    They are stored as ranges, which may be unbounded, so pending partitions are never enumerated.

    >>> waiting = _PendingPartitions(range(0), range(1, 6))
    >>> waiting.add(4, 9); waiting.add(1, 1); list(waiting)
    [1, 4, 5]
    """

    def __init__(self, *known: range) -> None:
        self._known = known
        self._ranges: list[tuple[int, int]] = []
        self._next: float = -math.inf

    def add(self, first: float, last: float) -> None:
        """Schedule the partitions from ``first`` to ``last``, as far as they exist and are not past."""
        for known in self._known:
            if known:
                low, high = max(first, known[0], self._next), min(last, known[-1])
                if low <= high:
                    heapq.heappush(self._ranges, (int(low), int(high)))

    def __iter__(self) -> Iterator[int]:
        while self._ranges:
            first, last = heapq.heappop(self._ranges)
            number = int(max(first, self._next))
            if number > last:
                continue
            self._next = number + 1
            if number < last:
                heapq.heappush(self._ranges, (number + 1, last))
            yield number
