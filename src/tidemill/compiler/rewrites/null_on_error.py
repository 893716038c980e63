"""NULL in place of errors: each operation of a view that can fail becomes the one that gives NULL instead.

The level is that of one operation, as with the ``try_`` functions of Spark: ``coalesce(a / b, 0)`` is 0 where b is 0. A
cast becomes TRY_CAST, an operator or function its ``try_`` form, SUM and AVG become TRY_SUM and TRY_AVG. A function
that can fail and has no such form is refused when the view is created.
"""

from __future__ import annotations

from dataclasses import replace

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.expressions.scalars import Call, Cast, Column, Scalar
from tidemill.algebra.functions.registry import FUNCTIONS
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Aggregate, Recursive, Scan, With
from tidemill.algebra.relational.walk import children, expressions, transform, walk_all, with_expressions
from tidemill.algebra.values.casts import widens
from tidemill.model.errors import Unsupported
from tidemill.model.types import Field

__all__ = ["null_on_error"]

OTHER_FORMS = {"remainder": "try_mod"}
"""Functions whose form that gives NULL is not called after them."""

LENIENT_AGGREGATES = {"sum": "try_sum", "avg": "try_avg"}


def null_on_error(relation: Relation, view: str) -> Relation:
    """``relation`` with NULL wherever an operation would fail."""
    defined = {name for node in walk_all(relation) for name in _defined(node)}

    def changed(node: Relation) -> Relation:
        if isinstance(node, Scan):
            # What is defined in the query may be NULL now where it was not before.
            columns = tuple(replace(f, nullable=True) for f in node.columns)
            return replace(node, columns=columns) if node.relation in defined else node
        known = {f.name: f for child in children(node) for f in child.fields}
        scalars = [transform(scalar, lambda part: _lenient(part, known, view)) for scalar in expressions(node)]
        node = with_expressions(node, iter(scalars)) if scalars else node
        if isinstance(node, Aggregate):
            return replace(node, aggregates=tuple(map(_lenient_aggregate, node.aggregates)))
        return node

    return transform(relation, changed)


def _defined(node: Relation) -> tuple[str, ...]:
    if isinstance(node, With):
        return tuple(name for name, _ in node.definitions)
    return (node.name,) if isinstance(node, Recursive) else ()


def _lenient(scalar: Scalar, known: dict[str, Field], view: str) -> Scalar:
    match scalar:
        case Column(name=name):
            # A column from around a subquery is not among those known here.
            return replace(scalar, nullable=known[name].nullable if name in known else True)
        case Cast(input=input_, of=of, lenient=False) if not widens(input_.type, of):
            return replace(scalar, lenient=True)
        case Call(function=name, of=of) if FUNCTIONS[name].can_fail(of):
            form = OTHER_FORMS.get(name, f"try_{name}")
            if name.startswith("try_"):
                return scalar
            if form not in FUNCTIONS:
                raise Unsupported(
                    f"view \"{view}\" cannot have on_error = 'null'",
                    detail=f'Function "{name}" may fail, and has no form that gives NULL instead.',
                    hint="Use on_error = 'quarantine', or write the view so that it cannot fail.",
                )
            return replace(scalar, function=form)
    return scalar


def _lenient_aggregate(call: AggregateCall) -> AggregateCall:
    return replace(call, function=LENIENT_AGGREGATES.get(call.function, call.function))
