"""Partitions, made in this process: the rows of a layer are found by their numbers, and a query makes new ones of them.

Which partitions are made is decided in ``runtimes.time_partitions``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import ItemsView, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Protocol

from tidemill.algebra.relational.time_partitions import PartitionSlice
from tidemill.changes.zset import Row
from tidemill.model.types import Field
from tidemill.program.stages import Program, TimePartitionEmission
from tidemill.runtimes.native.operators.rolling_window import ApplyToQuery, RollingWindow
from tidemill.runtimes.native.operators.touched_groups import (
    FEW,
    QueryGrouping,
    TouchedFeedRows,
    TouchedGroups,
    grouping_of,
)
from tidemill.runtimes.native.state.maps import RowMap, WeightedRow
from tidemill.runtimes.native.state.ordered_groups import GroupVersion, SortKey
from tidemill.runtimes.time_partitions import partitions_read, recompute_partitions

MapFields = Mapping[str, tuple[Field, ...]]


class PartitionQueries(Protocol):
    """The queries that make partitions."""

    def answer(self, body: Program, rows: Mapping[str, RowMap]) -> Mapping[Row, int]:
        """The rows of a query, given those of the layers that it reads."""

    def following(self, body: Program, layer: str) -> ApplyToQuery:
        """A query over a layer that has no rows yet, which follows its changes."""


def make(
    layers: TimePartitionEmission, maps: Mapping[str, RowMap], columns: MapFields, bodies: PartitionQueries
) -> None:
    """Let the map of what was made hold what it should, now that the epoch has changed the feeds.

    ``columns`` are those of the maps. To do so twice in an epoch does no harm: a partition that is made again comes out
    as it is.
    """
    before, now = _numbers(maps[layers.numbers])
    changed = {feed.map: _changed(maps[feed.map], numbered=feed.every > 0) for feed in layers.feeds}
    touched = {feed.name: changed[feed.map].keys() for feed in layers.feeds}
    groupings = {body.view: grouping_of(body, layers, columns) for body in layers.bodies}
    recompute_partitions(
        layers, before, now, touched, PartitionRecomputation(layers, maps, bodies, before, now, changed, groupings).make
    )


ChangedRows = dict[int, list[Row]]
"""The rows of a map that have changed, by the number of their partition; those of one that has none are in 0."""


def _changed(map_: RowMap, *, numbered: bool) -> ChangedRows:
    found: ChangedRows = defaultdict(list)
    for key, old, new in map_.touched():
        if old != new:
            found[key[0] if numbered else 0].append(key)
    return dict(found)


class PartitionRecomputation:
    """Makes partitions of a stage: ``numbers`` are those that there are, ``before`` those that there were.

    ``changed`` are the rows of feeds that are others now; what is made anew comes to them. ``groupings`` say how the
    queries group.
    """

    def __init__(
        self,
        layers: TimePartitionEmission,
        maps: Mapping[str, RowMap],
        bodies: PartitionQueries,
        before: range,
        numbers: range,
        changed: dict[str, ChangedRows],
        groupings: Mapping[str, QueryGrouping | None],
    ) -> None:
        self._layers = layers
        self._maps = maps
        self._bodies = bodies
        self._before = before
        self._numbers = numbers
        self._changed = changed | {layers.kept: {}}
        self._kept = maps[layers.kept]
        self._whole = {feed.map for feed in layers.feeds if not feed.every}
        self._nothing: dict[str, Mapping[Row, int]] = {}
        self._groupings = groupings
        self._searched: dict[str, TouchedFeedRows] = {}

    def make(self, numbers: Sequence[int]) -> bool:
        """Whether one of these partitions, made anew, is another one."""
        return sum(map(self.make_one, numbers)) > 0

    def make_one(self, number: int) -> bool:
        """Whether partition ``number``, made anew, is another one."""
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
        self._changed[self._layers.kept].setdefault(number, []).extend(change)
        return bool(change)

    def _touched(self, number: int, old: Sequence[WeightedRow]) -> TouchedGroups | None:
        """The groups of a partition that can be others; None where that may be all of them, or most."""
        if not (number in self._before and number in self._numbers):
            return None
        first = number == self._numbers[0]
        grouping = self._groupings[self._body(number).view]
        if grouping is None or first != (number == self._before[0]):
            return None
        groups: set[Row] = set()
        for layer in self._layers.layers:
            rows = self._changed_beside(layer, number)
            groups.update(key_of(row) for key_of in grouping.scanned[layer.name] for row in rows)
        return TouchedGroups(grouping, groups) if FEW * len(groups) < len(old) else None

    def _changed_beside(self, layer: PartitionSlice, number: int) -> list[Row]:
        """The changed rows that partition ``number`` reads or has read: their own partition may be no more."""
        changed = self._changed[self._layers.map_of(layer)]
        return [row for there, rows in changed.items() if layer.has(there, number) for row in rows]

    def _body(self, number: int) -> Program:
        return self._layers.initialize if number == self._numbers[0] else self._layers.update

    def _made(self, number: int, touched: TouchedGroups | None) -> Mapping[Row, int]:
        """The rows of a partition; those of one that has nothing in any layer are always the same."""
        body = self._body(number)
        if self._layers.rolls and touched is None:
            return self._rolled(body, number)
        if touched is not None:
            rows = {layer.name: self._of_groups(layer, number, touched) for layer in self._layers.layers}
            return self._bodies.answer(body, rows)
        rows = {layer.name: self._layer(layer, number) for layer in self._layers.layers}
        if any(layer.entries for layer in rows.values()):
            return self._bodies.answer(body, rows)
        return self._of_nothing(body)

    def _of_nothing(self, body: Program) -> Mapping[Row, int]:
        if body.view not in self._nothing:
            rows = {layer.name: RowMap() for layer in self._layers.layers}
            self._nothing[body.view] = self._bodies.answer(body, rows)
        return self._nothing[body.view]

    def _rolled(self, body: Program, number: int) -> Mapping[Row, int]:
        """The rows of a window, from those of the one that was made last."""
        (layer,) = self._layers.layers
        start = partial(self._bodies.following, body, layer.name)
        map_ = self._maps[self._layers.map_of(layer)]
        window = map_.states("window", lambda: RollingWindow(start, self._of_nothing(body)))
        return window.over(*self._around(layer, number))

    def _layer(self, layer: PartitionSlice, number: int) -> RowMap:
        """The rows that a layer has beside partition ``number``, with their own numbers, so that no two are equal."""
        if self._layers.map_of(layer) in self._whole:
            return self._maps[self._layers.map_of(layer)]
        return _together(list(self._parts(layer, number).values()))

    def _of_groups(self, layer: PartitionSlice, number: int, touched: TouchedGroups) -> RowMap:
        """The rows of a layer that belong to groups which are touched."""
        found = RowMap()
        if self._layers.map_of(layer) not in self._whole | {self._layers.kept}:
            searched = self._search(touched.grouping, self._body(number))
            for there, rows in self._parts(layer, number).items():
                found.entries.update(searched.of_groups(touched, layer.name, there, rows))
        else:
            found.entries.update(touched.of_layer(layer.name, self._layer(layer, number).entries.items()))
        return found

    def _search(self, grouping: QueryGrouping, body: Program) -> TouchedFeedRows:
        if body.view not in self._searched:
            maps = {layer.name: self._layers.map_of(layer) for layer in self._layers.layers}
            changed = {name: chain(*self._changed[map_].values()) for name, map_ in maps.items()}
            self._searched[body.view] = TouchedFeedRows(grouping, changed)
        return self._searched[body.view]

    def _parts(self, layer: PartitionSlice, number: int) -> Mapping[int, Iterable[WeightedRow]]:
        """The rows that a layer has beside partition ``number``, by the numbers of their own partitions."""
        wanted, by_number = self._around(layer, number)
        if len(wanted) > len(by_number):
            return {there: rows for there, rows in by_number.items() if there in wanted}
        return {there: by_number[there] for there in wanted if there in by_number}

    def _around(self, layer: PartitionSlice, number: int) -> tuple[range, Mapping[int, Iterable[WeightedRow]]]:
        """The numbers of the partitions that a layer has beside partition ``number``, and the rows of all there are."""
        map_ = self._maps[self._layers.map_of(layer)]
        wanted = partitions_read(self._layers, layer, number, self._numbers)
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
    """The partitions that there were before the epoch, and those that there are now: all from the first to the last."""
    both = counts.ordered_groups(0, _place).pile((), list(counts.touched()))
    return _span(both.before), _span(both.now)


def _place(key: Row) -> SortKey:
    return key[0], key


def _span(side: GroupVersion) -> range:
    first, last = next(side.ascending(), None), next(side.descending(), None)
    return range(0) if first is None or last is None else range(first[0][0], last[0][0] + 1)
