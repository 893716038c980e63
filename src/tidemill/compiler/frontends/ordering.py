"""The outermost ORDER BY, LIMIT and OFFSET of a query that is asked once."""

from __future__ import annotations

from sqlglot import exp

from tidemill.algebra.relations import Relation
from tidemill.compiler.frontends.clauses import refuse_clauses
from tidemill.compiler.frontends.literals import from_number
from tidemill.compiler.frontends.names import unknown
from tidemill.compiler.frontends.places import Source
from tidemill.compiler.frontends.queries import Queries, Rows, with_tables
from tidemill.model.errors import ParseError

Order = tuple[int, bool, bool]
"""Which column, whether descending, whether NULLs come first."""


def ordered(queries: Queries, node: exp.Expr) -> tuple[Relation, int, tuple[Order, ...], int | None, int | None]:
    """A query with its order and limit taken off: relation, visible columns, order, limit, offset."""
    node = _unwrapped(node)
    limit, offset = (_count(node, clause, queries.source) for clause in ("limit", "offset"))
    terms = node.args["order"].expressions if node.args.get("order") else []
    bare = node.copy()
    for clause in MODIFIERS:
        bare.set(clause, None)
    refuse_clauses(bare, queries.source)
    if isinstance(bare, exp.Select):
        return (*_ordered_select(with_tables(queries, bare), bare, terms), limit, offset)
    rows = queries.rows(bare)
    order = tuple(_order(term, _position(rows, term.this, queries.source)) for term in terms)
    return rows.relation, len(rows.names), order, limit, offset


MODIFIERS = ("order", "limit", "offset")


def _unwrapped(node: exp.Expr) -> exp.Expr:
    """A query out of its parentheses: a limit behind them cuts the order within them."""
    while isinstance(node, exp.Subquery) and not (_modifiers(node) and _modifiers(node.this) - {"order"}):
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
) -> tuple[Relation, int, tuple[Order, ...]]:
    """A SELECT may be ordered by what it does not show: such columns follow the visible ones."""
    selection = queries.selection(node, extra=terms)
    order = tuple(_order(term, selection.order_position(term.this)) for term in terms)
    relation, names = selection.relation_and_names()
    return relation, len(names), order


def _order(term: exp.Expr, position: int) -> Order:
    return position, bool(term.args.get("desc")), bool(term.args.get("nulls_first"))


def _position(rows: Rows, node: exp.Expr, source: Source) -> int:
    """A column of a UNION or VALUES, by number or by name."""
    if isinstance(node, exp.Literal) and node.name.isdigit() and 1 <= int(node.name) <= len(rows.names):
        return int(node.name) - 1
    name = node.name.lower()
    if not isinstance(node, exp.Column) or name not in rows.names:
        raise unknown("column", name, rows.names, source.place(node))
    return rows.names.index(name)


def _count(node: exp.Expr, clause: str, source: Source) -> int | None:
    """The number that LIMIT or OFFSET gives; LIMIT ALL is none."""
    found = node.args.get(clause)
    if found is None:
        return None
    number = found.expression
    if isinstance(number, exp.Column | exp.Var | exp.All) and number.name.upper() in ("ALL", ""):
        return None
    if not (isinstance(number, exp.Literal) and not number.is_string and number.name.isdigit()):
        raise ParseError(f"{clause.upper()} takes a whole number", where=source.place(found))
    return int(from_number(number.name).value)
