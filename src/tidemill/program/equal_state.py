"""Two programs of a view that keep the same state and make other rows of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidemill.algebra.expressions.scalars import Scalar
from tidemill.program.stages import GroupEmission, Program, Stage
from tidemill.program.statements import Add, RelationLoop

__all__ = ["has_equal_columns", "has_equal_state"]


def has_equal_state(old: Program, new: Program) -> bool:
    """True if the maps of two programs hold the same, and only what groups show of them may differ.

    A column more of a GROUP BY, computed from its keys and sums, or another HAVING: nothing has to be read again.
    """
    *before, last = old.stages
    *after, shown = new.stages
    if before != after or not isinstance(last.finish, GroupEmission) or not isinstance(shown.finish, GroupEmission):
        return False
    if last.reader is not None or shown.reader is not None or last.finish.source != shown.finish.source:
        return False
    return _state(last) == _state(shown)


def _state(stage: Stage) -> Stage:
    return replace(stage, finish=None, output=())


def has_equal_columns(old: Program, new: Program, names: Sequence[str]) -> bool:
    """True if the rows of two programs differ in no column of ``names``: all else that they do is the same."""
    *before, last = old.stages
    *after, shown = new.stages
    return before == after and _columns(last, names) == _columns(shown, names) is not None


def _columns(stage: Stage, names: Sequence[str]) -> tuple[Stage, tuple[dict[str, Scalar], ...]] | None:
    """A stage without what it shows, and the expressions of some of its columns; None if rows are made otherwise."""
    finish = stage.finish
    if isinstance(finish, GroupEmission):
        found = {output.name: output.scalar for output in finish.outputs}
        bare = replace(stage, output=(), finish=replace(finish, outputs=()))
        return bare, ({name: found[name] for name in names},)
    if finish is not None or stage.maps:
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
