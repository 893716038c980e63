"""Looking ahead: the lookups that an epoch is going to make, made together.

Each lookup on Spark is a job, and a job costs a tenth of a second before it reads a row. The lookups of one routine
depend on each other, but those of different tables, triggers and views do not. So all routines are followed at once,
step by step: what they ask for at a step is merged by relation and key, and fetched side by side.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import Row
from tidemill.model.errors import ArithmeticFault
from tidemill.model.schema import Table
from tidemill.runtimes.native.executor import PlannedLookup, SnapshotBacked
from tidemill.runtimes.native.state.overlay import OverlaidRelation
from tidemill.runtimes.native.state.snapshot import ColumnPositions

CONCURRENT_FETCHES = 4
"""How many fetches run at once: while one is planned, others keep the cores busy."""


@dataclass
class KeyFetch:
    """The keys asked for in one relation by the same columns: for whole rows, and for the columns that loops read."""

    relation: SnapshotBacked
    positions: ColumnPositions
    keys: dict[ColumnPositions | None, set[Row]] = field(default_factory=dict)

    def fetch(self) -> list[tuple[ColumnPositions | None, set[Row], list[tuple[Row, int]]]]:
        """What is missing, whole rows first: for those there is no second job."""
        found, whole = [], self.relation.missing(self.positions, self.keys.get(None, ()))
        for columns, keys in sorted(self.keys.items(), key=lambda asked: asked[0] is not None):
            missing = whole if columns is None else self.relation.missing(self.positions, keys, columns) - whole
            if missing:
                found.append((columns, missing, self.relation.fetch(self.positions, missing, columns)))
        return found


def lookup_rounds(routines: Iterable[Iterator[PlannedLookup]]) -> Iterator[list[PlannedLookup]]:
    """What all routines ask for at each step. A routine goes on when the next step is asked for, with what it found."""
    open_ = list(routines)
    while asked := [(routine, lookup) for routine in open_ if (lookup := _next(routine)) is not None]:
        yield [lookup for _, lookup in asked]
        open_ = [routine for routine, _ in asked]


def _next(routine: Iterator[PlannedLookup]) -> PlannedLookup | None:
    """The next lookup of a routine; None at its end, or where it comes to a fault, to be reported when it runs."""
    try:
        return next(routine, None)
    except (ArithmeticFault, ArithmeticError):
        return None


def prefetch(lookups: Sequence[PlannedLookup]) -> None:
    """Bring the rows of many lookups to where they are looked up."""
    wanted: dict[tuple[int, ColumnPositions], KeyFetch] = {}
    for lookup in lookups:
        one = wanted.setdefault((id(lookup.relation), lookup.positions), KeyFetch(lookup.relation, lookup.positions))
        one.keys.setdefault(lookup.columns, set()).update(lookup.keys)
    with ThreadPoolExecutor(CONCURRENT_FETCHES) as threads:
        for one, parts in zip(wanted.values(), threads.map(KeyFetch.fetch, wanted.values()), strict=True):
            for columns, keys, rows in parts:
                one.relation.keep(one.positions, keys, columns, rows)


def key_check_lookup(
    table: Table, change: ChangeSet, relation: OverlaidRelation, lookups: Iterable[PlannedLookup] = ()
) -> PlannedLookup:
    """How the check of a change finds its rows: by the primary key, or by a part of it whose rows ``lookups`` bring."""
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
