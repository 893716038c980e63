"""Tokens of a text, and a cursor that reads them one by one, for the parsers of all languages but sqlglot's own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from tidemill.compiler.frontends.text.source import SourceText
from tidemill.model.errors import ParseError, TextLocation


class Token(Protocol):
    """A word, number, quoted text or sign, from offset ``start`` to ``end`` of its text, inclusive."""

    @property
    def text(self) -> str: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...


@dataclass(frozen=True, slots=True)
class PatternToken:
    """A token of which ``kind`` is the group of a pattern that it matched."""

    kind: str
    text: str
    start: int
    end: int


def tokenize(source: SourceText, pattern: re.Pattern[str], language: str) -> Iterator[PatternToken]:
    """The tokens of a text by ``pattern``, without those of its group ``space``.

    >>> words = re.compile(r"(?P<space>\\s+)|(?P<word>\\w+)")
    >>> [token.text for token in tokenize(SourceText("demo", "class  Part"), words, "ODL")]
    ['class', 'Part']
    """
    position = 0
    while position < len(source.text):
        found = pattern.match(source.text, position)
        if found is None:
            quoted = source.text[position] in "\"'" and "text" in pattern.groupindex
            what = (
                "a quoted text is never closed" if quoted else f'"{source.text[position]}" has no meaning in {language}'
            )
            raise ParseError(what, where=source.span(position, position))
        if found.lastgroup != "space":
            yield PatternToken(str(found.lastgroup), found.group(), position, found.end() - 1)
        position = found.end()


S = TypeVar("S", bound=SourceText)
T = TypeVar("T", bound=Token)
R = TypeVar("R")


@dataclass
class Cursor(Generic[S, T]):
    """The tokens of a text or of a part of it, and how many of them have been read.

    >>> source = SourceText("demo", "define name as")
    >>> cursor = Cursor(source, tuple(tokenize(source, re.compile(r"(?P<space> )|(?P<word>\\w+)"), "OQL")))
    >>> cursor.accept("DEFINE"), cursor.accept("query"), cursor.next("a name").text
    (True, False, 'name')
    >>> cursor.expect("as")
    >>> print(cursor.expected("a query"))
    a query was expected after this
      demo:1:13   as
                  ^^
    """

    source: S
    tokens: tuple[T, ...]
    position: int = 0

    def is_word(self, token: T, word: str) -> bool:
        """True for a token that spells ``word``, in upper or lower case; languages say which tokens can."""
        return token.text.lower() == word.lower()

    @property
    def rest(self) -> tuple[T, ...]:
        """The tokens that have not been read."""
        return self.tokens[self.position :]

    @property
    def token(self) -> T | None:
        """The next token, if there is one."""
        return self.tokens[self.position] if self.position < len(self.tokens) else None

    @property
    def start(self) -> int:
        """The offset of the next token, or of the end of the text."""
        return self.tokens[self.position].start if self.token else len(self.source.text)

    @property
    def end(self) -> int:
        """The offset at which the token that was read last ends."""
        return self.tokens[self.position - 1].end

    @property
    def place(self) -> TextLocation:
        """The next token, or the last one where none is left."""
        token = self.token or (self.tokens[-1] if self.tokens else None)
        return self.source.span(token.start, token.end) if token else self.source.span(0, 0)

    def sees(self, *words: str, after: int = 0) -> bool:
        """True if ``words`` come next, or after so many tokens."""
        first = self.position + after
        found = self.tokens[first : first + len(words)]
        return len(found) == len(words) and all(map(self.is_word, found, words))

    def accept(self, *words: str) -> bool:
        """Read ``words`` if they come next."""
        seen = self.sees(*words)
        self.position += len(words) if seen else 0
        return seen

    def expect(self, *words: str) -> None:
        """Read ``words``, which must come next."""
        if not self.accept(*words):
            raise self.expected(" ".join(words))

    def expected(self, what: str) -> ParseError:
        """The error for a text that continues with something else."""
        return ParseError(f"{what} was expected {'here' if self.token else 'after this'}", where=self.place)

    def next(self, expected: str) -> T:
        """Read one token, whatever it is."""
        if self.token is None:
            raise self.expected(expected)
        self.position += 1
        return self.tokens[self.position - 1]

    def separated(self, read: Callable[[], R]) -> Iterator[R]:
        """A comma-separated list of what ``read`` parses."""
        yield read()
        while self.accept(","):
            yield read()

    def expect_end(self, of: str) -> None:
        """Refuse any further token: ``of`` should have ended."""
        if self.token is not None:
            raise ParseError(f"the {of} should end before this", where=self.place)
