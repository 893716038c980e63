"""The tokens of ODL, and a cursor over them."""

from __future__ import annotations

import re

from tidemill.compiler.frontends.odl.declarations import PlacedName
from tidemill.compiler.frontends.text.cursor import Cursor, PatternToken
from tidemill.compiler.frontends.text.source import SourceText

TOKEN_PATTERN = re.compile(
    r"(?P<space>\s+|//[^\n]*|/\*.*?\*/)|(?P<word>[A-Za-z_]\w*|\d+(?:\.\d+)?)"
    r"""|(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<sign>::|[-{}()<>;:,=])""",
    re.DOTALL,
)


class OdlCursor(Cursor[SourceText, PatternToken]):
    """The tokens of a module, and how many of them have been read."""

    def is_word(self, token: PatternToken, word: str) -> bool:
        """True for a word or sign; a quoted text is no word, whatever it says."""
        return token.kind != "text" and super().is_word(token, word)

    def expect(self, *words: str) -> None:
        """Read ``words``, which must come next."""
        if not self.accept(*words):
            raise self.expected(f'"{" ".join(words)}"')

    def word(self, expected: str) -> str:
        """Read a word, in its own case."""
        token = self.token
        if token is None or not (token.text[0].isalpha() or token.text[0] == "_"):
            raise self.expected(expected)
        self.position += 1
        return token.text

    def name(self, expected: str) -> PlacedName:
        """Read a name."""
        place = self.place
        return PlacedName(self.word(expected).lower(), place)

    def scoped(self, expected: str) -> PlacedName:
        """Read a name that may stand after that of its module."""
        found = self.name(expected)
        if not self.accept("::"):
            return found
        inner = self.name(expected)
        return PlacedName(inner.text, found.place, found.text)

    def number(self) -> int:
        """Read a number."""
        token = self.token
        if token is None or not token.text.isdecimal():
            raise self.expected("a number")
        self.position += 1
        return int(token.text)
