"""Window functions over partitions: only rows whose value can have changed are recomputed.

Around each change of an epoch lies a *range* of rows whose frames reach it (``frame_reach``). Their values are computed
before and after the epoch, by the algebra's own functions over the rows that they reach; running values start from the
sums of all rows before. So an event at the end of its partition costs O(log n), and one in the middle costs the rows
whose values it changes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice, takewhile
from typing import Any

from tidemill.algebra.expressions.ordering import SortOrder
from tidemill.algebra.kernels.frames import FrameSpan, spans_of
from tidemill.algebra.kernels.windows import frame_value, window_values
from tidemill.algebra.relational.windows import Frame, WindowCall
from tidemill.changes.zset import Row, ZSet
from tidemill.runtimes.native.operators.frame_reach import FrameReach, SortKeyBound
from tidemill.runtimes.native.operators.frame_sums import FrameSums, RangeFrameSums, rows_between
from tidemill.runtimes.native.operators.partitions import OutputRowOf, PartitionOutput
from tidemill.runtimes.native.state.ordered_groups import (
    AddendsOf,
    ChangedSortKey,
    GroupVersion,
    OrderedGroup,
    OrderedGroupIndex,
    SortKey,
    SortKeyOf,
)
from tidemill.runtimes.native.state.ordered_sums import WeightAndSums
from tidemill.runtimes.native.state.row_map import RowMap

ArgumentsOf = Callable[[Row], Row | None]
"""The arguments of a window function in a row; None if its FILTER excludes the row."""

WeightedEntries = list[tuple[SortKey, int]]
"""Some entries of a group in order, with their weights."""

SortKeyRange = tuple[SortKeyBound, SortKeyBound]
"""The first and the last sort key of some rows; None is the beginning or the end of the partition."""


LOOKUP_ROWS = 32
"""Row count up to which the sums of frames are looked up one by one."""

READ_FRAMES = 3
"""Row count up to which the frames of functions that are no sums are read one by one."""

LOOKUP_FACTOR = 8
"""Length of a frame, as a multiple of the rows that have changed, from which its sums are looked up."""


@dataclass(frozen=True, slots=True)
class FrameRows:
    """Consecutive rows of a partition, and the sums over all rows before them."""

    side: GroupVersion
    rows: list[Row]
    before: WeightAndSums


class WindowFunction(ABC):
    """A window function: how far it reaches, and its values for the rows of an excerpt."""

    def __init__(self, reach: FrameReach) -> None:
        self.reach = reach

    @abstractmethod
    def values(self, excerpt: FrameRows) -> list[Any]:
        """The value for each row; it is correct if the row reaches nothing outside the excerpt except by its sums."""


class LookupFunction(WindowFunction):
    """A window function that, with a ``lookup``, finds the value of a row without the values of those around it."""

    most_looked_up = LOOKUP_ROWS
    """The number of rows whose values are looked up at most."""

    def __init__(self, reach: FrameReach, lookup: FrameSums | None) -> None:
        super().__init__(reach)
        self.lookup = lookup

    @abstractmethod
    def looked_up(self, side: GroupVersion, entries: WeightedEntries) -> list[Any]:
        """The value for each row of some entries, where there is a ``lookup``."""


@dataclass(frozen=True, slots=True)
class PartitionOrder:
    """The ORDER BY of a partition, and the function that gives the values of its terms in a row."""

    order: Sequence[SortOrder]
    order_values: Callable[[Row], Row]

    def values(self, rows: Sequence[Row]) -> list[Row]:
        """The values of the terms in some rows."""
        return [self.order_values(row) for row in rows]


class FrameFunction(LookupFunction):
    """A function whose values come from the rows of the excerpt alone."""

    most_looked_up = READ_FRAMES

    def __init__(
        self,
        reach: FrameReach,
        call: WindowCall,
        arguments_of: ArgumentsOf,
        ordering: PartitionOrder,
        lookup: FrameSums | None = None,
    ) -> None:
        super().__init__(reach, lookup)
        self._call = call
        self._arguments_of = arguments_of
        self._ordering = ordering

    def values(self, excerpt: FrameRows) -> list[Any]:
        arguments = [self._arguments_of(row) for row in excerpt.rows]
        return window_values(self._call, arguments, self._ordering.values(excerpt.rows), self._ordering.order)

    def looked_up(self, side: GroupVersion, entries: WeightedEntries) -> list[Any]:
        assert self.lookup is not None
        spans = (span for sort_key, weight in entries for span in self.lookup.spans_at(side, sort_key, weight))
        frames = (rows_between(side, *span) for span in spans)
        return [frame_value(self._call, [self._arguments_of(row) for row in frame]) for frame in frames]


class RankFunction(FrameFunction):
    """ROW_NUMBER and RANK: the number within the excerpt plus the rows before it."""

    def values(self, excerpt: FrameRows) -> list[Any]:
        return [excerpt.before[0] + value for value in super().values(excerpt)]


class FirstValueFunction(WindowFunction):
    """FIRST_VALUE of a frame that begins where the partition does."""

    def __init__(self, reach: FrameReach, arguments_of: ArgumentsOf) -> None:
        super().__init__(reach)
        self._arguments_of = arguments_of

    def values(self, excerpt: FrameRows) -> list[Any]:
        first = next(excerpt.side.ascending(), None)
        seen = None if first is None else self._arguments_of(first[0][-1])
        return [None if seen is None else seen[0]] * len(excerpt.rows)


class SumFunction(LookupFunction):
    """An aggregate computed from sums, over any frame: the sums up to its end minus those up to its start.

    ``addends_of`` gives the addends of a row to the sums of all functions, and ``zeros`` are the weight and the sums of
    nothing. ``numbers`` are the positions of this function's sums, and ``total`` computes its value from them.
    """

    def __init__(
        self,
        reach: FrameReach,
        frame: Frame,
        ordering: PartitionOrder,
        addends_of: AddendsOf,
        zeros: WeightAndSums,
        numbers: Sequence[int],
        total: Callable[..., Any],
        lookup: FrameSums | None = None,
    ) -> None:
        super().__init__(reach, lookup)
        self._frame = frame
        self._ordering = ordering
        self._addends_of = addends_of
        self._zeros = zeros
        self._numbers = (0, *numbers)
        self._total = total

    def values(self, excerpt: FrameRows) -> list[Any]:
        initial = excerpt.before if self.reach.running else self._zeros
        moves = ((1, *self._addends_of(row)) for row in excerpt.rows)
        sums = list(accumulate(moves, _plus, initial=initial))
        found: dict[FrameSpan, Any] = {}
        places = self._ordering.values(excerpt.rows)
        if isinstance(self.lookup, RangeFrameSums):
            spans = self.lookup.spans([value for (value,) in places])
        else:
            spans = spans_of(self._frame, places, self._ordering.order)
        for span in spans:
            if span not in found:
                found[span] = self._value(self._zeros if self._frame.start is None else sums[span[0]], sums[span[1]])
        return [found[span] for span in spans]

    def looked_up(self, side: GroupVersion, entries: WeightedEntries) -> list[Any]:
        assert self.lookup is not None
        ends = (end for sort_key, weight in entries for end in self.lookup.ends(side, sort_key, weight))
        return [self._value(start, end) for start, end in ends]

    def _value(self, start: WeightAndSums, end: WeightAndSums) -> Any:
        return self._total(*[end[number] - start[number] for number in self._numbers])


def _plus(sums: WeightAndSums, move: WeightAndSums) -> WeightAndSums:
    return tuple([one + other for one, other in zip(sums, move, strict=True)])


class WindowOutput(PartitionOutput):
    """Every row of a partition, followed by the values of the window functions."""

    def __init__(
        self,
        source: str,
        width: int,
        sort_key_of: SortKeyOf,
        shown: OutputRowOf,
        functions: Sequence[WindowFunction],
        addends_of: AddendsOf | None = None,
        zeros: WeightAndSums = (),
    ) -> None:
        super().__init__(source, width, sort_key_of, shown)
        self._functions = functions
        self._reaches = list(dict.fromkeys(function.reach for function in functions))
        self._lookups = [one for one in functions if isinstance(one, LookupFunction) and one.lookup is not None]
        self._other_reaches = list(dict.fromkeys(one.reach for one in functions if one not in self._lookups))
        self._addends_of = addends_of
        self._zeros = zeros

    def _groups(self, held: RowMap) -> OrderedGroupIndex:
        return held.ordered_groups(self._width, self._sort_key_of, self._addends_of, self._zeros)

    def _change(self, group: OrderedGroup, net: ZSet) -> None:
        for key_range in merge_ranges(self._affected_ranges(group)):
            self._add(group.old, key_range, -1, net)
            self._add(group.new, key_range, 1, net)

    def _take(self, partition: GroupVersion, times: int, net: ZSet) -> None:
        self._add(partition, (None, None), times, net)

    def _affected_ranges(self, group: OrderedGroup) -> Iterator[SortKeyRange]:
        """The ranges of rows whose values may have changed."""
        running = any(reach.running for reach in self._reaches)
        moved: WeightAndSums = (0, *self._zeros)
        runs = list(_runs(group))
        for run, following in zip(runs, [*(run[0][0] for run in runs[1:]), None], strict=True):
            for _, old, new in run:
                moved = tuple([m + n - o for m, o, n in zip(moved, old, new, strict=True)])
            first, last = run[0][0], run[-1][0]
            low = _first(reach.first_reaching(side, first) for reach in self._reaches for side in _sides(group))
            # The first row of a partition is reached from farther away than those after it.
            ends = [(side, sort_key) for side in _sides(group) for sort_key in (first, last)]
            high = _last(reach.last_reaching(side, sort_key) for reach in self._reaches for side, sort_key in ends)
            yield low, _last((high, following)) if running and any(moved) else high

    def _add(self, side: GroupVersion, key_range: SortKeyRange, times: int, net: ZSet) -> None:
        """Add to ``net`` the rows of a range with their values, with the weight ``times``."""
        first_entry = next(side.ascending(key_range[0]), None)
        if first_entry is None or (key_range[1] is not None and first_entry[0] > key_range[1]):
            return  # rows that have come were not there before
        few = self._few_entries(side, key_range)
        excerpt, first, count = self._excerpt(side, key_range, self._reaches if few is None else self._other_reaches)
        if not count:
            return
        columns = [
            [None] * first + function.looked_up(side, few)
            if few is not None and isinstance(function, LookupFunction) and function.lookup is not None
            else function.values(excerpt)
            for function in self._functions
        ]
        for number in range(first, first + count):
            net.add(excerpt.rows[number] + tuple([column[number] for column in columns]), times)

    def _few_entries(self, side: GroupVersion, key_range: SortKeyRange) -> WeightedEntries | None:
        """The entries of a range, if they are few and their frames are long: their values are looked up then."""
        low, high = key_range
        if not self._lookups or low is None or high is None:
            return None
        most = min(function.most_looked_up for function in self._lookups)
        near = takewhile(lambda pair: pair[0] <= high, side.ascending(low))
        found = list(islice(near, most + 1))
        rows = sum(weight for _, weight in found)
        if not 0 < rows <= most:
            return None
        spans = (next(function.lookup.spans_at(side, *found[0])) for function in self._lookups if function.lookup)
        return found if max(end - start for start, end in spans) >= LOOKUP_FACTOR * rows else None

    def _excerpt(
        self, side: GroupVersion, key_range: SortKeyRange, reaches: Sequence[FrameReach]
    ) -> tuple[FrameRows, int, int]:
        """The rows that those of a range reach, the offset of the range among them, and its number of rows."""
        low, high = key_range
        start, end = key_range
        if low is not None and reaches:
            start = _first(reach.first_reached(side, low) for reach in reaches)
        if high is not None and reaches:
            end = _last(reach.last_reached(side, high) for reach in reaches)
        rows: list[Row] = []
        first = count = 0
        for sort_key, weight in side.ascending(start):
            if end is not None and sort_key > end:
                break
            rows += [sort_key[-1]] * weight
            if low is not None and sort_key < low:
                first += weight
            elif high is None or sort_key <= high:
                count += weight
        before = (0, *self._zeros) if start is None else side.sums(start)
        return FrameRows(side, rows, before), first, count


def merge_ranges(ranges: Iterable[SortKeyRange]) -> Iterator[SortKeyRange]:
    """Disjoint ranges that cover the same rows.

    >>> list(merge_ranges([((1,), (3,)), ((2,), (4,)), ((6,), None), ((7,), (8,))]))
    [((1,), (4,)), ((6,), None)]
    """
    held: SortKeyRange | None = None
    for low, high in sorted(ranges, key=lambda key_range: (key_range[0] is not None, key_range[0] or ())):
        if held is not None and (held[1] is None or low is None or low <= held[1]):
            held = held[0], _last((held[1], high))
            continue
        if held is not None:
            yield held
        held = low, high
    if held is not None:
        yield held


def _runs(group: OrderedGroup) -> Iterator[list[ChangedSortKey]]:
    """The changed sort keys, grouped where no other entry is between them: new rows are often adjacent."""
    run: list[ChangedSortKey] = []
    for changed in group.changed:
        if run:
            entries = (sort_key for sort_key, _ in group.new.ascending(run[-1][0]) if sort_key != run[-1][0])
            following = next(entries, None)
            if following is not None and following < changed[0]:
                yield run
                run = []
        run.append(changed)
    yield run


def _sides(group: OrderedGroup) -> tuple[GroupVersion, GroupVersion]:
    return group.old, group.new


def _first(bounds: Iterable[SortKeyBound]) -> SortKeyBound:
    """The first of some sort keys; None is the beginning."""
    found = list(bounds)
    return None if None in found else min(bound for bound in found if bound is not None)


def _last(bounds: Iterable[SortKeyBound]) -> SortKeyBound:
    """The last of some sort keys; None is the end."""
    found = list(bounds)
    return None if None in found else max(bound for bound in found if bound is not None)
