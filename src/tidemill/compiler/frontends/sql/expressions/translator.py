"""Expressions: from a parse tree to a scalar with Spark's types, every implicit conversion a ``Cast``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, NoReturn, Protocol

from sqlglot import exp

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.collations import key
from tidemill.algebra.expressions.conversions import convert, typed
from tidemill.algebra.expressions.ordering import SortOrder
from tidemill.algebra.expressions.scalars import Column, Lambda, Literal, Scalar, Subquery
from tidemill.algebra.node import Relation
from tidemill.compiler.frontends.sql.aggregation.grouping import SelectGrouping
from tidemill.compiler.frontends.sql.expressions.literals import from_literal
from tidemill.compiler.frontends.sql.expressions.single_row import at_most_one_row, is_single_row
from tidemill.compiler.frontends.sql.grammar import refusals
from tidemill.compiler.frontends.sql.grammar.markers import marker_of
from tidemill.compiler.frontends.sql.grammar.sql_text import SqlText, printed
from tidemill.compiler.frontends.sql.grammar.statement_cursor import SCHEMA_NAMES
from tidemill.compiler.frontends.sql.grammar.translation_marks import mark_translated
from tidemill.compiler.frontends.sql.names.scope import Scope
from tidemill.model.errors import ParseError, TextLocation, TypeMismatch, UnknownName, Unsupported
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


class ClockReader(Protocol):
    """The clock of a view, in conditions that compare it with rows."""

    def read(self, place: TextLocation) -> Scalar:
        """The clock, as it stands in the text at ``place``."""


@dataclass
class ExpressionTranslator:
    """Translates expressions over the columns of ``scope`` by ``rules``.

    ``aliases`` are names of the SELECT list, for those that are no columns. ``grouping`` collects aggregates and
    ``windowing`` window functions; without these they are refused. ``subquery`` translates a query in an
    expression over a scope; without it they are refused. ``parameters`` are those of the lambdas around.
    ``clock`` is that of the view, in its WHERE.
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
    clock: ClockReader | None = None

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
            SortOrder(key(self.scalar(term.this)), bool(term.args.get("desc")), bool(term.args.get("nulls_first")))
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
        raise Unsupported(f"this expression is not supported: {printed(node)}", where=self.source.place(node))


POSITION = "tidemill_position"
"""The key under which a node among stars holds its position as it was written."""

BOUND = "tidemill_bound"
"""The key under which a node that stands for part of a star holds its scalar."""


def from_column(expressions: ExpressionTranslator, node: exp.Column) -> Scalar:
    """A column by its name, or a member of a struct by its path."""
    if isinstance(node.this, exp.Star):
        raise Unsupported(
            "* stands in a SELECT list, or among the arguments of a function", where=expressions.source.place(node)
        )
    bound: Scalar | None = node.meta.get(BOUND)
    if bound is not None:
        return bound
    parts = [part.name.lower() for part in node.parts]
    found = find_name(expressions, parts)
    if found is None and parts == [GROUPING_SET_COLUMN] and expressions.grouping is not None:
        return expressions.grouping.grouping_call(node)
    return found or _nothing(expressions.scope, parts)


def find_name(expressions: ExpressionTranslator, parts: list[str]) -> Scalar | None:
    """The meaning of a dotted name: a column, an alias, a member of either, or something around the query."""
    alias = expressions.aliases.get(parts[0])
    if len(parts) > 1 and not (alias is not None and isinstance(alias.type, Struct | Array | Map)):
        alias = None
    if alias is not None and expressions.aliases_first and len(parts) == 1:
        return typed(alias)
    found: tuple[Scalar, Sequence[str]] | None = expressions.scope.find(parts)
    if found is None and alias is not None:
        return reduce(from_member, parts[1:], typed(alias))
    if found is None or (found[1] and not isinstance(found[0].type, Struct | Array)):
        # Only a struct has members, so a column of another type does not hide an outer table of the same name.
        found = expressions.scope.find_in_outer(parts) or found
    for schema in SCHEMA_NAMES[1:]:
        if found is None and (*parts[: len(schema)],) == schema and len(parts) > len(schema) + 1:
            found = expressions.scope.find(parts[len(schema) :])
    if found is None:
        return None
    value, members = found
    return reduce(from_member, members, value)


GROUPING_SET_COLUMN = "grouping__id"
"""The column with the number of a grouping set, another spelling of GROUPING_ID()."""


def _nothing(scope: Scope, parts: list[str]) -> NoReturn:
    raise scope.unknown(parts)


def from_marker(expressions: ExpressionTranslator, node: exp.Placeholder) -> Scalar:
    """The value of a parameter marker."""
    marker = marker_of(node, expressions.source)
    found = expressions.scope.find_value([marker]) or expressions.scope.find_in_outer([marker])
    if found is None:
        hint = "Give it with sql(text, name=value), or EXECUTE IMMEDIATE 'query' USING value AS name."
        raise UnknownName(f'parameter "{marker}" has no value', hint=hint)
    return found[0]


def from_member(record: Scalar, name: str) -> Scalar:
    """``record.name``; of an array of records the array of their members."""
    if isinstance(record.type, Array) and isinstance(record.type.element, Struct):
        element = Column(f"{ELEMENT}{name}", record.type.element)
        return call("transform", record, Lambda((element,), from_member(element, name)))
    return call("get_field", record, Literal(name, STRING))


ELEMENT = "λλ"
"""The prefix of the element of an array whose members are taken: no column and no parameter has it."""


def from_dot(expressions: ExpressionTranslator, node: exp.Dot) -> Scalar:
    """``f(x).name``, the parts of a path beyond the fourth, or a function with its schema before it."""
    if isinstance(node.expression, exp.Anonymous):
        return _from_qualified_call(expressions, node)
    return from_member(expressions.scalar(node.this), node.expression.name.lower())


def _from_qualified_call(expressions: ExpressionTranslator, node: exp.Dot) -> Scalar:
    *schema, call = node.flatten()
    if ".".join(part.name.lower() for part in schema) not in FUNCTION_SCHEMAS:
        raise UnknownName(f"there is no schema of functions {'.'.join(part.name for part in schema)}")
    for part in node.find_all(exp.Dot):
        mark_translated(part)
    mark_translated(*schema)
    return expressions.scalar(call)


FUNCTION_SCHEMAS = ("default", "spark_catalog.default", "session", "system.session", "builtin", "system.builtin")
"""Qualifiers that may stand before the name of a function."""


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


def from_subquery(expressions: ExpressionTranslator, node: exp.Subquery) -> Scalar:
    """A query in parentheses: its one value."""
    if expressions.subquery is None:
        raise refusals.SUBQUERY.at(expressions.source.keyword(node, "SELECT"))
    relation = expressions.subquery(node, expressions.scope)
    if len(relation.fields) != 1:
        raise TypeMismatch(f"a subquery in place of a value must have one column, not {len(relation.fields)}")
    return Subquery(relation if is_single_row(relation) else at_most_one_row(relation))
