"""ORDER BY, LIMIT and OFFSET: beside a query that is asked once, and as a top-k within any other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from tidemill.algebra.relational.relations import Relation
from tidemill.compiler.frontends.sql.grammar.sql_text import SqlText
from tidemill.compiler.frontends.sql.grammar.untranslated import mark_translated, refuse_unsupported_arguments
from tidemill.compiler.frontends.sql.names.scope import unknown_name
from tidemill.compiler.frontends.sql.query.limit import limit_of, offset_of
from tidemill.model.errors import Unsupported

if TYPE_CHECKING:
    from tidemill.compiler.frontends.sql.query.translator import QueryTranslator

ColumnOrder = tuple[int, bool, bool]
"""Which column, whether descending, whether NULLs come first."""


@dataclass(frozen=True)
class OrderedQuery:
    """A query with its order and limit taken off. Columns that it is only ordered by follow those with ``names``."""

    relation: Relation
    names: tuple[str, ...]
    order: tuple[ColumnOrder, ...]
    limit: int | None
    offset: int | None


def translate_ordered(queries: QueryTranslator, node: exp.Expr) -> OrderedQuery:
    """The query ``node``, and how its rows are to be arranged."""
    node = _unwrapped(node)
    queries = queries.within(node)
    limit, offset = limit_of(node, queries.source), offset_of(node, queries.source)
    terms = node.args["order"].expressions if node.args.get("order") else []
    bare = node.copy()
    for clause in (*MODIFIERS, "with_"):
        bare.set(clause, None)
    refuse_unsupported_arguments(bare, queries.source)
    mark_translated(node)
    if isinstance(bare, exp.Select):
        found = _ordered_select(queries, bare, terms)
    else:
        rows = queries.rows(bare)
        order = tuple(_order(term, _position(rows.names, term.this, queries.source)) for term in terms)
        found = rows.relation, rows.names, order
    queries.check_tables(node)
    return OrderedQuery(*found, limit, offset)


MODIFIERS = ("order", "limit", "offset")


def _unwrapped(node: exp.Expr) -> exp.Expr:
    """A query out of its parentheses: a limit behind them cuts the order within them."""
    while isinstance(node, exp.Subquery) and not (_modifiers(node) and _modifiers(node.this) - {"order"}):
        mark_translated(node)
        below = node.this.copy()
        for clause in _modifiers(node):
            below.set(clause, node.args[clause])
        if node.args.get("with_") and not below.args.get("with_"):
            below.set("with_", node.args["with_"])
        node = below
    return node


def _modifiers(node: exp.Expr) -> set[str]:
    return {clause for clause in MODIFIERS if node.args.get(clause)}


def _ordered_select(
    queries: QueryTranslator, node: exp.Select, terms: list[exp.Expr]
) -> tuple[Relation, tuple[str, ...], tuple[ColumnOrder, ...]]:
    """A SELECT may be ordered by what it does not show: such columns follow the visible ones."""
    selection = queries.selection(node, extra=terms)
    order = tuple(_order(term, selection.order_position(term.this)) for term in terms)
    relation, names = selection.relation_and_names()
    return relation, names, order


def _order(term: exp.Expr, position: int) -> ColumnOrder:
    return position, bool(term.args.get("desc")), bool(term.args.get("nulls_first"))


def _position(names: tuple[str, ...], node: exp.Expr, source: SqlText) -> int:
    """A column of a UNION or VALUES, by number or by name."""
    if isinstance(node, exp.Literal) and node.name.isdigit() and 1 <= int(node.name) <= len(names):
        mark_translated(node)
        return int(node.name) - 1
    if not isinstance(node, exp.Column):
        raise Unsupported("a UNION is ordered by its columns", where=source.place(node), hint="Put it into FROM.")
    name = node.name.lower()
    if len(node.parts) > 1 or name not in names:
        raise unknown_name("column", name, names, source.place(node))
    mark_translated(node)
    return names.index(name)
