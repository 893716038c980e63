"""A statement in PostgreSQL's dialect as one in Spark's that means the same."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from sqlglot import ErrorLevel, exp, parse
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.optimizer.qualify import qualify

from tidemill.serving.pgwire.dialect.labels import label_of
from tidemill.serving.pgwire.dialect.meanings import same_meaning
from tidemill.serving.pgwire.errors import PgError
from tidemill.serving.pgwire.scan import MARKER

__all__ = ["translate"]

Columns = Callable[[str], Mapping[str, str] | None]
"""The columns of a relation, and their types in Spark's words; None if there is none."""

TRANSLATED = {"SELECT", "WITH", "VALUES", "INSERT", "UPDATE", "DELETE", "CREATE", "DROP", "TABLE", "("}
"""First words of statements that PostgreSQL has; others are Tidemill's own, and stay as they are."""

RECURSION = 5_000

NOT_TRANSLATED: tuple[tuple[type[exp.Expr], str], ...] = (
    (exp.Lock, "FOR UPDATE"),
    (exp.Returning, "RETURNING"),
    (exp.BitwiseXor, "the operator #"),
    (exp.JSONBContains, "the operator @>"),
    (exp.RegexpILike, "the operator ~*"),
    (exp.Rand, "random()"),
)


def translate(text: str, first: str, columns: Columns) -> str:
    """The statement in Spark's dialect, with parameters as ``:_1``; refused where it would mean something else.

    >>> translate('SELECT a / 2 AS half, a::text FROM public.t', "SELECT", {"t": {"a": "INT"}}.get)
    'SELECT t.a DIV 2 AS half, CAST(t.a AS STRING) AS a FROM t AS t'
    """
    if first not in TRANSLATED:
        return text
    sys.setrecursionlimit(max(sys.getrecursionlimit(), RECURSION))
    tree = _parsed(text)
    for kind, what in NOT_TRANSLATED:
        if tree.find(kind) is not None:
            raise PgError("0A000", f"{what} is not translated from PostgreSQL's dialect")
    tree = tree.transform(_plain)
    _label(tree)
    with suppress(SqlglotError):  # names that are not known are told by the warehouse
        tree = _annotated(tree, columns)
    for node in reversed(list(tree.walk())):
        new = same_meaning(node)
        if new is not node:
            if node is tree:
                tree = new
            else:
                node.replace(new)
    try:
        return tree.sql("spark", unsupported_level=ErrorLevel.RAISE, comments=False)
    except SqlglotError as error:
        raise PgError("0A000", "this is not translated from PostgreSQL's dialect", detail=str(error)) from None


def _label(tree: exp.Expr) -> None:
    """Give the columns of a query the labels that PostgreSQL gives them."""
    if not isinstance(tree, exp.Select):
        return
    for selected in list(tree.selects):
        if not isinstance(selected, exp.Alias | exp.Column | exp.Star):
            label = label_of(selected)
            selected.replace(exp.alias_(selected.copy(), label, quoted=not label.isidentifier()))


def _parsed(text: str) -> exp.Expr:
    try:
        (tree,) = parse(text, read="postgres")
    except (SqlglotError, RecursionError, ValueError) as error:
        detail = str(error).split("\n", 1)[0] if isinstance(error, SqlglotError) else None
        raise PgError("42601", "this cannot be read as PostgreSQL's SQL", detail=detail) from None
    if tree is None or isinstance(tree, exp.Command):
        raise PgError("0A000", "this is not translated from PostgreSQL's dialect", hint="SET dialect = 'spark'.")
    return tree


def _plain(node: exp.Expr) -> exp.Expr:
    """A node without what is only a way of writing."""
    match node:
        case exp.Parameter():
            return exp.Placeholder(this=f"{MARKER}{node.name}")
        case exp.Table() if node.db:
            if node.db.lower() != "public":
                raise PgError("3F000", f'there is no schema "{node.db}"', hint="All names are in public.")
            node.set("db", None)
            node.set("catalog", None)
        case exp.Column() if node.args.get("db"):
            node.set("db", None)
            node.set("catalog", None)
        case exp.DataType():
            change = _TYPES.get(node.this)
            return node if change is None else change(node)
    return node


def _refused_type(node: exp.DataType) -> exp.DataType:
    raise PgError("0A000", f"there is no type {node.sql('postgres').lower()}")


_TYPES: Mapping[Any, Callable[[exp.DataType], exp.DataType]] = {
    exp.DataType.Type.TIMESTAMP: lambda node: exp.DataType.build("TIMESTAMPNTZ"),
    **dict.fromkeys(
        (
            exp.DataType.Type.SERIAL,
            exp.DataType.Type.BIGSERIAL,
            exp.DataType.Type.SMALLSERIAL,
            exp.DataType.Type.MONEY,
            exp.DataType.Type.INET,
            exp.DataType.Type.JSON,
            exp.DataType.Type.JSONB,
        ),
        _refused_type,
    ),
}


def _annotated(tree: exp.Expr, columns: Columns) -> exp.Expr:
    """The tree with the types of its expressions, as far as they can be told."""
    schema: dict[str, object] = {}
    for table in tree.find_all(exp.Table):
        found = columns(table.name) if isinstance(table.this, exp.Identifier) else None
        if found is not None:
            schema[table.name] = dict(found)
    if isinstance(tree, exp.Query):
        tree = qualify(
            tree,
            schema=schema,
            dialect="postgres",
            quote_identifiers=False,
            identify=False,
            validate_qualify_columns=False,
            expand_stars=False,
        )
        return annotate_types(tree, schema=schema, dialect="postgres")
    for inner in [*tree.find_all(exp.Query)]:
        if inner.find_ancestor(exp.Query) is None:
            inner.replace(_annotated(inner.copy(), columns))
    _annotate_columns(tree, schema)
    return tree


def _annotate_columns(tree: exp.Expr, schema: Mapping[str, Any]) -> None:
    """Types of the columns of an UPDATE or DELETE, which has one table."""
    known = {name: of for columns in schema.values() for name, of in columns.items()}
    for column in tree.find_all(exp.Column):
        if column.name in known and column.find_ancestor(exp.Query) is None:
            column.type = exp.DataType.build(known[column.name], dialect="spark")
    for literal in tree.find_all(exp.Literal):
        if literal.type is None:
            literal.type = exp.DataType.build("TEXT" if literal.is_string else "INT" if literal.is_int else "DECIMAL")
