"""The tables that a query reads, replaced in its text: by another name, or by a query over the table.

Only the names of tables change, so that the text stays as it was written. Where a table has no alias, its former name
becomes one, since columns may be qualified with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from sqlglot import exp

from tidemill.compiler.frontends.sql.grammar.sql_text import SqlText
from tidemill.compiler.frontends.sql.grammar.table_grammar import AS_OF

__all__ = ["quoted", "replace_calls", "replace_tables"]


def quoted(name: str) -> str:
    """A name in backquotes."""
    return "`" + name.replace("`", "``") + "`"


def replace_tables(text: str, replacements: Mapping[str, str]) -> str:
    """``text`` with other names or queries in place of tables; names of its own WITH are left alone.

    >>> replace_tables("SELECT t.a FROM t JOIN u x ON t.a = x.a", {"t": "`t2`", "u": "(SELECT a FROM u)"})
    'SELECT t.a FROM `t2` AS `t` JOIN (SELECT a FROM u) x ON t.a = x.a'
    >>> replace_tables("WITH t AS (SELECT a FROM t) SELECT a FROM t", {"t": "`t2`"})
    'WITH t AS (SELECT a FROM `t2` AS `t`) SELECT a FROM t'
    >>> replace_tables("SELECT t.a FROM u JOIN t FOR SYSTEM_TIME AS OF u.x ON t.a = u.a", {"t": "`t2`"})
    'SELECT t.a FROM u JOIN `t2` FOR SYSTEM_TIME AS OF u.x AS `t` ON t.a = u.a'
    """
    edits = sorted(_edits(SqlText.of(f"({text})", "query").parse(), replacements), reverse=True)
    for start, end, new in edits:
        text = text[: start - 1] + new + text[end:]
    return text


def replace_calls(text: str, replacements: Mapping[str, str]) -> str:
    """``text`` with calls of other functions in place of some.

    >>> replace_calls("SELECT net(a), net FROM t", {"net": "`blue__net`"})
    'SELECT `blue__net`(a), net FROM t'
    """
    tokens = SqlText.of(text, "query").tokens
    called = [one for one, after in pairwise(tokens) if after.text == "(" and one.text.lower() in replacements]
    for token in reversed(called):
        text = text[: token.start] + replacements[token.text.lower()] + text[token.end + 1 :]
    return text


def _edits(tree: exp.Expr, replacements: Mapping[str, str]) -> Iterator[tuple[int, int, str]]:
    """The places of names of tables in the text, in parentheses, and what takes their place."""
    for table in tree.find_all(exp.Table):
        name = table.name.lower()
        if name not in replacements or not isinstance(table.this, exp.Identifier):
            continue
        if not table.db and _is_own(table, name):
            continue
        parts = [part for part in (table.args.get("catalog"), table.args.get("db"), table.this) if part is not None]
        start, end = min(part.meta["start"] for part in parts), max(part.meta["end"] for part in parts)
        alias = "" if table.alias else f" AS {quoted(name)}"
        until = _end_of_moment(table)
        if alias and until is not None:
            yield until + 1, until, alias
            alias = ""
        yield start, end, replacements[name] + alias


def _end_of_moment(table: exp.Table) -> int | None:
    """Where the time of FOR SYSTEM_TIME AS OF ends behind a table, before its alias; None without one."""
    join = table.parent
    if not isinstance(join, exp.Join) or join.this is not table:
        return None
    end: int | None = join.meta.get(AS_OF)
    return end


def _is_own(table: exp.Table, name: str) -> bool:
    """True if a WITH around a table defines its name."""
    node: exp.Expr | None = table
    while node is not None and node.parent is not None:
        inside, node = node, node.parent
        clause = node.args.get("with_") or node.args.get("with")
        if isinstance(node, exp.With):
            # Inside of a definition those before it are known; it knows itself where it is recursive.
            until = node.expressions.index(inside) + bool(node.args.get("recursive"))
            known = node.expressions[:until]
        elif isinstance(clause, exp.With) and inside is not clause:
            known = clause.expressions
        else:
            continue
        if any(one.alias.lower() == name for one in known):
            return True
    return False
