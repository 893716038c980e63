"""Time filters: rows that count while the clock is between two instants of theirs.

Law: with ``W`` the rows that may still count, each with the instants ``since`` and ``until``, the rows of the filter at
clock ``c`` are those of ``W`` with ``since <= c < until``. When the clock goes from ``b`` to ``c``

- rows with ``b < since <= c < until`` come,
- rows with ``since <= b < until <= c`` leave,
- rows with ``b < until <= c`` are no more in ``W``, for the clock never goes back.

Cost: what comes and leaves, and the search for the first of it in an ordered map. A row that comes with an ``until``
that has passed is never in ``W``, and neither is its deletion: whether a row was in ``W`` follows from its own columns.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.algebra.expressions.conditions import conjuncts
from tidemill.algebra.expressions.scalars import Call, Named, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Filter, Join, Project, Scan
from tidemill.algebra.relational.walk import columns_in
from tidemill.compiler.analysis.filters import filtered
from tidemill.compiler.analysis.post_aggregation import split_post_aggregation
from tidemill.compiler.analysis.rename import fresh
from tidemill.compiler.analysis.validity import (
    NotAnInterval,
    Validity,
    all_of,
    extreme,
    not_null,
    validity,
)
from tidemill.model.clocks import is_clock
from tidemill.model.types import BOOLEAN
from tidemill.program.maps import Map

SINCE, UNTIL = "since", "until"
"""Names of the instants of a row, unless it has columns of that name."""


@dataclass(frozen=True, slots=True)
class TimeFilter:
    """The state of a time filter: the map ``waiting`` of rows that may still count, with the columns of their instants.

    ``outputs`` are the names of those of its keys that come out.
    """

    clock: str
    waiting: Map
    outputs: tuple[str, ...]
    since: str | None
    until: str | None


@dataclass(frozen=True, slots=True)
class TimeFilterParts:
    """A time filter, the rows that come out, and those of its map."""

    filter: TimeFilter
    shown: Relation
    kept: Relation


def clock_of(relation: Relation) -> Scan | None:
    """The clock that ``relation`` joins with other rows, and perhaps compares with them above the join."""
    while isinstance(relation, Filter):
        relation = relation.input
    if not isinstance(relation, Join):
        return None
    return next((s for s in (relation.left, relation.right) if isinstance(s, Scan) and is_clock(s.relation)), None)


def split_time_filter(name: str, tree: Relation, needed: set[str] | None) -> TimeFilterParts | None:
    """A tree as a time filter, giving out the ``needed`` columns; None if it is none that is understood."""
    above, join = split_post_aggregation(tree)
    clock = clock_of(join)
    if clock is None or above.times is not None or not isinstance(join, Join):
        return None
    now = clock.fields[0].name
    conditions = [part for one in (join.condition, above.condition) if one is not None for part in conjuncts(one)]
    timed = [part for part in conditions if now in columns_in(part)]
    outputs = tuple(o for o in above.outputs if now not in columns_in(o.scalar))
    if needed is not None:
        outputs = tuple(o for o in outputs if o.name in needed) or outputs[:1]
    if not timed or not outputs:
        return None
    try:
        found = all_of([validity(part, now) for part in timed])
    except NotAnInterval:
        return None
    plain = [condition for condition in conditions if condition not in timed]
    rows = filtered(join.left if join.right == clock else join.right, *plain, *not_null(found.bounds))
    return _parts(name, rows, clock, found, outputs)


def _parts(name: str, rows: Relation, clock: Scan, found: Validity, outputs: tuple[Named, ...]) -> TimeFilterParts:
    """The filter of ``rows`` that all have their instants."""
    now = column(clock.fields[0])
    since = extreme("greatest", found.since) if found.since else None
    until = extreme("least", found.until) if found.until else None
    taken = {output.name for output in outputs}
    instants = {fresh(of, taken): at for of, at in ((SINCE, since), (UNTIL, until)) if at is not None}
    begun = None if since is None else Call("le", (since, now), BOOLEAN)
    open_ = None if until is None else Call("lt", (now, until), BOOLEAN)
    ordered = None if since is None or until is None else Call("lt", (since, until), BOOLEAN)
    at_clock = Join(filtered(rows, ordered), clock)
    kept = Project(filtered(at_clock, open_), (*outputs, *(Named(of, at) for of, at in instants.items())))
    ends = list(instants)
    state = TimeFilter(
        clock.relation,
        Map(f"{name}/waiting", kept.fields),
        tuple(output.name for output in outputs),
        None if since is None else ends[0],
        None if until is None else ends[-1],
    )
    return TimeFilterParts(state, Project(filtered(at_clock, begun, open_), outputs), kept)
