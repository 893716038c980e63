"""WITH: common table expressions, each a function of the alias under which it is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar

from sqlglot import exp

from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Scan
from tidemill.algebra.relational.walk import outer_columns, scans
from tidemill.compiler.analysis.rename import rename, short
from tidemill.compiler.frontends.sql.grammar.sql_text import SqlText
from tidemill.compiler.frontends.sql.grammar.table_grammar import LEVELS
from tidemill.compiler.frontends.sql.grammar.translation_marks import is_translated, mark_translated
from tidemill.compiler.frontends.sql.query.context import NamedRelation, QueryContext
from tidemill.compiler.frontends.sql.query.recursion import from_recursion, split_recursion
from tidemill.compiler.rewrites.definitions import FEW_LEAVES, count_leaves
from tidemill.model.errors import NameTaken, ParseError

C = TypeVar("C", bound=QueryContext)


def with_common_tables(context: C, node: exp.Expr) -> C:
    """``context`` with the WITH of ``node``: each can read those before it, and hides relations of its name.

    A small expression is translated again wherever it is read, because each reading needs aliases of its own; the
    compiler finds equal subqueries again and keeps them once. One that reads many relations, and is itself read more
    than once, is translated once and read by name: a chain of such would double with each of them.
    """
    clause = node.args.get("with_")
    if clause is None:
        return context
    recursive = bool(clause.args.get("recursive"))
    readings = Counter(table.name.lower() for table in node.find_all(exp.Table) if not table.db)
    seen: list[str] = []
    for expression in clause.expressions:
        name = expression.alias.lower()
        if name in seen:
            raise NameTaken(f'"{name}" is defined twice', where=context.source.place(expression.args["alias"]))
        seen.append(name)
        _check_level(expression, recursive, context.source)
        table = common_table(context, expression, recursive)
        if readings[name] > 1 and context.definitions is not None:
            table = share_common_table(context.relations, context.definitions, table)
        context = replace(context, tables={**context.tables, name: table})
    return context


def _check_level(node: exp.CTE, recursive: bool, source: SqlText) -> None:
    """Refuse MAX RECURSION LEVEL where RECURSIVE is missing; where nothing recurs it has no effect, as in Spark."""
    level = node.args["alias"].args.get(LEVELS)
    if level is None:
        return
    if not recursive:
        raise ParseError("MAX RECURSION LEVEL belongs to WITH RECURSIVE", where=source.place(level))
    mark_translated(level)


def check_tables(context: QueryContext, node: exp.Expr) -> None:
    """Translate the common table expressions of ``node`` that are not read, so that their errors are found."""
    clause = node.args.get("with_")
    for expression in reversed(clause.expressions if clause is not None else ()):
        if not is_translated(expression.this):
            name = expression.alias.lower()
            context.tables[name](context.aliases.take(name))


def common_table(context: QueryContext, node: exp.CTE, recursive: bool = False) -> Callable[[str], NamedRelation]:
    """A common table expression, as a function of the alias under which it is read; it may read itself if told so."""

    def rows(alias: str) -> NamedRelation:
        below = replace(context, prefix=f"{alias}.")
        first, steps = split_recursion(node, context.source) if recursive else (node.this, [])
        if not steps:
            return below.rows(first).with_column_aliases(node.args.get("alias"), context.source)
        below = with_common_tables(below, node.this)
        base = below.rows(first).with_column_aliases(node.args.get("alias"), context.source)
        made = from_recursion(below, node, base, steps)
        check_tables(below, node.this)
        return made

    return rows


def share_common_table(
    relations: Iterable[str], definitions: list[tuple[str, Relation]], table: Callable[[str], NamedRelation]
) -> Callable[[str], NamedRelation]:
    """A common table expression with several readers; its first reader decides whether it becomes a definition."""
    known: list[Callable[[str], NamedRelation]] = []

    def rows(alias: str) -> NamedRelation:
        if not known:
            first = table(alias)
            # It must not depend on outer rows, nor on the rows last found by a recursion.
            whole = scans(first.relation) <= {*relations, *(name for name, _ in definitions)}
            large = count_leaves(first.relation) > FEW_LEAVES and whole and not outer_columns(first.relation)
            known.append(define_common_table(first, alias, definitions) if large else table)
            if not large:
                return first
        return known[0](alias)

    return rows


def define_common_table(
    rows: NamedRelation, alias: str, definitions: list[tuple[str, Relation]]
) -> Callable[[str], NamedRelation]:
    """``rows`` as one of ``definitions``, which can be read under any alias."""
    # The alias is unique in the query, and no table has a name of two words.
    name = f"with {alias}"
    named = rename(rows.relation, short(rows.relation.fields))
    definitions.append((name, named))
    return lambda other: replace(rows, relation=Scan(name, other, named.fields))
