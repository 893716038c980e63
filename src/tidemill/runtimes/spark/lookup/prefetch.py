"""Prefetch: the lookups that an epoch is going to make, made together.

Each lookup on Spark is a job, and a job costs a tenth of a second before it reads a row. The lookups of one routine
depend on each other, but those of different tables, triggers and views do not. So all routines are run in lockstep: the
lookups of a step are merged by relation and key, and made by one job.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import Row
from tidemill.model.errors import ArithmeticFault
from tidemill.model.schema import Table
from tidemill.runtimes.native.planned_lookups import PlannedLookup, SnapshotBacked
from tidemill.runtimes.native.state.overlay import OverlaidRelation
from tidemill.runtimes.native.state.snapshot import ColumnPositions
from tidemill.runtimes.spark.lookup.stored_snapshot import fetch_together


@dataclass
class KeyFetch:
    """The keys requested in one relation by the same columns: for whole rows, and for the columns that loops read."""

    relation: SnapshotBacked
    positions: ColumnPositions
    keys: dict[ColumnPositions | None, set[Row]] = field(default_factory=dict)

    def missing(self) -> list[tuple[ColumnPositions | None, set[Row]]]:
        """The keys whose rows must be fetched, whole rows first: keys found there need not be fetched again."""
        found, whole = [], self.relation.missing(self.positions, self.keys.get(None, ()))
        for columns, keys in sorted(self.keys.items(), key=lambda asked: asked[0] is not None):
            missing = whole if columns is None else self.relation.missing(self.positions, keys, columns) - whole
            if missing:
                found.append((columns, missing))
        return found


def lookup_rounds(routines: Iterable[Iterator[PlannedLookup]]) -> Iterator[list[PlannedLookup]]:
    """The lookups of all routines at each step. A routine resumes, with the rows found, when the next step is taken."""
    open_ = list(routines)
    while asked := [(routine, lookup) for routine in open_ if (lookup := _next(routine)) is not None]:
        yield [lookup for _, lookup in asked]
        open_ = [routine for routine, _ in asked]


def _next(routine: Iterator[PlannedLookup]) -> PlannedLookup | None:
    """The next lookup of a routine; None at its end, or at a fault, which is reported when it runs."""
    try:
        return next(routine, None)
    except (ArithmeticFault, ArithmeticError):
        return None


def prefetch(lookups: Sequence[PlannedLookup]) -> None:
    """Fetch the rows of many lookups by one job, and cache them in their relations."""
    wanted: dict[tuple[int, ColumnPositions], KeyFetch] = {}
    for lookup in lookups:
        one = wanted.setdefault((id(lookup.relation), lookup.positions), KeyFetch(lookup.relation, lookup.positions))
        one.keys.setdefault(lookup.columns, set()).update(lookup.keys)
    asked = [(one, columns, keys) for one in wanted.values() for columns, keys in one.missing()]
    found = fetch_together([one.relation.planned(one.positions, keys, columns) for one, columns, keys in asked])
    for (one, columns, keys), rows in zip(asked, found, strict=True):
        one.relation.keep(one.positions, keys, columns, rows)


def key_check_lookup(
    table: Table, change: ChangeSet, relation: OverlaidRelation, lookups: Iterable[PlannedLookup] = ()
) -> PlannedLookup:
    """The lookup by which the check of a change finds its rows: by the primary key, or by a part of it that is among
    ``lookups``."""
    rows = [row for row, _ in change.pairs()]
    key = table.key_positions
    for lookup in lookups:
        if lookup.relation is relation and set(lookup.positions) <= set(key):
            keys = _keys(rows, lookup.positions)
            if keys <= set(lookup.keys):
                return PlannedLookup(relation, lookup.positions, keys)
    return PlannedLookup(relation, key, _keys(rows, key))


def _keys(rows: Iterable[Row], positions: ColumnPositions) -> set[Row]:
    return {tuple([row[i] for i in positions]) for row in rows}
