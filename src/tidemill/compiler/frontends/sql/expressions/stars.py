"""Stars: ``*``, ``t.*`` and ``struct.*``, with EXCEPT, in a SELECT list or among the arguments of a function."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from sqlglot import exp

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.scalars import Literal, Scalar
from tidemill.compiler.frontends.sql.expressions.translator import (
    BOUND,
    POSITION,
    ExpressionTranslator,
    find_name,
    from_member,
)
from tidemill.compiler.frontends.sql.grammar.statement_cursor import SCHEMA_NAMES
from tidemill.compiler.frontends.sql.grammar.translation_marks import mark_translated
from tidemill.compiler.frontends.sql.names.column_labels import is_star
from tidemill.compiler.frontends.text.names import unknown_name
from tidemill.model.errors import ParseError, TypeMismatch, Unsupported
from tidemill.model.types import STRING, Struct

E = TypeVar("E", bound=exp.Expr)

Path = tuple[str, ...]


def star_columns(expressions: ExpressionTranslator, node: exp.Expr) -> list[tuple[str, Scalar]]:
    """The columns that a star stands for, by name."""
    star = node if isinstance(node, exp.Star) else node.expression if isinstance(node, exp.Dot) else node.this
    if star.args.get("replace") or star.args.get("rename"):
        raise Unsupported("a star takes EXCEPT only", where=expressions.source.place(node))
    mark_translated(node, star, *(part for one in star.args.get("except_") or () for part in one.walk()))
    qualifiers, columns = _columns(expressions, node)
    paths = [_path(one, qualifiers) for one in star.args.get("except_") or ()]
    with expressions.source.locating(node):
        return _without(columns, paths) if paths else columns


def _columns(expressions: ExpressionTranslator, node: exp.Expr) -> tuple[Sequence[str], list[tuple[str, Scalar]]]:
    """The qualifiers of what a star stands for, and all of its columns."""
    scope = expressions.scope
    beside = scope.outer if scope.outer is not None and scope.outer.lateral else None
    if isinstance(node, exp.Star):
        if not scope.star() and beside is None:
            raise ParseError("a star needs a FROM", where=expressions.source.place(node))
        return scope.qualifiers, [(b.name, b.column) for b in scope.star()]
    if isinstance(node, exp.Dot):
        raise Unsupported(
            "a star stands behind a table or a column",
            where=expressions.source.place(node),
            hint="Name the value in a subquery: SELECT x.* FROM (SELECT struct(a, b) AS x FROM t).",
        )
    assert isinstance(node, exp.Column)
    mark_translated(*(part for part in node.parts if isinstance(part, exp.Identifier)))
    *schema, name = (part.name.lower() for part in node.parts[:-1])
    for one in (scope, beside):
        if one is not None and name in one.qualifiers and (*schema,) in SCHEMA_NAMES:
            return (name,), [(b.name, b.column) for b in one.star(name)]
    found = find_name(expressions, [*schema, name])
    if found is None:
        raise unknown_name("table in FROM called", name, scope.qualifiers, expressions.source.place(node))
    return (), _members(found, expressions, node)


def _members(record: Scalar, expressions: ExpressionTranslator, node: exp.Expr) -> list[tuple[str, Scalar]]:
    if not isinstance(record.type, Struct):
        raise TypeMismatch(f"{record.type} has no members for a star", where=expressions.source.place(node))
    return [(f.name, from_member(record, f.name)) for f in record.type.fields]


def _path(node: exp.Expr, qualifiers: Sequence[str]) -> Path:
    """The names of a column or member after EXCEPT, without the table before it."""
    nodes = node.parts if isinstance(node, exp.Column | exp.Dot) else [node]
    names = tuple(part.name.lower() for part in nodes)
    return names[1:] if len(names) > 1 and names[0] in qualifiers else names


def _without(columns: Iterable[tuple[str, Scalar]], paths: Sequence[Path]) -> list[tuple[str, Scalar]]:
    """``columns`` without those, or without the members, that ``paths`` lead to."""
    columns = list(columns)
    for position, path in enumerate(paths):
        if path[0] not in (name for name, _ in columns):
            raise unknown_name("column", path[0], [name for name, _ in columns])
        if any(path[: len(other)] == other[: len(path)] for other in paths[:position]):
            raise ParseError(f'EXCEPT names "{".".join(path)}" twice')
    kept = []
    for name, column in columns:
        below = [path[1:] for path in paths if path[0] == name]
        if () not in below:
            kept.append((name, _narrowed(column, below) if below else column))
    return kept


def _narrowed(record: Scalar, paths: Sequence[Path]) -> Scalar:
    """A struct without the members that ``paths`` lead to; as in Spark it is not NULL, and its members are."""
    if not isinstance(record.type, Struct):
        raise TypeMismatch(f"{record.type} has no members")
    members = _without([(f.name, from_member(record, f.name)) for f in record.type.fields], paths)
    if not members:
        raise TypeMismatch("EXCEPT leaves no member of a struct")
    return call("named_struct", *(part for name, value in members for part in (Literal(name, STRING), value)))


def expand_stars(expressions: ExpressionTranslator, node: E) -> E:
    """``node`` with columns in place of the stars among its arguments; ``COUNT(*)`` stays as it is."""
    listed = node.expressions
    if len(listed) == 1 and isinstance(listed[0], exp.Distinct):
        if _is_table_star(expressions, listed[0].expressions):
            raise _qualified_count(expressions, listed[0])
        inner = expand_stars(expressions, listed[0])
        return node if inner is listed[0] else _with(node, [inner])
    if not any(map(is_star, listed)) or _counts_rows(node):
        return node
    if isinstance(node, exp.Anonymous) and node.name.lower() == "count" and _is_table_star(expressions, listed):
        raise _qualified_count(expressions, listed[0])
    for position, argument in enumerate(listed, start=1):
        argument.meta[POSITION] = position  # members of a struct are numbered as they are written
    return _with(node, [one for argument in listed for one in _expanded(expressions, argument)])


def _is_table_star(expressions: ExpressionTranslator, listed: Sequence[exp.Expr]) -> bool:
    """True for the star of a table alone: to Spark it is neither all rows nor those in which no column is NULL."""
    (first, *rest) = listed
    return not rest and is_star(first) and not isinstance(first, exp.Star) and bool(_columns(expressions, first)[0])


def _qualified_count(expressions: ExpressionTranslator, node: exp.Expr) -> Unsupported:
    return Unsupported(
        "COUNT takes no star of one table",
        where=expressions.source.place(node),
        hint="Use COUNT(*), or list the columns.",
    )


def _counts_rows(node: exp.Expr) -> bool:
    (first, *rest) = node.expressions
    counts = isinstance(node, exp.Anonymous) and node.name.lower() in ("count", "try_count") and not rest
    return counts and isinstance(first, exp.Star) and not first.args.get("except_")


def _with(node: E, listed: list[exp.Expr]) -> E:
    # A copy, since the same text may be translated again over other columns.
    copy = node.copy()
    copy.set("expressions", listed)
    return copy


def _expanded(expressions: ExpressionTranslator, node: exp.Expr) -> list[exp.Expr]:
    if not is_star(node):
        return [node]
    return [bound_column(name, scalar) for name, scalar in star_columns(expressions, node)]


def bound_column(name: str, scalar: Scalar) -> exp.Column:
    """A column of a parse tree that stands for ``scalar``."""
    node = exp.Column(this=exp.to_identifier(name, quoted=True))
    node.meta[BOUND] = scalar
    return node
