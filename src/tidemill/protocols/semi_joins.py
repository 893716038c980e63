"""Semi joins over tables of sources: EXISTS and IN as joins that a source can be asked for.

``x WHERE EXISTS (SELECT ... FROM y WHERE c)`` are the rows of ``x JOIN y ON c`` over the columns of ``x``, each once.
If these show the key of every table of ``x``, no row of ``x`` is there twice, so DISTINCT brings back their number.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.algebra.expressions.conditions import conjunction, conjuncts
from tidemill.algebra.expressions.scalars import Call, Exists, Quantified, Scalar
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Filter, Join, Project, Scan
from tidemill.algebra.relational.walk import subqueries, substitute
from tidemill.compiler.analysis.failures import may_fail
from tidemill.compiler.analysis.filters import filtered

__all__ = ["SemiJoin", "semi_join"]


@dataclass(frozen=True)
class SemiJoin:
    """The rows of ``kept`` that have a partner, or with ``negated`` none; ``joined`` are the pairs."""

    kept: Relation
    joined: Relation
    negated: bool


def semi_join(node: Filter) -> SemiJoin | None:
    """``node`` as a semi join or its opposite; None if its condition has no subquery of that kind, or several."""
    plain = [part for part in conjuncts(node.condition) if not subqueries(part)]
    nested = [part for part in conjuncts(node.condition) if subqueries(part)]
    if len(nested) != 1 or any(map(may_fail, plain)):
        return None
    match nested[0]:
        case Exists(relation=relation):
            found, negated = _body(relation, None), False
        case Call("not", (Exists(relation=relation),)):
            found, negated = _body(relation, None), True
        case Quantified(relation=relation, condition=condition, all=False):
            found, negated = _body(relation, condition), False
        case _:
            return None
    if found is None:
        return None
    kept = filtered(node.input, *plain)
    body, conditions = found
    return SemiJoin(kept, Join(kept, body, conjunction(conditions)), negated)


def _body(relation: Relation, comparison: Scalar | None) -> tuple[Relation, list[Scalar]] | None:
    """The tables of a subquery, and all conditions under which a row of them is a partner."""
    found = _lifted(relation)
    if found is None:
        return None
    body, conditions, values = found
    if comparison is not None:
        conditions = [*conditions, substitute(comparison, values)]
    return None if any(subqueries(one) or may_fail(one) for one in conditions) else (body, conditions)


def _lifted(relation: Relation) -> tuple[Relation, list[Scalar], dict[str, Scalar]] | None:
    """The product of the tables of ``relation``, its conditions over them, and what its columns stand for."""
    match relation:
        case Scan():
            return relation, [], {}
        case Filter(input=input_, condition=condition):
            below = _lifted(input_)
            if below is None:
                return None
            body, conditions, values = below
            return body, [*conditions, *(substitute(part, values) for part in conjuncts(condition))], values
        case Project(input=input_, outputs=outputs):
            below = _lifted(input_)
            if below is None or any(subqueries(output.scalar) for output in outputs):
                return None
            body, conditions, values = below
            return body, conditions, values | {one.name: substitute(one.scalar, values) for one in outputs}
        case Join(left=left, right=right, condition=condition):
            one, other = _lifted(left), _lifted(right)
            if one is None or other is None:
                return None
            values = one[2] | other[2]
            own = [] if condition is None else [substitute(part, values) for part in conjuncts(condition)]
            return Join(one[0], other[0]), [*one[1], *other[1], *own], values
    return None
