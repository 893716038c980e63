"""LATERAL VIEW, UNNEST, generators as tables, and LATERAL queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.conversions import convert
from tidemill.algebra.expressions.scalars import Column, Literal, Named, column
from tidemill.algebra.relational.relations import Filter, Project
from tidemill.compiler.frontends.sql.expressions.generators import (
    GeneratedRows,
    from_generator,
    is_generator,
    refuse_table_generator,
)
from tidemill.compiler.frontends.sql.grammar.translation_marks import mark_translated
from tidemill.compiler.frontends.sql.names.projections import all_columns
from tidemill.compiler.frontends.sql.names.scope import Binding, Scope
from tidemill.compiler.frontends.sql.query.context import ONE_EMPTY_ROW, FromItem, QueryContext
from tidemill.compiler.frontends.sql.query.from_items.table_functions import called_function, from_table_function
from tidemill.compiler.frontends.sql.query.joins.join import is_true, join_condition, seen_in
from tidemill.compiler.frontends.text.names import NameAllocator
from tidemill.compiler.rewrites.subqueries.dependent_joins import (
    lateral_join,
    lateral_left_join,
    misplaced_correlation,
)
from tidemill.model.errors import TypeMismatch, Unsupported
from tidemill.model.types import BIGINT


def is_lateral(node: exp.Expr) -> bool:
    """True for an item of FROM that is evaluated for each row to its left."""
    return isinstance(node, exp.Lateral | exp.Unnest)


def from_lateral(context: QueryContext, left: FromItem, node: exp.Expr, outer: bool = False) -> FromItem:
    """``left`` joined with the rows of ``node`` for each of its rows; with ``outer`` unmatched rows stay."""
    mark_translated(node)
    if isinstance(node, exp.Unnest):
        return _from_unnest(context, left, node, outer)
    if not is_generator(node.this) and not node.args.get("view"):
        right = _dependent_rows(context, left[1], node)
        return lateral_join(left[0], right[0], context.aliases.take("domain")), left[1] + right[1]
    relation, scope = left
    if node.args.get("view"):
        refuse_table_generator(node.this, context.source)
    made = from_generator(context.expressions(scope), node.this, outer or bool(node.args.get("outer")))
    with context.source.locating(node):
        made = made.called(_names(node))
    alias = context.aliases.take(_alias(node))
    return made.applied_to(relation, alias), scope + _seen(node, made.names, made.columns(alias))


def _from_unnest(context: QueryContext, left: FromItem, node: exp.Unnest, outer: bool) -> FromItem:
    """``UNNEST(array) [WITH ORDINALITY] AS t (x, n)``: positions come last, and count from 1."""
    relation, scope = left
    if len(node.expressions) != 1:
        raise TypeMismatch("UNNEST takes one array", where=context.source.place(node))
    array = context.expressions(scope).scalar(node.expressions[0])
    alias = context.aliases.take(_alias(node))
    element = (*_names(node), "col")[0]
    counting = node.args.get("offset")
    with context.source.locating(node):
        made = GeneratedRows(array, ("position", element) if counting else (element,), bool(counting), outer=outer)
        *places, value = made.columns(alias)
    rows = made.applied_to(relation, alias)
    if not counting:
        return rows, scope + _seen(node, [element], [value])
    ordinality = counting.name.lower() if isinstance(counting, exp.Identifier) else "ordinality"
    number = Named(
        f"{alias}.{NameAllocator(('position', element)).take(ordinality)}",
        call("add", convert(places[0], BIGINT), Literal(1, BIGINT)),
    )
    added = _seen(node, [element, ordinality], [value, column(number.field)])
    return Project(rows, (*all_columns(rows), number)), scope + added


def _dependent_rows(context: QueryContext, left: Scope, node: exp.Expr) -> FromItem:
    """The rows of ``node`` for one row to its left, whose columns are outer columns to it."""
    within = replace(context, outer=replace(left, outer=context.outer, lateral=True))
    if _is_generated(node):
        return from_lateral(within, ONE_EMPTY_ROW, node)
    mark_translated(node)
    wish = node.alias.lower() or called_function(context, node) or "lateral"
    alias = context.aliases.take(wish)
    if isinstance(node, exp.Lateral) and not isinstance(node.this, exp.Subquery):
        rows = from_table_function(within, node, alias)
    else:
        rows = replace(within, prefix=f"{alias}.").rows(node.this)
    if misplaced_correlation(rows.relation):
        raise Unsupported(
            "an outer join in LATERAL that reads columns to its left",
            where=context.source.place(node),
            detail="They may be read by the side whose rows all stay, and by the condition of a LEFT or RIGHT JOIN.",
        )
    return rows.relation, rows.with_column_aliases(node.args.get("alias"), context.source).scope(wish)


def from_lateral_join(context: QueryContext, left: FromItem, node: exp.Join) -> FromItem:
    """A join with LATERAL: CROSS, INNER, or LEFT, which keeps rows without lateral rows."""
    side, kind = (node.args.get(key) or "" for key in ("side", "kind"))
    if kind not in ("", "CROSS", "INNER", "OUTER") or side not in ("", "LEFT") or (kind == "OUTER" and not side):
        raise Unsupported(
            "this kind of join takes no LATERAL",
            where=context.source.place(node),
            detail="Its rows exist for each row to the left only.",
            hint="Use JOIN LATERAL or LEFT JOIN LATERAL.",
        )
    if node.args.get("using") or node.method:
        raise Unsupported(
            "LATERAL takes neither USING nor NATURAL nor ASOF", where=context.source.place(node), hint="Use ON."
        )
    if (node.args.get("on") is None or is_true(node.args["on"])) and _is_generated(node.this):
        return from_lateral(context, left, node.this, outer=side == "LEFT")
    right = _dependent_rows(context, left[1], node.this)
    condition, _ = join_condition(context, left[1], right[1], node)
    alias = context.aliases.take("domain")
    if side:
        relation = lateral_left_join(left[0], right[0], condition, alias)
    else:
        relation = lateral_join(left[0], right[0], alias)
        relation = relation if condition is None else Filter(relation, condition)
    return relation, seen_in(relation, left[1] + right[1])


def _is_generated(node: exp.Expr) -> bool:
    """True for an item whose rows are the elements of an array."""
    return isinstance(node, exp.Unnest) or is_generator(node.this)


def _alias(node: exp.Expr) -> str:
    return node.alias.lower() or "lateral"


def _names(node: exp.Expr) -> list[str]:
    alias = node.args.get("alias")
    return [identifier.name.lower() for identifier in alias.columns] if alias else []


def _seen(node: exp.Expr, names: Sequence[str], columns: Sequence[Column]) -> Scope:
    pairs = zip(names, columns, strict=True)
    return Scope(tuple(Binding(_alias(node), name, found) for name, found in pairs))
