"""Tables that a query of a pipeline names: where, and whether as a stream; and the query with other names for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from tidemill.compiler.frontends.sql.grammar.sql_text import SqlText
from tidemill.compiler.frontends.sql.grammar.statement_cursor import StatementCursor
from tidemill.model.errors import TextLocation

__all__ = ["PipelineQuery", "Reference", "read_query"]

BEFORE_A_STREAM = (TokenType.FROM, TokenType.JOIN)
NAMES = (TokenType.VAR, TokenType.IDENTIFIER)


@dataclass(frozen=True)
class Reference:
    """A table as a query names it, from offset ``start`` to ``end``, inclusive; ``stream`` if it is read as one."""

    parts: tuple[str, ...]
    start: int
    end: int
    stream: bool
    place: TextLocation
    alias: str = ""


@dataclass(frozen=True)
class PipelineQuery:
    """A query: the text that it is a part of, with blanks for everything else and for STREAM, and what it reads.

    Blanks keep every place, so errors in the query point into the file that it was read from.
    """

    text: str
    references: tuple[Reference, ...]
    place: TextLocation

    def renamed(self, name: Callable[[Reference], str]) -> str:
        """The query with ``name`` of each reference in its place.

        >>> read_query("SELECT o.id FROM shop.orders o").renamed(lambda reference: "_".join(reference.parts))
        'SELECT o.id FROM shop_orders o'
        """
        text, end = "", 0
        for reference in sorted(self.references, key=lambda one: one.start):
            text += self.text[end : reference.start] + name(reference)
            end = reference.end + 1
        return text + self.text[end:]


def read_query(query: str | StatementCursor, name: str = "query") -> PipelineQuery:
    """A query, from its text or from where a cursor is; STREAM before a table is read, and taken out.

    >>> query = read_query("WITH a AS (SELECT * FROM a) SELECT * FROM a JOIN STREAM b")
    >>> [(reference.parts, reference.stream) for reference in query.references]
    [(('b',), True), (('a',), False)]
    """
    cursor = query if isinstance(query, StatementCursor) else _cursor(query, name)
    if not cursor.rest:
        raise cursor.expected("a query")
    tokens, streams, dropped = _without_stream(cursor.rest)
    tree = cursor.source.parse(tokens)
    place = cursor.source.span(tokens[0].start, tokens[-1].end)
    cursor.position = len(cursor.tokens)
    whole = cursor.source.text
    start, end = tokens[0].start, max(token.end for token in cursor.tokens)
    text = _blank(whole[:start]) + whole[start : end + 1]
    for token in dropped:
        text = text[: token.start] + " " * (token.end - token.start + 1) + text[token.end + 1 :]
    return PipelineQuery(text, tuple(_references(tree, cursor.source, streams)), place)


def _cursor(text: str, name: str) -> StatementCursor:
    source = SqlText.of(text, name)
    return StatementCursor(source, tuple(token for token in source.tokens if token.token_type != TokenType.SEMICOLON))


def _blank(text: str) -> str:
    return "".join("\n" if letter == "\n" else " " for letter in text)


def _without_stream(tokens: tuple[Token, ...]) -> tuple[tuple[Token, ...], set[int], list[Token]]:
    """The tokens without STREAM and its parentheses, the offsets of names behind it, and what was left out."""
    kept: list[Token] = []
    streams: set[int] = set()
    dropped: list[Token] = []
    place = 0
    while place < len(tokens):
        token = tokens[place]
        if kept and kept[-1].token_type in BEFORE_A_STREAM and _is_stream(tokens[place : place + 3]):
            dropped.append(token)
            place += 1
            if tokens[place].token_type == TokenType.L_PAREN:
                end = _closing(tokens, place)
                dropped += [tokens[place], tokens[end]]
                kept += tokens[place + 1 : end]
                streams.add(tokens[place + 1].start)
                place = end + 1
            else:
                streams.add(tokens[place].start)
            continue
        kept.append(token)
        place += 1
    return tuple(kept), streams, dropped


def _is_stream(tokens: tuple[Token, ...]) -> bool:
    """True for ``STREAM name`` and ``STREAM(name)``, false for a table that is called stream."""
    if len(tokens) < 2 or tokens[0].token_type != TokenType.VAR or tokens[0].text.upper() != "STREAM":
        return False
    following = tokens[2] if tokens[1].token_type == TokenType.L_PAREN and len(tokens) > 2 else tokens[1]
    return following.token_type in NAMES


def _closing(tokens: tuple[Token, ...], place: int) -> int:
    depth = 0
    for at in range(place, len(tokens)):
        depth += (tokens[at].token_type == TokenType.L_PAREN) - (tokens[at].token_type == TokenType.R_PAREN)
        if depth == 0:
            return at
    return len(tokens) - 1


def _references(tree: exp.Expr, source: SqlText, streams: set[int]) -> Iterator[Reference]:
    for table in tree.find_all(exp.Table):
        parts = [part for part in (table.args.get("catalog"), table.args.get("db"), table.this) if part is not None]
        if not all(isinstance(part, exp.Identifier) for part in parts) or _is_common_table(table):
            continue
        start, end = parts[0].meta["start"], parts[-1].meta["end"]
        names = tuple(part.name for part in parts)
        yield Reference(names, start, end, start in streams, source.span(start, end), table.alias)


def _is_common_table(table: exp.Table) -> bool:
    """True if the name is that of a common table expression that can be read there: an earlier one, or a recursive."""
    if table.args.get("db") is not None:
        return False
    below: exp.Expr = table
    above = table.parent
    inside: exp.CTE | None = None
    while above is not None:
        if isinstance(above, exp.CTE):
            inside = above
        clause = above if isinstance(above, exp.With) else above.args.get("with_")
        if isinstance(clause, exp.With) and table.name.lower() in _visible(clause, inside, below):
            return True
        below, above = above, above.parent
    return False


def _visible(clause: exp.With, inside: exp.CTE | None, below: exp.Expr) -> list[str]:
    """Names of the common table expressions of a clause that are seen from one of them, or from the query below."""
    tables = list(clause.expressions)
    place = next((at for at, table in enumerate(tables) if table is inside or table is below), len(tables))
    shown = tables[: place + 1] if clause.args.get("recursive") else tables[:place]
    return [table.alias.lower() for table in shown]
