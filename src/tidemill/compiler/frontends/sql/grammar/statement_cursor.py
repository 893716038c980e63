"""The tokens of a script, statement by statement and word by word."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from tidemill.compiler.frontends.script.create_table import check_identifier
from tidemill.compiler.frontends.sql.grammar.sql_text import SqlText
from tidemill.model.errors import ParseError, TextLocation


def split_statements(tokens: tuple[Token, ...]) -> Iterator[tuple[Token, ...]]:
    """The tokens of each statement, without the semicolons between them; empty statements are none.

    The parts of a view that is made by partitions may have semicolons between them, and stay together.
    """
    statement: list[Token] = []
    for position, token in enumerate(tokens):
        if token.token_type != TokenType.SEMICOLON:
            statement.append(token)
        elif statement and not _goes_on(tokens[position + 1 : position + 4]):
            yield tuple(statement)
            statement = []
    if statement:
        yield tuple(statement)


def _goes_on(following: Sequence[Token]) -> bool:
    """Whether what follows a semicolon is a part of the statement before it: neither begins one of its own."""
    kinds = [token.token_type for token in following]
    return kinds[:1] == [TokenType.PARTITION_BY] or (kinds[:1] == [TokenType.UPDATE] and TokenType.L_BRACKET in kinds)


def _is_word(token: Token, word: str) -> bool:
    """True of a keyword or sign; a name or text in quotes is none, whatever it says."""
    return token.text.upper() == word and token.token_type not in (TokenType.STRING, TokenType.IDENTIFIER)


@dataclass
class StatementCursor:
    """The tokens of one statement, and how many of them have been read."""

    source: SqlText
    tokens: tuple[Token, ...]
    position: int = 0

    @property
    def rest(self) -> tuple[Token, ...]:
        """The tokens that have not been read."""
        return self.tokens[self.position :]

    @property
    def place(self) -> TextLocation:
        """The next token, or the last one where none is left."""
        token = self.rest[0] if self.rest else self.tokens[-1]
        return self.source.span(token.start, token.end)

    def accept(self, *words: str) -> bool:
        """Read ``words`` if they come next."""
        found = self.rest[: len(words)]
        matches = len(found) == len(words) and all(map(_is_word, found, words))
        self.position += len(words) if matches else 0
        return matches

    def expect(self, *words: str) -> None:
        """Read ``words``, which must come next."""
        if not self.accept(*words):
            raise ParseError(f"{' '.join(words)} was expected here", where=self.place)

    def next(self, expected: str) -> Token:
        """Read one token, whatever it is."""
        if not self.rest:
            raise ParseError(f"{expected} was expected after this", where=self.place)
        self.position += 1
        return self.tokens[self.position - 1]

    def name(self, of: str) -> str:
        """Read the name of a table or view: one identifier, bare or in backquotes."""
        token = self.next(f"the name of a {of}")
        bare = token.text.isidentifier() and token.token_type != TokenType.STRING
        if not (bare or token.token_type == TokenType.IDENTIFIER):
            self.position -= 1
            raise ParseError(f"the name of a {of} was expected here", where=self.place)
        if self.rest and self.rest[0].token_type == TokenType.DOT:
            raise ParseError(f"the name of a {of} has one part", where=self.place, detail="A warehouse is one schema.")
        return check_identifier(token.text, self.source.span(token.start, token.end))

    def end(self) -> None:
        """Nothing more may come."""
        if self.rest:
            raise ParseError("the statement should end before this", where=self.place)

    def parse(self) -> exp.Expr:
        """The unread tokens, as sqlglot's parser reads them."""
        if not self.rest:
            raise ParseError("a query was expected after this", where=self.place)
        tree = self.source.parse(self.rest)
        self.position = len(self.tokens)
        return tree

    def text(self, start: int = 0) -> str:
        """The text from token ``start`` to the end of the statement, exactly as written."""
        return self.source.text[self.tokens[start].start : self.tokens[-1].end + 1]
