"""``ALTER VIEW``: other options, another name or another query."""

from __future__ import annotations

from tidemill.compiler.frontends.script import statements as st
from tidemill.compiler.frontends.script.definitions.options import read_options
from tidemill.compiler.frontends.sql.grammar.sql_text import ParsedText
from tidemill.compiler.frontends.sql.grammar.statement_cursor import StatementCursor
from tidemill.compiler.frontends.viewdf.parse import is_definition, read_definition
from tidemill.model.errors import TextLocation

__all__ = ["read_alter_view", "take_cascade"]


def read_alter_view(cursor: StatementCursor, place: TextLocation) -> st.Statement:
    """``ALTER [MATERIALIZED] VIEW name SET (options)``, ``RESET (names)``, ``RENAME TO name`` or ``AS query``."""
    cursor.accept("MATERIALIZED")
    if not cursor.accept("VIEW"):
        raise cursor.expected("TABLE, STREAM, VIEW, SOURCE or FEED")
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.name("view")
    if cursor.accept("RENAME"):
        cursor.expect("TO")
        return st.Rename(place, "view", name, cursor.name("view"), if_exists)
    if cursor.accept("AS"):
        cascade = take_cascade(cursor)
        query = cursor.text(cursor.position) if cursor.rest else ""
        tree = read_definition(cursor, name) if is_definition(cursor) else ParsedText(cursor.parse(), cursor.source)
        return st.CreateView(place, name, query, {}, cursor.text(), tree, if_exists, True, cascade, alters=True)
    if cursor.accept("SET"):
        return st.AlterView(place, name, read_options(cursor), if_exists=if_exists)
    if cursor.accept("RESET"):
        return st.AlterView(place, name, {}, _option_names(cursor), if_exists)
    raise cursor.expected("SET (option = value), RESET (option), RENAME TO or AS")


def _option_names(cursor: StatementCursor) -> tuple[str, ...]:
    """``(on_error, weight)``."""
    cursor.expect("(")
    names = tuple(cursor.separated(lambda: cursor.next("an option").text.lower()))
    cursor.expect(")")
    return names


def take_cascade(cursor: StatementCursor) -> bool:
    """Take ``CASCADE`` from the end of a query; a column of that name has AS, a comma or a point before it."""
    *_, before, last = cursor.tokens
    if not cursor.is_word(last, "CASCADE") or before.text.upper() in ("AS", ",", ".", "SELECT", "DISTINCT", "BY"):
        return False
    cursor.tokens = cursor.tokens[:-1]
    return True
