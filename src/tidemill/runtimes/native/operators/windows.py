"""Window functions over parts: only the rows are computed again whose value can have changed.

Around each place at which an epoch has changed something lies a *stretch* of rows that look there (``sights``). Their
values are computed before and after the epoch, by the algebra's own functions over the rows that they look at; values
that build upon all rows before them start from the sums of these. So an event that comes last in its part costs
O(log n), and one that comes in the middle costs the rows whose values it changes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from tidemill.algebra.expressions.ordering import SortOrder
from tidemill.algebra.kernels.frames import FrameSpan, spans_of
from tidemill.algebra.kernels.windows import window_values
from tidemill.algebra.relational.windows import Frame, WindowCall
from tidemill.changes.zset import Row, ZSet
from tidemill.runtimes.native.operators.frame_reach import FrameReach, SortKeyBound
from tidemill.runtimes.native.operators.partitions import OutputRowOf, PartitionOutput
from tidemill.runtimes.native.state.maps import RowMap
from tidemill.runtimes.native.state.ordered_groups import (
    AddendsOf,
    ChangedSortKey,
    GroupVersion,
    OrderedGroup,
    OrderedGroupIndex,
    SortKeyOf,
)
from tidemill.runtimes.native.state.ordered_sums import WeightAndSums

ArgumentsOf = Callable[[Row], Row | None]
"""What a window function sees of a row: its arguments, or None where its FILTER leaves the row out."""

SortKeyRange = tuple[SortKeyBound, SortKeyBound]
"""The first and the last place of some rows; None is the beginning or the end of the part."""


@dataclass(frozen=True, slots=True)
class FrameRows:
    """Some rows of a part, one after the other, and the sums over all that stand before them."""

    side: GroupVersion
    rows: list[Row]
    before: WeightAndSums


class WindowFunction(ABC):
    """A window function at work: how far it sees, and its values for the rows of an excerpt."""

    def __init__(self, sight: FrameReach) -> None:
        self.sight = sight

    @abstractmethod
    def values(self, excerpt: FrameRows) -> list[Any]:
        """The value for each row. Those are right that see nothing beyond the excerpt, unless it is summed up."""


@dataclass(frozen=True, slots=True)
class PartitionOrder:
    """What the rows of a part are ordered by, and the function that gives the values of its terms in a row."""

    order: Sequence[SortOrder]
    order_values: Callable[[Row], Row]

    def values(self, rows: Sequence[Row]) -> list[Row]:
        """The values of the terms in some rows."""
        return [self.order_values(row) for row in rows]


class FrameFunction(WindowFunction):
    """A function whose values come from the rows of the excerpt alone."""

    def __init__(self, sight: FrameReach, call: WindowCall, looks: ArgumentsOf, ordering: PartitionOrder) -> None:
        super().__init__(sight)
        self._call = call
        self._looks = looks
        self._ordering = ordering

    def values(self, excerpt: FrameRows) -> list[Any]:
        arguments = [self._looks(row) for row in excerpt.rows]
        return window_values(self._call, arguments, self._ordering.values(excerpt.rows), self._ordering.order)


class RankFunction(FrameFunction):
    """ROW_NUMBER and RANK: the place among the rows of the excerpt, and how many come before them."""

    def values(self, excerpt: FrameRows) -> list[Any]:
        return [excerpt.before[0] + value for value in super().values(excerpt)]


class FirstValueFunction(WindowFunction):
    """FIRST_VALUE of a frame that begins where the part does."""

    def __init__(self, sight: FrameReach, looks: ArgumentsOf) -> None:
        super().__init__(sight)
        self._looks = looks

    def values(self, excerpt: FrameRows) -> list[Any]:
        first = next(excerpt.side.ascending(), None)
        seen = None if first is None else self._looks(first[0][-1])
        return [None if seen is None else seen[0]] * len(excerpt.rows)


class SumFunction(WindowFunction):
    """An aggregate that comes from sums, over any frame: the sums up to its end less those up to its start.

    ``amounts_of`` gives what a row adds to the sums of all functions, and ``zeros`` are the weight and the sums of
    nothing. The ``numbers`` of them are this one's, and ``total`` makes its value of these.
    """

    def __init__(
        self,
        sight: FrameReach,
        frame: Frame,
        ordering: PartitionOrder,
        amounts_of: AddendsOf,
        zeros: WeightAndSums,
        numbers: Sequence[int],
        total: Callable[..., Any],
    ) -> None:
        super().__init__(sight)
        self._frame = frame
        self._ordering = ordering
        self._amounts_of = amounts_of
        self._zeros = zeros
        self._numbers = (0, *numbers)
        self._total = total

    def values(self, excerpt: FrameRows) -> list[Any]:
        initial = excerpt.before if self.sight.running else self._zeros
        moves = ((1, *self._amounts_of(row)) for row in excerpt.rows)
        sums = list(accumulate(moves, _plus, initial=initial))
        found: dict[FrameSpan, Any] = {}
        spans = spans_of(self._frame, self._ordering.values(excerpt.rows), self._ordering.order)
        for span in spans:
            if span not in found:
                found[span] = self._value(self._zeros if self._frame.start is None else sums[span[0]], sums[span[1]])
        return [found[span] for span in spans]

    def _value(self, start: WeightAndSums, end: WeightAndSums) -> Any:
        return self._total(*[end[number] - start[number] for number in self._numbers])


def _plus(sums: WeightAndSums, move: WeightAndSums) -> WeightAndSums:
    return tuple([one + other for one, other in zip(sums, move, strict=True)])


class WindowOutput(PartitionOutput):
    """Every row of a part, followed by what window functions say of it."""

    def __init__(
        self,
        source: str,
        width: int,
        place_of: SortKeyOf,
        shown: OutputRowOf,
        readings: Sequence[WindowFunction],
        amounts_of: AddendsOf | None = None,
        zeros: WeightAndSums = (),
    ) -> None:
        super().__init__(source, width, place_of, shown)
        self._readings = readings
        self._sights = list(dict.fromkeys(reading.sight for reading in readings))
        self._amounts_of = amounts_of
        self._zeros = zeros

    def _piles(self, held: RowMap) -> OrderedGroupIndex:
        return held.ordered_groups(self._width, self._place_of, self._amounts_of, self._zeros)

    def _change(self, pile: OrderedGroup, net: ZSet) -> None:
        for stretch in merge_ranges(self._affected_ranges(pile)):
            self._add(pile.before, stretch, -1, net)
            self._add(pile.now, stretch, 1, net)

    def _take(self, part: GroupVersion, times: int, net: ZSet) -> None:
        self._add(part, (None, None), times, net)

    def _affected_ranges(self, pile: OrderedGroup) -> Iterator[SortKeyRange]:
        """The rows around changed places whose values may be others now."""
        running = any(sight.running for sight in self._sights)
        moved: WeightAndSums = (0, *self._zeros)
        runs = list(_runs(pile))
        for run, following in zip(runs, [*(run[0][0] for run in runs[1:]), None], strict=True):
            for _, old, new in run:
                moved = tuple([m + n - o for m, o, n in zip(moved, old, new, strict=True)])
            first, last = run[0][0], run[-1][0]
            low = _first(sight.first_reaching(side, first) for sight in self._sights for side in _sides(pile))
            # The first place of a part is looked at from farther away than those behind it.
            ends = [(side, place) for side in _sides(pile) for place in (first, last)]
            high = _last(sight.last_reaching(side, place) for sight in self._sights for side, place in ends)
            yield low, _last((high, following)) if running and any(moved) else high

    def _add(self, side: GroupVersion, stretch: SortKeyRange, times: int, net: ZSet) -> None:
        """Add to ``net`` the rows of a stretch with their values, so many times."""
        excerpt, first, count = self._excerpt(side, stretch)
        columns = [reading.values(excerpt) for reading in self._readings] if count else []
        for number in range(first, first + count):
            net.add(excerpt.rows[number] + tuple([column[number] for column in columns]), times)

    def _excerpt(self, side: GroupVersion, stretch: SortKeyRange) -> tuple[FrameRows, int, int]:
        """The rows that those of a stretch look at, where among them the stretch begins, and how many rows it has."""
        low, high = stretch
        start = low if low is None else _first(sight.first_reached(side, low) for sight in self._sights)
        end = high if high is None else _last(sight.last_reached(side, high) for sight in self._sights)
        rows: list[Row] = []
        first = count = 0
        for place, weight in side.ascending(start):
            if end is not None and place > end:
                break
            rows += [place[-1]] * weight
            if low is not None and place < low:
                first += weight
            elif high is None or place <= high:
                count += weight
        before = (0, *self._zeros) if start is None else side.sums(start)
        return FrameRows(side, rows, before), first, count


def merge_ranges(stretches: Iterable[SortKeyRange]) -> Iterator[SortKeyRange]:
    """Stretches of which no two have a row in common.

    >>> list(merge_ranges([((1,), (3,)), ((2,), (4,)), ((6,), None), ((7,), (8,))]))
    [((1,), (4,)), ((6,), None)]
    """
    held: SortKeyRange | None = None
    for low, high in sorted(stretches, key=lambda stretch: (stretch[0] is not None, stretch[0] or ())):
        if held is not None and (held[1] is None or low is None or low <= held[1]):
            held = held[0], _last((held[1], high))
            continue
        if held is not None:
            yield held
        held = low, high
    if held is not None:
        yield held


def _runs(pile: OrderedGroup) -> Iterator[list[ChangedSortKey]]:
    """The changed places, those together that have no other entry between them: many rows often come side by side."""
    run: list[ChangedSortKey] = []
    for changed in pile.changed:
        if run:
            entries = (place for place, _ in pile.now.ascending(run[-1][0]) if place != run[-1][0])
            following = next(entries, None)
            if following is not None and following < changed[0]:
                yield run
                run = []
        run.append(changed)
    yield run


def _sides(pile: OrderedGroup) -> tuple[GroupVersion, GroupVersion]:
    return pile.before, pile.now


def _first(bounds: Iterable[SortKeyBound]) -> SortKeyBound:
    """The first of some places; None is the beginning."""
    found = list(bounds)
    return None if None in found else min(bound for bound in found if bound is not None)


def _last(bounds: Iterable[SortKeyBound]) -> SortKeyBound:
    """The last of some places; None is the end."""
    found = list(bounds)
    return None if None in found else max(bound for bound in found if bound is not None)
