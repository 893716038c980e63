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

from tidemill.algebra.matching.match import Output
from tidemill.algebra.relations import Aggregate, Filter, Relation, Scan, Values
from tidemill.algebra.scalars import column
from tidemill.algebra.walk import columns_in, outer_columns, scans, walk
from tidemill.compiler.frontends import refusals
from tidemill.compiler.frontends.constants import constant_rows
from tidemill.compiler.frontends.expressions import Expressions
from tidemill.compiler.frontends.joins import from_join
from tidemill.compiler.frontends.lateral import from_lateral, from_lateral_join, is_lateral
from tidemill.compiler.frontends.limits import is_arranged, limited
from tidemill.compiler.frontends.match_grammar import manner_of
from tidemill.compiler.frontends.match_recognize import from_match_recognize
from tidemill.compiler.frontends.names import Allotment, Binding, Scope, unknown
from tidemill.compiler.frontends.ordering import ordered
from tidemill.compiler.frontends.patterns import from_pattern, pattern_of, refuse_elsewhere
from tidemill.compiler.frontends.places import Source
from tidemill.compiler.frontends.recursion import from_recursion, parted
from tidemill.compiler.frontends.selects import Selection
from tidemill.compiler.frontends.sessions import sessions_of
from tidemill.compiler.frontends.setops import from_set_operation
from tidemill.compiler.frontends.time_windows import with_time_windows
from tidemill.compiler.frontends.unread import is_read, read, refuse_clauses
from tidemill.compiler.rewrites.definitions import FEW_LEAVES, count_leaves
from tidemill.compiler.rewrites.rename import rename, short
from tidemill.model.errors import NameTaken, ParseError, TypeMismatch, Unsupported
from tidemill.model.types import Field


@dataclass(frozen=True)
class Rows:
    """A relation and what a query calls its columns: ``names`` may repeat, the relation's own never do."""

    relation: Relation
    names: tuple[str, ...]

    def scope(self, alias: str) -> Scope:
        """The columns in sight when this stands in FROM as ``alias``."""
        pairs = zip(self.names, self.relation.fields, strict=True)
        return Scope(tuple(Binding(alias, name, column(field_)) for name, field_ in pairs))


@dataclass(frozen=True)
class Queries:
    """What a query may refer to: known relations, and the common table expressions in sight.

    ``prefix`` goes before the names of the columns that the query makes; that of the outermost query is empty.
    ``outer`` are the columns around a query that stands in an expression. ``definitions`` are the common table
    expressions that are read by name, for ``translate`` to put around the whole; None where none can be.
    """

    source: Source
    relations: Mapping[str, tuple[Field, ...]]
    aliases: Allotment = field(default_factory=Allotment)
    tables: Mapping[str, Callable[[str], Rows]] = field(default_factory=dict)
    prefix: str = ""
    outer: Scope | None = None
    definitions: list[tuple[str, Relation]] | None = None

    def rows(self, node: exp.Expr) -> Rows:
        """The rows of a query: SELECT, UNION, VALUES, or one of them in parentheses."""
        refuse_clauses(node, self.source)
        read(node)
        if type(node) not in QUERIES:
            raise ParseError("a query was expected here", where=self.source.place(node))
        if is_arranged(node):
            query = ordered(self, node)
            return Rows(limited(query), query.names)
        within = self.within(node)
        rows = QUERIES[type(node)](within, node)
        within.check_tables(node)
        return rows

    def within(self, node: exp.Expr) -> Queries:
        """What is in sight after the WITH of ``node``."""
        return with_tables(self, node)

    def check_tables(self, node: exp.Expr) -> None:
        """Check what the WITH of ``node`` defines and nobody reads."""
        check_tables(self, node)

    def expressions(self, scope: Scope) -> Expressions:
        """A translator for expressions over ``scope``."""
        return Expressions(self.source, replace(scope, outer=self.outer), subquery=self.subquery)

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
        parts = (*node.expressions, *(node.args[clause] for clause in ABOVE if node.args.get(clause)), *extra)
        relation, scope = with_time_windows(self, from_from_where(self, node), parts)
        sessions = sessions_of(self, scope, parts)
        rows = self.expressions(scope if sessions is None else scope + sessions.scope)
        return Selection(rows, node, relation, self.prefix, extra, self.aliases, sessions)


ABOVE = ("group", "having", "qualify")
"""The clauses of a SELECT above its FROM and WHERE."""


def with_tables(self: Queries, node: exp.Expr) -> Queries:
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
            table = read_once(self.relations, self.definitions, table)
        self = replace(self, tables={**self.tables, name: table})
    return self


def check_tables(self: Queries, node: exp.Expr) -> None:
    """Translate those common table expressions of ``node`` that it does not read, so that they are checked, too."""
    clause = node.args.get("with_")
    for expression in reversed(clause.expressions if clause is not None else ()):
        if not is_read(expression.this):
            name = expression.alias.lower()
            self.tables[name](self.aliases.take(name))


def common_table(self: Queries, node: exp.CTE, recursive: bool = False) -> Callable[[str], Rows]:
    """A common table expression, as a function of the alias under which it is read; it may read itself if told so."""

    def rows(alias: str) -> Rows:
        below = replace(self, prefix=f"{alias}.")
        first, steps = parted(node, self.source) if recursive else (node.this, [])
        base = renamed(self, below.rows(first), node.args.get("alias"))
        return from_recursion(below, node, base, steps) if steps else base

    return rows


def read_once(
    relations: Iterable[str], definitions: list[tuple[str, Relation]], table: Callable[[str], Rows]
) -> Callable[[str], Rows]:
    """A common table expression that several places read: the first of them finds out whether it is worth a name."""
    known: list[Callable[[str], Rows]] = []

    def rows(alias: str) -> Rows:
        if not known:
            first = table(alias)
            # It must see nothing but whole relations: no rows around it, nor those that a recursion found last.
            whole = scans(first.relation) <= {*relations, *(name for name, _ in definitions)}
            large = count_leaves(first.relation) > FEW_LEAVES and whole and not outer_columns(first.relation)
            known.append(defined(first, alias, definitions) if large else table)
            if not large:
                return first
        return known[0](alias)

    return rows


def defined(rows: Rows, alias: str, definitions: list[tuple[str, Relation]]) -> Callable[[str], Rows]:
    """``rows`` as one of ``definitions``, which can be read under any alias."""
    # The alias is unique in the query, and no table has a name of two words.
    name = f"with {alias}"
    named = rename(rows.relation, short(rows.relation.fields))
    definitions.append((name, named))
    return lambda other: replace(rows, relation=Scan(name, other, named.fields))


def from_select(self: Queries, node: exp.Select) -> Rows:
    """SELECT: FROM, WHERE, GROUP BY, HAVING, the list, DISTINCT, in this order."""
    return Rows(*self.selection(node).relation_and_names())


def from_from_where(self: Queries, node: exp.Select) -> tuple[Relation, Scope]:
    """FROM and WHERE: the rows that the rest of a SELECT works on."""
    relation, scope = from_from(self, node)
    where = node.args.get("where")
    return Filter(relation, self.expressions(scope).condition(where.this)) if where else relation, scope


def from_from(self: Queries, node: exp.Select) -> tuple[Relation, Scope]:
    """The FROM clause: its first item joined with all others; without one, the one empty row.

    LATERAL VIEW comes after the joins, and makes more rows of theirs.
    """
    clause = node.args.get("from_")
    seen = NOTHING if clause is None else joined(self, *from_item(self, clause.this), node)
    for lateral in node.args.get("laterals") or ():
        seen = from_lateral(self, seen, lateral)
    return seen


NOTHING: tuple[Relation, Scope] = Values(((),), ()), Scope()
"""The one empty row, without any column."""


def joined(self: Queries, relation: Relation, scope: Scope, node: exp.Expr) -> tuple[Relation, Scope]:
    """``relation`` joined with everything that ``node`` joins to it."""
    for join in node.args.get("joins") or ():
        read(join)
        if is_lateral(join.this):
            relation, scope = from_lateral_join(self, (relation, scope), join)
        else:
            relation, scope = from_join(self, (relation, scope), from_item(self, join.this), join)
    return relation, scope


def from_item(self: Queries, node: exp.Expr) -> tuple[Relation, Scope]:
    """One item of FROM, under its alias, with the joins that stand in parentheses with it."""
    if is_lateral(node):
        return joined(self, *from_lateral(self, NOTHING, node), node)
    if not isinstance(node, exp.Table | exp.Subquery | exp.Values):
        raise refusals.LATERAL.at(self.source.keyword(node, "LATERAL"))
    refuse_clauses(node, self.source)
    read(node)
    if isinstance(node, exp.Subquery) and is_item(node.this):
        relation, scope = from_item(self, node.this)
        return joined(self, relation, _called(self, scope, node.args.get("alias")), node)
    wish = node.alias_or_name.lower() or "subquery"
    rows = renamed(self, ITEMS[type(node)](self, node, self.aliases.take(wish)), node.args.get("alias"))
    clause = node.args.get("match")
    if clause is not None and manner_of(clause).output is Output.EACH:
        refuse_elsewhere(self, node, clause)
    elif clause is not None:
        matched = Rows(*from_match_recognize(self, rows.relation, rows.scope(wish), clause))
        rows, wish = renamed(self, matched, clause.args.get("alias")), clause.alias.lower() or wish
    return joined(self, rows.relation, rows.scope(wish), node)


def is_item(node: exp.Expr) -> bool:
    """True of what stands in parentheses as an item of FROM, perhaps with joins, and is no query."""
    if isinstance(node, exp.Subquery):
        return bool(node.alias or node.args.get("joins")) or is_item(node.this)
    return isinstance(node, exp.Table | exp.Lateral | exp.Unnest) or bool(isinstance(node, exp.Values) and node.alias)


def _called(self: Queries, scope: Scope, alias: exp.TableAlias | None) -> Scope:
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


def from_table(self: Queries, node: exp.Table, alias: str) -> Rows:
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
        raise unknown("table or view", name, [*self.tables, *self.relations], self.source.place(node))
    fields = self.relations[name]
    return Rows(Scan(name, alias, fields), tuple(f.name for f in fields))


def from_subquery(self: Queries, node: exp.Subquery, alias: str) -> Rows:
    """A query in FROM."""
    return replace(self, prefix=f"{alias}.").rows(node.this)


def from_constants(self: Queries, node: exp.Values, alias: str) -> Rows:
    """VALUES in FROM."""
    return replace(self, prefix=f"{alias}.").rows(node)


def renamed(self: Queries, rows: Rows, alias: exp.TableAlias | None) -> Rows:
    """``rows`` with the columns called as in ``AS t (a, b)``."""
    names = tuple(identifier.name.lower() for identifier in alias.columns) if alias else ()
    if names and len(names) != len(rows.names):
        raise TypeMismatch(
            f"{len(names)} names are given for {len(rows.names)} columns", where=self.source.place(alias or exp.Null())
        )
    return replace(rows, names=names or rows.names)


def from_both(self: Queries, node: exp.SetOperation) -> Rows:
    """UNION, INTERSECT or EXCEPT of two queries."""
    left, right = self.rows(node.this), self.rows(node.expression)
    return Rows(from_set_operation(node, left.relation, right.relation, self.source), left.names)


def from_values(self: Queries, node: exp.Values) -> Rows:
    """VALUES: constant rows; columns are called ``col1``, ``col2`` ..."""
    rows, types = constant_rows(self.expressions(Scope()), node)
    names = tuple(f"col{position}" for position in range(1, len(types) + 1))
    nullable = [any(row[i] is None for row in rows) for i in range(len(types))]
    columns = (Field(self.prefix + name, of, null) for name, of, null in zip(names, types, nullable, strict=True))
    return Rows(Values(rows, tuple(columns)), names)


def from_parentheses(self: Queries, node: exp.Subquery) -> Rows:
    """A query in parentheses."""
    if node.alias:
        raise ParseError("a query has an alias in FROM only", where=self.source.place(node.args["alias"]))
    return self.rows(node.this)


def from_whole_table(self: Queries, node: exp.Table) -> Rows:
    """``TABLE t`` and a bare name in parentheses: all of its rows."""
    return self.rows(exp.select("*").from_(node))


QUERIES: dict[type[exp.Expr], Callable[[Queries, Any], Rows]] = {
    exp.Except: from_both,
    exp.Intersect: from_both,
    exp.Select: from_select,
    exp.Subquery: from_parentheses,
    exp.Table: from_whole_table,
    exp.Union: from_both,
    exp.Values: from_values,
}

ITEMS: dict[type[exp.Expr], Callable[[Queries, Any, str], Rows]] = {
    exp.Subquery: from_subquery,
    exp.Table: from_table,
    exp.Values: from_constants,
}
