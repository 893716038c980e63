"""LIMIT, OFFSET and FETCH, as numbers, and as a top-k within a query."""

from __future__ import annotations

from sqlglot import exp

from tidemill.algebra.evaluate import evaluate_scalar
from tidemill.algebra.expressions.ordering import SortOrder
from tidemill.algebra.expressions.scalars import Named, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Project, TopK
from tidemill.algebra.relational.walk import columns_in
from tidemill.compiler.frontends.sql.expressions.translator import ExpressionTranslator
from tidemill.compiler.frontends.sql.grammar.sql_text import SqlText
from tidemill.compiler.frontends.sql.grammar.translation_marks import mark_translated
from tidemill.compiler.frontends.sql.names.scope import Scope
from tidemill.compiler.frontends.sql.query.order_by import OrderedQuery
from tidemill.compiler.frontends.sql.rules import EXPRESSION_RULES
from tidemill.model.errors import ParseError, TidemillError, Unsupported


def has_order_or_limit(node: exp.Expr) -> bool:
    """True for a query with ORDER BY, LIMIT, OFFSET or FETCH."""
    return bool(node.args.get("order") or node.args.get("limit") or node.args.get("offset"))


def limit_of(node: exp.Expr, source: SqlText, outer: Scope | None = None) -> int | None:
    """The number that LIMIT or FETCH gives; LIMIT ALL is none."""
    clause = node.args.get("limit")
    if clause is None:
        return None
    if isinstance(clause, exp.Fetch):
        options = clause.args.get("limit_options")
        if options and (options.args.get("percent") or options.args.get("with_ties")):
            raise Unsupported(
                "FETCH takes ROWS ONLY",
                where=source.keyword(clause, "FETCH"),
                hint="For WITH TIES, filter by RANK() OVER (ORDER BY ...).",
            )
        return constant_count(clause.args["count"], "FETCH", source, outer)
    if isinstance(clause.expression, exp.Column | exp.Var | exp.All) and clause.expression.name.upper() in ("ALL", ""):
        mark_translated(clause.expression)
        return None
    return constant_count(clause.expression, "LIMIT", source, outer)


def offset_of(node: exp.Expr, source: SqlText, outer: Scope | None = None) -> int | None:
    """The number that OFFSET gives."""
    clause = node.args.get("offset")
    return None if clause is None else constant_count(clause.expression, "OFFSET", source, outer)


def constant_count(number: exp.Expr, clause: str, source: SqlText, outer: Scope | None = None) -> int:
    """The value of a constant expression: a whole number, and not a negative one.

    It may have parameters and variables, which are in ``outer``, but no columns.
    """
    try:
        found = ExpressionTranslator(EXPRESSION_RULES, source, Scope(outer=outer)).scalar(number)
        count = None if columns_in(found) else evaluate_scalar(found, {})
    except TidemillError:
        count = None
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise ParseError(f"{clause} takes a whole number", where=source.place(number))
    return count


def apply_limit(query: OrderedQuery) -> Relation:
    """The rows that a limit leaves, of a query whose order and limit have been taken off.

    Without a limit the order has no effect, since rows are a multiset; columns for the order alone are dropped.
    """
    rows, fields = query.relation, query.relation.fields
    if query.limit is not None or query.offset:
        order = tuple(SortOrder(column(fields[position]), *direction) for position, *direction in query.order)
        rows = TopK(rows, (), order, query.limit, query.offset or 0)
    visible = fields[: len(query.names)]
    if len(visible) == len(fields):
        return rows
    if isinstance(rows, Project):
        return Project(rows.input, rows.outputs[: len(visible)])
    return Project(rows, tuple(Named(f.name, column(f)) for f in visible))
