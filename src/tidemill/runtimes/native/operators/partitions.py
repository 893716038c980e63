"""Rows that come from parts of a map: top-k and windows, for the parts that an epoch has touched."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tidemill.algebra.relational.relations import TopK
from tidemill.changes.zset import Row, ZSet
from tidemill.runtimes.native.operators.groups import OutputOperator
from tidemill.runtimes.native.state.maps import RowMap
from tidemill.runtimes.native.state.ordered_groups import (
    GroupVersion,
    OrderedGroup,
    OrderedGroupIndex,
    SortKeyOf,
    WeightedSortKeys,
)

OutputRowOf = Callable[[Row], Row | None]
"""What comes out for a row of a top-k or of a window; None where nothing does."""


class PartitionOutput(OutputOperator):
    """The rows of the parts of the map ``source``, which have ``width`` columns in common."""

    def __init__(self, source: str, width: int, place_of: SortKeyOf, shown: OutputRowOf) -> None:
        self.source = source
        self._width = width
        self._place_of = place_of
        self._shown = shown

    def changed(self, maps: Mapping[str, Any]) -> dict[Row, int]:
        """What the touched parts give now less what they gave before."""
        net = ZSet()
        held = maps[self.source]
        for _, pile in self._piles(held).moved(held.touched()):
            if pile.changed:
                self._change(pile, net)
        return self._out(net)

    def whole(self, maps: Mapping[str, Any]) -> ZSet:
        """What all parts give."""
        rows = ZSet()
        for pile in self._piles(maps[self.source]).all():
            self._take(pile.now, 1, rows)
        return self._out(rows)

    def _piles(self, held: RowMap) -> OrderedGroupIndex:
        return held.ordered_groups(self._width, self._place_of)

    def _change(self, pile: OrderedGroup, net: ZSet) -> None:
        """Add to ``net`` by how much the rows of a part are others now."""
        self._take(pile.before, -1, net)
        self._take(pile.now, 1, net)

    @abstractmethod
    def _take(self, part: GroupVersion, times: int, net: ZSet) -> None:
        """Add to ``net`` the rows that a part gives, so many times."""

    def _out(self, rows: ZSet) -> ZSet:
        """What comes out for rows, with their weights."""
        shown = ((self._shown(row), weight) for row, weight in rows.items())
        return ZSet.summed(pair for pair in shown if pair[0] is not None)


class TopKOutput(PartitionOutput):
    """The first rows of each part. Only these are read, before and now: O(k) after O(log n) to find them.

    ``terms`` is how many items of a place come from the order that was asked for: rows that are equal in these are
    peers.
    """

    def __init__(self, source: str, top: TopK, place_of: SortKeyOf, shown: OutputRowOf, terms: int) -> None:
        super().__init__(source, len(top.partition), place_of, shown)
        self._top = top
        self._terms = terms

    def _take(self, part: GroupVersion, times: int, net: ZSet) -> None:
        for row, weight in self._first(part.ascending()):
            net.add(row, times * weight)

    def _first(self, entries: WeightedSortKeys) -> Iterator[tuple[Row, int]]:
        """The rows of the top-k among ``entries``, and how often each one is in it."""
        skip, limit, ties = self._top.offset, self._top.limit, self._top.ties
        last: Any = None
        for place, weight in entries:
            left = weight - skip
            if left <= 0:
                skip -= weight
                continue
            skip = 0
            if limit is None:
                yield place[-1], left
            elif limit:
                last = place[: self._terms]
                yield place[-1], left if ties else min(left, limit)
                limit -= min(left, limit)
            elif ties and last == place[: self._terms]:
                yield place[-1], left
            else:
                return
