"""Subqueries that read no table, as plain expressions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.registry import function_of
from tidemill.algebra.evaluate import evaluate_scalar
from tidemill.algebra.expressions.conditions import conjunction, conjuncts
from tidemill.algebra.expressions.scalars import Call, Case, Literal, Scalar, Subquery
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Aggregate, Distinct, Filter, Join, Project, Values
from tidemill.algebra.relational.walk import (
    SubqueryExpression,
    children,
    columns_in,
    subqueries,
    substitute,
    transform,
    walk,
    with_children,
    with_subqueries,
)
from tidemill.model.errors import ArithmeticFault
from tidemill.model.types import BOOLEAN


def inline_subqueries(relation: Relation) -> Relation:
    """``relation`` with an expression in place of every subquery whose rows come from no table.

    ``(SELECT SUM(1) WHERE c)`` is 1 where ``c`` holds, else NULL. So ``1 <= (SELECT SUM(1) WHERE c)``, as a condition,
    is ``c`` itself, which removes a level of nesting.
    """
    return transform(relation, _inlined)


def _inlined(node: Relation) -> Relation:
    node = with_subqueries(node, _inlined_value)
    match node:
        case Filter(condition=condition):
            return replace(node, condition=_simplified(condition))
        case Join(condition=condition) if condition is not None:
            return replace(node, condition=_simplified(condition))
    return node


def _inlined_value(subquery: SubqueryExpression) -> Scalar:
    """The value of a scalar subquery that reads no table; other subquery expressions stay."""
    value = _value(subquery.relation) if isinstance(subquery, Subquery) else None
    return subquery if value is None else value


# ------------------------------------------------------------------------------------------------------ constant rows


@dataclass(frozen=True, slots=True)
class InlinedRow:
    """The only row of a relation, which exists if all ``conditions`` hold, and its values by name."""

    conditions: tuple[Scalar, ...]
    values: Mapping[str, Scalar]

    def where(self, condition: Scalar | None) -> InlinedRow:
        """The row under one more condition."""
        added = () if condition is None else (substitute(condition, self.values),)
        return replace(self, conditions=self.conditions + added)


def _value(relation: Relation) -> Scalar | None:
    """The value of a subquery as an expression over outer columns; None if it reads a table."""
    row = _row(relation)
    if row is None:
        return None
    (value,) = row.values.values()
    condition = conjunction(row.conditions)
    return value if condition is None else _where(condition, value, Literal(None, value.type))


def _row(relation: Relation) -> InlinedRow | None:
    if isinstance(relation, Values):
        return _constant(relation)
    rows = [_row(below) for below in children(relation)]
    known = [row for row in rows if row is not None]
    if not known or len(known) < len(rows):
        return None
    row = InlinedRow(tuple(chain(*(r.conditions for r in known))), {n: v for r in known for n, v in r.values.items()})
    match relation:
        case Filter(condition=condition):
            return row.where(condition)
        case Join(condition=joined):
            return row.where(joined)
        case Project(outputs=outputs):
            return replace(row, values={o.name: substitute(o.scalar, row.values) for o in outputs})
        case Distinct():
            return row
        case Aggregate(keys=()) if all(function_of(call).over_one_row for call in relation.aggregates):
            return InlinedRow((), {call.name: _aggregate(call, row) for call in relation.aggregates})
    return None


def _constant(relation: Values) -> InlinedRow | None:
    if len(relation.rows) != 1:
        return None
    pairs = zip(relation.columns, relation.rows[0], strict=True)
    return InlinedRow((), {f.name: Literal(value, f.type) for f, value in pairs})


def _aggregate(call: AggregateCall, row: InlinedRow) -> Scalar:
    """An aggregate over a row that may exist: its value over that row, or over no rows."""
    function = function_of(call)
    assert function.over_one_row is not None
    seen = row.where(call.filter)
    if call.argument is not None:
        if not function.nullable:
            seen = seen.where(Call("is_not_null", (call.argument,), BOOLEAN))
        call = replace(call, argument=substitute(call.argument, row.values))
    return _where(conjunction(seen.conditions), function.over_one_row(call), Literal(function.empty, call.of))


def _where(condition: Scalar | None, value: Scalar, otherwise: Scalar) -> Scalar:
    return value if condition is None else Case(((condition, value),), otherwise, value.type)


# --------------------------------------------------------------------------------------------------------- conditions


def _simplified(condition: Scalar) -> Scalar:
    parts = [_without_case(part) for part in conjuncts(condition)]
    return conjunction(parts) or condition


def _without_case(condition: Scalar) -> Scalar:
    """``c`` for a condition that compares ``CASE WHEN c`` with constants and so only tests which branch was taken."""
    cases = [node for node in walk(condition) if isinstance(node, Case)]
    if len(cases) != 1 or subqueries(_with_case(condition, Literal(None, cases[0].of))):
        return condition
    match cases[0]:
        case Case(branches=((tested, Literal() as taken),), default=Literal() as default):
            if _holds(_with_case(condition, taken)) and _holds(_with_case(condition, default)) is False:
                return tested
    return condition


def _with_case(scalar: Scalar, value: Scalar) -> Scalar:
    """``scalar`` with ``value`` in place of its CASE."""
    if isinstance(scalar, Case):
        return value
    return with_children(scalar, [_with_case(child, value) for child in children(scalar)])


def _holds(condition: Scalar) -> bool | None:
    """True if a condition over constants is true; None where it reads a column, or fails."""
    if columns_in(condition):
        return None
    try:
        return evaluate_scalar(condition, {}) is True
    except ArithmeticFault:
        return None
