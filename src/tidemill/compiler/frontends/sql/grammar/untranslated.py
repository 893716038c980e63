"""Refusal of everything in a statement that was not translated, so that no clause is silently ignored.

Every node of a parsed tree gets a mark when it is parsed. The code that translates a node says so with
``mark_translated`` (``translation_marks``); copies share the mark of their original. When the statement has been
translated, ``refuse_untranslated`` walks it: each node must have a mark, or be a part of a node that has, and have no
argument beside those that its translator reads (``SUPPORTED_ARGUMENTS``). So clauses that a newer parser adds are
refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from sqlglot import exp

from tidemill.compiler.frontends.sql.grammar.sql_text import SqlText
from tidemill.compiler.frontends.sql.grammar.supported_syntax import (
    CLAUSE_KEYWORDS,
    IGNORED_ARGUMENTS,
    PART_NODES,
    SUPPORTED_ARGUMENTS,
)
from tidemill.compiler.frontends.sql.grammar.translation_marks import is_translated
from tidemill.model.errors import Unsupported


def refuse_unsupported_arguments(
    node: exp.Expr, source: SqlText, hint: str | None = None, reads: Collection[str] | None = None
) -> None:
    """Refuse a node with an argument that its translator does not read; ``reads`` are those that it does read."""
    for name, value in _given(node):
        if name not in (SUPPORTED_ARGUMENTS.get(type(node), ()) if reads is None else reads):
            word = CLAUSE_KEYWORDS.get(name, name.strip("_").replace("_", " ").upper())
            raise Unsupported(f"{word} is not supported here", where=_place(node, value, word, source), hint=hint)


def refuse_untranslated(tree: exp.Expr, source: SqlText) -> None:
    """Refuse nodes of a translated ``tree`` that have no mark."""
    for node in tree.walk(prune=_is_ignored):
        if _is_ignored(node):
            continue
        refuse_unsupported_arguments(node, source)
        if not (is_translated(node) or isinstance(node, PART_NODES) or isinstance(node.parent, exp.DataTypeParam)):
            raise Unsupported("this is not supported here", where=source.place(node))


def _is_ignored(node: exp.Expr) -> bool:
    return (type(node.parent), node.arg_key) in IGNORED_ARGUMENTS


def _given(node: exp.Expr) -> Iterator[tuple[str, Any]]:
    """The arguments of a node that are set."""
    for name, value in node.args.items():
        if value is not None and value is not False and value != []:
            yield name, value


def _place(node: exp.Expr, value: Any, word: str, source: SqlText) -> Any:
    part = value[0] if isinstance(value, list) else value
    return source.keyword(part if isinstance(part, exp.Expr) else node, word, *word.split())
