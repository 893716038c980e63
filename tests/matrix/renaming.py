"""A conversation with a prefix before the names of its tables and views, so that many share one warehouse.

Only names of relations change. A table in FROM that has no alias gets its old name as one, so columns are qualified as
before, and a query means what it meant::

    SELECT orders.id FROM orders    becomes    SELECT orders.id FROM keys__orders AS orders

A query within WITH may be called like a table: then both are renamed, and each name still finds what it found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from tests.conversation import Conversation, Line, Step, read
from tidemill.compiler.frontends.sql.grammar.sql_text import SqlText
from tidemill.model.errors import ParseError

UNALIASED = ("MATCH_RECOGNIZE", "PATTERN")
"""Words before which a table has no alias."""

Edit = tuple[int, int, str]
"""A new text for what stands between two offsets."""


@cache
def prefixed(path: Path) -> Conversation:
    """The conversation of a golden file, about tables and views of its own."""
    conversation = read(path)
    return replace(conversation, steps=[_renamed_step(step, conversation) for step in conversation.steps])


def _renamed_step(step: Step, conversation: Conversation) -> Step:
    names, prefix = conversation.relations, conversation.prefix
    return replace(
        step,
        declare=renamed_table(step.declare, names, prefix),
        views=[(prefix + name, renamed_query(query, names, prefix)) for name, query in step.views],
        partitions={prefix + name: text for name, text in step.partitions.items()},
        changes=[_renamed_line(line, prefix) for line in step.changes],
        sql=renamed_query(step.sql, names, prefix),
        expected=[_renamed_line(line, prefix) for line in step.expected],
    )


def _renamed_line(line: Line, prefix: str) -> Line:
    return replace(line, relation=prefix + line.relation)


def renamed_table(statement: str, names: Set[str], prefix: str) -> str:
    """``CREATE TABLE t (...)`` with another name, also where a column refers to a table.

    >>> renamed_table("CREATE TABLE t (a INT REFERENCES u (a))", {"t", "u"}, "x__")
    'CREATE TABLE x__t (a INT REFERENCES x__u (a))'
    """
    tokens = _tokens(statement)
    before = ("TABLE", "STREAM", "REFERENCES")
    found = (name for word, name in pairwise(tokens) if word.text.upper() in before and name.text.lower() in names)
    return _edited(statement, [_named(token, prefix) for token in found])


def renamed_query(text: str, names: Set[str], prefix: str) -> str:
    """A query or a statement that changes rows, about renamed relations; as it is where it cannot be read.

    >>> renamed_query("SELECT t.a, u.a FROM t JOIN u ON t.a = u.a", {"t"}, "x__")
    'SELECT t.a, u.a FROM x__t AS t JOIN u ON t.a = u.a'
    >>> renamed_query("UPDATE v[i] AS SELECT s.a FROM s[i], v[i-1]", {"s", "v"}, "x__")
    'UPDATE x__v[i] AS SELECT x__s.a FROM x__s[i], x__v[i-1]'
    """
    tokens = _tokens(text)
    if _is_by_partitions(tokens):
        return _edited(text, _by_partitions(tokens, names, prefix))
    try:
        tree = SqlText.of(text, "golden").parse() if text else None
    except ParseError:
        return text
    return text if tree is None else _edited(text, _edits(tree, tokens, names, prefix))


def _is_by_partitions(tokens: list[Token]) -> bool:
    """Whether partitions or sliding windows are in brackets, which the grammar of SQL does not read."""
    begins = tokens[0].text.upper() if tokens else ""
    subscript = len(tokens) > 2 and tokens[2].token_type == TokenType.L_BRACKET
    windows = any(a.token_type == TokenType.L_BRACKET and b.text.upper() == "WINDOW" for a, b in pairwise(tokens))
    return (begins in ("INITIALIZE", "UPDATE") and subscript) or windows


def _by_partitions(tokens: list[Token], names: Set[str], prefix: str) -> Iterator[Edit]:
    """Names before a subscript, in FROM, and where columns are qualified."""
    for before, token, after in zip(tokens, tokens[1:], [*tokens[2:], None], strict=False):
        follows = after is not None and after.token_type in (TokenType.L_BRACKET, TokenType.DOT)
        if token.text.lower() in names and (follows or before.text.upper() in ("FROM", "JOIN", ",")):
            yield _named(token, prefix)


def _edits(tree: exp.Expr, tokens: list[Token], names: Set[str], prefix: str) -> Iterator[Edit]:
    following = {token.end: after for token, after in pairwise(tokens)}
    for table in tree.find_all(exp.Table):
        name = table.this
        if isinstance(name, exp.Identifier) and name.name.lower() in names and not table.args.get("db"):
            start, end = name.meta["start"], name.meta["end"]
            after = following.get(end)
            alias = f" AS {name.name}" if _may_have_alias(table, after) else ""
            yield start, end, f"{prefix}{name.name}{alias}"
    for query in tree.find_all(exp.CTE):
        name = query.args["alias"].this
        if name.name.lower() in names:
            yield name.meta["start"], name.meta["end"], prefix + name.name


def _may_have_alias(table: exp.Table, after: Token | None) -> bool:
    inserted = isinstance(table.parent, exp.Insert | exp.Schema)
    return not (table.alias or inserted or (after is not None and after.text.upper() in UNALIASED))


def _named(token: Token, prefix: str) -> Edit:
    return token.start, token.end, prefix + token.text


def _tokens(text: str) -> list[Token]:
    return list(SqlText.of(text, "golden").tokens)


def _edited(text: str, edits: Iterable[Edit]) -> str:
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end + 1 :]
    return text
