"""The names that PostgreSQL gives to columns without one."""

from __future__ import annotations

from sqlglot import exp

__all__ = ["label_of"]


def label_of(node: exp.Expr) -> str:
    """The label of a column: the name of a column, function or type; or none.

    >>> from sqlglot import parse_one
    >>> [label_of(parse_one(text, read="postgres")) for text in ("sum(a)", "a::text", "1 + 1", "coalesce(a, b)")]
    ['sum', 'a', '?column?', 'coalesce']
    """
    match node:
        case exp.Column() | exp.Identifier():
            return node.name
        case exp.Alias():
            return node.alias
        case exp.Cast():
            inner = label_of(node.this)
            return inner if inner != "?column?" else node.to.sql("postgres").lower().partition("(")[0]
        case exp.Paren() | exp.Window() | exp.Filter():
            return label_of(node.this)
        case exp.Subquery():
            return label_of(node.this.selects[0]) if node.this.selects else "?column?"
        case exp.Case():
            return "case"
        case exp.Anonymous():
            return node.name.lower()
        case exp.Func() if not isinstance(node, exp.Binary | exp.Connector):
            return node.sql_name().lower()
    return "?column?"
