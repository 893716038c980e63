"""Aggregates that need more than sums, over multisets: ordered groups of the values that they aggregate."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.function import MultisetEnd
from tidemill.algebra.aggregates.registry import aggregate_multiset, collects, function_of
from tidemill.algebra.user_functions import aggregate_of
from tidemill.changes.zset import Row, ZSet
from tidemill.runtimes.native.operators.collected_arrays import CollectedArrays, is_large
from tidemill.runtimes.native.operators.groups import GroupOutput, OutputRow
from tidemill.runtimes.native.operators.retractable import RetractableStates
from tidemill.runtimes.native.state.ordered_groups import (
    GroupVersion,
    OrderedGroup,
    OrderedGroupIndex,
    SortKey,
    SortKeyOf,
)
from tidemill.runtimes.native.state.row_map import RowMap

TouchedGroup = tuple[Row, Any, Any, Sequence[Any], Sequence[Any]]
"""A group that an epoch has touched: its key, its old and new entry, the old and new values of its aggregates."""


@dataclass(frozen=True, slots=True)
class MaintainedValue:
    """A value that needs no read of the multiset, because the state of its aggregate is maintained."""

    value: Callable[[], Any]


@dataclass(frozen=True)
class MultisetAggregate:
    """An aggregate over a multiset: the entries of ``map`` under a key of ``width`` columns.

    ``values_of`` gives the arguments of the aggregate in an entry. Minimum and maximum are at an end, percentiles are
    found by row number; all others read the whole multiset.
    """

    map: str
    width: int
    sort_key_of: SortKeyOf
    call: AggregateCall
    values_of: Callable[[Row], Row]
    keeps_end: bool = False
    """True if nothing is ever deleted, so that the value at the end is all that is kept."""

    @property
    def group_index_name(self) -> tuple[str, SortKeyOf]:
        """The map and the order in which its entries are read."""
        return self.map, self.sort_key_of

    def ordered_groups(self, maps: Mapping[str, RowMap]) -> OrderedGroupIndex:
        """The multisets of all keys."""
        return maps[self.map].ordered_groups(self.width, self.sort_key_of)

    def sides(
        self, key: Row, group: OrderedGroup, maps: Mapping[str, RowMap]
    ) -> tuple[GroupVersion | MaintainedValue, GroupVersion | MaintainedValue]:
        """The multiset before the epoch and after it, or the aggregate's maintained value."""
        if collects(self.call) and (is_large(group.new) or is_large(group.old)):
            arrays = maps[self.map].states(
                (CollectedArrays, self.call), lambda: CollectedArrays(self.width, self.call, self.values_of)
            )
            return MaintainedValue(partial(arrays.before, key, group)), MaintainedValue(partial(arrays.now, key, group))
        aggregate = aggregate_of(self.call)
        if aggregate is None or not aggregate.takes_back or self.call.distinct:
            return group.old, group.new
        states = maps[self.map].states(self.call, lambda: RetractableStates(self.width, aggregate, self.values_of))
        return MaintainedValue(partial(states.before, key, group)), MaintainedValue(partial(states.now, key, group))

    def has_ends(self, key: Row, group: OrderedGroup, maps: Mapping[str, RowMap]) -> bool:
        """True if what is loaded of a multiset decides the values of the aggregate before the epoch and after it."""
        held, least = maps[self.map], function_of(self.call).end is MultisetEnd.LEAST
        return all(held.has_end(key, self.value(version), least=least) for version in (group.old, group.new))

    def value(self, multiset: GroupVersion | MaintainedValue) -> Any:
        """The value of the aggregate over a multiset, before the epoch or after it."""
        if isinstance(multiset, MaintainedValue):
            return multiset.value()
        function = function_of(self.call)
        if function.end is not None:
            found = self.end_of(multiset)
            return None if found is None else self.values_of(found)[0]
        # Positions count every row; those among distinct values are found by reading all of them.
        if function.positions is not None and not self.call.distinct:
            return aggregate_multiset(self.call, self._around(multiset, function.positions))
        entries = [(self.values_of(sort_key[-1]), weight) for sort_key, weight in multiset.ascending()]
        return aggregate_multiset(self.call, entries)

    def end_of(self, multiset: GroupVersion) -> Row | None:
        """The entry at the end of a multiset where a minimum or maximum is; None if it is empty."""
        least = function_of(self.call).end is MultisetEnd.LEAST
        found = next(multiset.ascending() if least else multiset.descending(), None)
        return None if found is None else found[0][-1]

    def unbeaten(self, added: Mapping[Row, int], maps: Mapping[str, RowMap]) -> dict[Row, int]:
        """The entries of a change that lie beyond the end of their group, the last of each: no others are needed."""
        groups, width = self.ordered_groups(maps), self.width
        least = function_of(self.call).end is MultisetEnd.LEAST
        best: dict[Row, SortKey] = {}
        for row in added:
            sort_key, prefix = self.sort_key_of(row), row[:width]
            end = best[prefix] if prefix in best else groups.end(prefix, least=least)
            if end is None or (sort_key < end if least else sort_key > end):
                best[prefix] = sort_key
        return {sort_key[-1]: added[sort_key[-1]] for sort_key in best.values()}

    def drop_beaten(self, maps: Mapping[str, RowMap]) -> None:
        """Drop the entries of touched groups that are not, or no longer, at the end."""
        held, beaten = maps[self.map], []
        for _, group in self.ordered_groups(maps).changed_groups(held.touched()):
            end = self.end_of(group.new)
            rows = {self.end_of(group.old), *(sort_key[-1] for sort_key, _, _ in group.changed)} - {end}
            beaten += [(row, -held.entries[row]) for row in rows if row in held.entries]
        held.absorb(beaten)

    def _around(
        self, multiset: GroupVersion, positions: Callable[[AggregateCall, int], set[int]]
    ) -> list[tuple[Row, int]]:
        """The entries at the positions that are read, each with the number of rows up to the next one."""
        count = multiset.sums()[0]
        found = sorted({multiset.select(number) for number in positions(self.call, count)} if count else ())
        starts = [0, *(multiset.sums(sort_key)[0] for sort_key in found[1:]), count]
        return [(self.values_of(sort_key[-1]), starts[i + 1] - starts[i]) for i, sort_key in enumerate(found)]


class MultisetGroupOutput(GroupOutput):
    """One row for each key of a map, computed from its entry and from the multisets of the key."""

    def __init__(
        self,
        source: str,
        row: Callable[..., OutputRow],
        multisets: Sequence[MultisetAggregate],
        *,
        always: bool,
        repeats: bool,
    ) -> None:
        super().__init__(source, row, always=always, repeats=repeats)
        self._multisets = multisets
        self.keeps_best = any(multiset.keeps_end for multiset in multisets)

    def changed(self, maps: Mapping[str, Any]) -> dict[Row, int]:
        """Old rows retracted, new rows inserted; of multisets without deletions the ends are kept."""
        found = super().changed(maps)
        self._drop_beaten(maps)
        return found

    def whole(self, maps: Mapping[str, Any]) -> ZSet:
        """The rows of all keys; of multisets without deletions the ends are kept."""
        found = super().whole(maps)
        self._drop_beaten(maps)
        return found

    def leave_out_beaten(self, sums: dict[str, dict[Row, Any]], maps: Mapping[str, Any]) -> None:
        """Take from what is about to be added to the maps what cannot matter, where the ends are in memory."""
        for multiset in self._multisets:
            if multiset.keeps_end and sums.get(multiset.map) and not maps[multiset.map].is_partial:
                sums[multiset.map] = multiset.unbeaten(sums[multiset.map], maps)

    def _drop_beaten(self, maps: Mapping[str, Any]) -> None:
        for multiset in self._multisets:
            if multiset.keeps_end:
                multiset.drop_beaten(maps)

    def changed_groups(self, touched: Iterable[TouchedGroup]) -> dict[Row, int]:
        """Old rows retracted, new rows inserted, of groups whose aggregates are known."""
        return self._difference(
            (self._row_of(key, before, old), self._row_of(key, after, new)) for key, before, after, old, new in touched
        )

    def whole_groups(self, touched: Iterable[TouchedGroup]) -> ZSet:
        """The rows of all groups, whose aggregates are known; all of them are touched."""
        found = [(key, entry, values) for key, _, entry, _, values in touched if entry is not None]
        if self._always and not found:
            empty = [aggregate_multiset(multiset.call, ()) for multiset in self._multisets]
            found = [((), None, empty)]
        return self._all_rows(itertools.starmap(self._row_of, found))

    def now(self, maps: Mapping[str, Any]) -> Iterator[tuple[Row, OutputRow]]:
        """Each touched key with its new row; old versions of multisets are not read."""
        held = {multiset.group_index_name: multiset.ordered_groups(maps) for multiset in self._multisets}
        for key, (_, after) in self._touched(maps, self._moved(maps)).items():
            here = {name: groups.group(key) for name, groups in held.items()}
            sides = [multiset.sides(key, here[multiset.group_index_name], maps)[1] for multiset in self._multisets]
            yield key, self._found(key, after, sides)

    def _both(self, maps: Mapping[str, Any]) -> Iterator[tuple[OutputRow, OutputRow]]:
        # Aggregates over one multiset in one order share its groups.
        held = {multiset.group_index_name: multiset.ordered_groups(maps) for multiset in self._multisets}
        touched = self._touched(maps, self._moved(maps))
        moved = {name: dict(groups.changed_groups(maps[name[0]].touched())) for name, groups in held.items()}
        at_ends = [multiset for multiset in self._multisets if maps[multiset.map].reads_ends]
        for key, (before, after) in touched.items():
            here = {name: groups[key] if key in groups else held[name].group(key) for name, groups in moved.items()}
            for multiset in at_ends:
                name = multiset.group_index_name
                if not multiset.has_ends(key, here[name], maps):
                    maps[multiset.map].fill_whole_group(key)
                    moves = [move for move in maps[multiset.map].touched() if move[0][: multiset.width] == key]
                    here[name] = held[name].group(key, moves)
            sides = [multiset.sides(key, here[multiset.group_index_name], maps) for multiset in self._multisets]
            old = self._found(key, before, [side for side, _ in sides])
            yield old, self._found(key, after, [side for _, side in sides])

    def _moved(self, maps: Mapping[str, Any]) -> list[dict[Row, None]]:
        """The keys of all groups that the epoch has touched in each multiset."""
        return [{key[: multiset.width]: None for key in maps[multiset.map].journal} for multiset in self._multisets]

    def _touched(self, maps: Mapping[str, Any], moved: Collection[Iterable[Row]]) -> dict[Row, tuple[Any, Any]]:
        """The old and new entries of all keys that the epoch has touched, in the map itself or in a multiset."""
        held = maps[self.source]
        touched = {key: (before, after) for key, before, after in held.touched()}
        others = [key for key in dict.fromkeys(key for groups in moved for key in groups) if key not in touched]
        for name in {self.source, *(multiset.map for multiset in self._multisets)}:
            maps[name].fill_groups([*touched, *others])
        return touched | {key: (held.entries.get(key), held.entries.get(key)) for key in others}

    def _all(self, maps: Mapping[str, Any]) -> Iterator[OutputRow]:
        groups = [multiset.ordered_groups(maps) for multiset in self._multisets]
        for key, entry in self._entries(maps):
            yield self._found(key, entry, [held.group(key).new for held in groups])

    def _found(self, key: Row, entry: Any, multisets: Sequence[GroupVersion | MaintainedValue]) -> OutputRow:
        """The row of a key; multisets are read only if it has one."""
        if entry is None and not self._always:
            return None
        return self._row_of(
            key, entry, [multiset.value(held) for multiset, held in zip(self._multisets, multisets, strict=True)]
        )

    def _row_of(self, key: Row, entry: Any, values: Sequence[Any]) -> OutputRow:
        return None if entry is None and not self._always else self._row(key, entry, *values)
