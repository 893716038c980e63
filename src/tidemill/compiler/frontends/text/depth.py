"""How deeply a text is nested. Up to ``MAX_DEPTH`` levels all of the compiler works; beyond, the text is refused at
once.

The parser and the passes over its trees call themselves, once or a few times for each level. Python allows 1,000 calls
within each other unless told otherwise, which some fifty parentheses use up, so ``raise_recursion_limit`` tells it
otherwise. It stays below what the processor's stack holds of calls that C makes: JSON of 60,000 levels takes all of its
eight megabytes, and must end in an error of ours at any limit that was set here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from tidemill.model.errors import Unsupported

__all__ = ["MAX_DEPTH", "depth_of", "nesting_levels", "raise_recursion_limit", "too_deep"]

MAX_DEPTH = 1_200
"""As many levels may be nested: operators and parentheses within each other, or operands in a row."""

CALLS_PER_LEVEL, BASE_CALLS = 25, 1_000
"""Calls within each other that one level takes at most, and those around them."""

DEFAULT_DEPTH = 25
"""Levels for which Python's own limit is enough: the deepest of the TPC-H queries has 19."""

DEPTH_STEPS = (250, MAX_DEPTH)
"""The limit is a matter of the whole process, so it is changed for few depths only."""

OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE}
CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END}
PREFIX = {TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE}
NESTING_TYPES = {TokenType.ARRAY, TokenType.STRUCT, TokenType.MAP}


def nesting_levels(tokens: Sequence[Token]) -> Iterator[tuple[int, Token]]:
    """Each token with the parentheses, CASEs, types and signs that it stands within, as a parser will nest them.

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
    """The number of nodes on the longest way down in ``tree``."""
    depth, level = 0, [tree]
    while level:
        depth += 1
        level = [child for node in level for child in node.iter_expressions()]
    return depth


def raise_recursion_limit(depth: int) -> None:
    """Let Python call itself as often as ``depth`` levels take; what was allowed once stays so."""
    if depth <= DEFAULT_DEPTH:
        return
    wanted = BASE_CALLS + CALLS_PER_LEVEL * next(step for step in DEPTH_STEPS if step >= depth)
    if wanted > sys.getrecursionlimit():
        sys.setrecursionlimit(wanted)


def too_deep() -> Unsupported:
    """The refusal of a text that is nested more deeply than ``MAX_DEPTH``."""
    return Unsupported(
        f"this is nested more than {MAX_DEPTH:,} levels deep",
        detail="Each parenthesis, and each operand of a row of operators, is a level.",
        hint="Cut it into views that read each other, or into several columns of one.",
    )
