"""A text of statements without the values that stand in it, for logs."""

from __future__ import annotations

from tidemill.compiler.frontends.script.readers import read_script
from tidemill.compiler.frontends.sql.grammar.sql_text import SqlText
from tidemill.model.errors import SqlError

__all__ = ["without_literals"]


def without_literals(text: str) -> str | None:
    """The text with a question mark for each number and text in it, and without comments; None if it is no SQL.

    >>> without_literals("SELECT * FROM t WHERE name = 'ann' AND `my col` > -1.5e3 -- secret")
    'SELECT * FROM t WHERE name = ? AND `my col` > -?'
    >>> without_literals("SELEC 'ann'")
    """
    try:
        source = SqlText.of(text, "statement")
        read_script(source)
    except (SqlError, RecursionError):
        return None
    shown, end = "", 0
    for token in source.tokens:
        if token.start >= end:  # a number with its type is several tokens in one place
            shown += (" " if shown and token.start > end else "") + _shown(source.text[token.start : token.end + 1])
            end = token.end + 1
    return shown


def _shown(token: str) -> str:
    """A name, keyword or sign as it is; whatever has quotes or begins with a digit is a value."""
    is_value = token[:1].isdigit() or (token[:1] == "." and len(token) > 1) or any(quote in token for quote in "'\"$")
    return "?" if is_value and not token.startswith("`") else token
