"""Sums of single frames, looked up: the sums before their ends, of which a frame is the difference.

A row that comes last changes its own value alone, while its frame may have thousands of rows. Ordered groups know the
sums before any of their entries in less than that, so values of few rows are computed without reading their frames.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tidemill.algebra.expressions.ordering import SortOrder
from tidemill.algebra.kernels.frames import FrameSpan, moved
from tidemill.algebra.relational.windows import Frame
from tidemill.changes.zset import Row
from tidemill.runtimes.native.state.ordered_groups import AddendsOf, GroupVersion, SortKey
from tidemill.runtimes.native.state.ordered_sums import WeightAndSums

FrameEnds = tuple[WeightAndSums, WeightAndSums]
"""The sums over the rows before a frame, and those over these and the frame."""

SortKeyPrefix = tuple[Any, ...]
"""The first items of a sort key, those of the terms of the order."""


class FrameSums(ABC):
    """The sums of a frame around a row, by lookups in its ordered group."""

    @abstractmethod
    def ends(self, side: GroupVersion, sort_key: SortKey, weight: int) -> Iterator[FrameEnds]:
        """The ends of the frame of each of ``weight`` equal rows at ``sort_key``."""

    @abstractmethod
    def spans_at(self, side: GroupVersion, sort_key: SortKey, weight: int) -> Iterator[FrameSpan]:
        """The row numbers of the frame of each of ``weight`` equal rows at ``sort_key``."""


@dataclass(frozen=True, slots=True)
class RangeFrameSums(FrameSums):
    """The sums of a RANGE frame: equal rows are peers and have the same one.

    ``width`` is the number of items of a sort key that come from the terms, and ``prefix_of`` gives those of a value of
    the one term of the order.
    """

    frame: Frame
    order: SortOrder
    value_of: Callable[[Row], Any]
    prefix_of: Callable[[Any], SortKeyPrefix]
    width: int

    def ends(self, side: GroupVersion, sort_key: SortKey, weight: int) -> Iterator[FrameEnds]:
        start = side.sums(self._prefix(sort_key, self.frame.start))
        end = side.sums_through(self._prefix(sort_key, self.frame.end))
        found = (start, end) if start[0] <= end[0] else (start, start)
        return iter([found] * weight)

    def spans_at(self, side: GroupVersion, sort_key: SortKey, weight: int) -> Iterator[FrameSpan]:
        return ((start[0], end[0]) for start, end in self.ends(side, sort_key, weight))

    def spans(self, values: Sequence[Any]) -> list[FrameSpan]:
        """The span of the frame around each row, given the values of the term in order.

        That is ``kernels.frames.spans_of``, by the sort keys that are at hand.
        """
        keys = [self.prefix_of(value) for value in values]
        starts = self._moved(keys, values, self.frame.start)
        ends = self._moved(keys, values, self.frame.end)
        first = [bisect_left(keys, start) for start in starts]
        return [(start, max(start, bisect_right(keys, end))) for start, end in zip(first, ends, strict=True)]

    def _moved(self, keys: list[SortKeyPrefix], values: Sequence[Any], offset: Any) -> list[SortKeyPrefix]:
        return [self.prefix_of(moved(value, offset, self.order)) for value in values] if offset else keys

    def _prefix(self, sort_key: SortKey, offset: Any) -> SortKeyPrefix:
        if not offset:
            return sort_key[: self.width]
        return self.prefix_of(moved(self.value_of(sort_key[-1]), offset, self.order))


@dataclass(frozen=True, slots=True)
class RowsFrameSums(FrameSums):
    """The sums of a ROWS frame; ``addends_of`` gives what one row adds to them, None if only rows are counted."""

    frame: Frame
    addends_of: AddendsOf | None

    def ends(self, side: GroupVersion, sort_key: SortKey, weight: int) -> Iterator[FrameEnds]:
        total = side.sums()
        for start, end in self.spans_at(side, sort_key, weight):
            yield self._before(side, start, total), self._before(side, end, total)

    def spans_at(self, side: GroupVersion, sort_key: SortKey, weight: int) -> Iterator[FrameSpan]:
        first, total = side.sums(sort_key)[0], side.sums()[0]
        for place in range(first, first + weight):
            start, end = (min(max(row, 0), total) for row in (place + self.frame.start, place + self.frame.end + 1))
            yield start, max(start, end)

    def _before(self, side: GroupVersion, row: int, total: WeightAndSums) -> WeightAndSums:
        """The sums over the first ``row`` rows."""
        if row >= total[0]:
            return total
        sort_key = side.select(row)
        sums = side.sums(sort_key)
        more = row - sums[0]
        if not more:
            return sums
        assert self.addends_of is not None, "sums are kept"
        addends = (1, *self.addends_of(sort_key[-1]))
        return tuple([sum_ + more * addend for sum_, addend in zip(sums, addends, strict=True)])


def rows_between(side: GroupVersion, start: int, end: int) -> list[Row]:
    """The rows of a group from number ``start`` until before number ``end``."""
    if start >= end:
        return []
    first = side.select(start)
    skipped = start - side.sums(first)[0]
    found: list[Row] = []
    for sort_key, weight in side.ascending(first):
        found += [sort_key[-1]] * weight
        if len(found) >= end - start + skipped:
            break
    return found[skipped : skipped + end - start]
