"""Queries: from a parse tree to algebra, one ``from_...`` for each construct.

Every table, subquery and common table expression in FROM gets an alias that no other one has in the whole query, and
its columns are prefixed with it. So the columns of a join never clash, at any depth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlglot import exp

from tidemill.algebra.expressions.scalars import Named
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Project, Values
from tidemill.compiler.frontends.sql.grammar.pipe_grammar import Piped
from tidemill.compiler.frontends.sql.grammar.translation_marks import mark_translated
from tidemill.compiler.frontends.sql.grammar.untranslated import refuse_unsupported_arguments
from tidemill.compiler.frontends.sql.names.projections import all_columns
from tidemill.compiler.frontends.sql.names.scope import Scope
from tidemill.compiler.frontends.sql.patterns.pattern_clause import from_pattern, pattern_of
from tidemill.compiler.frontends.sql.query.common_tables import check_tables, with_common_tables
from tidemill.compiler.frontends.sql.query.context import NamedRelation, QueryContext
from tidemill.compiler.frontends.sql.query.from_items.from_clause import from_from, from_from_where
from tidemill.compiler.frontends.sql.query.from_items.values import constant_rows
from tidemill.compiler.frontends.sql.query.limit import apply_limit, has_order_or_limit, limit_of, offset_of
from tidemill.compiler.frontends.sql.query.order_by import (
    MODIFIERS,
    ColumnOrder,
    OrderedQuery,
    column_order,
    named_position,
    unwrap_query,
)
from tidemill.compiler.frontends.sql.query.pipes import from_piped, ordered_pipes
from tidemill.compiler.frontends.sql.query.recursion import limited_recursion
from tidemill.compiler.frontends.sql.query.select import Selection
from tidemill.compiler.frontends.sql.query.set_operations import from_set_operation
from tidemill.compiler.frontends.sql.windows.session_windows import session_windows_of
from tidemill.compiler.frontends.sql.windows.time_windows import with_time_windows
from tidemill.model.errors import ParseError
from tidemill.model.types import Field

CLAUSES_ABOVE_WHERE = ("group", "having", "qualify")
"""The clauses of a SELECT above its FROM and WHERE."""


class QueryTranslator(QueryContext):
    """Translates queries: ``rows`` for those whose order means nothing, ``ordered`` for one that is answered once."""

    def rows(self, node: exp.Expr) -> NamedRelation:
        """The rows of a query: SELECT, UNION, VALUES, or one of them in parentheses."""
        refuse_unsupported_arguments(node, self.source)
        mark_translated(node)
        if type(node) not in QUERY_RULES:
            raise ParseError("a query was expected here", where=self.source.place(node))
        if has_order_or_limit(node):
            query = self.ordered(node)
            return NamedRelation(apply_limit(query), query.names)
        within = with_common_tables(self, node)
        rows = QUERY_RULES[type(node)](within, node)
        check_tables(within, node)
        return rows

    def ordered(self, node: exp.Expr) -> OrderedQuery:
        """The query ``node``, and how its rows are to be arranged."""
        node = unwrap_query(node)
        within = with_common_tables(self, node)
        limit, offset = limit_of(node, self.source, self.outer), offset_of(node, self.source, self.outer)
        terms = node.args["order"].expressions if node.args.get("order") else []
        bare = node.copy()
        for clause in (*MODIFIERS, "with_"):
            bare.set(clause, None)
        refuse_unsupported_arguments(bare, self.source)
        mark_translated(node)
        relation, names, order = within._ordered_rows(bare, terms)
        check_tables(within, node)
        if limit is not None and not order and (counted := limited_recursion(relation, limit + (offset or 0))):
            relation, order = counted, ((len(names), False, True),)
        return OrderedQuery(relation, names, order, limit, offset)

    def _ordered_rows(
        self, node: exp.Expr, terms: Sequence[exp.Expr]
    ) -> tuple[Relation, tuple[str, ...], tuple[ColumnOrder, ...]]:
        """A SELECT may be ordered by columns that it does not output: these follow the visible ones."""
        if isinstance(node, Piped):
            return ordered_pipes(self, node, terms)
        everything = terms[0] if len(terms) == 1 and _is_all(terms[0].this) else None
        if everything is None:
            terms = [_by_column_all(term) if _is_all(term.this) else term for term in terms]
        if not isinstance(node, exp.Select):
            return self._ordered_operation(self.rows(node), terms, everything)
        selection = self.selection(node, extra=() if everything else terms)
        if everything is not None and selection.is_name("all"):
            terms, everything = [_by_column_all(everything)], None
        if everything is not None:
            order = tuple(column_order(everything, position) for position in range(len(selection.items)))
        else:
            order = tuple(column_order(term, selection.order_position(term.this)) for term in terms)
        return *selection.relation_and_names(), order

    def _ordered_operation(
        self, rows: NamedRelation, terms: Sequence[exp.Expr], everything: exp.Expr | None
    ) -> tuple[Relation, tuple[str, ...], tuple[ColumnOrder, ...]]:
        """A UNION or VALUES by its columns, or by expressions over them, which follow the visible ones."""
        if everything is not None and "all" in rows.names:
            terms, everything = [_by_column_all(everything)], None
        if everything is not None:
            return rows.relation, rows.names, tuple(column_order(everything, i) for i in range(len(rows.names)))
        order: list[ColumnOrder] = []
        added: list[Named] = []
        expressions = self.expressions(rows.scope(""))
        for term in terms:
            position = named_position(rows.names, term.this, self.source)
            if position is None:
                added.append(Named(f"{self.prefix}order_{len(added) + 1}", expressions.scalar(term.this)))
                position = len(rows.names) + len(added) - 1
            order.append(column_order(term, position))
        relation = rows.relation
        if added:
            relation = Project(relation, (*all_columns(relation), *added))
        return relation, rows.names, tuple(order)

    def selection(self, node: exp.Select, extra: Sequence[exp.Expr] = ()) -> Selection:
        """A SELECT whose FROM and WHERE are translated; ``extra`` are the expressions of its ORDER BY."""
        if pattern_of(node) is not None:
            relation, scope = from_from(self, node)
            node, relation, scope = from_pattern(node, relation, self.row_expressions(scope), extra, self.aliases)
            return Selection(self.expressions(scope), node, relation, self.prefix, extra, self.aliases)
        parts = (
            *node.expressions,
            *(node.args[clause] for clause in CLAUSES_ABOVE_WHERE if node.args.get(clause)),
            *extra,
        )
        relation, scope = from_from_where(self, node)
        relation, scope = with_time_windows(relation, self.expressions(scope), parts, self.aliases)
        sessions = session_windows_of(self.expressions(scope), parts, self.aliases)
        rows = self.expressions(scope if sessions is None else scope + sessions.scope)
        return Selection(rows, node, relation, self.prefix, extra, self.aliases, sessions)

    def from_select(self, node: exp.Select) -> NamedRelation:
        """SELECT: FROM, WHERE, GROUP BY, HAVING, the list, DISTINCT, in this order."""
        return NamedRelation(*self.selection(node).relation_and_names())

    def from_set_operands(self, node: exp.SetOperation) -> NamedRelation:
        """UNION, INTERSECT or EXCEPT of two queries."""
        left, right = self.rows(node.this), self.rows(node.expression)
        return NamedRelation(from_set_operation(node, left.relation, right.relation, self.source), left.names)

    def from_values(self, node: exp.Values) -> NamedRelation:
        """VALUES: constant rows; columns are called ``col1``, ``col2`` ..."""
        rows, types = constant_rows(self.expressions(Scope()), node)
        names = tuple(f"col{position}" for position in range(1, len(types) + 1))
        nullable = [any(row[i] is None for row in rows) for i in range(len(types))]
        columns = (Field(self.prefix + name, of, null) for name, of, null in zip(names, types, nullable, strict=True))
        made = NamedRelation(Values(rows, tuple(columns)), names)
        return made.with_column_aliases(node.args.get("alias"), self.source)

    def from_parentheses(self, node: exp.Subquery) -> NamedRelation:
        """A query in parentheses."""
        if node.alias:
            raise ParseError("a query has an alias in FROM only", where=self.source.place(node.args["alias"]))
        return self.rows(node.this)

    def from_whole_table(self, node: exp.Table) -> NamedRelation:
        """``TABLE t`` and a bare name in parentheses: all of its rows."""
        return self.rows(exp.select("*").from_(node))


def _is_all(node: exp.Expr) -> bool:
    """True for the ALL of ORDER BY ALL, which then has been read."""
    found = isinstance(node, exp.Var) and node.name.upper() == "ALL"
    mark_translated(*([node] if found else []))
    return found


def _by_column_all(term: exp.Expr) -> exp.Expr:
    """ORDER BY ALL where that is a column."""
    copy = term.copy()
    copy.set("this", exp.column("all"))
    return copy


QUERY_RULES: dict[type[exp.Expr], Callable[[QueryTranslator, Any], NamedRelation]] = {
    exp.Except: QueryTranslator.from_set_operands,
    exp.Intersect: QueryTranslator.from_set_operands,
    exp.Select: QueryTranslator.from_select,
    exp.Subquery: QueryTranslator.from_parentheses,
    exp.Table: QueryTranslator.from_whole_table,
    exp.Union: QueryTranslator.from_set_operands,
    exp.Values: QueryTranslator.from_values,
    Piped: from_piped,
}
