"""The keywords of SQL: those of the grammar, and the words that statements begin with."""

from __future__ import annotations

from tidemill.compiler.frontends.script.readers import STATEMENT_READERS
from tidemill.compiler.frontends.sql.grammar.dialect import TidemillDialect
from tidemill.compiler.frontends.sql.grammar.window_function_grammar import WINDOWING_FUNCTIONS

__all__ = ["keywords"]


def keywords() -> list[str]:
    """All keywords, sorted.

    >>> {"SELECT", "MATERIALIZED", "FEEDS", "EXISTS"} - set(keywords())
    set()
    """
    of_grammar = (word for key in TidemillDialect.Tokenizer.KEYWORDS for word in key.split())
    of_statements = (word for words in STATEMENT_READERS for word in words)
    return sorted({word.upper() for word in (*of_grammar, *of_statements, *OTHERS) if word.replace("_", "").isalpha()})


OTHERS = (
    *("COLUMNS", "EXISTS", "EXTENDED", "IF", "KEY", "OPTIONS", "PRIMARY", "VERSION"),
    *("DESCRIPTOR", "MATCH_CONDITION", "SYSTEM_TIME", *WINDOWING_FUNCTIONS),
)
"""Words that the readers of statements look for behind the first ones, and those of joins and windows by time."""
