"""Columns that come from the elements of arrays: no relation has them, so none can be indexed by them."""

from __future__ import annotations

from tidemill.algebra.expressions.conditions import conjuncts
from tidemill.algebra.expressions.scalars import Call, Scalar
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Filter, Join, Project, UnionAll, Unnest
from tidemill.algebra.relational.walk import columns_in


def found_by_elements(join: Join, side: Relation) -> bool:
    """True if ``join`` looks up rows of ``side``, one of its inputs, by the elements of an array.

    Without an index a change of the other side would search all arrays. Stored as rows, the elements can be indexed.
    """
    own, sought = {f.name for f in side.fields}, array_columns(side)
    return any(_seeks(condition, own, sought) for condition in conjuncts(join.condition)) if join.condition else False


def _seeks(condition: Scalar, own: set[str], sought: set[str]) -> bool:
    if not sought or not isinstance(condition, Call) or condition.function != "eq":
        return False
    one, other = map(columns_in, condition.arguments)
    sides = ((one, other), (other, one))
    return any(inner <= own and inner & sought and outer and not outer & own for inner, outer in sides)


def array_columns(relation: Relation) -> set[str]:
    """The columns of a block that are computed from elements of an array."""
    match relation:
        case Unnest(input=input_, columns=columns):
            return array_columns(input_) | {f.name for f in columns}
        case Filter(input=input_):
            return array_columns(input_)
        case Project(input=input_, outputs=outputs):
            below = array_columns(input_)
            return {output.name for output in outputs if below & columns_in(output.scalar)}
        case Join(left=left, right=right):
            return array_columns(left) | array_columns(right)
        case UnionAll():
            return _elements_of_union(relation)
    return set()


def _elements_of_union(union: UnionAll) -> set[str]:
    found: set[str] = set()
    for part in union.inputs:
        below = array_columns(part)
        found |= {to.name for f, to in zip(part.fields, union.fields, strict=True) if f.name in below}
    return found
