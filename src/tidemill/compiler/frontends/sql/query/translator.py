"""Queries: from a parse tree to algebra, one ``from_...`` for each construct.

Every table, subquery and common table expression in FROM gets an alias that no other one has in the whole query, and
its columns are prefixed with it. So the columns of a join never clash, at any depth.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import exp

from tidemill.algebra.expressions.scalars import column
from tidemill.algebra.relational.match import RowsPerMatch
from tidemill.algebra.relational.relations import Aggregate, Filter, Relation, Scan, Values
from tidemill.algebra.relational.walk import columns_in, outer_columns, scans, walk
from tidemill.compiler.analysis.rename import rename, short
from tidemill.compiler.frontends.sql.expressions.translator import ExpressionTranslator
from tidemill.compiler.frontends.sql.grammar import refusals
from tidemill.compiler.frontends.sql.grammar.pattern_grammar import pattern_options_of
from tidemill.compiler.frontends.sql.grammar.sql_text import SqlText
from tidemill.compiler.frontends.sql.grammar.untranslated import (
    is_translated,
    mark_translated,
    refuse_unsupported_arguments,
)
from tidemill.compiler.frontends.sql.names.scope import Binding, NameAllocator, Scope, unknown_name
from tidemill.compiler.frontends.sql.patterns.match_recognize import from_match_recognize
from tidemill.compiler.frontends.sql.patterns.pattern_clause import from_pattern, pattern_of, refuse_misplaced_pattern
from tidemill.compiler.frontends.sql.query.joins import from_join
from tidemill.compiler.frontends.sql.query.lateral import from_lateral, from_lateral_join, is_lateral
from tidemill.compiler.frontends.sql.query.limit import apply_limit, has_order_or_limit
from tidemill.compiler.frontends.sql.query.order_by import translate_ordered
from tidemill.compiler.frontends.sql.query.recursion import from_recursion, split_recursion
from tidemill.compiler.frontends.sql.query.select import Selection
from tidemill.compiler.frontends.sql.query.set_operations import from_set_operation
from tidemill.compiler.frontends.sql.query.values import constant_rows
from tidemill.compiler.frontends.sql.windows.session_windows import session_windows_of
from tidemill.compiler.frontends.sql.windows.time_windows import with_time_windows
from tidemill.compiler.rewrites.definitions import FEW_LEAVES, count_leaves
from tidemill.model.errors import NameTaken, ParseError, TypeMismatch, Unsupported
from tidemill.model.types import Field


@dataclass(frozen=True)
class NamedRelation:
    """A relation and what a query calls its columns: ``names`` may repeat, the relation's own never do."""

    relation: Relation
    names: tuple[str, ...]

    def scope(self, alias: str) -> Scope:
        """The columns in sight when this stands in FROM as ``alias``."""
        pairs = zip(self.names, self.relation.fields, strict=True)
        return Scope(tuple(Binding(alias, name, column(field_)) for name, field_ in pairs))


@dataclass(frozen=True)
class QueryTranslator:
    """What a query may refer to: known relations, and the common table expressions in sight.

    ``prefix`` goes before the names of the columns that the query makes; that of the outermost query is empty.
    ``outer`` are the columns around a query that stands in an expression. ``definitions`` are the common table
    expressions that are read by name, for ``translate`` to put around the whole; None where none can be.
    """

    source: SqlText
    relations: Mapping[str, tuple[Field, ...]]
    aliases: NameAllocator = field(default_factory=NameAllocator)
    tables: Mapping[str, Callable[[str], NamedRelation]] = field(default_factory=dict)
    prefix: str = ""
    outer: Scope | None = None
    definitions: list[tuple[str, Relation]] | None = None

    def rows(self, node: exp.Expr) -> NamedRelation:
        """The rows of a query: SELECT, UNION, VALUES, or one of them in parentheses."""
        refuse_unsupported_arguments(node, self.source)
        mark_translated(node)
        if type(node) not in QUERY_RULES:
            raise ParseError("a query was expected here", where=self.source.place(node))
        if has_order_or_limit(node):
            query = translate_ordered(self, node)
            return NamedRelation(apply_limit(query), query.names)
        within = self.within(node)
        rows = QUERY_RULES[type(node)](within, node)
        within.check_tables(node)
        return rows

    def within(self, node: exp.Expr) -> QueryTranslator:
        """What is in sight after the WITH of ``node``."""
        return with_common_tables(self, node)

    def check_tables(self, node: exp.Expr) -> None:
        """Check what the WITH of ``node`` defines and nobody reads."""
        check_tables(self, node)

    def expressions(self, scope: Scope) -> ExpressionTranslator:
        """A translator for expressions over ``scope``."""
        return ExpressionTranslator(self.source, replace(scope, outer=self.outer), subquery=self.subquery)

    def subquery(self, node: exp.Expr, scope: Scope) -> Relation:
        """A query that stands in an expression over ``scope``."""
        relation = replace(self, prefix=f"{self.aliases.take('subquery')}.", outer=scope).rows(node).relation
        for grouped in (part for part in walk(relation) if isinstance(part, Aggregate)):
            own = {f.name for f in grouped.input.fields}
            if any(not columns_in(key.scalar) <= own for key in grouped.keys):
                raise Unsupported(
                    "a subquery cannot be grouped by a column from outside",
                    where=self.source.place(node),
                    hint="All of its rows agree on that column: leave it out of GROUP BY.",
                )
        return relation

    def selection(self, node: exp.Select, extra: Sequence[exp.Expr] = ()) -> Selection:
        """A SELECT whose FROM and WHERE are translated; ``extra`` are the expressions of its ORDER BY."""
        if (clause := pattern_of(node)) is not None:
            node, relation, scope = from_pattern(self, node, clause, from_from(self, node), extra)
            return Selection(self.expressions(scope), node, relation, self.prefix, extra, self.aliases)
        parts = (
            *node.expressions,
            *(node.args[clause] for clause in CLAUSES_ABOVE_WHERE if node.args.get(clause)),
            *extra,
        )
        relation, scope = with_time_windows(self, from_from_where(self, node), parts)
        sessions = session_windows_of(self, scope, parts)
        rows = self.expressions(scope if sessions is None else scope + sessions.scope)
        return Selection(rows, node, relation, self.prefix, extra, self.aliases, sessions)


CLAUSES_ABOVE_WHERE = ("group", "having", "qualify")
"""The clauses of a SELECT above its FROM and WHERE."""


def with_common_tables(self: QueryTranslator, node: exp.Expr) -> QueryTranslator:
    """What is in sight after the WITH of ``node``: each expression sees those before it, and hides its namesakes.

    A small expression is translated anew wherever it is read, because each reading needs aliases of its own; the
    compiler finds equal subqueries again and keeps them once. One that reads many relations, and is itself read more
    than once, is translated once and read by name: a chain of such would double with each of them.
    """
    clause = node.args.get("with_")
    if clause is None:
        return self
    recursive = bool(clause.args.get("recursive"))
    readings = Counter(table.name.lower() for table in node.find_all(exp.Table) if not table.db)
    seen: list[str] = []
    for expression in clause.expressions:
        name = expression.alias.lower()
        if name in seen:
            raise NameTaken(f'"{name}" is defined twice', where=self.source.place(expression.args["alias"]))
        seen.append(name)
        table = common_table(self, expression, recursive)
        if readings[name] > 1 and self.definitions is not None:
            table = share_common_table(self.relations, self.definitions, table)
        self = replace(self, tables={**self.tables, name: table})
    return self


def check_tables(self: QueryTranslator, node: exp.Expr) -> None:
    """Translate those common table expressions of ``node`` that it does not read, so that they are checked, too."""
    clause = node.args.get("with_")
    for expression in reversed(clause.expressions if clause is not None else ()):
        if not is_translated(expression.this):
            name = expression.alias.lower()
            self.tables[name](self.aliases.take(name))


def common_table(self: QueryTranslator, node: exp.CTE, recursive: bool = False) -> Callable[[str], NamedRelation]:
    """A common table expression, as a function of the alias under which it is read; it may read itself if told so."""

    def rows(alias: str) -> NamedRelation:
        below = replace(self, prefix=f"{alias}.")
        first, steps = split_recursion(node, self.source) if recursive else (node.this, [])
        base = with_column_aliases(self, below.rows(first), node.args.get("alias"))
        return from_recursion(below, node, base, steps) if steps else base

    return rows


def share_common_table(
    relations: Iterable[str], definitions: list[tuple[str, Relation]], table: Callable[[str], NamedRelation]
) -> Callable[[str], NamedRelation]:
    """A common table expression that several places read: the first of them finds out whether it is worth a name."""
    known: list[Callable[[str], NamedRelation]] = []

    def rows(alias: str) -> NamedRelation:
        if not known:
            first = table(alias)
            # It must see nothing but whole relations: no rows around it, nor those that a recursion found last.
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


def from_select(self: QueryTranslator, node: exp.Select) -> NamedRelation:
    """SELECT: FROM, WHERE, GROUP BY, HAVING, the list, DISTINCT, in this order."""
    return NamedRelation(*self.selection(node).relation_and_names())


def from_from_where(self: QueryTranslator, node: exp.Select) -> tuple[Relation, Scope]:
    """FROM and WHERE: the rows that the rest of a SELECT works on."""
    relation, scope = from_from(self, node)
    where = node.args.get("where")
    return Filter(relation, self.expressions(scope).condition(where.this)) if where else relation, scope


def from_from(self: QueryTranslator, node: exp.Select) -> tuple[Relation, Scope]:
    """The FROM clause: its first item joined with all others; without one, the one empty row.

    LATERAL VIEW comes after the joins, and makes more rows of theirs.
    """
    clause = node.args.get("from_")
    seen = ONE_EMPTY_ROW if clause is None else join_items(self, *from_item(self, clause.this), node)
    for lateral in node.args.get("laterals") or ():
        seen = from_lateral(self, seen, lateral)
    return seen


ONE_EMPTY_ROW: tuple[Relation, Scope] = Values(((),), ()), Scope()
"""The one empty row, without any column."""


def join_items(self: QueryTranslator, relation: Relation, scope: Scope, node: exp.Expr) -> tuple[Relation, Scope]:
    """``relation`` joined with everything that ``node`` joins to it."""
    for join in node.args.get("joins") or ():
        mark_translated(join)
        if is_lateral(join.this):
            relation, scope = from_lateral_join(self, (relation, scope), join)
        else:
            relation, scope = from_join(self, (relation, scope), from_item(self, join.this), join)
    return relation, scope


def from_item(self: QueryTranslator, node: exp.Expr) -> tuple[Relation, Scope]:
    """One item of FROM, under its alias, with the joins that stand in parentheses with it."""
    if is_lateral(node):
        return join_items(self, *from_lateral(self, ONE_EMPTY_ROW, node), node)
    if not isinstance(node, exp.Table | exp.Subquery | exp.Values):
        raise refusals.LATERAL.at(self.source.keyword(node, "LATERAL"))
    refuse_unsupported_arguments(node, self.source)
    mark_translated(node)
    if isinstance(node, exp.Subquery) and is_item(node.this):
        relation, scope = from_item(self, node.this)
        return join_items(self, relation, _called(self, scope, node.args.get("alias")), node)
    wish = node.alias_or_name.lower() or "subquery"
    rows = with_column_aliases(
        self, FROM_ITEM_RULES[type(node)](self, node, self.aliases.take(wish)), node.args.get("alias")
    )
    clause = node.args.get("match")
    if clause is not None and pattern_options_of(clause).output is RowsPerMatch.EACH:
        refuse_misplaced_pattern(self, node, clause)
    elif clause is not None:
        matched = NamedRelation(*from_match_recognize(self, rows.relation, rows.scope(wish), clause))
        rows, wish = with_column_aliases(self, matched, clause.args.get("alias")), clause.alias.lower() or wish
    return join_items(self, rows.relation, rows.scope(wish), node)


def is_item(node: exp.Expr) -> bool:
    """True of what stands in parentheses as an item of FROM, perhaps with joins, and is no query."""
    if isinstance(node, exp.Subquery):
        return bool(node.alias or node.args.get("joins")) or is_item(node.this)
    return isinstance(node, exp.Table | exp.Lateral | exp.Unnest) or bool(isinstance(node, exp.Values) and node.alias)


def _called(self: QueryTranslator, scope: Scope, alias: exp.TableAlias | None) -> Scope:
    """The columns of a join in parentheses, which may have an alias of its own, with names for its columns."""
    if alias is None:
        return scope
    shown = scope.called(alias.name.lower() if alias.this else "")
    names = [identifier.name.lower() for identifier in alias.columns] or [b.name for b in shown.bindings]
    if len(names) != len(shown.bindings):
        raise TypeMismatch(
            f"{len(names)} names are given for {len(shown.bindings)} columns", where=self.source.place(alias)
        )
    pairs = zip(shown.bindings, names, strict=True)
    return replace(shown, bindings=tuple(replace(binding, name=name) for binding, name in pairs))


def from_table(self: QueryTranslator, node: exp.Table, alias: str) -> NamedRelation:
    """A table, stream, view or common table expression by its name, or a table of a source as ``source.table``."""
    name = ".".join(part.lower() for part in (node.catalog, node.db, node.name) if part)
    if not isinstance(node.this, exp.Identifier):
        raise Unsupported(
            "a function that makes a table is not supported",
            where=self.source.place(node),
            hint="Put its rows into a table, or list them with VALUES.",
        )
    if name in self.tables:
        return self.tables[name](alias)
    if name not in self.relations:
        raise unknown_name("table or view", name, [*self.tables, *self.relations], self.source.place(node))
    fields = self.relations[name]
    return NamedRelation(Scan(name, alias, fields), tuple(f.name for f in fields))


def from_subquery(self: QueryTranslator, node: exp.Subquery, alias: str) -> NamedRelation:
    """A query in FROM."""
    return replace(self, prefix=f"{alias}.").rows(node.this)


def from_constants(self: QueryTranslator, node: exp.Values, alias: str) -> NamedRelation:
    """VALUES in FROM."""
    return replace(self, prefix=f"{alias}.").rows(node)


def with_column_aliases(self: QueryTranslator, rows: NamedRelation, alias: exp.TableAlias | None) -> NamedRelation:
    """``rows`` with the columns called as in ``AS t (a, b)``."""
    names = tuple(identifier.name.lower() for identifier in alias.columns) if alias else ()
    if names and len(names) != len(rows.names):
        raise TypeMismatch(
            f"{len(names)} names are given for {len(rows.names)} columns", where=self.source.place(alias or exp.Null())
        )
    return replace(rows, names=names or rows.names)


def from_set_operands(self: QueryTranslator, node: exp.SetOperation) -> NamedRelation:
    """UNION, INTERSECT or EXCEPT of two queries."""
    left, right = self.rows(node.this), self.rows(node.expression)
    return NamedRelation(from_set_operation(node, left.relation, right.relation, self.source), left.names)


def from_values(self: QueryTranslator, node: exp.Values) -> NamedRelation:
    """VALUES: constant rows; columns are called ``col1``, ``col2`` ..."""
    rows, types = constant_rows(self.expressions(Scope()), node)
    names = tuple(f"col{position}" for position in range(1, len(types) + 1))
    nullable = [any(row[i] is None for row in rows) for i in range(len(types))]
    columns = (Field(self.prefix + name, of, null) for name, of, null in zip(names, types, nullable, strict=True))
    return NamedRelation(Values(rows, tuple(columns)), names)


def from_parentheses(self: QueryTranslator, node: exp.Subquery) -> NamedRelation:
    """A query in parentheses."""
    if node.alias:
        raise ParseError("a query has an alias in FROM only", where=self.source.place(node.args["alias"]))
    return self.rows(node.this)


def from_whole_table(self: QueryTranslator, node: exp.Table) -> NamedRelation:
    """``TABLE t`` and a bare name in parentheses: all of its rows."""
    return self.rows(exp.select("*").from_(node))


QUERY_RULES: dict[type[exp.Expr], Callable[[QueryTranslator, Any], NamedRelation]] = {
    exp.Except: from_set_operands,
    exp.Intersect: from_set_operands,
    exp.Select: from_select,
    exp.Subquery: from_parentheses,
    exp.Table: from_whole_table,
    exp.Union: from_set_operands,
    exp.Values: from_values,
}

FROM_ITEM_RULES: dict[type[exp.Expr], Callable[[QueryTranslator, Any, str], NamedRelation]] = {
    exp.Subquery: from_subquery,
    exp.Table: from_table,
    exp.Values: from_constants,
}
