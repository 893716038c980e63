"""Reads and writes of a stage: the times of the entries that the trigger of a future change can touch.

An *access* is a loop, a lookup or an addition of a query, with the bounds that the entries which it finds have: all
others do not matter to it, whether they are there or not. The conditions of a query are all true of what it finds, so
each of them may say something of every step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tidemill.algebra.expressions.scalars import Call, Column, Literal, Scalar
from tidemill.model.clocks import is_clock
from tidemill.model.types import BOOLEAN, Field
from tidemill.program.expiry.time_bounds import (
    Path,
    TimeBound,
    TimeBounds,
    below,
    bounds_of,
    common,
    narrow,
    raise_bound,
)
from tidemill.program.maps import Map
from tidemill.program.stages import Stage
from tidemill.program.statements import (
    Add,
    ArrayLoop,
    MapRead,
    MapSeek,
    Query,
    Range,
    RelationLoop,
    Step,
    Version,
)


@dataclass(frozen=True, slots=True)
class Access:
    """Entries of ``target`` that a change of ``cause`` can touch. ``adds``: it changes them; else it reads them.

    It is ``timeless`` if only rows whose time is NULL come so far.
    """

    target: str
    cause: str
    bounds: TimeBounds
    adds: bool = False
    timeless: bool = False


def accesses_of(stage: Stage, known: Mapping[str, TimeBounds]) -> Iterator[Access]:
    """Accesses of the triggers of a stage, if the changes of its inputs have the bounds ``known``."""
    keys = {map_.name: map_.keys for map_ in stage.maps} | {stage.name: stage.output}
    known = {**known, **_always_null(stage, keys)}
    for trigger in stage.triggers:
        for add in trigger.statements:
            assert isinstance(add, Add)
            row = row_bounds(add.query, known)
            yield from (access for step in add.query.sources for access in _of_step(step, trigger.relation, row))
            outputs = zip(keys[add.target], add.query.outputs, strict=False)
            found = {(key.name, *rest): b for key, o in outputs for rest, b in bounds_of(o.scalar, row).items()}
            timeless = any(bound.low == math.inf for bound in row.values())
            yield Access(add.target, trigger.relation, found, adds=True, timeless=timeless)


def _always_null(stage: Stage, keys: Mapping[str, tuple[Field, ...]]) -> dict[str, TimeBounds]:
    """The columns of maps that are NULL in all of their entries: those of rows whose time is NULL."""
    statements = [*stage.load, *(statement for trigger in stage.triggers for statement in trigger.statements)]
    added: dict[str, list[TimeBounds]] = {}
    for add in statements:
        if isinstance(add, Add):
            row = row_bounds(add.query, {})
            outputs = zip(keys[add.target], add.query.outputs, strict=False)
            found = {(key.name, *rest): b for key, o in outputs for rest, b in bounds_of(o.scalar, row).items()}
            added.setdefault(add.target, []).append(found)
    return {
        name: {path: bound for path, bound in common(several).items() if bound.low == math.inf}
        for name, several in added.items()
        if name != stage.name
    }


def implied_bounds(stage: Stage, map_: Map, known: TimeBounds) -> TimeBounds:
    """The bounds of all keys of entries of which some keys have the bounds ``known``, by how entries are made.

    A partition by the start of a window says something of the window itself.
    """
    statements = [*stage.load, *(statement for trigger in stage.triggers for statement in trigger.statements)]
    found = []
    for add in statements:
        if isinstance(add, Add) and add.target == map_.name:
            keys = {key.name: o.scalar for key, o in zip(map_.keys, add.query.outputs, strict=False)}
            row: dict[Path, TimeBound] = {}
            for (name, *rest), bound in known.items():
                raise_bound(row, keys[name], bound, tuple(rest))
            narrow(row, [*add.query.filters, *(one for step in add.query.sources for one in step.filters)])
            found.append(
                {(name, *rest): b for name, scalar in keys.items() for rest, b in bounds_of(scalar, row).items()}
            )
    nulls = any(bound.nulls for bound in known.values())
    return {**{path: TimeBound(low, nulls) for path, (low, _) in common(found).items()}, **known}


def row_bounds(query: Query, known: Mapping[str, TimeBounds]) -> dict[Path, TimeBound]:
    """The bounds of all columns that the steps of a query bind."""
    row: dict[Path, TimeBound] = {}
    conditions = list(query.filters)
    for step in query.sources:
        if isinstance(step, RelationLoop):
            there = list(known.get(step.relation, {}).items())
            if step.version is not Version.CHANGE and not is_clock(step.relation):
                there = [(path, bound) for path, bound in there if bound.low == math.inf]
            row |= {(f"{step.alias}.{path[0]}", *path[1:]): bound for path, bound in there}
            fields = {field.name: field for field in step.columns}
            for name, scalar in step.lookup:
                field = fields.get(name)
                mine = Column(f"{step.alias}.{name}", scalar.type if field is None else field.type)
                conditions.append(Call("eq", (mine, scalar), BOOLEAN))
        conditions += step.filters
    narrow(row, conditions)
    for step in query.sources:
        if isinstance(step, ArrayLoop):
            row |= _of_elements(step, row)
    narrow(row, conditions)
    return row


def _of_elements(step: ArrayLoop, row: TimeBounds) -> dict[Path, TimeBound]:
    """The bounds of the windows that a time is in; an array has no others."""
    match step.array:
        case Call("time_windows", (_, Literal(), Literal(), _)):
            name = f"{step.alias}.{step.columns[-1].name}"
            return {(name, *rest): bound for rest, bound in bounds_of(step.array, row).items()}
    return {}


def _of_step(step: Step, cause: str, row: TimeBounds) -> Iterator[Access]:
    match step:
        case RelationLoop(version=Version.STATE):
            names = {path[0] for path in row}
            columns = [name for name in _columns(step) if f"{step.alias}.{name}" in names]
            found = {(name, *rest): b for name in columns for rest, b in below(row, (f"{step.alias}.{name}",)).items()}
            yield Access(step.relation, cause, found)
        case MapRead():
            range_ = step.range
            scalars = [*step.lookup, *(_from(range_) if range_ is not None else ())]
            yield Access(step.map, cause, {(k, *rest): b for k, s in scalars for rest, b in bounds_of(s, row).items()})
        case MapSeek():
            yield Access(
                step.map, cause, {(k, *rest): b for k, s in step.lookup for rest, b in bounds_of(s, row).items()}
            )


def _columns(step: RelationLoop) -> list[str]:
    return list(dict.fromkeys([*(field.name for field in step.columns), *(name for name, _ in step.lookup)]))


def _from(range_: Range) -> list[tuple[str, Scalar]]:
    return [] if range_.lower is None else [(range_.column, range_.lower.scalar)]
