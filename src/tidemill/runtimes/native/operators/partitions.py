"""Rows that come from parts of a map: top-k and windows, for the parts that an epoch has touched."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from tidemill.changes.zset import Row, ZSet
from tidemill.runtimes.native.operators.groups import OutputOperator
from tidemill.runtimes.native.state.maps import RowMap
from tidemill.runtimes.native.state.ordered_groups import (
    GroupVersion,
    OrderedGroup,
    OrderedGroupIndex,
    SortKeyOf,
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
