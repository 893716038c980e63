"""The name of a column that has no alias: its own, or the expression as Spark prints it."""

from __future__ import annotations

from sqlglot import exp

from tidemill.algebra.text import function_text
from tidemill.compiler.frontends.sql.grammar.sql_text import printed

OPERATOR_SIGNS: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.EQ: "=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
    exp.And: "AND",
    exp.Or: "OR",
}


NAMED_AS_FUNCTION = ("window", "session_window")
"""Functions whose column has the name of the function."""


def column_label(node: exp.Expr) -> str:
    """The name of the column for ``node``, in lower case like every name.

    >>> from tidemill.compiler.frontends.sql.grammar.sql_text import SqlText
    >>> query = SqlText.of("SELECT o.id, SUM(o.amount) / COUNT(*), 'X'", "demo").parse()
    >>> [column_label(item) for item in query.expressions]
    ['id', '(sum(amount) / count(1))', 'x']
    """
    if isinstance(node, exp.Cast) and (isinstance(node.this, exp.Column | exp.Dot) or node.this.meta.get("label")):
        return column_label(node.this)
    return _printed(node).lower()


def _printed(node: exp.Expr) -> str:
    match node:
        case exp.Column():
            return node.name
        case exp.Dot():
            return str(node.expression.name)
        case exp.Paren():
            return _printed(node.this)
        case exp.Star():
            return "1"
        case exp.Subquery():
            return "scalarsubquery()"
        case exp.Literal():
            return str(node.this)
        case exp.Anonymous() if node.meta.get("label"):
            return str(node.meta["label"])  # v:a.b has the name b
        case exp.Anonymous() if node.name.lower() in NAMED_AS_FUNCTION:
            return str(node.name)
        case exp.Anonymous():
            return f"{function_text(node.name)}({_listed(node.expressions)})"
        case exp.Distinct():
            return f"DISTINCT {_listed(node.expressions)}"
        case exp.Not():
            return f"(NOT {_printed(node.this)})"
        case exp.Neg():
            return f"-{_printed(node.this)}" if isinstance(node.this, exp.Literal) else f"(- {_printed(node.this)})"
        case exp.Binary() if type(node) in OPERATOR_SIGNS:
            return f"({_printed(node.this)} {OPERATOR_SIGNS[type(node)]} {_printed(node.expression)})"
        case exp.Bracket():
            return f"{_printed(node.this)}[{_listed(node.expressions)}]"
        case exp.Cast():
            return f"CAST({_printed(node.this)} AS {node.to.sql('spark')})"
    return printed(node)


def _listed(nodes: list[exp.Expr]) -> str:
    return ", ".join(map(_printed, nodes))


def is_star(node: exp.Expr) -> bool:
    """True for ``*``, ``t.*`` and ``struct(a).*``."""
    if isinstance(node, exp.Dot):
        return isinstance(node.expression, exp.Star)
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))
