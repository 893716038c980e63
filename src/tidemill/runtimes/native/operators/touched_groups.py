"""Groups of a partition that a late row touches: only these are recomputed if no other can have changed.

A query that groups its inputs by their columns computes each group from the rows that have its key. So changed rows
tell which groups may change, and only rows of these groups are read from all inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any

from tidemill.algebra.expressions.scalars import Column
from tidemill.changes.zset import Row, WeightedRow
from tidemill.model.schema import names_of
from tidemill.model.types import Field
from tidemill.program.stages import GroupEmission, Program, TimePartitionEmission
from tidemill.program.statements import Add, RelationLoop
from tidemill.runtimes.native.state.indexes import values_at

TOUCHED_FRACTION = 4
"""Fraction of touched groups, one in so many, above which all groups are recomputed."""

KeyOf = Callable[[Row], Any]
"""The key of the group that a row belongs to."""


@dataclass(frozen=True, slots=True)
class QueryGrouping:
    """The grouping of a query: the keys of rows of each input, once for each scan, and of its own rows.

    All rows have the number of their partition in front.
    """

    scanned: Mapping[str, tuple[KeyOf, ...]]
    output: KeyOf


@dataclass(frozen=True, slots=True)
class TouchedGroups:
    """Some groups of a partition, by their keys."""

    grouping: QueryGrouping
    keys: Set[Any]

    def of_slice(self, name: str, rows: Iterable[WeightedRow]) -> Iterator[WeightedRow]:
        """The rows of a slice that belong to these groups, by any of its groupings."""
        return (pair for pair in rows if any(key_of(pair[0]) in self.keys for key_of in self.grouping.scanned[name]))

    def of_output(self, rows: Iterable[WeightedRow]) -> list[WeightedRow]:
        """The rows of the query that belong to these groups."""
        key_of = self.grouping.output
        return [pair for pair in rows if key_of(pair[0]) in self.keys]


class TouchedFeedRows:
    """The rows of feeds that belong to groups which are touched in any partition.

    Many partitions may read the same partition of a feed, which does not change meanwhile. So it is searched once, for
    all of these groups. ``changed`` has the changed rows by slice.
    """

    def __init__(self, grouping: QueryGrouping, changed: Mapping[str, Iterable[Row]]) -> None:
        keys = {key_of(row) for slice_, rows in changed.items() for row in rows for key_of in grouping.scanned[slice_]}
        self._everywhere = TouchedGroups(grouping, keys)
        self._found: dict[tuple[str, int], list[WeightedRow]] = {}

    def of_groups(
        self, touched: TouchedGroups, slice_: str, number: int, rows: Iterable[WeightedRow]
    ) -> Iterator[WeightedRow]:
        """The rows of ``touched`` groups among those that a slice has in partition ``number``."""
        if touched.keys <= self._everywhere.keys:
            if (slice_, number) not in self._found:
                self._found[slice_, number] = list(self._everywhere.of_slice(slice_, rows))
            rows = self._found[slice_, number]
        return touched.of_slice(slice_, rows)


@dataclass(frozen=True, slots=True)
class GroupingColumns:
    """The positions of the key of a grouping: in rows of each input, once for each scan, and in its own rows.

    All rows have the number of their partition in front.
    """

    scanned: Mapping[str, tuple[tuple[int, ...], ...]]
    output: tuple[int, ...]


def grouping_of(
    body: Program, emission: TimePartitionEmission, columns: Mapping[str, tuple[Field, ...]]
) -> QueryGrouping | None:
    """The grouping of ``body``; None if a group may depend on rows with other keys.

    ``columns`` are those of the maps that have the rows.
    """
    found = grouping_columns(body, emission, columns)
    if found is None:
        return None
    scanned = {name: tuple(map(values_at, scans)) for name, scans in found.scanned.items()}
    return QueryGrouping(scanned, values_at(found.output))


def grouping_columns(
    body: Program, emission: TimePartitionEmission, columns: Mapping[str, tuple[Field, ...]]
) -> GroupingColumns | None:
    """The columns by which ``body`` groups; None if a group may depend on rows with other keys."""
    (stage, *more), finish = body.stages, body.stages[-1].finish
    if more or not isinstance(finish, GroupEmission) or finish.always:
        return None
    keys = next(map_.keys for map_ in stage.maps if map_.name == finish.source)
    shown = {output.scalar.name: i for i, output in enumerate(finish.outputs, 1) if isinstance(output.scalar, Column)}
    if not all(key.name in shown for key in keys):
        return None
    scanned: dict[str, tuple[tuple[int, ...], ...]] = {slice_.name: () for slice_ in emission.slices}
    names = {slice_.name: names_of(columns[emission.map_of(slice_)]) for slice_ in emission.slices}
    for add in stage.load:
        places = _places(add, len(keys), names)
        if places is None:
            return None
        name, positions = places
        scanned[name] += (tuple(positions),)
    return GroupingColumns(scanned, tuple([shown[key.name] for key in keys]))


def _places(add: Add, width: int, names: Mapping[str, tuple[str, ...]]) -> tuple[str, list[int]] | None:
    """The slice that a statement loops over, and the positions of the key in its rows; None for any other statement."""
    match add.query.sources:
        case (RelationLoop(relation=relation, alias=alias),) if relation in names:
            own = {f"{alias}.{name}": place for place, name in enumerate(names[relation])}
            keys = [output.scalar for output in add.query.outputs[:width]]
            places = [own[key.name] for key in keys if isinstance(key, Column) and key.name in own]
            return (relation, places) if len(places) == width else None
    return None
