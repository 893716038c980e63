"""The tokens of OQL, and a cursor over them."""

from __future__ import annotations

import re

from tidemill.compiler.frontends.text.cursor import Cursor, PatternToken, tokenize
from tidemill.compiler.frontends.text.source import SourceText

TOKEN_PATTERN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|--[^\n]*|/\*.*?\*/)
      | (?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
      | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<name>[A-Za-z_]\w*)
      | (?P<marker>\$\d+|\?)
      | (?P<sign><=|>=|!=|<>|->|\|\||[-+*/=<>().,:;\[\]])""",
    re.VERBOSE | re.DOTALL,
)

RESERVED_WORDS = frozenset((
    "all", "and", "as", "asc", "by", "desc", "define", "distinct", "except", "exists", "for", "from", "group", "having",
    "in", "intersect", "like", "mod", "nil", "not", "null", "or", "order", "select", "struct", "union", "where",
))  # fmt: skip
"""Words that cannot be names of variables."""


class OqlCursor(Cursor[SourceText, PatternToken]):
    """The tokens of a text in OQL, and how many of them have been read."""

    @classmethod
    def over(cls, source: SourceText) -> OqlCursor:
        """A cursor at the beginning of a text."""
        return cls(source, tuple(tokenize(source, TOKEN_PATTERN, "OQL")))

    def is_word(self, token: PatternToken, word: str) -> bool:
        """True for a name or sign; a number or quoted text is no word, whatever it says."""
        return token.kind in ("name", "sign") and super().is_word(token, word)

    def sees_name(self, after: int = 0) -> bool:
        """True if a name comes next, or after so many tokens, that is no reserved word."""
        following = self.tokens[self.position + after :][:1]
        return any(token.kind == "name" and token.text.lower() not in RESERVED_WORDS for token in following)

    def name(self, of: str, reserved: bool = False) -> str:
        """Read a name as it is written; where no query can begin it may be a ``reserved`` word, too."""
        token = self.token
        if token is None or token.kind != "name" or not (reserved or self.sees_name()):
            raise self.expected(f"the name of {of}")
        self.position += 1
        return token.text
