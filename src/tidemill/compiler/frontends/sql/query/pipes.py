"""Queries with ``|>``: each step works on the rows and the names that the one before it leaves.

As in Spark, columns keep the names of the tables that they come from until a step computes them anew, or ``AS``
gives them another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from tidemill.algebra.expressions.collations import key
from tidemill.algebra.expressions.scalars import Column, Named, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Filter, Project
from tidemill.compiler.frontends.sql.aggregation.grouping import has_aggregate
from tidemill.compiler.frontends.sql.expressions.single_row import condition_with_checks
from tidemill.compiler.frontends.sql.expressions.stars import bound_column
from tidemill.compiler.frontends.sql.grammar.pipe_grammar import Piped, PipeStep
from tidemill.compiler.frontends.sql.grammar.translation_marks import mark_translated
from tidemill.compiler.frontends.sql.grammar.untranslated import refuse_unsupported_arguments
from tidemill.compiler.frontends.sql.names.projections import all_columns
from tidemill.compiler.frontends.sql.names.scope import Binding, Scope
from tidemill.compiler.frontends.sql.query.context import FromItem, NamedRelation, QueryContext
from tidemill.compiler.frontends.sql.query.from_items.from_clause import from_from, from_item, join_items
from tidemill.compiler.frontends.sql.query.from_items.samples import from_sample
from tidemill.compiler.frontends.sql.query.limit import apply_limit, limit_of, offset_of
from tidemill.compiler.frontends.sql.query.order_by import ColumnOrder, OrderedQuery, column_order
from tidemill.compiler.frontends.sql.query.pivot import with_pivots
from tidemill.compiler.frontends.sql.query.select import Selection
from tidemill.compiler.frontends.sql.query.set_operations import from_set_operation
from tidemill.compiler.frontends.text.names import NameAllocator, unknown_name
from tidemill.model.errors import ParseError, Unsupported


@dataclass(frozen=True)
class PipeRows:
    """The rows after a step and their names; ``order`` has the terms of ORDER BY, for a LIMIT that follows."""

    relation: Relation
    scope: Scope
    order: tuple[exp.Expr, ...] = ()


def from_piped(context: QueryContext, node: Piped) -> NamedRelation:
    """The rows of a query with pipes."""
    relation, names, _ = ordered_pipes(context, node, ())
    return NamedRelation(relation, names)


def ordered_pipes(
    context: QueryContext, node: Piped, terms: Sequence[exp.Expr]
) -> tuple[Relation, tuple[str, ...], tuple[ColumnOrder, ...]]:
    """The rows of a query with pipes, its names, and the order by ``terms``, whose columns follow the visible ones."""
    rows = _piped(context, node)
    shown = rows.scope.star()
    relation, order = _with_order(context, rows, terms)
    names, hidden = NameAllocator(), [Column(f.name, f.type, f.nullable) for f in relation.fields]
    added = [hidden[position] for position, *_ in order]
    outputs = [
        *(Named(context.prefix + names.take(binding.name), binding.column) for binding in shown),
        *(Named(context.prefix + names.take("order"), one) for one in added),
    ]
    placed = tuple((len(shown) + place, desc, nulls) for place, (_, desc, nulls) in enumerate(order))
    return Project(relation, tuple(outputs)), tuple(binding.name for binding in shown), placed


def _piped(context: QueryContext, node: Piped) -> PipeRows:
    rows = PipeRows(*_source(context, node.this))
    for step in node.expressions:
        mark_translated(step)
        rows = STEPS.get(step.args["kind"], _join)(context, rows, step)
    return rows


def _source(context: QueryContext, node: exp.Expr) -> FromItem:
    """The rows before the first step; of tables and joins the names stay those of FROM."""
    if isinstance(node, exp.Select) and _is_whole(node):
        mark_translated(node, *node.expressions)
        return from_from(context, node)
    if isinstance(node, exp.Subquery | exp.Values) and node.alias:
        return from_item(context, node)
    rows = replace(context, prefix=f"{context.aliases.take('pipe')}.").rows(node)
    return rows.relation, rows.scope("")


def _is_whole(node: exp.Select) -> bool:
    """True for ``SELECT * FROM ...`` with joins alone: what the parser makes of ``FROM t`` and ``TABLE t``."""
    given = {name for name, value in node.args.items() if value}
    return given <= {"expressions", "from_", "joins", "laterals"} and node.expressions == [exp.Star()]


# --------------------------------------------------------------------------------------------------- rows and columns


def _where(context: QueryContext, rows: PipeRows, step: PipeStep) -> PipeRows:
    mark_translated(step.this)
    condition = context.expressions(rows.scope).condition(step.this.this)
    return PipeRows(Filter(rows.relation, condition_with_checks(condition)), rows.scope)


def _select(context: QueryContext, rows: PipeRows, step: PipeStep) -> PipeRows:
    select = step.this
    refuse_unsupported_arguments(select, context.source)
    mark_translated(select)
    for clause in ("from_", "where", "group", "having", "qualify", "joins", "laterals", "with_"):
        if select.args.get(clause):
            raise ParseError("SELECT after |> takes a list alone", where=context.source.place(step))
    return _selected(context, rows, select)


def _extend(context: QueryContext, rows: PipeRows, step: PipeStep) -> PipeRows:
    _refuse_aggregates(context, step.expressions)
    for item in step.expressions:
        if isinstance(item, exp.Star):
            raise Unsupported("EXTEND takes expressions", where=context.source.place(step))
    merged = [binding for binding in rows.scope.bindings if binding.merged]
    kept = [bound_column(binding.name, binding.column) for binding in merged]
    made = _selected(context, rows, exp.Select(expressions=[exp.Star(), *step.expressions, *kept]))
    shown = len(made.scope.bindings) - len(merged)
    pairs = zip(merged, made.scope.bindings[shown:], strict=True)
    again = tuple(replace(binding, column=one.column) for binding, one in pairs)
    return PipeRows(made.relation, replace(made.scope, bindings=(*made.scope.bindings[:shown], *again)))


def _set(context: QueryContext, rows: PipeRows, step: PipeStep) -> PipeRows:
    """Columns computed anew, one after the other: each sees those before it."""
    _refuse_aggregates(context, step.expressions)
    for assignment in step.expressions:
        mark_translated(assignment, assignment.this)
        name = assignment.this.name.lower()
        if len(assignment.this.parts) > 1:
            raise ParseError("SET takes names without a table", where=context.source.place(assignment.this))
        shown = rows.scope.star()
        if [binding.name for binding in shown].count(name) != 1:
            raise unknown_name("column", name, [b.name for b in shown], context.source.place(assignment.this))
        shown += [binding for binding in rows.scope.bindings if binding.merged]
        hidden, items = _hidden(shown), []
        for place, binding in enumerate(shown):
            anew = binding.name == name and not binding.merged
            new = assignment.expression if anew else _column(hidden[place].name)
            items.append(exp.Alias(this=new, alias=exp.to_identifier(f"set{place}")))
        scope = replace(rows.scope, bindings=(*rows.scope.bindings, *hidden))
        made = _selected(context, PipeRows(rows.relation, scope), exp.Select(expressions=items))
        pairs = zip(shown, made.scope.bindings, strict=True)
        bindings = tuple(
            replace(b, column=one.column, qualifier=b.qualifier if b.name != name or b.merged else "")
            for b, one in pairs
        )
        rows = PipeRows(made.relation, replace(rows.scope, bindings=bindings))
    return rows


def _drop(context: QueryContext, rows: PipeRows, step: PipeStep) -> PipeRows:
    found: list[Column] = []
    for name in step.expressions:
        mark_translated(name)
        parts = [part.name.lower() for part in name.parts] if isinstance(name, exp.Column) else [name.name.lower()]
        with context.source.locating(name):
            one = rows.scope.find(parts)
            if one is None or one[1]:
                raise rows.scope.unknown(parts)
        if one[0] in found:
            raise ParseError("a column is dropped once", where=context.source.place(name))
        found.append(one[0])
    kept = tuple(binding for binding in rows.scope.bindings if not binding.hidden and binding.column not in found)
    return PipeRows(rows.relation, replace(rows.scope, bindings=kept))


def _as(context: QueryContext, rows: PipeRows, step: PipeStep) -> PipeRows:
    return PipeRows(rows.relation, rows.scope.called(step.this.name.lower()))


def _refuse_aggregates(context: QueryContext, items: Sequence[exp.Expr]) -> None:
    for item in items:
        if has_aggregate(item):
            raise Unsupported(
                "an aggregate is not allowed here", where=context.source.place(item), hint="Use |> AGGREGATE."
            )


def _selected(context: QueryContext, rows: PipeRows, select: exp.Select) -> PipeRows:
    """A SELECT list over ``rows``; plain columns keep the names of their tables."""
    alias = context.aliases.take("pipe")
    selection = Selection(context.expressions(rows.scope), select, rows.relation, f"{alias}.", (), context.aliases)
    relation, names = selection.relation_and_names()
    aliased = {id(item.this) for item in select.expressions if isinstance(item, exp.Alias)}
    qualifiers = {binding.column: binding.qualifier for binding in reversed(rows.scope.bindings)}
    seen: dict[tuple[str, Column], Column] = {}
    bindings = []
    for item, name, field in zip(selection.items, names, relation.fields, strict=True):
        own, qualifier = column(field), ""
        if isinstance(item.scalar, Column) and id(item.node) not in aliased:
            qualifier = qualifiers.get(item.scalar, "")
            own = seen.setdefault((name, item.scalar), own)  # the same column twice is one, not an ambiguous name
        bindings.append(Binding(qualifier, name, own))
    return PipeRows(relation, replace(rows.scope, bindings=tuple(bindings)))


# ---------------------------------------------------------------------------------------------------------- aggregates


def _aggregate(context: QueryContext, rows: PipeRows, step: PipeStep) -> PipeRows:
    """The keys of GROUP BY, which may have aliases, and then the aggregates."""
    for item in step.expressions:
        if not has_aggregate(item) or item.find(exp.Window):
            raise Unsupported("AGGREGATE takes aggregates", where=context.source.place(item))
    group = step.args.get("group")
    keys = [] if group is None else [_key(context, rows, one) for one in group.expressions]
    mark_translated(*([] if group is None else [group]))
    hidden = _hidden(rows.scope.star())
    select = exp.Select(expressions=[*keys, *step.expressions])
    if keys:
        select.set("group", exp.Group(expressions=[key.unalias().copy() for key in keys]))
    scope = replace(rows.scope, bindings=(*rows.scope.bindings, *hidden))
    made = _selected(context, PipeRows(rows.relation, scope), select)
    numbered = {binding.name: real for binding, real in zip(hidden, rows.scope.star(), strict=True)}
    bindings = tuple(
        replace(b, name=numbered[b.name].name, qualifier=numbered[b.name].qualifier) if b.name in numbered else b
        for b in made.scope.bindings
    )
    return PipeRows(made.relation, replace(made.scope, bindings=bindings))


def _key(context: QueryContext, rows: PipeRows, node: exp.Expr) -> exp.Expr:
    """A key of GROUP BY: a number is that of a column of the rows."""
    inner = node.unalias()
    mark_translated(node)
    if isinstance(inner, exp.Anonymous) and inner.name.lower() in ("rollup", "cube", "grouping_sets"):
        raise Unsupported(f"AGGREGATE takes no {inner.name.upper()}", where=context.source.place(node))
    if isinstance(inner, exp.Column) and inner.name.upper() == "ALL" and rows.scope.find(["all"]) is None:
        raise Unsupported("AGGREGATE takes no GROUP BY ALL", where=context.source.place(node))
    if isinstance(inner, exp.Literal) and not inner.is_string and inner.name.isdigit():
        mark_translated(inner)
        shown = rows.scope.star()
        if not 1 <= int(inner.name) <= len(shown):
            raise ParseError(f"there is no column number {inner.name}", where=context.source.place(inner))
        return _column(_hidden(shown)[int(inner.name) - 1].name)
    return node


def _hidden(bindings: Sequence[Binding]) -> list[Binding]:
    """``bindings`` under names that no text has."""
    return [Binding("", f"\0column{place}", b.column, hidden=True) for place, b in enumerate(bindings)]


def _column(name: str) -> exp.Column:
    return exp.Column(this=exp.to_identifier(name, quoted=True))


# ------------------------------------------------------------------------------------------------- joins, sets, order


def _join(context: QueryContext, rows: PipeRows, step: PipeStep) -> PipeRows:
    return PipeRows(*join_items(context, rows.relation, rows.scope, exp.Table(joins=[step.this])))


def _pivot(context: QueryContext, rows: PipeRows, step: PipeStep) -> PipeRows:
    return PipeRows(*with_pivots(context, (rows.relation, rows.scope), exp.Table(pivots=[step.this])))


def _sample(context: QueryContext, rows: PipeRows, step: PipeStep) -> PipeRows:
    return PipeRows(from_sample(rows.relation, step.this, context.source), rows.scope)


def _set_operation(context: QueryContext, rows: PipeRows, step: PipeStep) -> PipeRows:
    mark_translated(step.this, *step.this.this.walk())
    shown, alias = rows.scope.star(), context.aliases.take("pipe")
    outputs = [Named(f"{alias}.{place}", binding.column) for place, binding in enumerate(shown)]
    left = Project(rows.relation, tuple(outputs))
    right = replace(context, prefix=f"{context.aliases.take('pipe')}.").rows(step.this.expression)
    relation = from_set_operation(step.this, left, right.relation, context.source)
    pairs = zip(shown, relation.fields, strict=True)
    bindings = tuple(replace(binding, column=column(field)) for binding, field in pairs)
    return PipeRows(relation, replace(rows.scope, bindings=bindings))


def _order(context: QueryContext, rows: PipeRows, step: PipeStep) -> PipeRows:
    """ORDER BY: its terms are checked, and kept for a LIMIT."""
    mark_translated(step.args["order"])
    terms = tuple(step.args["order"].expressions)
    _with_order(context, rows, terms)
    return PipeRows(rows.relation, rows.scope, terms)


def _spread(context: QueryContext, rows: PipeRows, step: PipeStep) -> PipeRows:
    """SORT BY, DISTRIBUTE BY and CLUSTER BY say where rows are computed."""
    _with_order(context, rows, step.expressions)
    return PipeRows(rows.relation, rows.scope)


def _limit(context: QueryContext, rows: PipeRows, step: PipeStep) -> PipeRows:
    relation, order = _with_order(context, rows, rows.order)
    query = OrderedQuery(
        relation,
        tuple(f.name for f in rows.relation.fields),
        order,
        limit_of(step, context.source, context.outer),
        offset_of(step, context.source, context.outer),
    )
    return PipeRows(apply_limit(query), rows.scope)


def _with_order(
    context: QueryContext, rows: PipeRows, terms: Sequence[exp.Expr]
) -> tuple[Relation, tuple[ColumnOrder, ...]]:
    """The rows with a column for each of ``terms`` at their end, and the order by these."""
    if not terms:
        return rows.relation, ()
    shown, expressions = rows.scope.star(), context.expressions(rows.scope)
    alias, order = context.aliases.take("order"), []
    added: list[Named] = []
    for term in terms:
        mark_translated(term)
        node = term.this
        number = int(node.name) if isinstance(node, exp.Literal) and node.name.isdigit() else 0
        if 1 <= number <= len(shown):
            mark_translated(node)
        scalar = shown[number - 1].column if 1 <= number <= len(shown) else expressions.scalar(node)
        order.append(column_order(term, len(rows.relation.fields) + len(added)))
        added.append(Named(f"{alias}.{len(added)}", key(scalar)))
    return Project(rows.relation, (*all_columns(rows.relation), *added)), tuple(order)


STEPS: dict[str, Callable[[QueryContext, PipeRows, PipeStep], PipeRows]] = {
    "SELECT": _select,
    "WHERE": _where,
    "EXTEND": _extend,
    "SET": _set,
    "DROP": _drop,
    "AS": _as,
    "AGGREGATE": _aggregate,
    **dict.fromkeys(("PIVOT", "UNPIVOT"), _pivot),
    **dict.fromkeys(("UNION", "INTERSECT", "EXCEPT", "MINUS"), _set_operation),
    "ORDER": _order,
    "TABLESAMPLE": _sample,
    **dict.fromkeys(("SORT", "CLUSTER", "DISTRIBUTE"), _spread),
    **dict.fromkeys(("LIMIT", "OFFSET"), _limit),
}
"""The function of each operator by its keyword; any other is a join."""
