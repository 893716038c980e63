"""``CREATE TABLE ... USING format LOCATION '...'``: tables whose rows are those of a lake table."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot.tokenizer_core import TokenType

from tidemill.compiler.frontends.script import statements as st
from tidemill.compiler.frontends.script.definitions.create_table import read_table
from tidemill.compiler.frontends.script.definitions.options import read_options
from tidemill.compiler.frontends.sql.grammar.nesting import nesting_levels
from tidemill.compiler.frontends.sql.grammar.statement_cursor import StatementCursor
from tidemill.compiler.frontends.sql.grammar.untranslated import refuse_unsupported_arguments
from tidemill.model.errors import ParseError, TextLocation, Unsupported
from tidemill.model.schema import Table

__all__ = ["is_lake_table", "read_lake_table"]


def is_lake_table(cursor: StatementCursor) -> bool:
    """True if the declaration of a table has a LOCATION outside of its columns."""
    return any(depth == 0 and cursor.is_word(token, "LOCATION") for depth, token in nesting_levels(cursor.tokens[3:]))


def read_lake_table(cursor: StatementCursor, place: TextLocation) -> st.CreateLakeTable:
    """``[IF NOT EXISTS] name [(columns, keys) | (PRIMARY KEY (...))] USING format [OPTIONS (...)] LOCATION '...'``."""
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.name("table")
    table, key = _columns(cursor)
    cursor.expect("USING")
    format = cursor.next("a format").text.lower()
    options, location = _clauses(cursor)
    return st.CreateLakeTable(place, name, table, key, format, location, options, if_not_exists)


def _columns(cursor: StatementCursor) -> tuple[Table | None, tuple[str, ...]]:
    """The declared columns, if there are any, and the primary key of a table that takes all columns."""
    if not cursor.sees("("):
        return None, ()
    if cursor.rest[1:2] and cursor.rest[1].token_type == TokenType.PRIMARY_KEY:
        return None, _key(cursor)
    depth = 0
    while cursor.rest:
        sign = cursor.next("columns").token_type
        depth += (sign == TokenType.L_PAREN) - (sign == TokenType.R_PAREN)
        if depth == 0:
            break
    tree = cursor.source.parse(cursor.tokens[: cursor.position])
    refuse_unsupported_arguments(tree, cursor.source)
    return read_table(tree, cursor.source, kept=True), ()


def _key(cursor: StatementCursor) -> tuple[str, ...]:
    """``(PRIMARY KEY (a, b))``."""
    cursor.expect("(")
    cursor.next("PRIMARY KEY")
    cursor.expect("(")
    names = tuple(cursor.separated(cursor.column_name))
    cursor.expect(")")
    cursor.expect(")")
    return names


def _clauses(cursor: StatementCursor) -> tuple[Mapping[str, str], str]:
    """OPTIONS, COMMENT, which means nothing, and LOCATION, in any order."""
    options: Mapping[str, str] = {}
    location = ""
    while cursor.rest:
        if cursor.accept("OPTIONS"):
            options = read_options(cursor)
        elif cursor.accept("COMMENT"):
            cursor.next("a comment")
        elif cursor.sees("LOCATION"):
            location = _location(cursor)
        else:
            raise Unsupported(
                "a lake table takes columns, keys, OPTIONS and a LOCATION only",
                where=cursor.place,
                detail="How its files are partitioned and what properties it has is written in the lake.",
                hint="Leave the clause out.",
            )
    return options, location


def _location(cursor: StatementCursor) -> str:
    cursor.expect("LOCATION")
    where = cursor.place
    found = cursor.next("a location")
    if found.token_type != TokenType.STRING:
        raise ParseError(
            "a location was expected here", where=where, hint="Write it in quotes: LOCATION 'lake/orders'."
        )
    return found.text
