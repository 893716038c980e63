"""Top-k: the first rows of each partition of a map."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from tidemill.algebra.relational.relations import TopK
from tidemill.changes.zset import Row, ZSet
from tidemill.runtimes.native.operators.partitions import OutputRowOf, PartitionOutput
from tidemill.runtimes.native.state.ordered_groups import (
    GroupVersion,
    OrderedGroup,
    SortKey,
    SortKeyOf,
    WeightedSortKeys,
)
from tidemill.runtimes.native.state.row_map import RowMap


class TopKOutput(PartitionOutput):
    """The first rows of each partition. Only these are read, old and new: O(k) after O(log n) to find them.

    ``terms`` is the number of items of a sort key that come from the ORDER BY: rows that are equal in these are peers.
    """

    def __init__(
        self, source: str, top: TopK, sort_key_of: SortKeyOf, shown: OutputRowOf, terms: int, kept: int | None = None
    ) -> None:
        """Only the first ``kept`` rows of a partition are kept, if that is given."""
        super().__init__(source, len(top.partition), sort_key_of, shown)
        self._top = top
        self._terms = terms
        self._kept = kept
        self.keeps_best = kept is not None

    def changed(self, maps: Mapping[str, Any]) -> dict[Row, int]:
        """The new rows of the touched partitions less the old ones; what lies behind the rows that are kept goes."""
        found = super().changed(maps)
        if self._kept is not None:
            held = maps[self.source]
            touched = [group for _, group in self._groups(held).changed_groups(held.touched())]
            self._drop_behind(held, touched, self._kept)
        return found

    def whole(self, maps: Mapping[str, Any]) -> ZSet:
        """The rows of all partitions; what lies behind the rows that are kept goes."""
        found = super().whole(maps)
        if self._kept is not None:
            held = maps[self.source]
            self._drop_behind(held, self._groups(held).all(), self._kept)
        return found

    def leave_out_beaten(self, sums: dict[str, dict[Row, Any]], maps: Mapping[str, Any]) -> None:
        """Take from what is about to be added to the map what lies behind the rows that are kept."""
        added, held = sums.get(self.source), maps[self.source]
        if self._kept is None or not added or held.is_partial:
            return
        groups, lasts, found = self._groups(held), dict[Row, SortKey | None](), {}
        for row, weight in added.items():
            prefix = row[: self._width]
            if prefix not in lasts:
                lasts[prefix] = next(self._from_last(groups.group(prefix).new.ascending(), self._kept), None)
            last = lasts[prefix]
            if last is None or self._sort_key_of(row) <= last:
                found[row] = weight
        sums[self.source] = found

    def _drop_behind(self, held: RowMap, groups: Iterable[OrderedGroup], kept: int) -> None:
        found = [self._from_last(group.new.ascending(), kept) for group in groups]
        behind = [sort_key[-1] for sort_keys in found for sort_key in islice(sort_keys, 1, None)]
        held.absorb([(row, -held.entries[row]) for row in behind])

    def _from_last(self, entries: WeightedSortKeys, kept: int) -> Iterator[SortKey]:
        """The sort key of the last row that is kept, and all after it; nothing if there are fewer rows."""
        for sort_key, weight in entries:
            kept -= weight
            if kept <= 0:
                yield sort_key

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
