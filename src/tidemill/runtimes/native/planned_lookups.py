"""Lookups that queries are about to make in large relations, so that those of many queries can be made together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tidemill.changes.zset import Row
from tidemill.runtimes.native.fault_location import exact_evaluation
from tidemill.runtimes.native.python.access import Access
from tidemill.runtimes.native.python.compile import CompiledQuery, CompiledStage
from tidemill.runtimes.native.state.overlay import OverlaidRelation
from tidemill.runtimes.native.state.ring_map import RingMap
from tidemill.runtimes.native.state.row_map import RowMap
from tidemill.runtimes.native.state.snapshot import ColumnPositions

SnapshotBacked = OverlaidRelation | RowMap | RingMap
"""A relation or map with a snapshot, from which it loads the rows that a query will look up."""


@dataclass(frozen=True, slots=True)
class PlannedLookup:
    """A lookup that a query is about to make in a large relation or map: the rows under ``keys``.

    Of the rows of a relation it reads ``columns``.
    """

    relation: SnapshotBacked
    positions: ColumnPositions
    keys: Collection[Row]
    columns: ColumnPositions | None = None

    def rows(self) -> dict[Any, list[tuple[Row, int]]]:
        """The rows of a relation by key, fetched if they are not cached."""
        assert isinstance(self.relation, OverlaidRelation)
        return self.relation.lookup(self.positions, self.keys, self.columns)


@dataclass(frozen=True, slots=True)
class PlannedSum:
    """A routine that is about to add to ``target``: it runs on what it was ``given`` once its lookups are made."""

    compiled: CompiledStage
    target: str
    routine: CompiledQuery
    given: dict[Access, Any]
    lookups: Iterator[PlannedLookup]

    def next_lookup(self) -> PlannedLookup | None:
        """The next lookup, to be made before this is called again; None if there are no more."""
        with exact_evaluation(self.compiled):
            return next(self.lookups, None)

    def run(self, sums: dict[Row, Any]) -> None:
        """Add the results to ``sums``."""
        with exact_evaluation(self.compiled):
            self.routine.run(sums, *self.given.values())


def make_lookups(routines: Sequence[PlannedSum], fetch: Callable[[list[PlannedLookup]], None]) -> None:
    """Make the lookups of all routines, those of each step together by ``fetch``."""
    waiting = list(routines)
    while waiting:
        asked = [(routine, lookup) for routine in waiting if (lookup := routine.next_lookup()) is not None]
        fetch([lookup for _, lookup in asked])
        waiting = [routine for routine, _ in asked]
