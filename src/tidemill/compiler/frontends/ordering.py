"""ORDER BY, LIMIT and OFFSET: beside a query that is asked once, and as a top-k within any other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from tidemill.algebra.relations import Relation
from tidemill.compiler.frontends.limits import limit_of, offset_of
from tidemill.compiler.frontends.names import unknown
from tidemill.compiler.frontends.places import Source
from tidemill.compiler.frontends.unread import read, refuse_clauses
from tidemill.model.errors import Unsupported

if TYPE_CHECKING:
    from tidemill.compiler.frontends.queries import Queries

Order = tuple[int, bool, bool]
"""Which column, whether descending, whether NULLs come first."""


@dataclass(frozen=True)
class Ordered:
    """A query with its order and limit taken off. Columns that it is only ordered by follow those with ``names``."""

    relation: Relation
    names: tuple[str, ...]
    order: tuple[Order, ...]
    limit: int | None
    offset: int | None


def ordered(queries: Queries, node: exp.Expr) -> Ordered:
    """The query ``node``, and how its rows are to be arranged."""
    node = _unwrapped(node)
    queries = queries.within(node)
    limit, offset = limit_of(node, queries.source), offset_of(node, queries.source)
    terms = node.args["order"].expressions if node.args.get("order") else []
    bare = node.copy()
    for clause in (*MODIFIERS, "with_"):
        bare.set(clause, None)
    refuse_clauses(bare, queries.source)
    read(node)
    if isinstance(bare, exp.Select):
        found = _ordered_select(queries, bare, terms)
    else:
        rows = queries.rows(bare)
        order = tuple(_order(term, _position(rows.names, term.this, queries.source)) for term in terms)
        found = rows.relation, rows.names, order
    queries.check_tables(node)
    return Ordered(*found, limit, offset)


MODIFIERS = ("order", "limit", "offset")


def _unwrapped(node: exp.Expr) -> exp.Expr:
    """A query out of its parentheses: a limit behind them cuts the order within them."""
    while isinstance(node, exp.Subquery) and not (_modifiers(node) and _modifiers(node.this) - {"order"}):
        read(node)
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
    queries: Queries, node: exp.Select, terms: list[exp.Expr]
) -> tuple[Relation, tuple[str, ...], tuple[Order, ...]]:
    """A SELECT may be ordered by what it does not show: such columns follow the visible ones."""
    selection = queries.selection(node, extra=terms)
    order = tuple(_order(term, selection.order_position(term.this)) for term in terms)
    relation, names = selection.relation_and_names()
    return relation, names, order


def _order(term: exp.Expr, position: int) -> Order:
    return position, bool(term.args.get("desc")), bool(term.args.get("nulls_first"))


def _position(names: tuple[str, ...], node: exp.Expr, source: Source) -> int:
    """A column of a UNION or VALUES, by number or by name."""
    if isinstance(node, exp.Literal) and node.name.isdigit() and 1 <= int(node.name) <= len(names):
        read(node)
        return int(node.name) - 1
    if not isinstance(node, exp.Column):
        raise Unsupported("a UNION is ordered by its columns", where=source.place(node), hint="Put it into FROM.")
    name = node.name.lower()
    if len(node.parts) > 1 or name not in names:
        raise unknown("column", name, names, source.place(node))
    read(node)
    return names.index(name)
