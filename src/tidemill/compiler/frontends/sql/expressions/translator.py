"""Expressions: from a parse tree to a scalar with Spark's types, every implicit conversion a ``Cast``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, NoReturn, Protocol, cast

from sqlglot import exp

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.conversions import convert, typed
from tidemill.algebra.expressions.ordering import SortOrder
from tidemill.algebra.expressions.scalars import Column, Literal, Scalar, Subquery
from tidemill.algebra.node import Relation
from tidemill.compiler.frontends.sql.aggregation.grouping import SelectGrouping
from tidemill.compiler.frontends.sql.expressions.literals import from_literal
from tidemill.compiler.frontends.sql.expressions.single_row import is_single_row
from tidemill.compiler.frontends.sql.grammar import refusals
from tidemill.compiler.frontends.sql.grammar.sql_text import SqlText
from tidemill.compiler.frontends.sql.grammar.translation_marks import mark_translated
from tidemill.compiler.frontends.sql.names.scope import Scope
from tidemill.model.errors import ParseError, TypeMismatch, Unsupported
from tidemill.model.types import BOOLEAN, STRING, VOID, Array, Map, Struct


@dataclass(frozen=True)
class ExpressionRules:
    """The function that translates each class of node, and each SQL function that has a rule of its own, by name."""

    nodes: Mapping[type[exp.Expr], Callable[[ExpressionTranslator, Any], Scalar]]
    functions: Mapping[str, Callable[[ExpressionTranslator, exp.Anonymous], Scalar]]


class WindowCollector(Protocol):
    """The window functions of a SELECT, collected while its expressions are translated."""

    def column(self, node: exp.Window, operands: ExpressionTranslator) -> Column:
        """The column that holds the value of ``node``; ``operands`` translates its operands."""


@dataclass
class ExpressionTranslator:
    """Translates expressions over the columns of ``scope`` by ``rules``.

    ``aliases`` are names of the SELECT list, for those that are no columns. ``grouping`` collects aggregates and
    ``windowing`` window functions; without these they are refused. ``subquery`` translates a query in an
    expression over a scope; without it they are refused. ``parameters`` are those of the lambdas around.
    """

    rules: ExpressionRules
    source: SqlText
    scope: Scope
    grouping: SelectGrouping | None = None
    aliases: Mapping[str, Scalar] = field(default_factory=dict)
    aliases_first: bool = False
    subquery: Callable[[exp.Expr, Scope], Relation] | None = None
    windowing: WindowCollector | None = None
    parameters: Mapping[str, Column] = field(default_factory=dict)

    def over(self, scope: Scope) -> ExpressionTranslator:
        """A translator over ``scope`` alone: no outer columns, subqueries, aggregates or window functions."""
        return ExpressionTranslator(self.rules, self.source, scope)

    def scalar(self, node: exp.Expr) -> Scalar:
        """The scalar that ``node`` denotes."""
        with self.source.locating(node):
            scalar = self._rule(node)(self, node)
        mark_translated(node)
        return scalar

    def condition(self, node: exp.Expr) -> Scalar:
        """A scalar that is true, false or NULL; a bare NULL is none, as in Spark."""
        scalar = self.scalar(node)
        if scalar.type != BOOLEAN:
            raise TypeMismatch(f"a condition must be BOOLEAN, not {scalar.type}", where=self.source.place(node))
        return convert(scalar, BOOLEAN)

    def sort_orders(self, clause: exp.Order | None) -> tuple[SortOrder, ...]:
        """The terms of ORDER BY; none without the clause."""
        terms = () if clause is None else clause.expressions
        return tuple(
            SortOrder(self.scalar(term.this), bool(term.args.get("desc")), bool(term.args.get("nulls_first")))
            for term in terms
        )

    def present(self, *nodes: exp.Expr | None) -> list[Scalar]:
        """The scalars of those arguments that are given."""
        return [self.scalar(node) for node in nodes if node is not None]

    def _rule(self, node: exp.Expr) -> Callable[[ExpressionTranslator, Any], Scalar]:
        if rule := self.rules.nodes.get(type(node)):
            return rule
        if refusal := refusals.REFUSED_NODES.get(type(node)):
            raise refusal.at(self.source.keyword(node, *refusal.words) if refusal.words else self.source.head(node))
        raise Unsupported(f"this expression is not supported: {node.sql('spark')}", where=self.source.place(node))


def from_column(expressions: ExpressionTranslator, node: exp.Column) -> Scalar:
    """A column by its name, or a member of a struct by its path."""
    if isinstance(node.this, exp.Star):
        raise Unsupported("* is allowed in a SELECT list and in COUNT(*)", where=expressions.source.place(node))
    parts = [part.name.lower() for part in node.parts]
    alias = expressions.aliases.get(parts[0]) if len(parts) == 1 else None
    if alias is not None and expressions.aliases_first:
        return typed(alias)
    found = expressions.scope.find(parts)
    if found is None and alias is not None:
        return typed(alias)
    if found is None or (found[1] and not isinstance(found[0].type, Struct | Array)):
        # Only a struct has members, so a column of another type does not hide an outer table of the same name.
        found = expressions.scope.find_in_outer(parts) or found
    column, members = found or _nothing(expressions.scope, parts)
    return reduce(from_member, members, cast(Scalar, column))


def _nothing(scope: Scope, parts: list[str]) -> NoReturn:
    raise scope.unknown(parts)


def from_member(record: Scalar, name: str) -> Scalar:
    """``record.name``."""
    return call("get_field", record, Literal(name, STRING))


def from_dot(expressions: ExpressionTranslator, node: exp.Dot) -> Scalar:
    """``f(x).name``, or the parts of a path beyond the fourth."""
    return from_member(expressions.scalar(node.this), node.expression.name.lower())


def from_bracket(expressions: ExpressionTranslator, node: exp.Bracket) -> Scalar:
    """``array[index]``, counted from 0, or ``map[key]``."""
    if len(node.expressions) != 1:
        raise ParseError("an array takes one index", where=expressions.source.place(node))
    (index,) = node.expressions
    collection = expressions.scalar(node.this)
    name = "map_value" if isinstance(collection.type, Map) else "get_item"
    return call(name, collection, expressions.scalar(index))


def from_constant(expressions: ExpressionTranslator, node: exp.Literal) -> Scalar:
    """A number or a string."""
    return from_literal(node)


def from_raw_string(expressions: ExpressionTranslator, node: exp.RawString) -> Scalar:
    """``r'...'``: a string whose backslashes are plain characters."""
    return Literal(node.this, STRING)


def from_boolean(expressions: ExpressionTranslator, node: exp.Boolean) -> Scalar:
    """TRUE or FALSE."""
    return Literal(bool(node.this), BOOLEAN)


def from_null(expressions: ExpressionTranslator, node: exp.Null) -> Scalar:
    """NULL, whose type depends on its context."""
    return Literal(None, VOID)


def from_paren(expressions: ExpressionTranslator, node: exp.Paren) -> Scalar:
    """An expression in parentheses."""
    return expressions.scalar(node.this)


def from_subquery(expressions: ExpressionTranslator, node: exp.Subquery) -> Scalar:
    """A query in parentheses: its one value."""
    if expressions.subquery is None:
        raise refusals.SUBQUERY.at(expressions.source.keyword(node, "SELECT"))
    relation = expressions.subquery(node, expressions.scope)
    if len(relation.fields) != 1:
        raise TypeMismatch(f"a subquery in place of a value must have one column, not {len(relation.fields)}")
    if not is_single_row(relation):
        raise refusals.MANY_ROWS.at(expressions.source.keyword(node, "SELECT"))
    return Subquery(relation)
