"""Predicted entries, bytes and work of a program, from the sizes of the relations that it reads.

Everything is estimated as query planners do: a lookup finds the rows of a relation divided by the values of the columns
it goes by, and a map has as many entries as its keys can have values, or as rows come to it. Work is counted as in
``viewlets.materialization_costs``: entries that statements visit, and entries that they update, each of which counts
``UPDATE`` visits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log2, prod
from typing import assert_never

from tidemill.algebra.expressions.scalars import Call, Column, Literal, Scalar
from tidemill.algebra.relational.walk import columns_in
from tidemill.compiler.statistics.sizes import MANY, UPDATE, RelationSize
from tidemill.model import types as t
from tidemill.model.types import Type
from tidemill.program.maps import Map
from tidemill.program.reads import queries_of
from tidemill.program.stages import GroupEmission, Program, SessionEmission, Stage
from tidemill.program.statements import Add, ArrayLoop, MapRead, MapSeek, Query, RelationLoop, Step, Trigger, Version

PASSING = 1 / 3
"""Assumed selectivity of a condition."""

ENTRY_BYTES = 16
"""Bytes of an entry besides its columns: its slot in a table, and the hash of its key."""

WIDTHS: dict[type[Type], int] = {t.Boolean: 1, t.Int: 4, t.Date: 4, t.Decimal: 16, t.String: 24}
"""Bytes of a value; those of other types take 8."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """``entries`` and ``bytes`` of all maps without the view's rows, and the ``work`` for one change of each input.

    ``unread`` is the work of a change where only the maps of join graphs are kept; None where there are none.
    """

    entries: float
    bytes: float
    work: Mapping[str, float]
    unread: Mapping[str, float] | None


def predict(program: Program, tables: Mapping[str, RelationSize]) -> Prediction:
    """Predicted entries, bytes and work of ``program`` over ``tables``."""
    known = dict(tables)
    entries = size = 0.0
    work: dict[str, float] = {}
    unread: dict[str, float] = {}
    for stage in program.stages:
        for map_ in stage.maps:
            known[map_.name] = _filled(stage.load, map_, known)
            entries += known[map_.name].rows
            size += known[map_.name].rows * _bytes_of(map_)
        known[stage.name] = _rows_of(stage, known)
        members = {member.map for graph in stage.graphs for member in graph.members}
        for trigger in stage.triggers:
            costs = list(_costs(trigger, known))
            work[trigger.relation] = work.get(trigger.relation, 0.0) + sum(cost for _, cost in costs)
            kept = sum(cost for target, cost in costs if target in members)
            unread[trigger.relation] = unread.get(trigger.relation, 0.0) + kept
    return Prediction(entries, size, work, unread if any(stage.graphs for stage in program.stages) else None)


def _bytes_of(map_: Map) -> int:
    types = [*(f.type for f in map_.keys), *(value.type for value in map_.values), t.BIGINT]
    return ENTRY_BYTES + sum(WIDTHS.get(type(one), 8) for one in types)


def _rows_of(stage: Stage, known: Mapping[str, RelationSize]) -> RelationSize:
    """The rows of a stage: those that its statements add, or the entries of the map that they come from."""
    if isinstance(stage.finish, SessionEmission):
        # How many instants a session has is not known; at most there is one for each.
        return RelationSize(known[stage.finish.source].rows, {})
    if not isinstance(stage.finish, GroupEmission):
        return _filled(stage.load, Map(stage.name, stage.output), known)
    source = known[stage.finish.source]
    plain = {o.name: o.scalar.name for o in stage.finish.outputs if isinstance(o.scalar, Column)}
    return RelationSize(
        source.rows, {name: source.distinct(read) for name, read in plain.items() if read in source.values}
    )


def _filled(load: Sequence[Add], map_: Map, known: Mapping[str, RelationSize]) -> RelationSize:
    """Size of a map after the statements that load it."""
    found = [_joined(add.query, len(map_.keys), known) for add in load if add.target == map_.name]
    rows = sum(contents.rows for contents in found)
    names = [f.name for f in map_.keys]
    values = {name: sum(contents.values[str(i)] for contents in found) for i, name in enumerate(names) if found}
    return RelationSize(rows, values)


def _joined(query: Query, keys: int, known: Mapping[str, RelationSize]) -> RelationSize:
    """The entries that a query gives, and the values of each of its keys, by their numbers."""
    walk = _LoopEstimate(known)
    for step in query.sources:
        walk.take(step)
    values = {str(i): walk.values(output.scalar) for i, output in enumerate(query.outputs[:keys])}
    return RelationSize(min(walk.rows, prod(values.values())), values)


def _costs(trigger: Trigger, known: Mapping[str, RelationSize]) -> Iterator[tuple[str, float]]:
    """Each statement's target, and the work that one changed row makes for it."""
    for statement in trigger.statements:
        for query in queries_of(statement):
            walk = _LoopEstimate(known)
            for step in query.sources:
                walk.take(step)
            yield statement.target, walk.visits + UPDATE * walk.rows


class _LoopEstimate:
    """Estimate of nested loops so far: rows found, rows visited, and distinct values of their columns."""

    def __init__(self, known: Mapping[str, RelationSize]) -> None:
        self._known = known
        self._values: dict[str, float] = {}
        self._changed = False
        self.rows = 1.0
        self.visits = 0.0

    def take(self, step: Step) -> None:
        """One more step."""
        match step:
            case RelationLoop():
                self._take_source(step)
            case MapRead() | MapSeek():
                entries = self._known[step.map].rows
                self.visits += self.rows * (
                    1 if isinstance(step, MapRead) and step.range is None else log2(entries + 2)
                )
                self.rows *= PASSING ** len(step.filters)
            case ArrayLoop():
                pass  # the length of an array is unknown: one element
            case _:
                assert_never(step)

    def _take_source(self, source: RelationLoop) -> None:
        if source.version is Version.CHANGE:
            self.visits += 1
            # One row seldom joins with itself: a second loop over the change finds nothing.
            self.rows *= 0.0 if self._changed else 1.0
            self._values |= {f"{source.alias}.{f.name}": 1.0 for f in source.columns}
            self._changed = True
        else:
            contents = self._known.get(source.relation, RelationSize(MANY))
            found = contents.rows
            for name, key in source.lookup:
                found /= max(contents.distinct(name), self.values(key))
            self.rows *= found
            self.visits += self.rows
            self._values |= {f"{source.alias}.{f.name}": contents.distinct(f.name) for f in source.columns}
        self.rows *= prod(map(self._passing, source.filters))

    def _passing(self, condition: Scalar) -> float:
        match condition:
            case Call(function="eq", arguments=(Column() as one, Literal())):
                return 1 / self.values(one)
            case Call(function="is_not_null"):
                return 1.0
        return PASSING

    def values(self, scalar: Scalar) -> float:
        """Number of distinct values of an expression, at most the number of rows."""
        found = prod(self._values.get(name, 1.0) for name in columns_in(scalar))
        return max(1.0, min(found, self.rows) if not self._changed else found)
