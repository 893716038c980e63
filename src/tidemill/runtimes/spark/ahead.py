"""Looking ahead: the lookups that an epoch is going to make, made together.

Each lookup on Spark is a job, and a job costs a tenth of a second before it reads a row. The lookups of one routine
depend on each other, but those of different tables, triggers and views do not. So all routines are followed at once,
step by step: what they ask for at a step is merged by relation and key, and fetched side by side.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from tidemill.changes.batch import ChangeSet
from tidemill.changes.zset import Row
from tidemill.model.errors import ArithmeticFault
from tidemill.model.schema import Table
from tidemill.runtimes.native.base import Places
from tidemill.runtimes.native.layered import Layered
from tidemill.runtimes.native.running import Lookup, Standing

FETCHES = 4
"""How many fetches run at once: while one is planned, others keep the cores busy."""


@dataclass
class Wanted:
    """The keys asked for in one relation by the same columns: for whole rows, and for the columns that loops read."""

    relation: Standing
    positions: Places
    keys: dict[Places | None, set[Row]] = field(default_factory=dict)

    def fetch(self) -> list[tuple[Places | None, set[Row], list[tuple[Row, int]]]]:
        """What is missing, whole rows first: for those there is no second job."""
        found, whole = [], self.relation.missing(self.positions, self.keys.get(None, ()))
        for columns, keys in sorted(self.keys.items(), key=lambda asked: asked[0] is not None):
            missing = whole if columns is None else self.relation.missing(self.positions, keys, columns) - whole
            if missing:
                found.append((columns, missing, self.relation.fetch(self.positions, missing, columns)))
        return found


def steps(routines: Iterable[Iterator[Lookup]]) -> Iterator[list[Lookup]]:
    """What all routines ask for at each step. A routine goes on when the next step is asked for, with what it found."""
    open_ = list(routines)
    while asked := [(routine, lookup) for routine in open_ if (lookup := _next(routine)) is not None]:
        yield [lookup for _, lookup in asked]
        open_ = [routine for routine, _ in asked]


def _next(routine: Iterator[Lookup]) -> Lookup | None:
    """The next lookup of a routine; None at its end, or where it comes to a fault, to be reported when it runs."""
    try:
        return next(routine, None)
    except (ArithmeticFault, ArithmeticError):
        return None


def fetch(lookups: Sequence[Lookup]) -> None:
    """Bring the rows of many lookups to where they are looked up."""
    wanted: dict[tuple[int, Places], Wanted] = {}
    for lookup in lookups:
        one = wanted.setdefault((id(lookup.relation), lookup.positions), Wanted(lookup.relation, lookup.positions))
        one.keys.setdefault(lookup.columns, set()).update(lookup.keys)
    with ThreadPoolExecutor(FETCHES) as threads:
        for one, parts in zip(wanted.values(), threads.map(Wanted.fetch, wanted.values()), strict=True):
            for columns, keys, rows in parts:
                one.relation.keep(one.positions, keys, columns, rows)


def lookup_of_check(table: Table, change: ChangeSet, relation: Layered, lookups: Iterable[Lookup] = ()) -> Lookup:
    """How the check of a change finds its rows: by the primary key, or by a part of it whose rows ``lookups`` bring."""
    rows = [row for row, _ in change.pairs()]
    key = table.key_positions()
    for lookup in lookups:
        if lookup.relation is relation and set(lookup.positions) <= set(key):
            keys = _keys(rows, lookup.positions)
            if keys <= set(lookup.keys):
                return Lookup(relation, lookup.positions, keys)
    return Lookup(relation, key, _keys(rows, key))


def _keys(rows: Iterable[Row], positions: Places) -> set[Row]:
    return {tuple([row[i] for i in positions]) for row in rows}
