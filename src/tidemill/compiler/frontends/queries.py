"""Queries: from a parse tree to algebra, one ``from_...`` for each construct.

Every table, subquery and common table expression in FROM gets an alias that no other one has in the whole query, and
its columns are prefixed with it. So the columns of a join never clash, at any depth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import exp

from tidemill.algebra.coercion import common_type, convert
from tidemill.algebra.functions import call
from tidemill.algebra.relations import Distinct, Filter, Join, Project, Relation, Scan, UnionAll, Values
from tidemill.algebra.scalars import Named, Scalar, column
from tidemill.compiler.frontends import refusals
from tidemill.compiler.frontends.clauses import refuse_clauses
from tidemill.compiler.frontends.constants import constant_rows
from tidemill.compiler.frontends.expressions import Expressions
from tidemill.compiler.frontends.names import Allotment, Binding, Scope, unknown
from tidemill.compiler.frontends.places import Source
from tidemill.compiler.frontends.selects import Selection
from tidemill.model.errors import ParseError, TypeMismatch, Unsupported
from tidemill.model.types import Field, Type


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
    ``outer`` are the columns around a query that stands in an expression.
    """

    source: Source
    relations: Mapping[str, tuple[Field, ...]]
    aliases: Allotment = field(default_factory=Allotment)
    tables: Mapping[str, Callable[[str], Rows]] = field(default_factory=dict)
    prefix: str = ""
    outer: Scope | None = None

    def rows(self, node: exp.Expr) -> Rows:
        """The rows of a query: SELECT, UNION, VALUES, or one of them in parentheses."""
        refuse_clauses(node, self.source)
        if isinstance(node, exp.Intersect | exp.Except):
            raise refusals.SET_DIFFERENCE.at(self.source.keyword(node.expression, "INTERSECT", "EXCEPT", "MINUS"))
        if type(node) not in QUERIES:
            raise ParseError("a query was expected here", where=self.source.place(node))
        return QUERIES[type(node)](with_tables(self, node), node)

    def expressions(self, scope: Scope) -> Expressions:
        """A translator for expressions over ``scope``."""
        return Expressions(self.source, replace(scope, outer=self.outer), subquery=self.subquery)

    def subquery(self, node: exp.Expr, scope: Scope) -> Relation:
        """A query that stands in an expression over ``scope``."""
        return replace(self, prefix=f"{self.aliases.take('subquery')}.", outer=scope).rows(node).relation

    def selection(self, node: exp.Select, extra: Sequence[exp.Expr] = ()) -> Selection:
        """A SELECT whose FROM and WHERE are translated; ``extra`` are the expressions of its ORDER BY."""
        relation, scope = from_from_where(self, node)
        return Selection(self.expressions(scope), node, relation, self.prefix, extra)


def with_tables(self: Queries, node: exp.Expr) -> Queries:
    """What is in sight after the WITH of ``node``: each expression sees those before it, and hides its namesakes.

    An expression is translated anew wherever it is read, because each reading needs aliases of its own; the compiler
    finds equal subqueries again and keeps them once.
    """
    clause = node.args.get("with_")
    if clause is None:
        return self
    if clause.args.get("recursive"):
        raise refusals.RECURSION.at(self.source.keyword(clause, "RECURSIVE"))
    for expression in clause.expressions:
        self = replace(self, tables={**self.tables, expression.alias.lower(): common_table(self, expression)})
    return self


def common_table(self: Queries, node: exp.CTE) -> Callable[[str], Rows]:
    """A common table expression, as a function of the alias under which it is read."""

    def rows(alias: str) -> Rows:
        below = replace(self, prefix=f"{alias}.")
        return renamed(self, below.rows(node.this), node.args.get("alias"))

    return rows


def from_select(self: Queries, node: exp.Select) -> Rows:
    """SELECT: FROM, WHERE, GROUP BY, HAVING, the list, DISTINCT, in this order."""
    return Rows(*self.selection(node).relation_and_names())


def from_from_where(self: Queries, node: exp.Select) -> tuple[Relation, Scope]:
    """FROM and WHERE: the rows that the rest of a SELECT works on."""
    relation, scope = from_from(self, node)
    where = node.args.get("where")
    return Filter(relation, self.expressions(scope).condition(where.this)) if where else relation, scope


def from_from(self: Queries, node: exp.Select) -> tuple[Relation, Scope]:
    """The FROM clause: its first item joined with all others; without one, the one empty row."""
    clause = node.args.get("from_")
    if clause is None:
        return Values(((),), ()), Scope()
    return joined(self, *from_item(self, clause.this), node)


def joined(self: Queries, relation: Relation, scope: Scope, node: exp.Expr) -> tuple[Relation, Scope]:
    """``relation`` joined with everything that ``node`` joins to it."""
    for join in node.args.get("joins") or ():
        relation, scope = from_join(self, relation, scope, join)
    return relation, scope


def from_item(self: Queries, node: exp.Expr) -> tuple[Relation, Scope]:
    """One item of FROM, under its alias, with the joins that stand in parentheses with it."""
    if not isinstance(node, exp.Table | exp.Subquery | exp.Values):
        raise refusals.LATERAL.at(self.source.keyword(node, "LATERAL"))
    refuse_clauses(node, self.source)
    if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table):
        relation, scope = from_item(self, node.this)
        return joined(self, relation, scope.called(node.alias.lower()) if node.alias else scope, node)
    wish = node.alias_or_name.lower() or "subquery"
    rows = renamed(self, ITEMS[type(node)](self, node, self.aliases.take(wish)), node.args.get("alias"))
    return joined(self, rows.relation, rows.scope(wish), node)


def from_table(self: Queries, node: exp.Table, alias: str) -> Rows:
    """A table, stream, view or common table expression by its name."""
    name = node.name.lower()
    if not isinstance(node.this, exp.Identifier):
        raise Unsupported(
            "a function that makes a table is not supported",
            where=self.source.place(node),
            hint="Put its rows into a table, or list them with VALUES.",
        )
    if node.args.get("db"):
        raise ParseError("the name of a table has one part", where=self.source.place(node))
    if name in self.tables:
        return self.tables[name](alias)
    if name not in self.relations:
        raise unknown("table or view", name, [*self.tables, *self.relations], self.source.place(node.this))
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


def from_join(self: Queries, left: Relation, scope: Scope, node: exp.Join) -> tuple[Relation, Scope]:
    """A join with all that stands to its left: comma, CROSS, INNER with ON or USING, NATURAL."""
    refuse_join(self, node)
    right, added = from_item(self, node.this)
    both = scope + added
    if node.args.get("using"):
        names = [identifier.name.lower() for identifier in node.args["using"]]
        return from_using(self, Join(left, right), scope, added, names, node)
    if node.args.get("method") == "NATURAL":
        shared = {binding.name for binding in added.star()}
        names = [binding.name for binding in scope.star() if binding.name in shared]
        return from_using(self, Join(left, right), scope, added, names, node)
    on = node.args.get("on")
    condition = None if on is None or on == exp.true() else self.expressions(both).condition(on)
    return Join(left, right, condition), both


def from_using(
    self: Queries, join: Join, scope: Scope, added: Scope, names: list[str], node: exp.Join
) -> tuple[Relation, Scope]:
    """Equality on columns of the same name, which the query then sees once."""
    condition: Scalar | None = None
    for name in names:
        with self.source.locating(node):
            sides = [side.find([name]) for side in (scope, added)]
            if sides[0] is None or sides[1] is None:
                raise (added if sides[0] else scope).unknown([name])
            equal = call("eq", sides[0][0], sides[1][0])
            condition = equal if condition is None else call("and", condition, equal)
    return replace(join, condition=condition), (scope + added).merge(names, len(scope.bindings))


def refuse_join(self: Queries, node: exp.Join) -> None:
    """Outer, semi and anti joins need counts of partners."""
    side, kind = (node.args.get(key) or "" for key in ("side", "kind"))
    refusal = JOINS.get(kind) or JOINS.get(side)
    if refusal:
        raise refusal.at(self.source.keyword(node.this, side or kind))
    if node.args.get("method") not in (None, "NATURAL") or kind not in ("", "INNER", "CROSS"):
        raise Unsupported("this kind of join is not supported", where=self.source.place(node))


JOINS = {
    "LEFT": refusals.OUTER_JOIN,
    "RIGHT": refusals.OUTER_JOIN,
    "FULL": refusals.OUTER_JOIN,
    "SEMI": refusals.SEMI_JOIN,
    "ANTI": refusals.ANTI_JOIN,
}


def from_union(self: Queries, node: exp.Union) -> Rows:
    """UNION [ALL]: inputs brought to common types, column by position; without ALL each row once."""
    if node.args.get("by_name"):
        raise Unsupported("UNION BY NAME is not supported", where=self.source.place(node))
    left, right = self.rows(node.this), self.rows(node.expression)
    if len(left.names) != len(right.names):
        raise TypeMismatch(
            f"UNION of {len(left.names)} and {len(right.names)} columns",
            where=self.source.keyword(node.expression, "UNION"),
        )
    pairs = zip(left.relation.fields, right.relation.fields, strict=True)
    with self.source.locating(node.expression):
        types = [common_type([a.type, b.type]) for a, b in pairs]
    names = [f.name for f in left.relation.fields]
    inputs = [brought(side.relation, types, names) for side in (left, right)]
    union = UnionAll(tuple(part for side in inputs for part in _flat(side)))
    return Rows(Distinct(union) if node.args.get("distinct") else union, left.names)


def brought(relation: Relation, types: list[Type], names: list[str]) -> Relation:
    """``relation`` with its columns converted to ``types`` and called ``names``."""
    if [(f.name, f.type) for f in relation.fields] == list(zip(names, types, strict=True)):
        return relation
    columns = zip(relation.fields, types, names, strict=True)
    return Project(relation, tuple(Named(name, convert(column(f), of)) for f, of, name in columns))


def _flat(relation: Relation) -> tuple[Relation, ...]:
    """A union within a union is one union."""
    return relation.inputs if isinstance(relation, UnionAll) else (relation,)


def from_values(self: Queries, node: exp.Values) -> Rows:
    """VALUES: constant rows; columns are called ``col1``, ``col2`` ..."""
    rows, types = constant_rows(self.expressions(Scope()), node)
    names = tuple(f"col{position}" for position in range(1, len(types) + 1))
    nullable = [any(row[i] is None for row in rows) for i in range(len(types))]
    columns = (Field(self.prefix + name, of, null) for name, of, null in zip(names, types, nullable, strict=True))
    return Rows(Values(rows, tuple(columns)), names)


def from_parentheses(self: Queries, node: exp.Subquery) -> Rows:
    """A query in parentheses."""
    return self.rows(node.this)


def from_whole_table(self: Queries, node: exp.Table) -> Rows:
    """``TABLE t`` and a bare name in parentheses: all of its rows."""
    return self.rows(exp.select("*").from_(node))


QUERIES: dict[type[exp.Expr], Callable[[Queries, Any], Rows]] = {
    exp.Select: from_select,
    exp.Subquery: from_parentheses,
    exp.Table: from_whole_table,
    exp.Union: from_union,
    exp.Values: from_values,
}

ITEMS: dict[type[exp.Expr], Callable[[Queries, Any, str], Rows]] = {
    exp.Subquery: from_subquery,
    exp.Table: from_table,
    exp.Values: from_constants,
}
