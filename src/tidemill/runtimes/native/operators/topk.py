"""Top-k: the first rows of each partition of a map."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tidemill.algebra.relational.relations import TopK
from tidemill.changes.zset import Row, ZSet
from tidemill.runtimes.native.operators.partitions import OutputRowOf, PartitionOutput
from tidemill.runtimes.native.state.ordered_groups import GroupVersion, SortKeyOf, WeightedSortKeys


class TopKOutput(PartitionOutput):
    """The first rows of each partition. Only these are read, old and new: O(k) after O(log n) to find them.

    ``terms`` is the number of items of a sort key that come from the ORDER BY: rows that are equal in these are peers.
    """

    def __init__(self, source: str, top: TopK, sort_key_of: SortKeyOf, shown: OutputRowOf, terms: int) -> None:
        super().__init__(source, len(top.partition), sort_key_of, shown)
        self._top = top
        self._terms = terms

    def _take(self, partition: GroupVersion, times: int, net: ZSet) -> None:
        for row, weight in self._first(partition.ascending()):
            net.add(row, times * weight)

    def _first(self, entries: WeightedSortKeys) -> Iterator[tuple[Row, int]]:
        """The rows of the top-k among ``entries``, and the multiplicity of each."""
        skip, limit, ties = self._top.offset, self._top.limit, self._top.ties
        last: Any = None
        for sort_key, weight in entries:
            left = weight - skip
            if left <= 0:
                skip -= weight
                continue
            skip = 0
            if limit is None:
                yield sort_key[-1], left
            elif limit:
                last = sort_key[: self._terms]
                yield sort_key[-1], left if ties else min(left, limit)
                limit -= min(left, limit)
            elif ties and last == sort_key[: self._terms]:
                yield sort_key[-1], left
            else:
                return
