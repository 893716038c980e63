"""Options of a definition: ``(key = value, ...)``."""

from __future__ import annotations

from tidemill.compiler.frontends.sql.grammar.statement_cursor import StatementCursor
from tidemill.model.errors import ParseError

__all__ = ["read_options"]


def read_options(cursor: StatementCursor) -> dict[str, str]:
    """``(strategy = 'viewlet', runtime = native)``: values are strings, words or numbers."""
    options: dict[str, str] = {}
    cursor.expect("(")
    while not cursor.accept(")"):
        place = cursor.place
        key = cursor.next("an option").text.lower()
        if key in options:
            raise ParseError(f'option "{key}" is given twice', where=place)
        cursor.expect("=")
        sign = "-" if cursor.accept("-") else ""
        options[key] = sign + cursor.next(f'the value of "{key}"').text
        if not cursor.accept(","):
            cursor.expect(")")
            break
    return options
