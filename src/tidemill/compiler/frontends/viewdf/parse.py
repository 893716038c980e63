"""``INITIALIZE v[k] AS ... UPDATE v[i] AS ... PARTITION BY 1 MINUTE``: parser of views by partitions.

A query over sliding windows is short for such a view, in which all partitions have the same query.
"""

from __future__ import annotations

from itertools import pairwise

from sqlglot.tokenizer_core import TokenType

from tidemill.compiler.frontends.sql.grammar.sql_text import ParsedText
from tidemill.compiler.frontends.sql.grammar.statement_cursor import StatementCursor
from tidemill.compiler.frontends.viewdf.definition import PartitionedView, PartitionQuery
from tidemill.compiler.frontends.viewdf.partition_by import at_partition_by, read_final_period
from tidemill.compiler.frontends.viewdf.sliding_windows import SlidingWindow, read_sliding_window
from tidemill.compiler.frontends.viewdf.subscripts import (
    PartitionRange,
    Tokens,
    add_short_aliases,
    read_partition_range,
    replace_bracketed,
)
from tidemill.model.errors import ParseError, TextLocation


def is_definition(cursor: StatementCursor) -> bool:
    """True if a definition by partitions comes next, or a query over sliding windows."""
    return _has_parts(cursor) or _has_windows(cursor.rest)


def _has_parts(cursor: StatementCursor) -> bool:
    return bool(cursor.rest) and cursor.rest[0].text.upper() in ("INITIALIZE", "UPDATE")


def _has_windows(tokens: Tokens) -> bool:
    return any(a.token_type == TokenType.L_BRACKET and b.text.upper() == "WINDOW" for a, b in pairwise(tokens))


def read_definition(cursor: StatementCursor, view: str) -> PartitionedView:
    """The definition of ``view``: all parts to the end of the statement, whether or not semicolons part them."""
    if not _has_parts(cursor):
        return _windows(cursor, view)
    initialize = _body(cursor, view) if cursor.accept("INITIALIZE") else None
    if not cursor.accept("UPDATE"):
        raise ParseError(
            f"UPDATE {view}[i] AS was expected here",
            where=cursor.place,
            detail="INITIALIZE has one query, which makes the first partition; UPDATE makes all others.",
        )
    update = _body(cursor, view)
    every = None
    if at_partition_by(cursor):
        cursor.next("PARTITION BY")
        every = read_final_period(cursor)
    cursor.expect_end("statement")
    return PartitionedView(view, initialize, update, every)


def _body(cursor: StatementCursor, view: str) -> PartitionQuery:
    """``v[i] AS query``."""
    place = cursor.place
    name = cursor.name("view")
    if name != view:
        raise ParseError(f'the partitions of "{view}" are defined here, not those of "{name}"', where=place)
    cursor.expect("[")
    variable = cursor.name("subscript").lower()
    cursor.expect("]")
    cursor.expect("AS")
    start = cursor.position
    cursor.position += _length(cursor.rest)
    if cursor.position == start:
        raise ParseError("a query was expected here", where=cursor.place)
    return _read_body(cursor, cursor.tokens[start : cursor.position], variable, place)


def _read_body(cursor: StatementCursor, query: Tokens, variable: str, place: TextLocation) -> PartitionQuery:
    """A query in which brackets hold windows, or subscripts that count from ``variable``."""

    def read(bracketed: Tokens) -> PartitionRange | SlidingWindow:
        if _has_windows(bracketed):
            return read_sliding_window(bracketed, cursor.source)
        return read_partition_range(bracketed, cursor.source, variable)

    tokens, partitions = replace_bracketed(query, read)
    tree = add_short_aliases(cursor.source.parse(tokens), partitions)
    return PartitionQuery(ParsedText(tree, cursor.source), partitions, place)


def _windows(cursor: StatementCursor, view: str) -> PartitionedView:
    """A query over windows, which have the same slide: the one given, or a partition."""
    body = _read_body(cursor, cursor.rest, "i", cursor.place)
    cursor.position = len(cursor.tokens)
    windows = [read for read in body.partitions.values() if isinstance(read, SlidingWindow)]
    slides = {window.slide for window in windows}
    if len(slides) > 1:
        raise ParseError(
            "the windows of a view must have the same slide",
            where=windows[-1].place,
            hint="Give all of them the same SLIDE.",
        )
    return PartitionedView(view, None, body, slides.pop() if slides else None)


def _length(tokens: Tokens) -> int:
    """The number of tokens before the next part of the definition: in parentheses none begins."""
    depth = 0
    for position, token in enumerate(tokens):
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if depth == 0 and token.token_type in (TokenType.UPDATE, TokenType.PARTITION_BY):
            return position
    return len(tokens)
