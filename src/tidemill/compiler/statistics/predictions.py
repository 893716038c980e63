"""Predicted entries, bytes and work of a program, from the sizes of the relations that it reads.

A map has as many entries as its keys can have values, or as rows come to it. Work is counted in elementary operations,
whose costs are ``work_counts.CONSTANTS``. A change passes through the stages: what a stage emits is the change that the
next ones have to take. So an aggregate without groups, whose one row is joined with a table, costs a visit of that
whole table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, replace
from math import log2, prod
from typing import NamedTuple, assert_never

from tidemill.algebra.expressions.scalars import Column, Scalar
from tidemill.algebra.relational.relations import TopK, Window
from tidemill.algebra.relational.walk import columns_in
from tidemill.compiler.statistics.column_values import NO_SHARES
from tidemill.compiler.statistics.costs import CostClass, cost_of_emission
from tidemill.compiler.statistics.loop_estimate import estimate_loops
from tidemill.compiler.statistics.sizes import MATCHES, RelationSize, nothing_shared
from tidemill.compiler.statistics.work_counts import CONSTANTS, NOTHING, WorkCounts
from tidemill.model import types as t
from tidemill.model.types import Type
from tidemill.program.joins import DegreeRole
from tidemill.program.maps import Map
from tidemill.program.reads import reads_change, reads_old, relation_of, row_queries, sources_of
from tidemill.program.stages import (
    Emission,
    GroupEmission,
    IterationEmission,
    PartitionEmission,
    Program,
    SessionEmission,
    Stage,
    TimePartitionEmission,
)
from tidemill.program.statements import Add, ArrayLoop, Query, Replace, TriggerStatement, Version

ENTRY_BYTES = 16
"""Bytes of an entry besides its columns: its slot in a table, and the hash of its key."""

ROW_BYTES = 64
"""Bytes of a row of a relation, in the mean."""

WIDTHS: dict[type[Type], int] = {
    t.Boolean: 1,
    t.TinyInt: 4,
    t.SmallInt: 4,
    t.Int: 4,
    t.Date: 4,
    t.YearMonthInterval: 4,
    t.Decimal: 16,
    t.String: 24,
}
"""Bytes of a value; those of other types take 8."""

PARTITIONS = 100.0
"""Assumed number of time partitions."""

REPLACED = 2.0
"""Rows that a change of a row is: the old one goes, the new one comes."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """``entries`` and ``bytes`` of all that changes read, and the ``work`` for one change of each input.

    These are the maps, without the rows of the view, and the rows of base relations that are looked up.

    ``unread`` is the work of a change where only the maps of join graphs are kept; None where there are none.
    """

    entries: float
    bytes: float
    work: Mapping[str, float]
    unread: Mapping[str, float] | None


@dataclass(frozen=True, slots=True)
class StageEstimate:
    """Entries and bytes of the maps of a stage, and for one changed row of each input its work and what it emits.

    ``kept`` is the part of the work that maintains the maps of join graphs.
    """

    entries: float
    bytes: float
    work: Mapping[str, WorkCounts]
    emitted: Mapping[str, float]
    kept: Mapping[str, WorkCounts] | None


class ProgramEstimate:
    """The estimate of a program, stage by stage, over base relations of given sizes.

    ``known`` are the sizes of what stages can read. ``arrivals`` are the rows of each relation and stage that change
    for one changed row of a base relation, each of which changes at its rate: as its rows have changed lately, or as
    often as it has rows, where that is unknown. ``batch`` rows come together: a stage of few rows changes once for all.
    """

    def __init__(self, tables: Mapping[str, RelationSize], batch: float = 1.0) -> None:
        self.known = dict(tables)
        self.entries = self.bytes = 0.0
        self.counts = NOTHING
        self.arrivals = change_rates(tables)
        self._batch = batch
        self._tables = frozenset(tables)

    def cost(self, estimate: StageEstimate) -> float:
        """The work in a stage for one changed row of a base relation."""
        return CONSTANTS.cost(self._counts_of(estimate))

    @property
    def work(self) -> float:
        """The work in all stages so far for one changed row of a base relation."""
        return CONSTANTS.cost(self.counts)

    def add(self, stage: Stage) -> StageEstimate:
        """Estimate one more stage; later ones read its rows."""
        estimate, rows = estimate_stage(stage, self.known)
        self.counts += self._counts_of(estimate)
        self.entries += estimate.entries
        self.bytes += estimate.bytes
        self.known[stage.name] = rows
        self.arrivals[stage.name] = _emitted(self.arrivals, estimate, rows, self._batch)
        return estimate

    def branch(self) -> ProgramEstimate:
        """The same estimate, to be gone on with by other stages."""
        other = copy(self)
        other.known, other.arrivals = dict(self.known), dict(self.arrivals)
        return other

    def _counts_of(self, estimate: StageEstimate) -> WorkCounts:
        arriving = {name: self.arrivals.get(name, 0.0) for name in estimate.work}
        passed = sum(rows for name, rows in arriving.items() if name not in self._tables)
        # A stage that few rows reach does not run in every epoch.
        runs = min(1.0 / self._batch, sum(arriving.values()))
        return _work_of(self.arrivals, estimate.work) + WorkCounts(passed=passed, runs=runs)


def change_rates(tables: Mapping[str, RelationSize]) -> dict[str, float]:
    """The part of all changes that each relation has."""
    changes = {name: size.changes for name, size in tables.items() if size.changes is not None}
    if len(changes) < len(tables):
        changes = {name: size.rows for name, size in tables.items()}
    total = sum(changes.values())
    return {name: count / total if total else 1.0 for name, count in changes.items()}


def _arriving(arrivals: Mapping[str, float], figures: Mapping[str, float]) -> float:
    """The sum of the figures for one row of each input, each as often as its rows arrive."""
    return sum(arrivals.get(name, 0.0) * figure for name, figure in figures.items())


def _work_of(arrivals: Mapping[str, float], work: Mapping[str, WorkCounts]) -> WorkCounts:
    """The sum of the work for one row of each input, each as often as its rows arrive."""
    return sum((arrivals.get(name, 0.0) * counts for name, counts in work.items()), NOTHING)


def _emitted(arrivals: Mapping[str, float], estimate: StageEstimate, rows: RelationSize, batch: float) -> float:
    """The rows that a stage emits; ``batch`` rows together replace each of its rows at most once."""
    return min(_arriving(arrivals, estimate.emitted), REPLACED * max(rows.rows, 1.0) / batch)


def predict(program: Program, tables: Mapping[str, RelationSize]) -> Prediction:
    """Predicted entries, bytes and work of ``program`` over ``tables``."""
    whole = ProgramEstimate(tables)
    stages = {stage.name: whole.add(stage) for stage in program.stages}
    inputs = dict.fromkeys(name for estimate in stages.values() for name in estimate.work if name not in stages)
    kept = {name: _passing(name, stages, whole.known, lambda estimate: estimate.kept or {}) for name in inputs}
    looked_up = {loop.relation for stage in program.stages for loop in sources_of(stage) if reads_old(loop)}
    held = [whole.known[name] for name in inputs if name in looked_up]
    return Prediction(
        whole.entries + sum(size.rows for size in held),
        whole.bytes + sum(map(bytes_of_rows, held)),
        {name: _passing(name, stages, whole.known, lambda estimate: estimate.work) for name in inputs},
        kept if any(stage.graphs for stage in program.stages) else None,
    )


def _passing(
    relation: str,
    stages: Mapping[str, StageEstimate],
    known: Mapping[str, RelationSize],
    work_of: Callable[[StageEstimate], Mapping[str, WorkCounts]],
) -> float:
    """The work of one changed row of ``relation`` in all stages that it reaches."""
    arrivals, work = {relation: 1.0}, NOTHING
    for name, estimate in stages.items():
        work += _work_of(arrivals, work_of(estimate))
        arrivals[name] = _emitted(arrivals, estimate, known[name], batch=1.0)
    return CONSTANTS.cost(work)


def estimate_stage(stage: Stage, known: Mapping[str, RelationSize]) -> tuple[StageEstimate, RelationSize]:
    """The estimate of one stage, and the size of its rows, over relations of ``known`` sizes."""
    sizes = _sizes_of_maps(stage, known)
    rows = _rows_of(stage, sizes)
    members = {member.map for graph in stage.graphs for member in graph.members}
    emitting = stage.name if stage.finish is None else _source_of(stage.finish)
    work: dict[str, WorkCounts] = {}
    kept: dict[str, WorkCounts] = {}
    emitted: dict[str, float] = {}
    keys = {map_.name: len(map_.keys) for map_ in stage.maps} | {stage.name: len(stage.output)}
    for trigger in stage.triggers:
        costs = [_cost(statement, keys.get(statement.target, 0), sizes) for statement in trigger.statements]
        touched = sum(cost.touched for cost in costs if cost.target == emitting)
        work[trigger.relation] = sum((cost.work for cost in costs), NOTHING) + touched * _emission_work(stage, sizes)
        kept[trigger.relation] = sum((cost.work for cost in costs if cost.target in members), NOTHING)
        emitted[trigger.relation] = _emitted_for(stage, trigger.relation, touched * _emission_rows(stage, sizes), sizes)
    entries = {map_: sizes[map_.name].rows for map_ in stage.maps}
    estimate = StageEstimate(
        sum(entries.values()),
        sum(count * _bytes_of(map_) for map_, count in entries.items()),
        work,
        emitted,
        kept if stage.graphs else None,
    )
    return estimate, rows


def _emitted_for(stage: Stage, relation: str, statements: float, known: Mapping[str, RelationSize]) -> float:
    """The rows that a stage emits for one row of ``relation``, where its ``statements`` add so many.

    A threshold changes once for about as many rows as there are, and then some rows move from one part to the other.
    """
    if stage.degrees is DegreeRole.THRESHOLD:
        return 1.0 / max(1.0, sum(known[name].rows for name in stage.inputs))
    return min(statements, 1.0) if stage.degrees is DegreeRole.PARTITION else statements


def _source_of(emission: Emission) -> str:
    """The map whose touched entries make rows."""
    return emission.kept if isinstance(emission, TimePartitionEmission) else emission.source


def bytes_of_rows(size: RelationSize) -> float:
    """Bytes of the rows of a relation, whatever their columns are."""
    return size.rows * ROW_BYTES


def _bytes_of(map_: Map) -> int:
    types = [*(f.type for f in map_.keys), *(value.type for value in map_.values), t.BIGINT]
    return ENTRY_BYTES + sum(WIDTHS.get(type(one), 8) for one in types)


# ------------------------------------------------------------------------------------------------------------- sizes


def _rows_of(stage: Stage, known: Mapping[str, RelationSize]) -> RelationSize:
    """The rows of a stage: those that its statements add, or the entries of the map that they come from."""
    if isinstance(stage.finish, SessionEmission):
        # How many instants a session has is not known; at most there is one for each.
        return RelationSize(known[stage.finish.source].rows, {})
    if not isinstance(stage.finish, GroupEmission):
        return _filled(stage, Map(stage.name, stage.output), known)
    source = known[stage.finish.source]
    plain = {o.name: o.scalar.name for o in stage.finish.outputs if isinstance(o.scalar, Column)}
    return RelationSize(
        source.rows, {name: source.distinct(read) for name, read in plain.items() if read in source.values}
    )


def _sizes_of_maps(stage: Stage, known: Mapping[str, RelationSize]) -> dict[str, RelationSize]:
    """The sizes of the maps of a stage, beside the ``known`` ones.

    A map comes after those that it is filled from, wherever the stage lists them: a map of unknown size is taken as
    large. Where some are filled from each other, the first in the list comes first.
    """
    sizes, waiting = dict(known), {map_.name: map_ for map_ in stage.maps}
    read = {name: {source for query in _filling(stage, name) for source in _read_by(query)} for name in waiting}
    while waiting:
        first = next((name for name in waiting if not (read[name] - {name}) & waiting.keys()), next(iter(waiting)))
        sizes[first] = _filled(stage, waiting.pop(first), sizes)
    return sizes


def _filling(stage: Stage, target: str) -> list[Query]:
    """The queries that fill a map: those that load it, or where there are none, those of triggers over all rows."""
    loading = [add.query for add in stage.load if add.target == target]
    return loading or [
        _over_state(statement.query)
        for trigger in stage.triggers
        for statement in trigger.statements
        if isinstance(statement, Add) and statement.target == target
    ]


def _read_by(query: Query) -> Iterator[str]:
    """The relations and maps that a query reads."""
    return (relation_of(step) for step in query.sources if not isinstance(step, ArrayLoop))


def _filled(stage: Stage, map_: Map, known: Mapping[str, RelationSize]) -> RelationSize:
    """Size of a map after all rows have come.

    Where no statements load it, its rows come one by one: each trigger would add all of them if its relation were the
    last to come, so the most that one adds counts.
    """
    names = [f.name for f in map_.keys]
    found = [_joined(query, len(names), known) for query in _filling(stage, map_.name)]
    if found and all(add.target != map_.name for add in stage.load):
        found = [max(found, key=lambda size: size.rows)]
    values = {name: sum(size.values[str(i)] for size in found) for i, name in enumerate(names) if found}
    spread = found[0].shares if len(found) == 1 else nothing_shared
    rows = added = sum(size.rows for size in found)
    if found and map_.end is not None:
        rows = min(rows, prod(values[name] for name in names[:-1]))
    finish = stage.finish
    if found and isinstance(finish, PartitionEmission) and finish.source == map_.name and finish.kept_rows is not None:
        rows = min(rows, finish.kept_rows * prod(values[name] for name in names[: finish.width]))
    return RelationSize(
        rows,
        values,
        lambda name: spread(str(names.index(name))) if name in values else NO_SHARES,
        grouped=sum(size.rows * size.grouped for size in found) / max(added, 1.0),
    )


def _over_state(query: Query) -> Query:
    """The query over all rows of the relation whose change it reads."""
    sources = [
        replace(step, version=Version.STATE, split=None) if reads_change(step) else step for step in query.sources
    ]
    return replace(query, sources=tuple(sources))


def _joined(query: Query, keys: int, known: Mapping[str, RelationSize]) -> RelationSize:
    """The entries that a query gives, and the values of each of its keys, by their numbers."""
    loops = estimate_loops(query, known)
    scalars = {str(i): output.scalar for i, output in enumerate(query.outputs[:keys])}
    values = {number: loops.values(scalar) for number, scalar in scalars.items()}
    entries = min(loops.rows, prod(values.values()))
    # Rows that are grouped have each value once in their group, however frequent it was.
    spread = entries == loops.rows
    return RelationSize(
        entries,
        values,
        lambda number: loops.shares(scalars[number]) if spread else NO_SHARES,
        grouped=loops.rows / max(entries, 1.0),
    )


# -------------------------------------------------------------------------------------------------------------- work


class _StatementCost(NamedTuple):
    """The cost of a statement for one changed row: the work, and the entries of its target that are touched."""

    target: str
    work: WorkCounts
    touched: float


def _cost(statement: TriggerStatement, keys: int, known: Mapping[str, RelationSize]) -> _StatementCost:
    """The cost of a statement whose target has so many key columns."""
    # What a row touches is read before it and after it.
    times = 2 if isinstance(statement, Replace) and statement.touched is not None else 1
    loops = [estimate_loops(query, known) for query in row_queries(statement)]
    found = times * sum(one.rows for one in loops)
    visits = times * sum(one.visits for one in loops)
    if isinstance(statement, Add):
        # Rows of one group touch one entry: where all its keys are those of the changed row, there is no other.
        touched = min(found, prod(loops[0].values(output.scalar) for output in statement.query.outputs[:keys]))
    else:
        touched = min(found, 1.0)  # replaced entries are compared with those before; few of them differ
    return _StatementCost(statement.target, WorkCounts(statements=1.0, visits=visits, updates=found), touched)


def _emission_work(stage: Stage, known: Mapping[str, RelationSize]) -> WorkCounts:
    """The work to make the rows of one touched entry."""
    cost = cost_of_emission(stage)
    if stage.finish is None:
        return NOTHING
    if cost is None:
        return WorkCounts(emissions=1.0)
    match cost.kind:
        case CostClass.CONSTANT:
            return WorkCounts(emissions=1.0)
        case CostClass.LOGARITHMIC:
            return WorkCounts(emissions=1.0, visits=log2(_share(stage, known) + 2))
        case CostClass.MATCHES:
            return WorkCounts(emissions=MATCHES)
        case CostClass.GROUP | CostClass.PARTITION | CostClass.DATA:
            return WorkCounts(emissions=_share(stage, known))
        case _:
            assert_never(cost.kind)


def _share(stage: Stage, known: Mapping[str, RelationSize]) -> float:
    """The entries of a group's multiset, or of a partition."""
    match stage.finish:
        case GroupEmission(source=source, multiset_reads=(read, *_)):
            return max(1.0, known[read.map].rows / max(known[source].rows, 1.0))
        case PartitionEmission(source=source, rows=rows):
            partitions = prod(known[source].distinct(name) for name in _names(rows.partition))
            return max(1.0, known[source].rows / max(min(partitions, known[source].rows), 1.0))
        case TimePartitionEmission(kept=kept):
            return max(1.0, known[kept].rows / PARTITIONS)
    return 1.0


def _names(scalars: Iterable[Scalar]) -> list[str]:
    return [name for scalar in scalars for name in columns_in(scalar)]


def _emission_rows(stage: Stage, known: Mapping[str, RelationSize]) -> float:
    """Rows that a stage emits for one touched entry."""
    match stage.finish:
        case None:
            return 1.0
        case GroupEmission(source=source, outputs=outputs):
            read = {name for output in outputs for name in columns_in(output.scalar)}
            keys = {f.name for map_ in stage.maps if map_.name == source for f in map_.keys}
            # Without sums a group is one row: that changes only with the first row of the group, and with its last.
            return REPLACED if read - keys else 1.0 / max(known[source].grouped, 1.0)
        case PartitionEmission(rows=TopK(limit=limit, offset=offset)) if limit is not None:
            return REPLACED * min(1.0, (limit + offset) / _share(stage, known))
        case PartitionEmission(rows=Window()):
            return REPLACED * CONSTANTS.cost(_emission_work(stage, known)) / CONSTANTS.emission
        case PartitionEmission() | IterationEmission() | TimePartitionEmission() | SessionEmission():
            return REPLACED
        case _:
            assert_never(stage.finish)
