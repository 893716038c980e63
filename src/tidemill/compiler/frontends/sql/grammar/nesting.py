"""Nesting depth of SQL text: of its tokens, before they are parsed, and of its tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE}
CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END}
PREFIX = {TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE}
NESTING_TYPES = {TokenType.ARRAY, TokenType.STRUCT, TokenType.MAP}


def nesting_levels(tokens: Sequence[Token]) -> Iterator[tuple[int, Token]]:
    """The nesting depth of each token in parentheses, CASEs, types and signs, as a parser will nest them.

    >>> from tidemill.compiler.frontends.sql.grammar.dialect import DIALECT
    >>> [depth for depth, _ in nesting_levels(DIALECT.tokenize("- - ((1))"))]
    [1, 2, 1, 2, 2, 1, 0]
    """
    depth = types = signs = 0
    for token, following in pairwise([*tokens, None]):
        assert token is not None
        kind = token.token_type
        signs = signs + 1 if kind in PREFIX else 0
        if kind in OPENING:
            depth += 1
        elif kind in CLOSING:
            depth = max(depth - 1, 0)
        elif kind in NESTING_TYPES and following is not None and following.token_type == TokenType.LT:
            types += 1
        elif kind == TokenType.GT:
            types = max(types - 1, 0)
        yield depth + types + signs, token


def depth_of(tree: exp.Expr) -> int:
    """The depth of ``tree``."""
    depth, level = 0, [tree]
    while level:
        depth += 1
        level = [child for node in level for child in node.iter_expressions()]
    return depth
