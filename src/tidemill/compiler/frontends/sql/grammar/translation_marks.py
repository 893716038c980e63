"""Marks on the nodes of a parse tree that have been translated."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from tidemill.compiler.frontends.sql.grammar.supported_syntax import UNPLACED_KEYWORDS

MARK = "translation_mark"


MERGE_KEYWORDS = frozenset(("DELETE", "MATCHED", "SOURCE", "TARGET"))
"""Words of a MERGE that have no place in its tree."""

USER_TOKENS = frozenset((TokenType.VAR, TokenType.IDENTIFIER, TokenType.NUMBER, TokenType.STRING, TokenType.RAW_STRING))
"""Tokens that users choose, in contrast to keywords and signs."""


class TranslationMark:
    """Note on a node, shared by all of its copies, that it has been translated."""

    __slots__ = ("translated",)

    def __init__(self) -> None:
        self.translated = False

    def __deepcopy__(self, memo: dict[int, Any]) -> TranslationMark:
        return self


def prepare_tree(tree: exp.Expr) -> exp.Expr:
    """``tree`` as it comes from the parser, with a mark on each node and its keywords in upper case.

    The parser keeps the case of keywords such as ``preceding`` or ``left``; code compares them in upper case.
    """
    for node in tree.walk():
        node.meta[MARK] = TranslationMark()
        for name, value in node.args.items():
            if isinstance(value, str) and name != "this":
                node.args[name] = value.upper()
    return tree


def lost_token(tree: exp.Expr, tokens: Sequence[Token]) -> Token | None:
    """The first word, number or string of a query that has no node in its ``tree``; None if all have.

    It finds what the parser itself ignores, such as the first of two equal clauses.
    """
    if isinstance(tree, exp.Create):
        return None
    # A number such as 1.5BD comes as several tokens that stand in one place, of which the parser makes a type.
    covered = {token.start for token, after in pairwise(tokens) if token.start == after.start}
    for node in tree.walk():
        if "start" in node.meta:
            covered.update(range(node.meta["start"], node.meta["end"] + 1))
    lost = (token for token in tokens if token.token_type in USER_TOKENS and token.start not in covered)
    keywords = UNPLACED_KEYWORDS | MERGE_KEYWORDS if isinstance(tree, exp.Merge) else UNPLACED_KEYWORDS
    return next((token for token in lost if token.text.upper() not in keywords), None)


def mark_translated(*nodes: exp.Expr) -> None:
    """Mark ``nodes`` as translated; nodes created during translation have no mark and need none."""
    for node in nodes:
        if mark := node.meta.get(MARK):
            mark.translated = True


def is_translated(node: exp.Expr) -> bool:
    """True once ``node`` has been translated."""
    mark = node.meta.get(MARK)
    return mark is None or mark.translated
