"""Two programs of a view that keep the same state and make other rows of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidemill.algebra.expressions.scalars import Scalar
from tidemill.algebra.relational.walk import columns_in
from tidemill.program.maps import Map
from tidemill.program.reads import queries_of
from tidemill.program.stages import GroupEmission, Program, Stage
from tidemill.program.statements import Add, RelationLoop

__all__ = ["equal_maps", "has_equal_columns"]


def equal_maps(old: Program, new: Program) -> frozenset[str]:
    """The maps that hold the same in two programs of a view of groups, and so have not to be computed again.

    What is added to them is the same, and made of relations alone. With another aggregate the old sums stay beside a
    new map; with another HAVING, or a column more that is made of keys and sums, all maps do.
    """
    *before, last = old.stages
    *after, shown = new.stages
    if before != after or not _are_groups(last, shown):
        return frozenset()
    same = {map_.name for map_ in shown.maps}
    if _state(last) != _state(shown):
        known = [made for map_ in last.maps if (made := _made_of(last, map_)) is not None]
        same = {map_.name for map_ in shown.maps if _made_of(shown, map_) in known}
    return frozenset(same.union(*((stage.name, *(map_.name for map_ in stage.maps)) for stage in before)))


def _are_groups(*stages: Stage) -> bool:
    return all(isinstance(stage.finish, GroupEmission) and stage.reader is None for stage in stages)


def _state(stage: Stage) -> Stage:
    return replace(stage, finish=None, output=())


def _made_of(stage: Stage, map_: Map) -> tuple[object, ...] | None:
    """A map and what a stage adds to it; None if that is made of other maps as well."""
    own = {one.name for one in stage.maps}
    steps = [(None, stage.load), *((trigger, trigger.statements) for trigger in stage.triggers)]
    added = [(at and (at.relation, at.each), [one for one in some if one.target == map_.name]) for at, some in steps]
    sources = [step for _, some in added for one in some for query in queries_of(one) for step in query.sources]
    plain = all(isinstance(step, RelationLoop) and step.relation not in own for step in sources)
    return (map_, added) if plain and stage.degrees is None else None


def has_equal_columns(old: Program, new: Program, names: Sequence[str]) -> bool:
    """True if the rows of two programs differ in no column of ``names``: all else that they show is the same."""
    *before, last = old.stages
    *after, shown = new.stages
    if before != after:
        return False
    if _are_groups(last, shown):
        same = equal_maps(old, new)
        return _shown(last, names, same) == _shown(shown, names, same) is not None
    return _columns(last, names) == _columns(shown, names) is not None


def _shown(stage: Stage, names: Sequence[str], same: frozenset[str]) -> GroupEmission | None:
    """Emission of some columns of groups; None if it reads more than maps that are the ``same``."""
    finish = stage.finish
    assert isinstance(finish, GroupEmission)
    found = {output.name: output for output in finish.outputs}
    outputs = tuple(found[name] for name in names)
    scalars = [*(output.scalar for output in outputs), *filter(None, (finish.condition, finish.times))]
    read = {name for scalar in scalars for name in columns_in(scalar)}
    reads = tuple(one for one in finish.multiset_reads if one.call.name in read)
    if not same.issuperset({finish.source, *(one.map for one in reads)}):
        return None
    return replace(finish, outputs=outputs, multiset_reads=reads)


def _columns(stage: Stage, names: Sequence[str]) -> tuple[Stage, tuple[dict[str, Scalar], ...]] | None:
    """A stage without what it shows, and the expressions of some of its columns; None if rows are made otherwise."""
    if stage.finish is not None or stage.maps:
        return None
    shown = []
    statements = [*stage.load, *(one for trigger in stage.triggers for one in trigger.statements)]
    for add in statements:
        if not isinstance(add, Add) or add.target != stage.name:
            return None
        found = {output.name: output.scalar for output in add.query.outputs}
        if not found.keys() >= set(names):
            return None
        shown.append({name: found[name] for name in names})
    load = tuple(_bare(add) for add in stage.load)
    triggers = tuple(
        replace(trigger, statements=tuple(_bare(add) for add in trigger.statements if isinstance(add, Add)))
        for trigger in stage.triggers
    )
    return replace(stage, output=(), load=load, triggers=triggers), tuple(shown)


def _bare(add: Add) -> Add:
    """A statement without its columns, nor those that its loops read for them."""
    query = add.query
    sources = tuple(replace(loop, columns=()) if isinstance(loop, RelationLoop) else loop for loop in query.sources)
    return replace(add, query=replace(query, outputs=(), sources=sources))
