"""Time partitions in this process: a query computes each from the rows of the partitions that it reads.

``runtimes.time_partitions`` decides which partitions are recomputed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import ItemsView, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Protocol

from tidemill.algebra.relational.time_partitions import PartitionSlice
from tidemill.changes.zset import Row, WeightedRow
from tidemill.model.types import Field
from tidemill.program.stages import Program, TimePartitionEmission
from tidemill.runtimes.native.operators.rolling_window import ApplyToQuery, RollingWindow
from tidemill.runtimes.native.operators.touched_groups import (
    TOUCHED_FRACTION,
    QueryGrouping,
    TouchedFeedRows,
    TouchedGroups,
    grouping_of,
)
from tidemill.runtimes.native.state.ordered_groups import GroupVersion, SortKey
from tidemill.runtimes.native.state.row_map import RowMap
from tidemill.runtimes.time_partitions import partitions_read, recompute_partitions

MapFields = Mapping[str, tuple[Field, ...]]


class PartitionQueries(Protocol):
    """The queries that compute partitions."""

    def answer(self, body: Program, rows: Mapping[str, RowMap]) -> Mapping[Row, int]:
        """The rows of a query, given those of the inputs that it reads."""

    def following(self, body: Program, slice_: str) -> ApplyToQuery:
        """A query over a slice that is empty at first, maintained by applying changes to it."""


def make(
    emission: TimePartitionEmission, maps: Mapping[str, RowMap], columns: MapFields, bodies: PartitionQueries
) -> None:
    """Update the map of computed partitions for the change of the feeds.

    ``columns`` are those of the maps. Running it twice in an epoch is harmless: a partition that is computed again has
    the same rows.
    """
    before, now = _numbers(maps[emission.numbers])
    changed = {feed.map: _changed(maps[feed.map], numbered=feed.every != 0) for feed in emission.feeds}
    touched = {feed.name: changed[feed.map].keys() for feed in emission.feeds}
    groupings = {body.view: grouping_of(body, emission, columns) for body in emission.bodies}
    recompute_partitions(
        emission,
        before,
        now,
        touched,
        PartitionRecomputation(emission, maps, bodies, before, now, changed, groupings).make,
    )


ChangedRows = dict[int, list[Row]]
"""The changed rows of a map by the number of their partition; 0 for a map without partitions."""


def _changed(map_: RowMap, *, numbered: bool) -> ChangedRows:
    found: ChangedRows = defaultdict(list)
    for key, old, new in map_.touched():
        if old != new:
            found[key[0] if numbered else 0].append(key)
    return dict(found)


class PartitionRecomputation:
    """Recomputes partitions of a stage: ``numbers`` are those that exist now, ``before`` those that existed before.

    ``changed`` are the changed rows of feeds, to which those of recomputed partitions are added. ``groupings`` say how
    the queries group.
    """

    def __init__(
        self,
        emission: TimePartitionEmission,
        maps: Mapping[str, RowMap],
        bodies: PartitionQueries,
        before: range,
        numbers: range,
        changed: dict[str, ChangedRows],
        groupings: Mapping[str, QueryGrouping | None],
    ) -> None:
        self._emission = emission
        self._maps = maps
        self._bodies = bodies
        self._before = before
        self._numbers = numbers
        self._changed = changed | {emission.kept: {}}
        self._kept = maps[emission.kept]
        self._whole = {feed.map for feed in emission.feeds if not feed.every}
        self._nothing: dict[str, Mapping[Row, int]] = {}
        self._groupings = groupings
        self._searched: dict[str, TouchedFeedRows] = {}

    def make(self, numbers: Sequence[int]) -> bool:
        """Recompute partitions; true if one has changed."""
        return sum(map(self.make_one, numbers)) > 0

    def make_one(self, number: int) -> bool:
        """Recompute a partition; true if it has changed."""
        self._kept.fill([(number,)])
        old = list(self._kept.index((0,)).get(number, ()))
        touched = self._touched(number, old)
        made = self._made(number, touched).items() if number in self._numbers else ()
        change = {(number, *row): weight for row, weight in made}
        if touched is not None:
            old = touched.of_output(old)
            change = dict(touched.of_output(change.items()))
        for row, weight in old:
            change[row] = change.get(row, 0) - weight
        if old:
            change = {row: weight for row, weight in change.items() if weight}
        self._kept.add(change)
        self._changed[self._emission.kept].setdefault(number, []).extend(change)
        return bool(change)

    def _touched(self, number: int, old: Sequence[WeightedRow]) -> TouchedGroups | None:
        """The groups of a partition that may have changed; None if these may be all of them, or most."""
        if not (number in self._before and number in self._numbers):
            return None
        first = number == self._numbers[0]
        grouping = self._groupings[self._body(number).view]
        if grouping is None or first != (number == self._before[0]):
            return None
        groups: set[Row] = set()
        for slice_ in self._emission.slices:
            rows = self._changed_beside(slice_, number)
            groups.update(key_of(row) for key_of in grouping.scanned[slice_.name] for row in rows)
        return TouchedGroups(grouping, groups) if TOUCHED_FRACTION * len(groups) < len(old) else None

    def _changed_beside(self, slice_: PartitionSlice, number: int) -> list[Row]:
        """The changed rows that partition ``number`` reads or has read: their own partition may be gone."""
        changed = self._changed[self._emission.map_of(slice_)]
        return [row for there, rows in changed.items() if slice_.has(there, number) for row in rows]

    def _body(self, number: int) -> Program:
        return self._emission.initialize if number == self._numbers[0] else self._emission.update

    def _made(self, number: int, touched: TouchedGroups | None) -> Mapping[Row, int]:
        """The rows of a partition; if all of its slices are empty they are always the same."""
        body = self._body(number)
        if self._emission.rolls and touched is None:
            return self._rolled(body, number)
        if touched is not None:
            rows = {slice_.name: self._of_groups(slice_, number, touched) for slice_ in self._emission.slices}
            return self._bodies.answer(body, rows)
        rows = {slice_.name: self._rows_of(slice_, number) for slice_ in self._emission.slices}
        if any(slice_.entries for slice_ in rows.values()):
            return self._bodies.answer(body, rows)
        return self._of_nothing(body)

    def _of_nothing(self, body: Program) -> Mapping[Row, int]:
        if body.view not in self._nothing:
            rows = {slice_.name: RowMap() for slice_ in self._emission.slices}
            self._nothing[body.view] = self._bodies.answer(body, rows)
        return self._nothing[body.view]

    def _rolled(self, body: Program, number: int) -> Mapping[Row, int]:
        """The rows of a window, computed from the previous window."""
        (slice_,) = self._emission.slices
        start = partial(self._bodies.following, body, slice_.name)
        map_ = self._maps[self._emission.map_of(slice_)]
        window = map_.states("window", lambda: RollingWindow(start, self._of_nothing(body)))
        return window.over(*self._around(slice_, number))

    def _rows_of(self, slice_: PartitionSlice, number: int) -> RowMap:
        """The rows that a slice reads around partition ``number``, with their partition numbers, so that no two are
        equal."""
        if self._emission.map_of(slice_) in self._whole:
            return self._maps[self._emission.map_of(slice_)]
        return _together(list(self._parts(slice_, number).values()))

    def _of_groups(self, slice_: PartitionSlice, number: int, touched: TouchedGroups) -> RowMap:
        """The rows of a slice that belong to touched groups."""
        found = RowMap()
        if self._emission.map_of(slice_) not in self._whole | {self._emission.kept}:
            searched = self._search(touched.grouping, self._body(number))
            for there, rows in self._parts(slice_, number).items():
                found.entries.update(searched.of_groups(touched, slice_.name, there, rows))
        else:
            found.entries.update(touched.of_slice(slice_.name, self._rows_of(slice_, number).entries.items()))
        return found

    def _search(self, grouping: QueryGrouping, body: Program) -> TouchedFeedRows:
        if body.view not in self._searched:
            maps = {slice_.name: self._emission.map_of(slice_) for slice_ in self._emission.slices}
            changed = {name: chain(*self._changed[map_].values()) for name, map_ in maps.items()}
            self._searched[body.view] = TouchedFeedRows(grouping, changed)
        return self._searched[body.view]

    def _parts(self, slice_: PartitionSlice, number: int) -> Mapping[int, Iterable[WeightedRow]]:
        """The rows that a slice reads around partition ``number``, by the numbers of their own partitions."""
        wanted, by_number = self._around(slice_, number)
        if len(wanted) > len(by_number):
            return {there: rows for there, rows in by_number.items() if there in wanted}
        return {there: by_number[there] for there in wanted if there in by_number}

    def _around(self, slice_: PartitionSlice, number: int) -> tuple[range, Mapping[int, Iterable[WeightedRow]]]:
        """The numbers of the partitions that a slice reads around partition ``number``, and the rows of all existing
        ones."""
        map_ = self._maps[self._emission.map_of(slice_)]
        wanted = partitions_read(self._emission, slice_, number, self._numbers)
        map_.fill((there,) for there in wanted)
        return wanted, map_.index((0,))


def _together(parts: Sequence[Iterable[tuple[Row, int]]]) -> RowMap:
    """The rows of partitions, as an index has them, as one relation. A single one is not copied: nothing changes it."""
    contents = RowMap()
    if len(parts) == 1 and isinstance(parts[0], ItemsView):
        contents.entries = parts[0].mapping  # type: ignore[attr-defined]
    else:
        contents.entries.update(chain(*parts))
    return contents


def _numbers(counts: RowMap) -> tuple[range, range]:
    """The range of partitions before the epoch and after it: all from the first to the last."""
    both = counts.ordered_groups(0, _sort_key).group((), list(counts.touched()))
    return _span(both.old), _span(both.new)


def _sort_key(key: Row) -> SortKey:
    return key[0], key


def _span(side: GroupVersion) -> range:
    first, last = next(side.ascending(), None), next(side.descending(), None)
    return range(0) if first is None or last is None else range(first[0][0], last[0][0] + 1)
