"""Definitions in SQL beside tables and materialized views: named queries, functions, and variables.

They have no rows of their own. A named query (``CREATE VIEW``) and the body of a function (``CREATE FUNCTION``) are
translated again wherever they are used, with the aliases of the query around them, so that what comes out is as if they
had been written there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

from sqlglot import exp

from tidemill.algebra.evaluate import evaluate_scalar
from tidemill.algebra.expressions.conversions import convert, typed
from tidemill.algebra.expressions.scalars import Column, Literal, Scalar
from tidemill.algebra.node import Relation
from tidemill.algebra.values.casts import can_cast
from tidemill.compiler.frontends.sql.expressions.clock_functions import rules_at, rules_of_view
from tidemill.compiler.frontends.sql.expressions.stars import bound_column
from tidemill.compiler.frontends.sql.expressions.translator import ExpressionTranslator
from tidemill.compiler.frontends.sql.grammar.named_arguments import arguments_by_name
from tidemill.compiler.frontends.sql.grammar.sql_text import ParsedText, SqlText
from tidemill.compiler.frontends.sql.grammar.untranslated import refuse_untranslated
from tidemill.compiler.frontends.sql.names.projections import cast_columns
from tidemill.compiler.frontends.sql.names.scope import Scope
from tidemill.compiler.frontends.sql.query.context import NamedRelation, no_table
from tidemill.compiler.frontends.sql.query.time_filters import ClockReads
from tidemill.compiler.frontends.sql.query.translator import QueryTranslator
from tidemill.compiler.frontends.sql.registered_functions import resolve_registered
from tidemill.compiler.frontends.sql.rules import EXPRESSION_RULES
from tidemill.compiler.frontends.text.names import NameAllocator
from tidemill.model.errors import TypeMismatch, Unsupported
from tidemill.model.schema import RelationFields, Table
from tidemill.model.types import Field, Type

VARIABLE_QUALIFIERS = ("", "session.", "system.session.")
"""Qualifiers that may stand before the name of a variable."""


@dataclass(frozen=True)
class NamedQuery:
    """A view that is not materialized: the ``text`` of its query, and the names of its columns if it gives them."""

    name: str
    text: str
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Parameter:
    """A parameter of a function in SQL, with the text of its default, if it has one."""

    name: str
    type: Type
    default: str | None = None


@dataclass(frozen=True)
class SqlFunction:
    """A function whose ``body`` is an expression, or a query: its one value, or a table of ``columns``.

    Without ``returns`` its type is that of its body.
    """

    name: str
    parameters: tuple[Parameter, ...]
    body: str
    returns: Type | None = None
    columns: tuple[Field, ...] | None = None


@dataclass(frozen=True)
class NamedDefinitions:
    """All definitions that a statement may use, by name; ``registered`` are the keys of functions in Python.

    ``markers`` are the values of parameter markers: ``:name``, or ``?1``, ``?2`` for the first and second ``?``.
    ``table_of`` has the declarations of tables by name.
    """

    queries: Mapping[str, NamedQuery] = field(default_factory=dict)
    functions: Mapping[str, SqlFunction] = field(default_factory=dict)
    variables: Mapping[str, Literal] = field(default_factory=dict)
    registered: Mapping[str, str] = field(default_factory=dict)
    markers: Mapping[str, Scalar] = field(default_factory=dict)
    table_of: Callable[[str], Table | None] = field(default=no_table, compare=False)


@dataclass(frozen=True)
class DefinitionScope:
    """Meaning of the names of one statement: ``relations`` and ``named`` definitions.

    ``aliases`` and ``shared`` expressions of WITH are those of the whole statement. ``within`` are the definitions that
    are being translated, none of which can use itself. ``moment`` is the time of a statement that is run once,
    ``clock`` that of a materialized view.
    """

    relations: RelationFields
    named: NamedDefinitions
    aliases: NameAllocator = field(default_factory=NameAllocator)
    shared: list[tuple[str, Relation]] | None = None
    within: tuple[str, ...] = ()
    moment: datetime | None = None
    clock: ClockReads | None = None

    def translator(
        self, source: SqlText, prefix: str = "", values: Mapping[str, Scalar] | None = None
    ) -> QueryTranslator:
        """A translator for queries and expressions of ``source``, in which ``values`` have names, too."""
        functions = self.named.functions.values()
        scalars = {f.name: partial(self._call, f) for f in functions if f.columns is None}
        rules = EXPRESSION_RULES if self.moment is None else rules_at(EXPRESSION_RULES, self.moment)
        rules = rules if self.clock is None else rules_of_view(rules)
        if scalars:
            rules = replace(rules, functions={**rules.functions, **scalars})
        return QueryTranslator(
            source,
            self.relations,
            self.aliases,
            {query.name: self._table(query) for query in self.named.queries.values()},
            prefix,
            self._outermost(values or {}),
            self.shared,
            rules,
            {f.name: partial(self._table_of_call, f) for f in functions if f.columns is not None},
            self.clock,
            self.named.table_of,
        )

    def _outermost(self, values: Mapping[str, Scalar]) -> Scope | None:
        """The scope around everything: variables, and within them ``values``."""
        variables: dict[str, Scalar] = {
            qualifier + name: value for name, value in self.named.variables.items() for qualifier in VARIABLE_QUALIFIERS
        }
        variables |= self.named.markers
        around = Scope(values=variables) if variables else None
        return Scope(values=values, outer=around) if values else around

    def parsed(self, text: str, name: str) -> ParsedText:
        """``text`` as a tree, in which calls of registered functions are resolved; its errors are those of ``name``."""
        source = SqlText.of(text, name)
        return resolve_registered(ParsedText(source.parse(), source), self.named.registered)

    def _inside(self, kind: str, name: str) -> DefinitionScope:
        if f"{kind} {name}" in self.within:
            raise Unsupported(f'{kind} "{name}" is defined by itself', hint="Use WITH RECURSIVE for what repeats.")
        return replace(self, within=(*self.within, f"{kind} {name}"))

    def _table(self, query: NamedQuery) -> Callable[[str], NamedRelation]:
        return lambda alias: self.rows(query, f"{alias}.")

    def rows(self, query: NamedQuery, prefix: str = "") -> NamedRelation:
        """The rows of a named query, under the names that it gives to its columns."""
        tree = self.parsed(query.text, query.name)
        rows = self._inside("view", query.name).translator(tree.source, prefix).rows(tree.node)
        refuse_untranslated(tree.node, tree.source)
        if query.columns and len(query.columns) != len(rows.names):
            raise TypeMismatch(f"{len(query.columns)} names are given for {len(rows.names)} columns", where=query.name)
        return replace(rows, names=query.columns or rows.names)

    def _call(self, function: SqlFunction, expressions: ExpressionTranslator, node: exp.Anonymous) -> Scalar:
        """The body of ``function`` with the arguments of a call in it."""
        tree, inner = self._body(function, self._arguments(function, expressions, node))
        value = _scalar(inner, tree)
        return typed(_converted(value, function.returns or value.type, f'"{function.name}" returns'))

    def _table_of_call(
        self, function: SqlFunction, expressions: ExpressionTranslator, node: exp.Anonymous, alias: str
    ) -> NamedRelation:
        tree, inner = self._body(function, self._arguments(function, expressions, node), f"{alias}.")
        return returned_table(function, _rows(inner, tree), f"{alias}.")

    def _body(
        self, function: SqlFunction, values: Mapping[str, Scalar], prefix: str = ""
    ) -> tuple[ParsedText, QueryTranslator]:
        # In parentheses a query is a value, and an expression what it is.
        tree = self.parsed(f"({function.body})", function.name)
        qualified = {f"{function.name}.{name}": value for name, value in values.items()}
        inner = self._inside("function", function.name).translator(tree.source, prefix, {**values, **qualified})
        return tree, inner

    def _arguments(
        self, function: SqlFunction, expressions: ExpressionTranslator, node: exp.Anonymous
    ) -> dict[str, Scalar]:
        given = arguments_by_name(function.name, [p.name for p in function.parameters], node.expressions)
        values = {}
        for parameter in function.parameters:
            if parameter.name in given:
                value = expressions.scalar(given[parameter.name])
            else:
                value = self._default(function, parameter)
            values[parameter.name] = typed(_converted(value, parameter.type, f'parameter "{parameter.name}" is'))
        return values

    def _default(self, function: SqlFunction, parameter: Parameter) -> Scalar:
        if parameter.default is None:
            wanted = ", ".join(p.name for p in function.parameters)
            raise TypeMismatch(f'"{function.name}" needs a value of "{parameter.name}"', hint=f"It takes ({wanted}).")
        tree = self.parsed(parameter.default, function.name)
        return _scalar(self.translator(tree.source), tree)

    def check(self, function: SqlFunction) -> SqlFunction:
        """``function`` as a call would translate it: refused if that cannot be, and with a type for its value."""
        for parameter in function.parameters:
            if parameter.default is not None:
                _converted(self._default(function, parameter), parameter.type, f'parameter "{parameter.name}" is')
        values = {p.name: Column(f"{function.name}.{p.name}", p.type) for p in function.parameters}
        tree, inner = self._body(function, values)
        if function.columns is not None:
            returned_table(function, _rows(inner, tree), "")
            return function
        value = _scalar(inner, tree)
        _converted(value, function.returns or value.type, f'"{function.name}" returns')
        return replace(function, returns=function.returns or value.type)


@dataclass(frozen=True)
class UsedNames:
    """The tables and functions that a query names, whatever they are."""

    tables: frozenset[str]
    functions: frozenset[str]


def names_in(text: str) -> UsedNames:
    """The names in a query or expression, without those of its own WITH.

    >>> sorted(names_in("WITH a AS (SELECT f(x) FROM b) SELECT * FROM a").tables)
    ['b']
    """
    tree = SqlText.of(f"({text})", "query").parse()
    own = {expression.alias.lower() for expression in tree.find_all(exp.CTE)}
    tables = {".".join(p.lower() for p in (t.db, t.name) if p) for t in tree.find_all(exp.Table)}
    return UsedNames(frozenset(tables - own), frozenset(call.name.lower() for call in tree.find_all(exp.Anonymous)))


def is_query(tree: ParsedText) -> bool:
    """True for a query, in contrast to an expression."""
    return isinstance(tree.node, exp.Query)


def has_query(tree: ParsedText) -> bool:
    """True for an expression with a subquery."""
    return tree.node.find(exp.Query) is not None


def variable_name(tree: ParsedText) -> str | None:
    """The name of an expression that is a name alone."""
    return str(tree.node.name).lower() if isinstance(tree.node, exp.Column) else None


def as_query(tree: ParsedText) -> ParsedText:
    """The query that selects an expression alone."""
    return ParsedText(exp.select(tree.node), tree.source)


def default_value(text: str | None, of: Type) -> Literal:
    """The value of a DEFAULT, a constant expression; NULL where there is none."""
    if text is None:
        return Literal(None, of)
    scope = DefinitionScope({}, NamedDefinitions())
    tree = scope.parsed(text, "default")
    if has_query(tree):
        raise Unsupported("a DEFAULT is no subquery", hint="Write a constant.")
    value = _converted(_scalar(scope.translator(tree.source), tree), of, "the column is")
    return Literal(evaluate_scalar(value, {}), of, typed=True)


def with_defaults(tree: ParsedText, values: Sequence[Literal]) -> ParsedText:
    """A query of INSERT whose columns have these defaults, with them where it says DEFAULT."""
    rows = tree.node.expressions if isinstance(tree.node, exp.Values) else [tree.node]
    for row in rows:
        listed = row.expressions if isinstance(row, exp.Tuple | exp.Select) else ()
        for item, value in zip(list(listed), values, strict=False):
            if isinstance(item, exp.Var | exp.Column) and item.sql().upper() == "DEFAULT":
                item.replace(bound_column("default", value))
    return tree


def is_default(tree: ParsedText) -> bool:
    """True for the word DEFAULT in place of a value."""
    return isinstance(tree.node, exp.Var | exp.Column) and tree.node.sql().upper() == "DEFAULT"


def returned_table(function: SqlFunction, rows: Relation, prefix: str) -> NamedRelation:
    """``rows`` with the columns that ``function`` declares; without any they have their own."""
    columns = function.columns or ()
    if not columns:
        return NamedRelation(rows, tuple(f.name.removeprefix(prefix) for f in rows.fields))
    if len(columns) != len(rows.fields):
        raise TypeMismatch(f'"{function.name}" returns {len(columns)} columns, and its query has {len(rows.fields)}')
    for declared, found in zip(columns, rows.fields, strict=True):
        if not can_cast(found.type, declared.type):
            raise TypeMismatch(f'column "{declared.name}" is {declared.type}, and {found.type} does not convert')
    names = [prefix + f.name for f in columns]
    return NamedRelation(cast_columns(rows, [f.type for f in columns], names), tuple(f.name for f in columns))


def _scalar(translator: QueryTranslator, tree: ParsedText) -> Scalar:
    """The value of an expression, all of which must have been translated."""
    value = translator.expressions(Scope()).scalar(tree.node)
    refuse_untranslated(tree.node, tree.source)
    return value


def _rows(translator: QueryTranslator, tree: ParsedText) -> Relation:
    """The rows of a query, all of which must have been translated."""
    rows = translator.rows(tree.node).relation
    refuse_untranslated(tree.node, tree.source)
    return rows


def _converted(value: Scalar, target: Type, what: str) -> Scalar:
    if not can_cast(value.type, target):
        raise TypeMismatch(f"{what} {target}, and {value.type} does not convert")
    return convert(value, target)
