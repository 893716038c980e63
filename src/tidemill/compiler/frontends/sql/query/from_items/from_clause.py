"""FROM and WHERE: tables, subqueries and VALUES under their aliases, and the joins between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sqlglot import exp

from tidemill.algebra.node import Relation
from tidemill.algebra.relational.match import RowsPerMatch
from tidemill.algebra.relational.relations import Filter, Scan
from tidemill.compiler.frontends.sql.expressions.generators import is_generator
from tidemill.compiler.frontends.sql.expressions.single_row import condition_with_checks
from tidemill.compiler.frontends.sql.grammar.pattern_grammar import pattern_options_of
from tidemill.compiler.frontends.sql.grammar.sql_text import SqlText
from tidemill.compiler.frontends.sql.grammar.statement_cursor import INFORMATION_SCHEMA, SCHEMA_NAMES
from tidemill.compiler.frontends.sql.grammar.table_grammar import AS_OF
from tidemill.compiler.frontends.sql.grammar.translation_marks import mark_translated
from tidemill.compiler.frontends.sql.grammar.untranslated import refuse_unsupported_arguments
from tidemill.compiler.frontends.sql.names.scope import Scope
from tidemill.compiler.frontends.sql.patterns.match_recognize import from_match_recognize
from tidemill.compiler.frontends.sql.patterns.pattern_clause import refuse_misplaced_pattern
from tidemill.compiler.frontends.sql.query.context import ONE_EMPTY_ROW, FromItem, NamedRelation, QueryContext
from tidemill.compiler.frontends.sql.query.from_items.lateral import from_lateral, from_lateral_join, is_lateral
from tidemill.compiler.frontends.sql.query.from_items.samples import from_sample
from tidemill.compiler.frontends.sql.query.from_items.table_functions import called_function, from_table_function
from tidemill.compiler.frontends.sql.query.joins.asof_join import ASOF, from_asof_join
from tidemill.compiler.frontends.sql.query.joins.join import from_join
from tidemill.compiler.frontends.sql.query.joins.temporal_join import from_temporal_join
from tidemill.compiler.frontends.sql.query.pivot import with_pivots
from tidemill.compiler.frontends.text.names import unknown_name
from tidemill.model.clocks import is_clock
from tidemill.model.errors import ParseError, TextLocation, TypeMismatch, Unsupported


def from_from_where(context: QueryContext, node: exp.Select) -> FromItem:
    """FROM and WHERE: the rows that the rest of a SELECT works on."""
    relation, scope = from_from(context, node)
    where = node.args.get("where")
    if where is None:
        return relation, scope
    expressions = replace(context.expressions(scope), clock=context.clock)
    condition = condition_with_checks(expressions.condition(where.this))
    if context.clock is None:
        return Filter(relation, condition), scope
    return context.clock.filtered(relation, condition, context.aliases), scope


def from_from(context: QueryContext, node: exp.Select) -> FromItem:
    """The FROM clause: its first item joined with all others; without one, the one empty row.

    LATERAL VIEW comes after the joins, and makes more rows of theirs.
    """
    clause = node.args.get("from_")
    seen = ONE_EMPTY_ROW if clause is None else join_items(context, *from_item(context, clause.this), node)
    for lateral in node.args.get("laterals") or ():
        seen = from_lateral(context, seen, lateral)
    return seen


def join_items(context: QueryContext, relation: Relation, scope: Scope, node: exp.Expr) -> FromItem:
    """``relation`` joined with everything that ``node`` joins to it."""
    for join in node.args.get("joins") or ():
        mark_translated(join)
        if is_lateral(join.this):
            relation, scope = from_lateral_join(context, (relation, scope), join)
        elif join.method == ASOF:
            relation, scope = from_asof_join(context, (relation, scope), from_item(context, join.this), join)
        elif join.args.get(AS_OF) is not None:
            relation, scope = from_temporal_join(context, (relation, scope), from_item(context, join.this), join)
        else:
            relation, scope = from_join(context, (relation, scope), from_item(context, join.this), join)
        relation, scope = with_pivots(context, (relation, scope), join)
    return relation, scope


def from_item(context: QueryContext, node: exp.Expr) -> FromItem:
    """One item of FROM, under its alias, with the joins that stand in parentheses with it."""
    if is_lateral(node) or (isinstance(node, exp.Table) and is_generator(node.this)):
        return join_items(context, *from_lateral(context, ONE_EMPTY_ROW, node), node)
    if not isinstance(node, exp.Table | exp.Subquery | exp.Values):
        raise ParseError("a table or a query was expected here", where=context.source.place(node))
    _refuse_misplaced(node, context.source)
    refuse_unsupported_arguments(node, context.source)
    mark_translated(node)
    if isinstance(node, exp.Subquery) and is_item(node.this):
        relation, scope = from_item(context, node.this)
        relation = from_sample(relation, node.args.get("sample"), context.source)
        called = _called(context, scope, node.args.get("alias"))
        return join_items(context, *with_pivots(context, (relation, called), node), node)
    wish = node.alias_or_name.lower() or called_function(context, node) or "subquery"
    rows = FROM_ITEM_RULES[type(node)](context, node, context.aliases.take(wish))
    rows = replace(rows, relation=from_sample(rows.relation, node.args.get("sample"), context.source))
    rows = rows.with_column_aliases(node.args.get("alias"), context.source)
    clause = node.args.get("match")
    if clause is not None and pattern_options_of(clause).output.rows is RowsPerMatch.EACH:
        refuse_misplaced_pattern(node, clause, context.source)
    elif clause is not None:
        expressions = context.row_expressions(rows.scope(wish))
        matched = NamedRelation(*from_match_recognize(rows.relation, expressions, clause, context.aliases))
        rows = matched.with_column_aliases(clause.args.get("alias"), context.source)
        wish = clause.alias.lower() or wish
    return join_items(context, *with_pivots(context, (rows.relation, rows.scope(wish)), node), node)


def _refuse_misplaced(node: exp.Expr, source: SqlText) -> None:
    """Refuse a version, which is left where none can be."""
    version = node.args.get("version")
    if version is not None:
        raise Unsupported(
            "VERSION AS OF is not supported here",
            where=source.place(version.expression),
            detail="A view follows the present rows of what it reads, and so does what is stored.",
            hint="Use it in a SELECT that is run as a statement, behind a table or a materialized view.",
        )


def is_item(node: exp.Expr) -> bool:
    """True for what stands in parentheses as an item of FROM, perhaps with joins, and is no query."""
    if isinstance(node, exp.Subquery):
        return bool(node.alias or node.args.get("joins")) or is_item(node.this)
    return isinstance(node, exp.Table | exp.Lateral | exp.Unnest) or bool(isinstance(node, exp.Values) and node.alias)


def _called(context: QueryContext, scope: Scope, alias: exp.TableAlias | None) -> Scope:
    """The columns of a join in parentheses, which may have an alias of its own, with names for its columns."""
    if alias is None:
        return scope
    shown = scope.called(alias.name.lower() if alias.this else "")
    names = [identifier.name.lower() for identifier in alias.columns] or [b.name for b in shown.bindings]
    if len(names) != len(shown.bindings):
        raise TypeMismatch(
            f"{len(names)} names are given for {len(shown.bindings)} columns", where=context.source.place(alias)
        )
    pairs = zip(shown.bindings, names, strict=True)
    return replace(shown, bindings=tuple(replace(binding, name=name) for binding, name in pairs))


def from_table(context: QueryContext, node: exp.Table, alias: str) -> NamedRelation:
    """A table, stream, view or common table expression by its name, or a table of a source as ``source.table``."""
    name = ".".join(part.lower() for part in (node.catalog, node.db, node.name) if part)
    if not isinstance(node.this, exp.Identifier):
        return from_table_function(context, node, alias)
    if name not in context.tables and name not in context.relations:
        schema = tuple(part.lower() for part in (node.catalog, node.db) if part)
        name = node.name.lower() if schema in SCHEMA_NAMES else name
        if schema == ("spark_catalog", INFORMATION_SCHEMA):
            name = f"{INFORMATION_SCHEMA}.{node.name.lower()}"
    if name in context.tables:
        return context.tables[name](alias)
    if name not in context.relations:
        if name.startswith(f"{INFORMATION_SCHEMA}.") and not any(INFORMATION_SCHEMA in n for n in context.relations):
            raise _no_information_here(name, context.source.place(node))
        known = (*context.tables, *(one for one in context.relations if not is_clock(one)))
        if INFORMATION_SCHEMA not in name:
            known = tuple(one for one in known if not one.startswith(INFORMATION_SCHEMA))
        raise unknown_name("table or view", name, known, context.source.place(node))
    fields = context.relations[name]
    return NamedRelation(Scan(name, alias, fields), tuple(f.name for f in fields))


def _no_information_here(name: str, place: TextLocation) -> Unsupported:
    return Unsupported(
        f'"{name}" cannot be read here',
        where=place,
        detail="It shows the catalog at the moment of a statement; a view, and what is stored, follows rows of tables.",
        hint="Use it in a SELECT that is run as a statement.",
    )


def from_subquery(context: QueryContext, node: exp.Subquery, alias: str) -> NamedRelation:
    """A query in FROM."""
    return replace(context, prefix=f"{alias}.").rows(node.this)


def from_constants(context: QueryContext, node: exp.Values, alias: str) -> NamedRelation:
    """VALUES in FROM."""
    return replace(context, prefix=f"{alias}.").rows(node)


FROM_ITEM_RULES: dict[type[exp.Expr], Callable[[QueryContext, Any, str], NamedRelation]] = {
    exp.Subquery: from_subquery,
    exp.Table: from_table,
    exp.Values: from_constants,
}
