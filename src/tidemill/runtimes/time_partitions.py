"""Which partitions of a stage must be made anew in an epoch, and in which order (see ``program.stages``).

That a partition reads another one is arithmetic on numbers (``PartitionSlice.readers``), so what is not touched is not
looked at. One that comes out as it was ends the matter: nothing follows from it.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from itertools import chain, islice

from tidemill.algebra.evaluate import too_many_partitions
from tidemill.algebra.relational.time_partitions import MOST_PARTITIONS, PartitionSlice
from tidemill.program.stages import TimePartitionEmission

TouchedPartitions = Mapping[str, Set[int]]
"""For each feed the numbers of its partitions in which something has changed; one that has no partitions is in 0."""


RecomputePartitions = Callable[[Sequence[int]], bool]
"""Makes partitions anew that do not read each other, and says whether one is another now. One that is no more goes."""

PARTITIONS_PER_BATCH = 20
"""So many partitions are made together where none reads another one."""


def recompute_partitions(
    layers: TimePartitionEmission, before: range, now: range, touched: TouchedPartitions, make: RecomputePartitions
) -> None:
    """Make every partition that must be, in the order of time.

    ``before`` are the partitions that there were, ``now`` those that there are.
    """
    # Those that were there before may be many: a view that forgets what it was made of can go on for ever.
    both = range(max(before.start, now.start), min(before.stop, now.stop))
    if len(now) - len(both) > MOST_PARTITIONS:
        raise too_many_partitions(now[0], now[-1])
    waiting = _PendingPartitions(before, now)
    for first, last in chain(_readers(layers, touched), _moved(before, now)):
        waiting.add(first, last)
    own = [layer for layer in layers.layers if layers.map_of(layer) == layers.kept]
    numbers = iter(waiting)
    while made := list(islice(numbers, 1 if own else PARTITIONS_PER_BATCH)):
        if make(made):
            for layer in own:
                waiting.add(*layer.readers(made[0]))


def partitions_read(layers: TimePartitionEmission, layer: PartitionSlice, number: int, now: range) -> range:
    """The partitions that a layer has beside partition ``number``, as far as there can be rows in them."""
    every = next((feed.every for feed in layers.feeds if feed.name == layer.feed), layers.every)
    low, high = -(-now[0] * layers.every // every), ((now[-1] + 1) * layers.every - 1) // every
    low = low if layer.low is None else max(low, layer.low.at(number))
    high = high if layer.high is None else min(high, layer.high.at(number))
    return range(low, high + 1)


def _readers(layers: TimePartitionEmission, touched: TouchedPartitions) -> Iterator[tuple[float, float]]:
    """The partitions that read a partition of a feed in which something has changed."""
    for feed in layers.feeds:
        numbers = touched.get(feed.name, frozenset())
        if numbers and not feed.every:
            yield -math.inf, math.inf
        else:
            read = [layer for layer in layers.layers if layer.feed == feed.name]
            yield from (layer.readers(number) for number in numbers for layer in read)


def _moved(before: range, now: range) -> Iterator[tuple[int, int]]:
    """The partitions that are new or no more, and those that were the first or are so now: these are made otherwise.

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


class _PendingPartitions:
    """The numbers of partitions that wait to be made, given out in order; more may come in meanwhile, for later ones.

    They are held as ranges, of which one may be all later partitions, so what waits is never written out.

    >>> waiting = _PendingPartitions(range(0), range(1, 6))
    >>> waiting.add(4, 9); waiting.add(1, 1); list(waiting)
    [1, 4, 5]
    """

    def __init__(self, *known: range) -> None:
        self._known = known
        self._ranges: list[tuple[int, int]] = []
        self._next: float = -math.inf

    def add(self, first: float, last: float) -> None:
        """Let the numbers from ``first`` to ``last`` wait, as far as they are known and not past."""
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
