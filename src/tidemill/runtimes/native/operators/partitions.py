"""Operators over partitions of a map: the change of the rows of the partitions that an epoch has touched."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from tidemill.changes.zset import Row, ZSet
from tidemill.runtimes.native.operators.groups import OutputOperator
from tidemill.runtimes.native.state.ordered_groups import (
    GroupVersion,
    OrderedGroup,
    OrderedGroupIndex,
    SortKeyOf,
)
from tidemill.runtimes.native.state.row_map import RowMap

OutputRowOf = Callable[[Row], Row | None]
"""The output row for a row of a top-k, a window or a match; None if it has none."""


class PartitionOutput(OutputOperator):
    """The rows of the partitions of the map ``source``, by its first ``width`` columns."""

    def __init__(self, source: str, width: int, sort_key_of: SortKeyOf, shown: OutputRowOf) -> None:
        self.source = source
        self._width = width
        self._sort_key_of = sort_key_of
        self._shown = shown

    def changed(self, maps: Mapping[str, Any]) -> dict[Row, int]:
        """The new rows of the touched partitions less the old ones."""
        net = ZSet()
        held = maps[self.source]
        for _, group in self._groups(held).changed_groups(held.touched()):
            if group.changed:
                self._change(group, net)
        return self._out(net)

    def whole(self, maps: Mapping[str, Any]) -> ZSet:
        """The rows of all partitions."""
        rows = ZSet()
        for group in self._groups(maps[self.source]).all():
            self._take(group.new, 1, rows)
        return self._out(rows)

    def _groups(self, held: RowMap) -> OrderedGroupIndex:
        return held.ordered_groups(self._width, self._sort_key_of)

    def _change(self, group: OrderedGroup, net: ZSet) -> None:
        """Add to ``net`` the change of the rows of a partition."""
        self._take(group.old, -1, net)
        self._take(group.new, 1, net)

    @abstractmethod
    def _take(self, partition: GroupVersion, times: int, net: ZSet) -> None:
        """Add to ``net`` the rows of a version of a partition, with the weight ``times``."""

    def _out(self, rows: ZSet) -> ZSet:
        """The output rows, with their weights."""
        shown = ((self._shown(row), weight) for row, weight in rows.items())
        return ZSet.summed(pair for pair in shown if pair[0] is not None)
