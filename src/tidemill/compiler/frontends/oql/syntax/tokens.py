"""The words of an OQL text, and a cursor that reads them one by one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tidemill.compiler.frontends.sql.grammar.sql_text import SqlText
from tidemill.model.errors import ParseError, TextLocation

TOKEN_PATTERN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|--[^\n]*|/\*.*?\*/)
      | (?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
      | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<name>[A-Za-z_]\w*)
      | (?P<sign><=|>=|!=|<>|->|\|\||[-+*/=<>().,:;\[\]])""",
    re.VERBOSE | re.DOTALL,
)

RESERVED_WORDS = frozenset((
    "all", "and", "as", "asc", "by", "desc", "define", "distinct", "except", "exists", "for", "from", "group", "having",
    "in", "intersect", "like", "mod", "nil", "not", "null", "or", "order", "select", "struct", "union", "where",
))  # fmt: skip
"""Words that no variable can be called by."""


@dataclass(frozen=True, slots=True)
class OqlToken:
    """A word, number, text in quotes or sign, and where it stands: from ``start`` to ``end``, inclusive."""

    kind: str
    text: str
    start: int
    end: int


def tokenize(source: SqlText) -> Iterator[OqlToken]:
    """The words of a text, without blanks and comments."""
    position = 0
    while position < len(source.text):
        found = TOKEN_PATTERN.match(source.text, position)
        if found is None:
            quoted = source.text[position] in "\"'"
            what = "a quoted text is never closed" if quoted else f'"{source.text[position]}" has no meaning in OQL'
            raise ParseError(what, where=source.span(position, position))
        if found.lastgroup != "space":
            yield OqlToken(str(found.lastgroup), found.group(), position, found.end() - 1)
        position = found.end()


class OqlCursor:
    """The words of a text, and how many of them have been read. Words are compared without their case."""

    def __init__(self, source: SqlText) -> None:
        self.source = source
        self.words = tuple(tokenize(source))
        self.position = 0

    @property
    def word(self) -> OqlToken | None:
        """The next word, if there is one."""
        return self.words[self.position] if self.position < len(self.words) else None

    @property
    def place(self) -> TextLocation:
        """Where the next word stands, or the last one where none is left."""
        word = self.word or (self.words[-1] if self.words else OqlToken("", "", 0, 0))
        return self.source.span(word.start, word.end)

    @property
    def start(self) -> int:
        """Where the next word begins."""
        return self.words[self.position].start if self.word else len(self.source.text)

    @property
    def end(self) -> int:
        """Where the word that was read last ends."""
        return self.words[self.position - 1].end

    def sees(self, *texts: str, after: int = 0) -> bool:
        """Whether these come next, behind ``after`` words."""
        first = self.position + after
        found = self.words[first : first + len(texts)]
        return len(found) == len(texts) and all(
            word.kind in ("name", "sign") and word.text.lower() == text for word, text in zip(found, texts, strict=True)
        )

    def accept(self, *texts: str) -> bool:
        """Read these if they come next."""
        found = self.sees(*texts)
        self.position += len(texts) if found else 0
        return found

    def expect(self, *texts: str) -> None:
        """Read these, which must come next."""
        if not self.accept(*texts):
            raise ParseError(f"{' '.join(texts)} was expected {self.spot}", where=self.place)

    @property
    def spot(self) -> str:
        """How errors speak of the next word's place."""
        return "here" if self.word else "after this"

    def sees_name(self, after: int = 0) -> bool:
        """Whether a name comes next that is no reserved word."""
        position = self.position + after
        word = self.words[position] if position < len(self.words) else None
        return word is not None and word.kind == "name" and word.text.lower() not in RESERVED_WORDS

    def name(self, of: str, reserved: bool = False) -> str:
        """Read a name as it is written; where no query can begin it may be a ``reserved`` word, too."""
        word = self.word
        if word is None or word.kind != "name" or not (reserved or self.sees_name()):
            raise ParseError(f"the name of {of} was expected {self.spot}", where=self.place)
        self.position += 1
        return word.text
