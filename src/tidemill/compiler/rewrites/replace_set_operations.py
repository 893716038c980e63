"""INTERSECT and EXCEPT, as groups of equal rows with a count for each side."""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.registry import aggregate_field
from tidemill.algebra.expressions.scalars import Call, Case, Column, Literal, Named, Scalar, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Aggregate, Except, Filter, Intersect, Project, Repeat, UnionAll
from tidemill.algebra.relational.walk import transform
from tidemill.compiler.analysis.rename import fresh
from tidemill.model.types import BIGINT, BOOLEAN

_HERE, _ELSEWHERE, _NONE = Literal(True, BOOLEAN), Literal(None, BOOLEAN), Literal(0, BIGINT)


def replace_set_operations(relation: Relation) -> Relation:
    """``relation`` without INTERSECT and EXCEPT; the same rows.

    Equal rows of both sides are one group with a count for each side, so a change of either side touches only the
    groups of its own rows. NULLs group together, as these operators compare them.
    """
    return transform(relation, _rewritten)


def _rewritten(node: Relation) -> Relation:
    match node:
        case Intersect() | Except():
            counted = _counted(node)
            shown = tuple(Named(f.name, column(f)) for f in node.fields)
            return Project(_chosen(node, counted), shown)
    return node


@dataclass(frozen=True, slots=True)
class _RowCounts:
    """Equal rows of both sides as one group, and how many there are on either."""

    groups: Relation
    left: Column
    right: Column


def _counted(node: Intersect | Except) -> _RowCounts:
    names = [f.name for f in node.fields]
    sides = fresh("in_left", names), fresh("in_right", names)
    tagged = UnionAll((_tagged(node.left, names, sides, 0), _tagged(node.right, names, sides, 1)))
    *keys, left, right = tagged.fields
    calls = tuple(
        AggregateCall(fresh(f"{side.name}_rows", names), "count", column(side), BIGINT) for side in (left, right)
    )
    groups = Aggregate(tagged, tuple(Named(f.name, column(f)) for f in keys), calls)
    return _RowCounts(groups, *(column(aggregate_field(call)) for call in calls))


def _tagged(side: Relation, names: list[str], sides: tuple[str, str], number: int) -> Relation:
    """The rows of one side, with a column for each side: TRUE for their own, else NULL."""
    shown = [Named(name, column(f)) for name, f in zip(names, side.fields, strict=True)]
    tags = [Named(name, _HERE if i == number else _ELSEWHERE) for i, name in enumerate(sides)]
    return Project(side, (*shown, *tags))


def _chosen(node: Intersect | Except, counted: _RowCounts) -> Relation:
    left, right = counted.left, counted.right
    if node.all:
        return Repeat(counted.groups, _least(left, right) if isinstance(node, Intersect) else _rest(left, right))
    there = Call("gt" if isinstance(node, Intersect) else "eq", (right, _NONE), BOOLEAN)
    return Filter(counted.groups, Call("and", (Call("gt", (left, _NONE), BOOLEAN), there), BOOLEAN))


def _least(left: Column, right: Column) -> Scalar:
    return Case(((Call("lt", (left, right), BOOLEAN), left),), right, BIGINT)


def _rest(left: Column, right: Column) -> Scalar:
    return Call("subtract", (left, right), BIGINT)
