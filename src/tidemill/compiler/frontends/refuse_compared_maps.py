"""Refuses queries that compare or order maps or calendar intervals, or texts with a collation as they are.

The entries of equal maps may stand in different orders, and a month has no fixed number of days. As in Spark both can
be keys of groups all the same: the front end groups by the sorted entries of maps, and calendar intervals are equal
where their parts are. Of texts that are equal under a collation Spark
shows any.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from tidemill.algebra.expressions.collations import is_collated
from tidemill.algebra.expressions.scalars import Call, Scalar
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Aggregate, Distinct, Except, Intersect, Recursive, TopK, Window
from tidemill.algebra.relational.walk import expressions, walk, walk_all
from tidemill.model.errors import TypeMismatch, Unsupported
from tidemill.model.types import CALENDAR_INTERVAL, CalendarInterval, Type, is_comparable

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
        if is_collated(type_) and not is_comparable(type_):
            raise Unsupported(
                f"{what} of type {type_} has no value of its own",
                detail="Of texts that are equal under a collation Spark shows the one that it meets first.",
                hint="Use CAST(x AS STRING), LOWER(CAST(x AS STRING)), or COUNT.",
            )
        if not is_comparable(type_):
            raise _refusal(what, type_)


def _refusal(what: str, type_: Type) -> TypeMismatch:
    if isinstance(type_, CalendarInterval):
        return TypeMismatch(
            f"{what} of type {type_} cannot be compared",
            detail="A month has no fixed number of days.",
            hint="Use MAKE_YM_INTERVAL or MAKE_DT_INTERVAL, or compare what EXTRACT gives.",
        )
    return TypeMismatch(
        f"{what} of type {type_} cannot be compared",
        detail="Spark neither compares nor orders maps and variants.",
        hint="Compare MAP_ENTRIES(x), sorted by ARRAY_SORT, TO_JSON(x), or single values of it.",
    )


def _compared(node: Relation) -> Iterator[tuple[str, Type]]:
    match node:
        case Distinct() | Intersect() | Except() | Recursive(distinct=True):
            yield from (("a column", f.type) for f in node.fields if f.type != CALENDAR_INTERVAL)
        case Aggregate():
            keys = (key.scalar.type for key in node.keys)
            yield from (("a key of a group", type_) for type_ in keys if type_ != CALENDAR_INTERVAL)
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
