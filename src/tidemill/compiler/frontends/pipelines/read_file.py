"""A SQL file of a pipeline, statement by statement: those that Spark's declarative pipelines take, and no other."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot.tokenizer_core import TokenType

from tidemill.compiler.frontends.pipelines.definitions import (
    AutoCdcStatement,
    DatasetKind,
    DatasetStatement,
    FlowStatement,
    PipelineStatement,
    SetStatement,
    UseStatement,
)
from tidemill.compiler.frontends.pipelines.references import read_query
from tidemill.compiler.frontends.script.definitions.options import read_options
from tidemill.compiler.frontends.sql.grammar.nesting import nesting_levels
from tidemill.compiler.frontends.sql.grammar.sql_text import SqlText
from tidemill.compiler.frontends.sql.grammar.statement_cursor import StatementCursor, split_statements
from tidemill.model.errors import ParseError, TextLocation, Unsupported

__all__ = ["read_pipeline_file"]

KNOWN = "CREATE MATERIALIZED VIEW, STREAMING TABLE, TEMPORARY VIEW or FLOW, SET and USE"


def read_pipeline_file(text: str, name: str) -> list[PipelineStatement]:
    """Everything that a file defines, in order.

    >>> [one] = read_pipeline_file("CREATE MATERIALIZED VIEW v USING delta AS SELECT 1 AS a FROM t", "v.sql")
    >>> one.kind, one.name, one.format, one.query.references[0].parts
    ('materialized view', ('v',), 'delta', ('t',))
    """
    source = SqlText.of(text, name)
    return [_statement(StatementCursor(source, tokens)) for tokens in split_statements(source.tokens)]


def _statement(cursor: StatementCursor) -> PipelineStatement:
    place = cursor.place
    if cursor.accept("CREATE"):
        if not cursor.accept("OR", "REFRESH"):
            cursor.accept("OR", "REPLACE")
        for words, read in CREATED.items():
            if cursor.accept(*words):
                return read(cursor, place)
    elif cursor.accept("SET"):
        return _set(cursor, place)
    elif cursor.accept("USE"):
        return _use(cursor, place)
    raise Unsupported(f"a pipeline does not take this statement; it takes {KNOWN}", where=place)


def _materialized(cursor: StatementCursor, place: TextLocation) -> DatasetStatement:
    """``[IF NOT EXISTS] name [(columns)] [USING format] [clauses] AS query``."""
    return _dataset(cursor, place, "materialized view", needs_query=True)


def _streaming(cursor: StatementCursor, place: TextLocation) -> DatasetStatement:
    """``[IF NOT EXISTS] name [(columns)] [USING format] [clauses] [AS query]``."""
    return _dataset(cursor, place, "streaming table", needs_query=False)


def _temporary(cursor: StatementCursor, place: TextLocation) -> DatasetStatement:
    """``name [COMMENT '...'] AS query``."""
    return _dataset(cursor, place, "temporary view", needs_query=True)


def _view(cursor: StatementCursor, place: TextLocation) -> DatasetStatement:
    """``name [COMMENT '...'] AS query``: a view that is stored in the catalog."""
    return _dataset(cursor, place, "view", needs_query=True)


def _dataset(cursor: StatementCursor, place: TextLocation, kind: DatasetKind, *, needs_query: bool) -> DatasetStatement:
    cursor.accept("IF", "NOT", "EXISTS")
    name = _name(cursor)
    columns = _parenthesized(cursor) if cursor.sees("(") else ""
    format: str | None = None
    partitioned: tuple[str, ...] = ()
    properties: dict[str, str] = {}
    while cursor.rest and not cursor.sees("AS"):
        here = cursor.place
        if cursor.accept("USING"):
            format = ".".join(_name(cursor)).lower()
        elif cursor.accept("PARTITIONED BY"):
            partitioned = _names(cursor)
        elif cursor.accept("CLUSTER BY"):
            _names(cursor)
        elif cursor.accept("COMMENT"):
            cursor.next("a comment")
        elif cursor.accept("TBLPROPERTIES"):
            properties = _properties(cursor)
        else:
            raise Unsupported("a dataset of a pipeline cannot have this clause", where=here, hint="Leave it out.")
    if not needs_query and not cursor.rest:
        return DatasetStatement(place, kind, name, None, columns, format, partitioned, properties)
    cursor.expect("AS")
    return DatasetStatement(place, kind, name, read_query(cursor), columns, format, partitioned, properties)


def _flow(cursor: StatementCursor, place: TextLocation) -> FlowStatement | AutoCdcStatement:
    """``name [COMMENT '...'] AS INSERT INTO target BY NAME query``, or AUTO CDC."""
    where, name = cursor.place, _name(cursor)
    if len(name) > 1:
        raise ParseError("the name of a flow has one part", where=where)
    if cursor.accept("COMMENT"):
        cursor.next("a comment")
    cursor.expect("AS")
    if cursor.accept("AUTO", "CDC", "INTO"):
        return _auto_cdc(cursor, place, name[0])
    cursor.expect("INSERT", "INTO")
    cursor.accept("TABLE")
    target = _name(cursor)
    cursor.expect("BY", "NAME")
    return FlowStatement(place, name[0], target, read_query(cursor))


def _auto_cdc(cursor: StatementCursor, place: TextLocation, name: str) -> AutoCdcStatement:
    """``target FROM STREAM source KEYS (...)``, then SEQUENCE BY, APPLY AS DELETE WHEN, COLUMNS, STORED AS, TRACK."""
    target = _name(cursor)
    cursor.expect("FROM")
    source = _stream(cursor)
    cursor.expect("KEYS")
    keys = _names(cursor)
    clauses: dict[str, object] = {}
    while cursor.rest:
        here = cursor.place
        if cursor.accept("APPLY", "AS", "DELETE", "WHEN"):
            clauses["delete_when"] = _expression(cursor)
        elif cursor.accept("SEQUENCE", "BY"):
            clauses["sequence_by"] = _expression(cursor)
        elif cursor.accept("COLUMNS"):
            clauses["columns"], clauses["except_columns"] = _selection(cursor)
        elif cursor.accept("STORED", "AS", "SCD", "TYPE"):
            clauses["scd_type"] = _scd_type(cursor)
        elif cursor.accept("TRACK", "HISTORY", "ON"):
            clauses["track"], clauses["track_except"] = _selection(cursor)
        else:
            raise Unsupported("AUTO CDC cannot have this clause", where=here, hint="Leave it out.")
    if "sequence_by" not in clauses:
        raise ParseError("AUTO CDC needs SEQUENCE BY", where=place, hint="SEQUENCE BY version")
    return AutoCdcStatement(place, name, target, source, keys, **clauses)  # type: ignore[arg-type]


AFTER_AN_EXPRESSION = ("APPLY", "SEQUENCE", "COLUMNS", "STORED", "TRACK", "IGNORE")


def _expression(cursor: StatementCursor) -> str:
    """The text of an expression, up to the next clause."""
    start, place = cursor.start, cursor.place
    for depth, token in nesting_levels(cursor.rest):
        if depth == 0 and token.start > start and any(cursor.is_word(token, word) for word in AFTER_AN_EXPRESSION):
            break
        cursor.position += 1
    if cursor.start == start or cursor.end < start:
        raise ParseError("an expression was expected here", where=place)
    return cursor.source.text[start : cursor.end + 1]


def _stream(cursor: StatementCursor) -> tuple[str, ...]:
    cursor.expect("STREAM")
    if cursor.accept("("):
        name = _name(cursor)
        cursor.expect(")")
        return name
    return _name(cursor)


def _scd_type(cursor: StatementCursor) -> int:
    where, found = cursor.place, cursor.next("1 or 2").text
    if found not in ("1", "2"):
        raise ParseError("there are SCD types 1 and 2", where=where)
    return int(found)


def _selection(cursor: StatementCursor) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """``(a, b)``, ``a, b``, ``*`` or ``* EXCEPT (a, b)``."""
    if cursor.accept("*"):
        return None, _names(cursor) if cursor.accept("EXCEPT") else ()
    return (_names(cursor) if cursor.sees("(") else tuple(cursor.separated(cursor.column_name))), ()


def _set(cursor: StatementCursor, place: TextLocation) -> SetStatement:
    """``SET key = value``; the value is everything behind the sign."""
    text = cursor.text(cursor.position) if cursor.rest else ""
    key, sign, value = text.partition("=")
    if not sign or not key.strip():
        raise ParseError("SET takes a key and a value", where=place, hint="SET spark.sql.shuffle.partitions = 8")
    cursor.position = len(cursor.tokens)
    return SetStatement(place, key.strip().strip("`'\""), value.strip().strip("'\""))


def _use(cursor: StatementCursor, place: TextLocation) -> UseStatement:
    """``USE [CATALOG name | [NAMESPACE | DATABASE | SCHEMA] [catalog.]name]``."""
    if cursor.accept("CATALOG"):
        statement = UseStatement(place, cursor.next("a catalog").text, None)
    else:
        if not (cursor.accept("SCHEMA") or cursor.accept("DATABASE")):
            cursor.accept("NAMESPACE")
        *catalog, schema = _name(cursor)
        if len(catalog) > 1:
            raise ParseError("the name of a schema has one part, or a catalog before it", where=place)
        statement = UseStatement(place, catalog[0] if catalog else None, schema)
    cursor.expect_end("statement")
    return statement


def _name(cursor: StatementCursor) -> tuple[str, ...]:
    """A name of one or more parts, each bare or in backquotes."""
    parts = [_part(cursor)]
    while cursor.accept("."):
        parts.append(_part(cursor))
    return tuple(parts)


def _part(cursor: StatementCursor) -> str:
    token = cursor.next("a name")
    if token.token_type != TokenType.IDENTIFIER and not token.text.isidentifier():
        cursor.position -= 1
        raise cursor.expected("a name")
    return token.text


def _names(cursor: StatementCursor) -> tuple[str, ...]:
    cursor.expect("(")
    names = tuple(cursor.separated(cursor.column_name))
    cursor.expect(")")
    return names


def _properties(cursor: StatementCursor) -> dict[str, str]:
    """``('key' = 'value', key.of.parts = value)``."""
    if cursor.rest[1:2] and cursor.rest[1].token_type == TokenType.STRING:
        return read_options(cursor)
    inside = _parenthesized(cursor)
    pairs = (pair.partition("=") for pair in inside.split(","))
    return {key.strip(): value.strip().strip("'\"") for key, _, value in pairs}


def _parenthesized(cursor: StatementCursor) -> str:
    """The text between two parentheses, as it is written."""
    start, depth = cursor.start, 0
    while cursor.rest:
        sign = cursor.next("columns").token_type
        depth += (sign == TokenType.L_PAREN) - (sign == TokenType.R_PAREN)
        if depth == 0:
            break
    return cursor.source.text[start + 1 : cursor.end]


CREATED: dict[tuple[str, ...], Callable[[StatementCursor, TextLocation], PipelineStatement]] = {
    ("MATERIALIZED", "VIEW"): _materialized,
    ("STREAMING", "TABLE"): _streaming,
    ("TEMPORARY", "VIEW"): _temporary,
    ("TEMP", "VIEW"): _temporary,
    ("VIEW",): _view,
    ("FLOW",): _flow,
}
"""Readers of the kinds of definition that follow CREATE, by their words."""
