"""The maps of a stage, and its triggers prepared for them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from tidemill.changes.split import SplitRows
from tidemill.changes.zset import Row, WeightedRow
from tidemill.runtimes.native.state.ring_map import RingMap
from tidemill.runtimes.native.state.row_map import RowMap


class PreparedQuery(NamedTuple):
    """A query with all that it reads: ``run(sums, rows, *given)`` adds its results for changed rows to the sums of its
    target."""

    target: str
    run: Callable[..., None]
    given: tuple[Any, ...]


Prepare = Callable[[Mapping[str, RowMap | RingMap]], tuple[PreparedQuery, ...]]
"""Prepares queries for maps, and makes the indexes that they read."""


@dataclass(slots=True)
class PreparedParts:
    """The queries over the two parts of a split change. Each part is prepared when it first has rows: who only inserts
    needs no index for deletions."""

    split: Callable[[Collection[WeightedRow]], SplitRows]
    prepare_staying: Prepare
    prepare_arriving: Prepare
    staying: tuple[PreparedQuery, ...] | None = None
    arriving: tuple[PreparedQuery, ...] | None = None


@dataclass(frozen=True, slots=True)
class PreparedTrigger:
    """The queries of a trigger with the maps and indexes that they read.

    Maps in memory and their indexes are updated in place, so what a query reads stays the same objects from epoch to
    epoch: it is found once. ``whole`` queries take all rows of a change, those of ``parts`` the rows that stay and the
    rows that arrive.
    """

    targets: tuple[str, ...]
    whole: tuple[PreparedQuery, ...]
    parts: tuple[PreparedParts, ...]

    def sums_of(
        self, pairs: Collection[WeightedRow], maps: Mapping[str, RowMap | RingMap]
    ) -> dict[str, dict[Row, Any]]:
        """The sums for a change, by target. This is run for every single row, so it calls as little as it can."""
        sums: dict[str, dict[Row, Any]] = {}
        for target in self.targets:
            sums[target] = {}
        for target, run, given in self.whole:
            run(sums[target], pairs, *given)
        for part in self.parts:
            staying, arriving = part.split(pairs)
            if staying:
                if part.staying is None:
                    part.staying = part.prepare_staying(maps)
                for target, run, given in part.staying:
                    run(sums[target], staying, *given)
            if arriving:
                if part.arriving is None:
                    part.arriving = part.prepare_arriving(maps)
                for target, run, given in part.arriving:
                    run(sums[target], arriving, *given)
        return sums


class StageMaps(dict[str, RowMap | RingMap]):
    """The maps of a stage by name. ``prepared`` are its triggers by relation, None for one that cannot be prepared;
    they are released with the maps."""

    __slots__ = ("prepared",)

    def __init__(self, maps: Mapping[str, RowMap | RingMap]) -> None:
        super().__init__(maps)
        self.prepared: dict[str, PreparedTrigger | None] = {}
