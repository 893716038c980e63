"""ORDER BY: beside a query that is answered once, and as a top-k within any other."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from tidemill.algebra.node import Relation
from tidemill.compiler.frontends.sql.grammar.sql_text import SqlText
from tidemill.compiler.frontends.sql.grammar.translation_marks import mark_translated
from tidemill.model.errors import ParseError

ColumnOrder = tuple[int, bool, bool]
"""The index of a column, whether it is descending, and whether NULLs come first."""


@dataclass(frozen=True)
class OrderedQuery:
    """A query with its order and limit taken off. Columns that it is only ordered by follow those with ``names``."""

    relation: Relation
    names: tuple[str, ...]
    order: tuple[ColumnOrder, ...]
    limit: int | None
    offset: int | None


MODIFIERS = ("order", "limit", "offset")


def unwrap_query(node: exp.Expr) -> exp.Expr:
    """A query without its parentheses; a LIMIT after them applies to the ORDER BY inside."""
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


def column_order(term: exp.Expr, position: int) -> ColumnOrder:
    """The order by the column at ``position``, for a term of ORDER BY."""
    return position, bool(term.args.get("desc")), bool(term.args.get("nulls_first"))


def named_position(names: tuple[str, ...], node: exp.Expr, source: SqlText) -> int | None:
    """A column of a UNION or VALUES, by number or by name; None for another expression."""
    if isinstance(node, exp.Literal) and node.name.isdigit():
        if not 1 <= int(node.name) <= len(names):
            raise ParseError(f"there is no column number {node.name}", where=source.place(node))
        mark_translated(node)
        return int(node.name) - 1
    if not isinstance(node, exp.Column) or len(node.parts) > 1 or names.count(node.name.lower()) != 1:
        return None
    mark_translated(node)
    return names.index(node.name.lower())
