"""Refuses queries that compare, order or group maps: the entries of equal maps may stand in different orders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from tidemill.algebra.expressions.scalars import Call, Scalar
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Aggregate, Distinct, Except, Intersect, Recursive, TopK, Window
from tidemill.algebra.relational.walk import expressions, walk, walk_all
from tidemill.model.errors import TypeMismatch
from tidemill.model.types import Type, is_comparable

COMPARING = frozenset(
    [
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "null_safe_eq",
        "in",
        "greatest",
        "least",
        "nullif",
        "sort_array",
        "array_sort",
        "array_contains",
        "array_distinct",
        "array_max",
        "array_min",
        "array_position",
        "array_remove",
        "array_union",
        "array_except",
        "array_intersect",
        "arrays_overlap",
    ]
)
"""The functions that compare their arguments, or the elements of these."""

COMPARING_AGGREGATES = frozenset(("min", "max", "mode", "approx_count_distinct", "collect_set", "histogram_numeric"))


def refuse_compared_maps(relation: Relation, order: Sequence[int] = ()) -> None:
    """Refuse ``relation``, with the columns at ``order`` that its rows are ordered by, if maps are compared in it."""
    ordered = [("an order", relation.fields[place].type) for place in order]
    for what, type_ in chain(ordered, *map(_compared, walk_all(relation))):
        if not is_comparable(type_):
            raise TypeMismatch(
                f"{what} of type {type_} cannot be compared",
                detail="Equal maps may have their entries in different orders.",
                hint="Compare MAP_ENTRIES(x), sorted by ARRAY_SORT, or single values of it.",
            )


def _compared(node: Relation) -> Iterator[tuple[str, Type]]:
    match node:
        case Distinct() | Intersect() | Except() | Recursive(distinct=True):
            yield from (("a column", f.type) for f in node.fields)
        case Aggregate():
            yield from (("a key of a group", key.scalar.type) for key in node.keys)
            for call in node.aggregates:
                if (call.distinct or call.function in COMPARING_AGGREGATES) and call.argument is not None:
                    yield "an argument", call.argument.type
                yield from (("an order", other.type) for other in call.others if call.function.endswith("_by"))
        case TopK() | Window():
            yield from (("a partition", scalar.type) for scalar in node.partition)
            yield from (("an order", term.scalar.type) for term in node.order)
    for scalar in expressions(node):
        yield from _compared_in(scalar)


def _compared_in(scalar: Scalar) -> Iterator[tuple[str, Type]]:
    for part in walk(scalar):
        if isinstance(part, Call) and part.function in COMPARING:
            yield from (("an operand", argument.type) for argument in part.arguments)
