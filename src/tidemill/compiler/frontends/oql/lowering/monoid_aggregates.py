"""Monoids as aggregates of groups, and the value of a nest or a reduce from them.

The zero of a monoid is its value over no elements: an empty collection, the sum 0, false for ``some`` and true for
``all``. Minimum, maximum and mean of no elements are undefined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.registry import aggregate_field
from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.conditions import conjunction
from tidemill.algebra.expressions.conversions import convert
from tidemill.algebra.expressions.scalars import Column, Lambda, Literal, Scalar, column, is_nullable
from tidemill.compiler.frontends.oql.calculus.terms import Monoid
from tidemill.compiler.frontends.sql.aggregation.aggregates import aggregate_call
from tidemill.compiler.frontends.sql.aggregation.arguments import AggregateArguments
from tidemill.model.errors import Unsupported
from tidemill.model.types import BOOLEAN, INT, STRING

TRUE, FALSE = Literal(True, BOOLEAN), Literal(False, BOOLEAN)

MONOID_AGGREGATES = {
    Monoid.BAG: "array_agg",
    Monoid.LIST: "array_agg",
    Monoid.SET: "collect_set",
    Monoid.SUM: "sum",
    Monoid.COUNT: "count",
    Monoid.AVG: "avg",
    Monoid.MIN: "min",
    Monoid.MAX: "max",
    Monoid.SOME: "bool_or",
    Monoid.ALL: "bool_and",
}

ELEMENT = "element"
"""The member that holds the element of a list, beside those that it is ordered by."""

PARAMETER = "\\element"
"""The name of a lambda's parameter: no column has such a name."""


def aggregate_argument(monoid: Monoid, head: Scalar) -> Scalar:
    """The argument of the aggregate. It ignores NULL, so for ``all`` undefined becomes false."""
    if monoid is Monoid.ALL:
        return call("coalesce", head, FALSE)
    return Literal(1, INT) if monoid is Monoid.COUNT and not is_nullable(head) else head


def monoid_aggregate(
    name: str,
    monoid: Monoid,
    head: Scalar,
    conditions: Sequence[Scalar] = (),
    order: Sequence[tuple[Scalar, bool]] = (),
) -> tuple[AggregateCall, Scalar]:
    """The aggregate of an ``aggregate_argument`` where ``conditions`` are true, as column ``name``, and its value."""
    if order:
        return _ordered(name, monoid, head, conditions, order)
    found = aggregate_call(AggregateArguments(MONOID_AGGREGATES[monoid], (head,), filter=conjunction(list(conditions))))
    found = replace(found, name=name)
    return found, _with_zero(monoid, found)


def _with_zero(monoid: Monoid, found: AggregateCall) -> Scalar:
    made = column(aggregate_field(found))
    match monoid:
        case Monoid.SUM:
            return call("coalesce", made, convert(Literal(0, INT), found.of))
        case Monoid.SOME:
            return call("coalesce", made, FALSE)
        case Monoid.ALL:
            return call("coalesce", made, TRUE)
    return made


def _ordered(
    name: str, monoid: Monoid, head: Scalar, conditions: Sequence[Scalar], order: Sequence[tuple[Scalar, bool]]
) -> tuple[AggregateCall, Scalar]:
    """A list in the order of some terms: arrays are collected in the order of their elements, so these come first."""
    if len({descending for _, descending in order}) > 1:
        raise Unsupported(
            "ORDER BY of a list cannot mix ascending and descending terms", hint="Use one direction for all terms."
        )
    parts = [part for i, (term, _) in enumerate(order) for part in (Literal(f"order_{i}", STRING), term)]
    record = call("named_struct", *parts, Literal(ELEMENT, STRING), head)
    found, made = monoid_aggregate(name, monoid, record, [*conditions, call("is_not_null", head)])
    parameter = Column(PARAMETER, record.type)
    member = call("get_field", parameter, Literal(ELEMENT, STRING))
    elements = call("transform", made, Lambda((parameter,), member))
    return found, call("reverse", elements) if order[0][1] else elements
