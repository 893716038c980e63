"""LATERAL VIEW, UNNEST, generators as tables, and LATERAL queries over no table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.conversions import convert
from tidemill.algebra.expressions.scalars import Column, Literal, Named, column
from tidemill.algebra.relational.relations import Filter, Project
from tidemill.compiler.frontends.sql.expressions.generators import GeneratedRows, from_generator, is_generator
from tidemill.compiler.frontends.sql.grammar import refusals
from tidemill.compiler.frontends.sql.grammar.translation_marks import mark_translated
from tidemill.compiler.frontends.sql.names.column_labels import column_label
from tidemill.compiler.frontends.sql.names.projections import all_columns
from tidemill.compiler.frontends.sql.names.scope import Binding, Scope
from tidemill.compiler.frontends.sql.query.context import FromItem, QueryContext
from tidemill.compiler.frontends.sql.query.joins import is_true
from tidemill.compiler.frontends.text.names import NameAllocator
from tidemill.model.errors import ParseError, TypeMismatch
from tidemill.model.types import BIGINT


def is_lateral(node: exp.Expr) -> bool:
    """True for an item of FROM that is evaluated for each row to its left."""
    function = isinstance(node, exp.Table) and is_generator(node.this)
    return isinstance(node, exp.Lateral | exp.Unnest) or function


def from_lateral(context: QueryContext, left: FromItem, node: exp.Expr, outer: bool = False) -> FromItem:
    """``left`` joined with the rows of ``node`` for each of its rows; with ``outer`` unmatched rows stay."""
    mark_translated(node)
    if isinstance(node, exp.Unnest):
        return _from_unnest(context, left, node, outer)
    if isinstance(node.this, exp.Subquery):
        return _from_query(context, left, node, outer)
    relation, scope = left
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


def _from_query(context: QueryContext, left: FromItem, node: exp.Expr, outer: bool) -> FromItem:
    """``LATERAL (SELECT ...)`` over no table: expressions over the row to its left."""
    relation, scope = left
    select = node.this.this
    if outer or not _is_row_wise(select):
        raise refusals.LATERAL.at(context.source.keyword(select, "LATERAL"))
    mark_translated(node.this, select)
    within = replace(context, outer=replace(scope, outer=context.outer))
    rows, seen = relation, Scope()
    for item in _items(select):
        rows, seen = from_lateral(within, (rows, seen), item)
    expressions = within.expressions(seen)
    if where := select.args.get("where"):
        rows = Filter(rows, expressions.condition(where.this))
    alias, unique = context.aliases.take(_alias(node)), NameAllocator()
    names = [item.alias.lower() or column_label(item) for item in select.expressions]
    outputs = [
        Named(f"{alias}.{unique.take(name)}", expressions.scalar(item.unalias()))
        for name, item in zip(names, select.expressions, strict=True)
    ]
    given = _names(node) or names
    if len(given) != len(names):
        raise TypeMismatch(f"{len(given)} names are given for {len(names)} columns", where=context.source.place(node))
    added = _seen(node, given, [column(output.field) for output in outputs])
    return Project(rows, (*all_columns(relation), *outputs)), scope + added


_UNSUPPORTED_CLAUSES = ("distinct", "group", "having", "limit", "offset", "order", "qualify", "with_")
"""Clauses that need more than one row."""


def _is_row_wise(select: exp.Expr) -> bool:
    plain = isinstance(select, exp.Select) and not any(select.args.get(clause) for clause in _UNSUPPORTED_CLAUSES)
    return plain and all(map(is_lateral, _items(select))) and not any(map(_is_more, select.expressions))


def _is_more(item: exp.Expr) -> bool:
    """True for an item that is more than an expression over one row."""
    return is_generator(item) or item.find(exp.Star, exp.Window) is not None


def _items(select: exp.Expr) -> list[exp.Expr]:
    """The items of FROM, and then those of LATERAL VIEW."""
    clause = select.args.get("from_")
    first = [] if clause is None else [clause.this]
    joins = select.args.get("joins") or ()
    mark_translated(*(join for join in joins if _is_plain(join)))
    joined = [join.this for join in joins]
    return [*first, *joined, *(select.args.get("laterals") or ())]


def _is_plain(join: exp.Join) -> bool:
    """True for a join that takes all pairs of rows."""
    return join.kind in ("", "CROSS", "INNER") and not any(
        join.args.get(key) for key in ("side", "method", "on", "using")
    )


def from_lateral_join(context: QueryContext, left: FromItem, node: exp.Join) -> FromItem:
    """A join with LATERAL: CROSS, INNER, or LEFT, which keeps rows without lateral rows."""
    side, kind = (node.args.get(key) or "" for key in ("side", "kind"))
    on = node.args.get("on")
    condition = None if on is None or is_true(on) else on
    known = kind in ("", "CROSS", "INNER", "OUTER") and side in ("", "LEFT") and not node.args.get("using")
    if not known or (side and condition is not None):
        raise refusals.LATERAL.at(context.source.place(node))
    if side and (on is None or "start" not in on.meta):  # the parser fills it in
        raise ParseError(
            "a LEFT JOIN with LATERAL needs ON TRUE",
            where=context.source.place(node),
            detail="Without a condition Spark drops rows that have no lateral rows.",
        )
    relation, scope = from_lateral(context, left, node.this, outer=side == "LEFT")
    if condition is None:
        return relation, scope
    return Filter(relation, context.expressions(scope).condition(condition)), scope


def _alias(node: exp.Expr) -> str:
    return node.alias.lower() or "lateral"


def _names(node: exp.Expr) -> list[str]:
    alias = node.args.get("alias")
    return [identifier.name.lower() for identifier in alias.columns] if alias else []


def _seen(node: exp.Expr, names: Sequence[str], columns: Sequence[Column]) -> Scope:
    pairs = zip(names, columns, strict=True)
    return Scope(tuple(Binding(_alias(node), name, found) for name, found in pairs))
