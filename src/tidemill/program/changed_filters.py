"""Two programs of a view that differ in a filter over one relation, and the step from the state of one to the other.

Where every loop over a relation ``R`` has the filter ``A`` in the old program and ``B`` in the new one, and nothing
else differs, the state of both is the same function: of the rows of ``R`` that pass ``A``, and of those that pass
``B``. So the new state is the old one after an ordinary change: the rows that pass ``B`` and not ``A`` come, and those
that pass ``A`` and not ``B`` go. The trigger for changes of ``R``, without that filter, applies it at the cost of the
rows that pass only one of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from tidemill.algebra.expressions.scalars import Case, Column, Literal, Scalar
from tidemill.algebra.relational.walk import columns_in, subqueries, substitute
from tidemill.model.types import BOOLEAN, Field
from tidemill.program.stages import Program, Stage
from tidemill.program.statements import Add, RelationLoop, Trigger, Version

__all__ = ["ChangedFilter", "changed_filter", "is_true"]

ALIAS = "row"
"""Alias of the relation in the conditions of a ``ChangedFilter``."""


@dataclass(frozen=True)
class ChangedFilter:
    """The filters of ``relation`` in an old and a new program, over its columns under ``ALIAS``.

    ``bridge`` is the program that takes the rows that pass one of them as a change of the relation.
    """

    relation: str
    before: tuple[Scalar, ...]
    after: tuple[Scalar, ...]
    bridge: Program


def changed_filter(old: Program, new: Program) -> ChangedFilter | None:
    """The filter in which two programs of one view differ; None if more than a filter of one relation does."""
    pairs = list(zip(old.stages, new.stages, strict=False))
    different = [place for place, (before, after) in enumerate(pairs) if before != after]
    if len(old.stages) != len(new.stages) or len(different) != 1:
        return None
    place = different[0]
    before, after = pairs[place]
    if _without_filters(before) != _without_filters(after):
        return None
    found = _filters_of_one(before, after)
    if found is None or not _is_linear(after, found[0]):
        return None
    relation, a, b = found
    bridged = _without(after, relation, b)
    stages = (*new.stages[:place], bridged, *new.stages[place + 1 :])
    return ChangedFilter(relation, a, b, replace(new, stages=stages))


def is_true(conditions: tuple[Scalar, ...], *, negated: bool = False) -> Scalar:
    """A condition that is true if all ``conditions`` are, and never NULL; or its negation."""
    found: Scalar = Literal(not negated, BOOLEAN)
    no = Literal(negated, BOOLEAN)
    for condition in reversed(conditions):
        found = Case(((condition, found),), no, BOOLEAN)
    return found


def _without_filters(stage: Stage) -> Stage:
    """A stage without the filters of loops, and the columns that only these may need."""
    return _mapped(stage, lambda loop: replace(loop, filters=(), columns=()))  # type: ignore[no-any-return]


def _filters_of_one(old: Stage, new: Stage) -> tuple[str, tuple[Scalar, ...], tuple[Scalar, ...]] | None:
    """The one relation whose filters differ, and how, in all of its loops alike."""
    pairs = list(zip(_loops(old), _loops(new), strict=True))
    relations = {before.relation for before, after in pairs if before.filters != after.filters}
    if len(relations) != 1:
        return None
    (relation,) = relations
    ways = [_difference(before, after) for before, after in pairs if before.relation == relation]
    first = ways[0]
    if first is None or any(way != first for way in ways):
        return None
    return relation, *first


def _difference(old: RelationLoop, new: RelationLoop) -> tuple[tuple[Scalar, ...], tuple[Scalar, ...]] | None:
    """The filters that only one of two loops has; None if they need more than the row of the relation itself."""
    sides = []
    for one, other in ((old, new), (new, old)):
        only = tuple(scalar for scalar in one.filters if scalar not in other.filters)
        if any(subqueries(s) or not all(n.startswith(f"{one.alias}.") for n in columns_in(s)) for s in only):
            return None
        sides.append(tuple(_under_alias(scalar, one) for scalar in only))
    return sides[0], sides[1]


def _under_alias(scalar: Scalar, loop: RelationLoop) -> Scalar:
    known = {f"{loop.alias}.{f.name}": f for f in loop.columns}
    return substitute(scalar, {name: _column(known[name]) for name in columns_in(scalar) if name in known})


def _column(field: Field) -> Column:
    return Column(f"{ALIAS}.{field.name}", field.type, field.nullable, field.char)


def _is_linear(stage: Stage, relation: str) -> bool:
    """True if the trigger for a relation adds, and reads no other rows of that relation."""
    trigger = next((one for one in stage.triggers if one.relation == relation), None)
    if trigger is None or stage.degrees is not None or stage.reader is not None or trigger.each:
        return False
    loops = [loop for loop in _loops(trigger) if loop.relation == relation]
    adds = all(isinstance(statement, Add) for statement in trigger.statements)
    return adds and all(loop.version is Version.CHANGE and loop.split is None for loop in loops)


def _without(stage: Stage, relation: str, gone: tuple[Scalar, ...]) -> Stage:
    """A stage whose trigger for a relation takes rows that these filters would refuse."""

    def taking(loop: RelationLoop) -> RelationLoop:
        if loop.relation != relation:
            return loop
        return replace(loop, filters=tuple(f for f in loop.filters if _under_alias(f, loop) not in gone))

    triggers: tuple[Trigger, ...] = tuple(
        _mapped(trigger, taking) if trigger.relation == relation else trigger for trigger in stage.triggers
    )
    return replace(stage, triggers=triggers)


def _mapped(node: Any, change: Any) -> Any:
    """A part of a program with its loops over relations changed."""
    if isinstance(node, RelationLoop):
        return change(node)
    if isinstance(node, tuple):
        return tuple(_mapped(item, change) for item in node)
    if not is_dataclass(node) or isinstance(node, type | Scalar | Field):
        return node
    parts = {f.name: _mapped(getattr(node, f.name), change) for f in fields(node) if f.init}
    return replace(node, **parts)


def _loops(node: Any) -> Iterator[RelationLoop]:
    """The loops over relations in a part of a program, in order."""
    if isinstance(node, RelationLoop):
        yield node
    elif isinstance(node, tuple):
        for item in node:
            yield from _loops(item)
    elif is_dataclass(node) and not isinstance(node, type | Scalar | Field):
        for one in fields(node):
            if one.init:
                yield from _loops(getattr(node, one.name))
