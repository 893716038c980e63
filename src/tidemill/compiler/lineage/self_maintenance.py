"""The events that a view listens to, the plan for each, and the base relations that it reads.

All of it is derived from the program: rows that leave or stay are joined with the lineage, and rows that arrive with
the contents of relations. These are MOVIE's two kinds of plan: a delta is *joined* with the
lineage of the view (``vx ⋈ Δ``), which reads no base data, or it is *planted* in the view's definition in place of the
relation that changed, which reads the others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import assert_never

from tidemill.algebra.relational.walk import columns_in
from tidemill.model.schema import Table
from tidemill.model.update_events import Listening, UpdateEvent
from tidemill.program.linearity import scalars_of
from tidemill.program.reads import queries_of, relation_of
from tidemill.program.stages import GroupEmission, Program, Stage
from tidemill.program.statements import ArrayLoop, ChangeSubset, Query, RelationLoop, Trigger, Version


class DeltaMethod(Enum):
    """One way to compute changes, and the state of the changed object that it takes."""

    PLANT_NEW = "plant Δnew"
    JOIN_NEW = "vx ⋈ Δnew"
    JOIN_OLD = "vx ⋈ Δold"


MaintenancePlan = tuple[DeltaMethod, ...]


@dataclass(frozen=True, slots=True)
class EventMaintenance:
    """An event that a view listens to, the plan for it, and the base relations that may be read."""

    listening: Listening
    plan: MaintenancePlan
    reads: tuple[str, ...]

    def __str__(self) -> str:
        plan = ", ".join(move.value for move in self.plan)
        return f"{self.listening}: {plan}; reads {', '.join(self.reads) if self.reads else 'no base data'}"


@dataclass(frozen=True, slots=True)
class RowEffect:
    """Effect of an event on the rows of a relation: some arrive, some leave, some have other values in ``columns``."""

    arrives: bool = False
    leaves: bool = False
    columns: frozenset[str] = frozenset()

    def __or__(self, other: RowEffect) -> RowEffect:
        return RowEffect(self.arrives or other.arrives, self.leaves or other.leaves, self.columns | other.columns)

    def __bool__(self) -> bool:
        return self.arrives or self.leaves or bool(self.columns)


def event_maintenance(program: Program, tables: Mapping[str, Table]) -> list[EventMaintenance]:
    """For each event that can affect the view, in the order of its relations and their columns.

    ``tables`` declare which columns are keys: a row with another key is another object.
    """
    stages = {stage.name for stage in program.stages}
    found: dict[Listening, EventMaintenance] = {}
    for relation in dict.fromkeys(name for stage in program.stages for name in stage.inputs if name not in stages):
        key = tables[relation].primary_key if relation in tables else ()
        for listening, moved in _events(program, relation, key):
            found[listening] = _effects_of(program, relation, listening, moved)
    return list(found.values())


def _events(program: Program, relation: str, key: Collection[str]) -> Iterator[tuple[Listening, RowEffect]]:
    """The events at ``relation`` that the view listens to, and what each of them does to its rows."""
    yield Listening(UpdateEvent.INSERT, relation), RowEffect(arrives=True)
    yield Listening(UpdateEvent.DELETE, relation), RowEffect(leaves=True)
    columns, arrays = _read(program, relation)
    for name in (name for name in columns if name not in key):
        place = f"{relation}.{name}"
        if name in arrays:
            yield Listening(UpdateEvent.INSERT_ELEMENT, place), RowEffect(columns=frozenset((f"+{name}",)))
            yield Listening(UpdateEvent.DELETE_ELEMENT, place), RowEffect(columns=frozenset((f"-{name}",)))
        else:
            yield Listening(UpdateEvent.MODIFY, place), RowEffect(columns=frozenset((name,)))


def _read(program: Program, relation: str) -> tuple[dict[str, None], set[str]]:
    """The columns of a relation that the program reads, and those of them whose elements it reads."""
    columns: dict[str, None] = {}
    arrays: set[str] = set()
    for stage in program.stages:
        for query, source in _loops(stage, relation):
            used = {name for scalar in scalars_of(query) for name in columns_in(scalar)}
            for f in source.columns:
                if f"{source.alias}.{f.name}" in used:
                    columns[f.name] = None
            for step in query.sources:
                if isinstance(step, ArrayLoop):
                    arrays |= {f.name for f in source.columns if f"{source.alias}.{f.name}" in columns_in(step.array)}
    return columns, arrays


def _loops(stage: Stage, relation: str) -> Iterator[tuple[Query, RelationLoop]]:
    """The queries of a stage that a change of ``relation`` runs, and the loop over that change."""
    for trigger in stage.triggers:
        if trigger.relation == relation:
            for query in _queries(trigger):
                for step in query.sources:
                    if isinstance(step, RelationLoop) and step.version is Version.CHANGE:
                        yield query, step


def _queries(trigger: Trigger) -> Iterator[Query]:
    return (query for statement in trigger.statements for query in queries_of(statement))


def _effects_of(program: Program, relation: str, listening: Listening, moved: RowEffect) -> EventMaintenance:
    """The effects of an event, stage by stage."""
    own = {stage.name for stage in program.stages} | {map_.name for stage in program.stages for map_ in stage.maps}
    known: dict[str, RowEffect] = {relation: moved}
    reads: dict[str, None] = {}
    planted = False
    for stage in program.stages:
        result = RowEffect()
        for name in stage.inputs:
            if name in known:
                for query, source in _loops(stage, name):
                    fired = _fired(query, source, known[name])
                    result |= fired
                    if fired and (source.split is None or source.split.part is ChangeSubset.ARRIVING):
                        planted = planted or (fired.arrives and source.split is not None)
                        read = (step for step in query.sources if isinstance(step, RelationLoop) and step is not source)
                        reads |= {relation_of(step): None for step in read if relation_of(step) not in own}
        if result:
            known[stage.name] = _emitted(stage, result)
    return EventMaintenance(listening, _plan(listening.event, planted), tuple(reads))


def _plan(event: UpdateEvent, planted: bool) -> MaintenancePlan:
    match event:
        case UpdateEvent.INSERT:
            return (DeltaMethod.PLANT_NEW,)
        case UpdateEvent.DELETE | UpdateEvent.DELETE_ELEMENT:
            return (DeltaMethod.JOIN_OLD,)
        case UpdateEvent.INSERT_ELEMENT:
            return (DeltaMethod.PLANT_NEW,) if planted else (DeltaMethod.JOIN_NEW,)
        case UpdateEvent.MODIFY | UpdateEvent.MODIFY_ELEMENT:
            return (DeltaMethod.JOIN_OLD, DeltaMethod.PLANT_NEW) if planted else (DeltaMethod.JOIN_NEW,)
        case _:
            assert_never(event)


def _fired(query: Query, source: RelationLoop, moved: RowEffect) -> RowEffect:
    """Effect of a loop over the change; none if the part of the change that it reads has no rows."""
    split = source.split
    decides = set() if split is None else {*split.key, *split.fixed}
    tried = {name for step in query.sources for scalar in step.filters for name in columns_in(scalar)}
    own = {f"{source.alias}.{f.name}": f.name for f in source.columns}
    decides |= {own[name] for name in tried if name in own}
    moves = moved | _elements(query, source, moved)
    turned = bool({name.lstrip("+-") for name in moved.columns} & decides)
    arrives, leaves = moves.arrives or turned, moves.leaves or turned
    shown = frozenset(
        output.name
        for output in query.outputs
        if {own[name] for name in columns_in(output.scalar) if name in own} & _bare(moved)
    )
    if split is None:
        return RowEffect(arrives, leaves, shown)
    if split.part is ChangeSubset.ARRIVING:
        return RowEffect(arrives=arrives)
    return RowEffect(leaves=leaves, columns=shown)


def _elements(query: Query, source: RelationLoop, moved: RowEffect) -> RowEffect:
    """Elements added to an array are rows that arrive, elements removed are rows that leave."""
    found = RowEffect()
    for step in query.sources:
        if isinstance(step, ArrayLoop):
            read = {name.removeprefix(f"{source.alias}.") for name in columns_in(step.array)}
            found |= RowEffect(
                arrives=any(f"+{name}" in moved.columns or name in moved.columns for name in read),
                leaves=any(f"-{name}" in moved.columns or name in moved.columns for name in read),
            )
    return found


def _bare(moved: RowEffect) -> set[str]:
    return {name.lstrip("+-") for name in moved.columns}


def _emitted(stage: Stage, moved: RowEffect) -> RowEffect:
    """Effect on the rows of a stage. For sums and partitions it depends on values, so all effects are possible."""
    if stage.finish is None:
        return moved
    outputs = stage.finish.outputs
    if isinstance(stage.finish, GroupEmission) and not stage.finish.multiset_reads and not stage.maps[0].values:
        shown = frozenset(output.name for output in outputs if columns_in(output.scalar) & moved.columns)
        return RowEffect(moved.arrives, moved.leaves, shown)
    return RowEffect(arrives=True, leaves=True, columns=frozenset(output.name for output in outputs))
