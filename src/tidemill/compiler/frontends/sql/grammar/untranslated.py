"""Reading is total: what nobody has read of a statement is refused, so that no clause is passed over in silence.

Every node of a parsed tree gets a mark when it is parsed. The code that translates a node says so with
``mark_translated``; copies share the mark of their original. When the statement has been translated,
``refuse_untranslated`` walks it: each node must have been read, or be a part of a node that has, and have no argument
beside those that its translator reads (``reads.READS``). A clause that only a newer parser knows is none of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from tidemill.compiler.frontends.sql.grammar.supported_syntax import (
    CLAUSE_KEYWORDS,
    IGNORED_ARGUMENTS,
    PART_NODES,
    SUPPORTED_ARGUMENTS,
    UNPLACED_KEYWORDS,
)
from tidemill.model.errors import Unsupported

if TYPE_CHECKING:
    from tidemill.compiler.frontends.sql.grammar.sql_text import SqlText

MARK = "read"

USER_TOKENS = frozenset((TokenType.VAR, TokenType.IDENTIFIER, TokenType.NUMBER, TokenType.STRING, TokenType.RAW_STRING))
"""What users write themselves, in contrast to keywords and signs."""


class TranslationMark:
    """Note on a node, shared by all of its copies, that somebody has read it."""

    __slots__ = ("read",)

    def __init__(self) -> None:
        self.read = False

    def __deepcopy__(self, memo: dict[int, Any]) -> TranslationMark:
        return self


def prepare_tree(tree: exp.Expr) -> exp.Expr:
    """``tree`` as it comes from the parser, with a mark on each node and its keywords in upper case.

    The parser keeps ``preceding`` or ``left`` as the user has written it; all that compares them reads one spelling.
    """
    for node in tree.walk():
        node.meta[MARK] = TranslationMark()
        for name, value in node.args.items():
            if isinstance(value, str) and name != "this":
                node.args[name] = value.upper()
    return tree


def lost_token(tree: exp.Expr, tokens: Sequence[Token]) -> Token | None:
    """The first word, number or text of a query that has left no trace in its ``tree``; None where all have.

    Nodes know where they stood. So what the parser itself passes over is found, such as a clause that comes twice.
    """
    if isinstance(tree, exp.Create):
        return None
    # A number such as 1.5BD comes as several tokens that stand in one place, of which the parser makes a type.
    covered = {token.start for token, after in pairwise(tokens) if token.start == after.start}
    for node in tree.walk():
        if "start" in node.meta:
            covered.update(range(node.meta["start"], node.meta["end"] + 1))
    lost = (token for token in tokens if token.token_type in USER_TOKENS and token.start not in covered)
    return next((token for token in lost if token.text.upper() not in UNPLACED_KEYWORDS), None)


def mark_translated(*nodes: exp.Expr) -> None:
    """Say that what ``nodes`` mean has been taken; nodes that were made on the way have no mark, and need none."""
    for node in nodes:
        if mark := node.meta.get(MARK):
            mark.read = True


def is_translated(node: exp.Expr) -> bool:
    """True once ``node`` has been translated."""
    mark = node.meta.get(MARK)
    return mark is None or mark.read


def refuse_unsupported_arguments(
    node: exp.Expr, source: SqlText, hint: str | None = None, reads: Collection[str] | None = None
) -> None:
    """Refuse a node with an argument that its translator does not read; ``reads`` are those that it does read."""
    for name, value in _given(node):
        if name not in (SUPPORTED_ARGUMENTS.get(type(node), ()) if reads is None else reads):
            word = CLAUSE_KEYWORDS.get(name, name.strip("_").replace("_", " ").upper())
            raise Unsupported(f"{word} is not supported here", where=_place(node, value, word, source), hint=hint)


def refuse_untranslated(tree: exp.Expr, source: SqlText) -> None:
    """Refuse whatever nobody has read of ``tree``, which has been translated."""
    for node in tree.walk(prune=_is_ignored):
        if _is_ignored(node):
            continue
        refuse_unsupported_arguments(node, source)
        if not (is_translated(node) or isinstance(node, PART_NODES) or isinstance(node.parent, exp.DataTypeParam)):
            raise Unsupported("this is not supported here", where=source.place(node))


def _is_ignored(node: exp.Expr) -> bool:
    return (type(node.parent), node.arg_key) in IGNORED_ARGUMENTS


def _given(node: exp.Expr) -> Iterator[tuple[str, Any]]:
    """The arguments of a node that say anything."""
    for name, value in node.args.items():
        if value is not None and value is not False and value != []:
            yield name, value


def _place(node: exp.Expr, value: Any, word: str, source: SqlText) -> Any:
    part = value[0] if isinstance(value, list) else value
    return source.keyword(part if isinstance(part, exp.Expr) else node, word, *word.split())
