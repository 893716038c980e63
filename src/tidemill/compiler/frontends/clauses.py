"""Clauses of a query that are not read: refused, so that none is passed over in silence."""

from __future__ import annotations

from sqlglot import exp

from tidemill.compiler.frontends.places import Source
from tidemill.model.errors import Unsupported

READ = {
    *("with_", "from_", "joins", "where", "group", "having", "expressions", "distinct", "order", "limit", "offset"),
    *("laterals", "windows", "qualify", "match"),
    *("this", "expression", "by_name", "alias", "db", "hint", "kind", "operation_modifiers"),
}
"""Clauses that are read, or mean nothing here: a bag has no order, and how to join is the compiler's business."""


def refuse_clauses(node: exp.Expr, source: Source) -> None:
    """Refuse a query, or an item of FROM, with a clause that we do not read."""
    for clause, found in node.args.items():
        if not found or clause in READ:
            continue
        part = found[0] if isinstance(found, list) else found
        words = clause.upper(), clause.upper().removesuffix("S")
        place = source.keyword(part if isinstance(part, exp.Expr) else node, *words)
        raise Unsupported(f"{words[1]} is not supported in a query", where=place)
