"""A text in SQL: parse it, and point at its nodes."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from sqlglot import exp
from sqlglot.errors import ParseError as GlotParseError
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from tidemill.compiler.frontends.sql.grammar.dialect import DIALECT
from tidemill.compiler.frontends.sql.grammar.nesting import depth_of, nesting_levels
from tidemill.compiler.frontends.sql.grammar.translation_marks import lost_token, prepare_tree
from tidemill.compiler.frontends.text.depth import MAX_DEPTH, raise_recursion_limit, too_deep
from tidemill.compiler.frontends.text.source import SourceText, locating_errors
from tidemill.model.errors import ParseError, TextLocation
from tidemill.model.whole_numbers import MOST_DIGITS

OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET)
CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET)


@dataclass(frozen=True)
class SqlText(SourceText):
    """A text in SQL with its tokens. Nodes parsed from it are pointed at by offset.

    >>> source = SqlText.of("SELECT a,\\n  b + 1 FROM t", name="demo")
    >>> print(source.place(source.parse().expressions[1]))
    demo:2:3   b + 1 FROM t
               ^^^^^
    """

    tokens: tuple[Token, ...] = field(repr=False, compare=False)

    @classmethod
    def of(cls, text: str, name: str) -> SqlText:
        """Tokenize ``text``."""
        try:
            read = cls(name, text, tuple(DIALECT.tokenize(text)))
        except TokenError as error:
            raise _unreadable(text, name, error) from error
        if len(text) > MOST_DIGITS:
            for token in read.tokens:
                if token.token_type == TokenType.NUMBER and len(token.text) > MOST_DIGITS:
                    place = read.span(token.start, token.end)
                    raise ParseError(f"a number has more than {MOST_DIGITS:,} digits", where=place)
        return read

    def parse(self, tokens: tuple[Token, ...] | None = None) -> exp.Expr:
        """The tree of one statement: of the whole text, or of the given tokens of it."""
        tokens = self.tokens if tokens is None else tokens
        self._require_depth(tokens)
        try:
            trees = DIALECT.parser().parse(list(tokens), self.text)
        except GlotParseError as error:
            raise self._not_sql(error) from error
        except RecursionError:
            raise
        except Exception as error:  # malformed text can break the parser itself
            raise ParseError("this cannot be read as SQL", where=self._whole(tokens)) from error
        if len(trees) != 1 or trees[0] is None:
            raise ParseError("one statement was expected here", where=self._whole(tokens))
        tree = prepare_tree(trees[0])
        if (lost := lost_token(tree, tokens)) is not None:
            raise ParseError("this cannot be read here", where=self.span(lost.start, lost.end))
        if (depth := depth_of(tree)) > MAX_DEPTH:
            with self.locating(tree):
                raise too_deep()
        raise_recursion_limit(depth)
        return tree

    def _whole(self, tokens: tuple[Token, ...]) -> TextLocation | None:
        return self.span(tokens[0].start, tokens[-1].end) if tokens else None

    def _require_depth(self, tokens: tuple[Token, ...]) -> None:
        """Refuse text that is nested too deeply, and raise the recursion limit as far as needed."""
        deepest = 0
        for depth, token in nesting_levels(tokens):
            if depth > MAX_DEPTH:
                with locating_errors(self.span(token.start, token.end)):
                    raise too_deep()
            deepest = max(deepest, depth)
        raise_recursion_limit(deepest)

    def place(self, node: exp.Expr) -> TextLocation:
        """All of ``node``, as far as its first line goes."""
        spans = [(n.meta["start"], n.meta["end"]) for n in node.walk() if "start" in n.meta]
        if not spans:
            return self.place(node.parent) if node.parent else self.span(0, 0)
        start = min(start for start, _ in spans)
        return self.span(start, self._closed(start, max(end for _, end in spans)))

    def head(self, node: exp.Expr) -> TextLocation:
        """The first word of ``node``: for ``RANK() OVER (...)`` the name."""
        start = min((n.meta["start"] for n in node.walk() if "start" in n.meta), default=0)
        token = next((t for t in self.tokens if t.start >= start), None)
        return self.span(token.start, token.end) if token else self.place(node)

    def keyword(self, node: exp.Expr, *words: str) -> TextLocation:
        """The nearest of ``words`` before ``node``: ``LEFT`` before the table that it joins."""
        start = min((n.meta["start"] for n in node.walk() if "start" in n.meta), default=0)
        before = [token for token in self.tokens if token.start <= start and token.text.upper() in words]
        return self.span(before[-1].start, before[-1].end) if before else self.place(node)

    def _closed(self, start: int, end: int) -> int:
        """``end`` extended to the parentheses that close those opened since ``start``, which no leaf contains."""
        depth = 0
        for token in self.tokens:
            if token.start > end and depth == 0:
                break
            if token.start >= start:
                depth += (token.token_type in OPENING) - (token.token_type in CLOSING)
                end = max(end, token.end)
        return end

    def _not_sql(self, error: GlotParseError) -> ParseError:
        report = error.errors[0] if error.errors else {}
        token = next((t for t in self.tokens if (t.line, t.col) == (report.get("line"), report.get("col"))), None)
        place = self.span(token.start, token.end) if token else None
        reason = str(report.get("description") or "").rstrip(".")
        # sqlglot's two most common messages mention its internals; the place is more helpful.
        plain = not reason or reason.startswith("Invalid expression") or "<Token" in reason
        return ParseError("this cannot be read as SQL", where=place, detail=None if plain else f"{reason}.")

    def locating(self, node: exp.Expr) -> AbstractContextManager[None]:
        """Set the place of errors without one to that of ``node``."""
        return locating_errors(lambda: self.place(node))


def _unreadable(text: str, name: str, error: TokenError) -> ParseError:
    """Tokenizing fails where a quote is never closed; the cause's message ends with the offset at which it opens."""
    offset = re.search(r"(\d+)$", str(error.__cause__))
    start = min(int(offset.group()), len(text) - 1) if offset else 0
    return ParseError("a quoted text is never closed", where=SourceText(name, text).span(start, start))


@dataclass(frozen=True)
class ParsedText:
    """A parsed part of a text together with that text, so that later errors can point at it."""

    node: exp.Expr
    source: SqlText

    def __str__(self) -> str:
        return printed(self.node)


def printed(node: exp.Expr) -> str:
    """``node`` as SQL, for readers; the name of its class where the parser cannot print it, as a query with pipes."""
    try:
        return node.sql("spark")
    except ValueError:
        return type(node).__name__.lower()
