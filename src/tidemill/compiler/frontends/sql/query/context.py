"""The context in which a query is translated: relations and common table expressions by name, and unique aliases."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from tidemill.algebra.expressions.scalars import column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Aggregate, Values
from tidemill.algebra.relational.walk import columns_in, walk
from tidemill.compiler.frontends.sql.expressions.translator import ExpressionRules, ExpressionTranslator
from tidemill.compiler.frontends.sql.grammar.sql_text import SqlText
from tidemill.compiler.frontends.sql.names.scope import Binding, Scope
from tidemill.compiler.frontends.sql.query.time_filters import ClockReads
from tidemill.compiler.frontends.sql.rules import EXPRESSION_RULES
from tidemill.compiler.frontends.text.names import NameAllocator
from tidemill.model.errors import TypeMismatch, Unsupported
from tidemill.model.schema import RelationFields, Table

FromItem = tuple[Relation, Scope]
"""An item of FROM, and the columns that it brings into scope."""

ONE_EMPTY_ROW: FromItem = Values(((),), ()), Scope()
"""The one empty row, without any column."""


def no_table(name: str) -> Table | None:
    """No table has a declaration that matters."""
    return None


@dataclass(frozen=True)
class NamedRelation:
    """A relation and the names that a query has for its columns: these may repeat, the relation's own never do."""

    relation: Relation
    names: tuple[str, ...]

    def scope(self, alias: str) -> Scope:
        """The columns in scope when this is the item ``alias`` of FROM."""
        pairs = zip(self.names, self.relation.fields, strict=True)
        return Scope(tuple(Binding(alias, name, column(field_)) for name, field_ in pairs))

    def with_column_aliases(self, alias: exp.TableAlias | None, source: SqlText) -> NamedRelation:
        """The same with the column names of ``AS t (a, b)``."""
        names = tuple(identifier.name.lower() for identifier in alias.columns) if alias else ()
        if names and len(names) != len(self.names):
            raise TypeMismatch(
                f"{len(names)} names are given for {len(self.names)} columns", where=source.place(alias or exp.Null())
            )
        return replace(self, names=names or self.names)


TableFunction = Callable[[ExpressionTranslator, exp.Anonymous, str], NamedRelation]
"""From a translator for arguments, a call, and the alias under which it is read, to its rows."""


@dataclass(frozen=True)
class QueryContext(ABC):
    """The names that a query may refer to: known relations, and the common table expressions in scope.

    ``prefix`` goes before the names of the columns that the query makes; that of the outermost query is empty.
    ``outer`` are the columns around a query in an expression. ``definitions`` are the common table expressions that
    are read by name, for ``translate`` to put around the whole; None where none can be. ``rules`` include functions
    that are defined in SQL, and ``table_functions`` those of them that make a table. ``clock`` is that of a
    materialized view. ``table_of`` has the declarations of tables by name.
    """

    source: SqlText
    relations: RelationFields
    aliases: NameAllocator = field(default_factory=NameAllocator)
    tables: Mapping[str, Callable[[str], NamedRelation]] = field(default_factory=dict)
    prefix: str = ""
    outer: Scope | None = None
    definitions: list[tuple[str, Relation]] | None = None
    rules: ExpressionRules = EXPRESSION_RULES
    table_functions: Mapping[str, TableFunction] = field(default_factory=dict)
    clock: ClockReads | None = None
    table_of: Callable[[str], Table | None] = no_table

    @abstractmethod
    def rows(self, node: exp.Expr) -> NamedRelation:
        """The rows of a query: SELECT, UNION, VALUES, or one of them in parentheses."""

    def row_expressions(self, scope: Scope) -> ExpressionTranslator:
        """A translator for expressions over the columns of ``scope`` alone, without subqueries or outer columns."""
        return ExpressionTranslator(self.rules, self.source, scope)

    def expressions(self, scope: Scope) -> ExpressionTranslator:
        """A translator for expressions over ``scope`` and the columns around the query, with subqueries."""
        return replace(self.row_expressions(replace(scope, outer=self.outer)), subquery=self.subquery)

    def subquery(self, node: exp.Expr, scope: Scope) -> Relation:
        """A query in an expression over ``scope``."""
        relation = replace(self, prefix=f"{self.aliases.take('subquery')}.", outer=scope).rows(node).relation
        for grouped in (part for part in walk(relation) if isinstance(part, Aggregate)):
            own = {f.name for f in grouped.input.fields}
            if any(not columns_in(key.scalar) <= own for key in grouped.keys):
                raise Unsupported(
                    "a subquery cannot be grouped by an outer column",
                    where=self.source.place(node),
                    hint="It is constant within the subquery: leave it out of GROUP BY.",
                )
        return relation
