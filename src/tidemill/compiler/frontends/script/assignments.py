"""``SET column = value, ...`` of UPDATE, MERGE and ON CONFLICT."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from tidemill.compiler.frontends.sql.grammar.sql_text import ParsedText, SqlText
from tidemill.model.errors import ParseError

__all__ = ["Assignments", "assigned_path", "read_assignments"]

Assignments = tuple[tuple[tuple[str, ...], ParsedText], ...]
"""Columns, or paths to members, with their new values."""


def read_assignments(nodes: Iterable[exp.Expr], source: SqlText) -> Assignments:
    """The assignments of a SET."""
    return tuple((assigned_path(node.this, source), ParsedText(node.expression, source)) for node in nodes)


def assigned_path(target: exp.Expr, source: SqlText) -> tuple[str, ...]:
    """The names to the left of ``=`` in SET: a column, perhaps with the table before it and members behind it."""
    if isinstance(target, exp.Dot) and isinstance(target.expression, exp.Identifier):
        return (*assigned_path(target.this, source), target.expression.name.lower())
    if isinstance(target, exp.Column):
        return tuple(part.name.lower() for part in target.parts)
    raise ParseError(
        "SET takes a column of the table, or a member of one, = value",
        where=source.place(target),
        hint="For an element of an array or map set the whole column.",
    )
