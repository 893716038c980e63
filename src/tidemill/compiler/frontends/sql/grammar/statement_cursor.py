"""The tokens of a script, statement by statement and word by word."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from tidemill.compiler.frontends.sql.grammar.sql_text import SqlText
from tidemill.compiler.frontends.text.cursor import Cursor
from tidemill.compiler.frontends.text.names import check_identifier
from tidemill.model.errors import ParseError

SCHEMA_NAMES = ((), ("default",), ("spark_catalog", "default"))
"""Qualifiers that may stand before the name of a table or view."""

INFORMATION_SCHEMA = "information_schema"
"""The schema whose tables show the catalog."""

ONE_SCHEMA = "A warehouse is one schema, called default, or spark_catalog.default."


def split_statements(tokens: tuple[Token, ...]) -> Iterator[tuple[Token, ...]]:
    """The tokens of each statement, without semicolons and empty statements.

    The parts of a view that is defined by partitions may have semicolons between them, and stay together.
    """
    statement: list[Token] = []
    for position, token in enumerate(tokens):
        if token.token_type != TokenType.SEMICOLON:
            statement.append(token)
        elif statement and not _continues(tokens[position + 1 : position + 4]):
            yield tuple(statement)
            statement = []
    if statement:
        yield tuple(statement)


def _continues(following: Sequence[Token]) -> bool:
    """True if the tokens after a semicolon continue the statement before it."""
    kinds = [token.token_type for token in following]
    return kinds[:1] == [TokenType.PARTITION_BY] or (kinds[:1] == [TokenType.UPDATE] and TokenType.L_BRACKET in kinds)


class StatementCursor(Cursor[SqlText, Token]):
    """The tokens of one statement, and how many of them have been read."""

    def is_word(self, token: Token, word: str) -> bool:
        """True for a keyword or sign, not for a quoted name or string."""
        return token.token_type not in (TokenType.STRING, TokenType.IDENTIFIER) and super().is_word(token, word)

    def name(self, of: str) -> str:
        """Read the name of a table or view: an identifier, bare or in backquotes, perhaps with the schema before it."""
        parts = [self._identifier(of)]
        while self.accept("."):
            parts.append(self._identifier(of))
        *schema, name = parts
        if (*(part.text.lower() for part in schema),) not in SCHEMA_NAMES:
            where = self.source.span(parts[0].start, parts[-1].end)
            raise ParseError(f"the name of a {of} has one part", where=where, detail=ONE_SCHEMA)
        return check_identifier(name.text, self.source.span(name.start, name.end))

    def column_name(self) -> str:
        """Read the name of a column, parameter or variable: any identifier, in lower case."""
        return self._identifier("column").text.lower()

    def _identifier(self, of: str) -> Token:
        token = self.next(f"the name of a {of}")
        bare = token.text.isidentifier() and token.token_type != TokenType.STRING
        if not (bare or token.token_type == TokenType.IDENTIFIER):
            self.position -= 1
            raise self.expected(f"the name of a {of}")
        return token

    def parse(self) -> exp.Expr:
        """The unread tokens, as sqlglot's parser reads them."""
        if not self.rest:
            raise self.expected("a query")
        tree = self.source.parse(self.rest)
        self.position = len(self.tokens)
        return tree

    def text(self, start: int = 0) -> str:
        """The text from token ``start`` to the end of the statement, exactly as written."""
        return self.source.text[self.tokens[start].start : self.tokens[-1].end + 1]
