"""Schemas as texts, which functions that read documents take: a type, or a list of columns."""

from __future__ import annotations

import re

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from tidemill.compiler.frontends.sql.grammar.sql_text import SqlText
from tidemill.compiler.frontends.sql.names.data_types import from_type
from tidemill.model.errors import ParseError, TidemillError, TypeMismatch
from tidemill.model.types import Array, Field, Map, Struct, Type

_CHARACTERS = re.compile(r"\b(?:VAR)?CHAR(?:ACTER)?\s*\(", re.IGNORECASE)


def read_schema(text: str) -> Type:
    """The type that a text declares; members keep their names as they are written, and may all be NULL.

    >>> str(read_schema("a INT, B ARRAY<STRING>")), str(read_schema("map<string, int>"))
    ('STRUCT<a: INT, B: ARRAY<STRING>>', 'MAP<STRING, INT>')
    """
    try:
        return read_type(text)
    except TidemillError:
        return _read_columns(text)


def _read_columns(text: str) -> Type:
    """The struct of a list of columns, in which no colon stands between name and type."""
    depth = 0
    for token in SqlText.of(text, "schema").tokens:
        depth += (token.token_type == TokenType.LT) - (token.token_type == TokenType.GT)
        if not depth and token.token_type == TokenType.COLON:
            raise ParseError(f"{text!r} is not a list of columns", hint="Write a name, a blank and a type.")
    return read_type(f"STRUCT<{text}>")


def read_type(text: str) -> Type:
    """The type that a text spells."""
    source = SqlText.of(f"SELECT CAST(NULL AS {text})", "schema")
    tree = source.parse()
    cast = tree.expressions[0] if isinstance(tree, exp.Select) and len(tree.expressions) == 1 else None
    if not isinstance(cast, exp.Cast) or set(_given(tree)) > {"kind", "expressions"} or not cast.to:
        raise ParseError(f"{text!r} is not a type")
    if _CHARACTERS.search(text):
        raise TypeMismatch("a schema has no CHAR and VARCHAR", hint="Use STRING.")
    of = _as_written(from_type(cast.to, source), cast.to)
    _check_names(of)
    return of


def _given(tree: exp.Expr) -> list[str]:
    return [name for name, value in tree.args.items() if value]


def _as_written(of: Type, kind: exp.DataType) -> Type:
    """A type with the names of its members as they stand in its declaration."""
    match of:
        case Array(element):
            return Array(_as_written(element, kind.expressions[0]))
        case Map(key, value):
            return Map(_as_written(key, kind.expressions[0]), _as_written(value, kind.expressions[1]))
        case Struct(fields):
            pairs = zip(fields, kind.expressions, strict=True)
            return Struct(tuple(Field(member.name, _as_written(f.type, member.kind)) for f, member in pairs))
    return of


def _check_names(of: Type) -> None:
    match of:
        case Array(element):
            _check_names(element)
        case Map(_, value):
            _check_names(value)
        case Struct(fields):
            if len({field.name.lower() for field in fields}) < len(fields):
                raise TypeMismatch("a record has each of its fields once")
            for field in fields:
                _check_names(field.type)
