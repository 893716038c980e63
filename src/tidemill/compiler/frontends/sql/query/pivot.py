"""PIVOT: groups with a column for each listed value; UNPIVOT: a row for each listed column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce

from sqlglot import exp

from tidemill.algebra.evaluate import evaluate_scalar
from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.conversions import convert
from tidemill.algebra.expressions.scalars import Column, Literal, Named, Scalar, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Filter, Project
from tidemill.algebra.relational.walk import columns_in
from tidemill.algebra.values.casts import can_cast
from tidemill.algebra.values.coercion import common_type
from tidemill.compiler.frontends.sql.aggregation.aggregates import is_aggregate
from tidemill.compiler.frontends.sql.aggregation.grouping import has_aggregate
from tidemill.compiler.frontends.sql.expressions.generators import GeneratedRows
from tidemill.compiler.frontends.sql.grammar.translation_marks import mark_translated
from tidemill.compiler.frontends.sql.names.column_labels import column_label
from tidemill.compiler.frontends.sql.names.projections import all_columns
from tidemill.compiler.frontends.sql.names.scope import Binding, Scope
from tidemill.compiler.frontends.sql.query.context import FromItem, QueryContext
from tidemill.compiler.frontends.sql.query.select import Selection
from tidemill.model import types as t
from tidemill.model.errors import NameTaken, ParseError, TypeMismatch, Unsupported
from tidemill.model.types import STRING, Type

NUMERIC = (t.DOUBLE, t.FLOAT, t.BOOLEAN, t.TINYINT, t.SMALLINT, t.INT, t.BIGINT)
"""Where all aggregates have these types or DECIMAL, Spark gives NULL for a value that a group does not have, even of
COUNT: it groups by the value as well. Else it aggregates over NULLs in place of the rows with other values."""

NULL_OVER_NOTHING = ("sum", "avg", "mean", "min", "max")
"""Aggregates that are NULL over no rows."""

SKIPPING_NULLS = ("first", "first_value", "last", "last_value", "any_value")
"""Aggregates that leave out NULLs where Spark aggregates over NULLs in place of other rows."""

AROUND_AGGREGATES = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)


def with_pivots(context: QueryContext, item: FromItem, node: exp.Expr) -> FromItem:
    """``item`` with the PIVOT and UNPIVOT clauses of ``node``, one after the other."""
    for clause in node.args.get("pivots") or ():
        mark_translated(clause, *clause.args["fields"])
        item = (_from_unpivot if clause.args["unpivot"] else _from_pivot)(context, item, clause)
        item = item[0], _called(context, item[1], clause.args.get("alias"))
    return item


def _called(context: QueryContext, scope: Scope, alias: exp.TableAlias | None) -> Scope:
    if alias is not None and alias.columns:
        raise ParseError("names of columns are not allowed here", where=context.source.place(alias))
    return scope if alias is None else scope.called(alias.name.lower())


# --------------------------------------------------------------------------------------------------------------- PIVOT


@dataclass(frozen=True)
class Pivot:
    """The parts of PIVOT over the columns of ``scope``.

    ``columns`` are those after FOR. ``values`` are the conditions that a row has a listed value, with the name for that
    value, and ``aggregates`` are expressions with their names. The groups are by ``keys``, all other columns.
    """

    scope: Scope
    columns: tuple[Column, ...]
    values: tuple[tuple[Scalar, str], ...]
    aggregates: tuple[tuple[exp.Expr, str], ...]

    @property
    def keys(self) -> list[Binding]:
        """The columns that neither FOR nor an aggregate mentions."""
        read = {own.name for own in self.columns}
        for aggregate, _ in self.aggregates:
            for node in aggregate.find_all(exp.Column):
                found = self.scope.find([part.name.lower() for part in node.parts])
                read |= {found[0].name} if found else set()
        return [binding for binding in self.scope.star() if binding.column.name not in read]

    @property
    def names(self) -> list[str]:
        """The names of the columns that it makes: value by value, and for each all aggregates."""
        one = len(self.aggregates) == 1
        return [label if one else f"{label}_{name}" for _, label in self.values for _, name in self.aggregates]


def _from_pivot(context: QueryContext, item: FromItem, node: exp.Pivot) -> FromItem:
    """Groups by the columns that PIVOT does not mention; in them each aggregate for each listed value."""
    relation, scope = item
    (listed,) = node.args["fields"]
    columns = tuple(_pivoted(context, scope, name) for name in _members(listed.this))
    values = tuple(_value(context, columns, value) for value in listed.expressions)
    pivot = Pivot(scope, columns, values, tuple(_aggregate(context, one) for one in node.expressions))
    found = _pivoted_rows(context, relation, pivot)
    labels = [*((key.qualifier, key.name) for key in pivot.keys), *(("", name) for name in pivot.names)]
    pairs = zip(labels, found.fields, strict=True)
    return found, replace(scope, bindings=tuple(Binding(*label, column(field)) for label, field in pairs))


def _pivoted_rows(context: QueryContext, relation: Relation, pivot: Pivot) -> Relation:
    """The keys of ``pivot``, and then its aggregates, as one SELECT over rows that know which values they have."""
    alias = context.aliases.take("pivot")
    flags = [Named(f"{alias}.match{place}", condition) for place, (condition, _) in enumerate(pivot.values)]
    matches = _hidden("match", [column(flag.field) for flag in flags])
    keys = _hidden("key", [key.column for key in pivot.keys])
    scope = replace(pivot.scope, bindings=(*pivot.scope.bindings, *matches, *keys))
    nullable = _has_no_row_for_nothing(context, scope, relation, pivot)
    outputs = [
        *(_named(_column(key.name), f"key{place}") for place, key in enumerate(keys)),
        *(
            _named(_over_value(one, match.name, nullable), f"value{place}_{number}")
            for place, match in enumerate(matches)
            for number, (one, _) in enumerate(pivot.aggregates)
        ),
    ]
    select = exp.Select(expressions=outputs)
    if keys:
        select.set("group", exp.Group(expressions=[_column(key.name) for key in keys]))
    rows = Project(relation, (*all_columns(relation), *flags))
    selection = Selection(context.expressions(scope), select, rows, f"{alias}.", (), context.aliases)
    return selection.relation_and_names()[0]


def _hidden(word: str, columns: Sequence[Column]) -> list[Binding]:
    """``columns`` under names that no text has."""
    return [Binding("", f"\0{word}{place}", one, hidden=True) for place, one in enumerate(columns)]


def _has_no_row_for_nothing(context: QueryContext, scope: Scope, relation: Relation, pivot: Pivot) -> bool:
    """True where a group has NULL for a value that it does not have, whatever the aggregate (``NUMERIC``)."""
    nodes = [one.copy() for one, _ in pivot.aggregates]
    selection = Selection(context.expressions(scope), exp.Select(expressions=nodes), relation)
    types = [item.scalar.type for item in selection.items]
    numeric = all(of in NUMERIC or isinstance(of, t.Decimal) for of in types)
    for node in nodes:
        for found in node.find_all(exp.Anonymous):
            if not numeric and found.name.lower() in SKIPPING_NULLS:
                raise Unsupported("FIRST and LAST in PIVOT are for numbers", where=context.source.place(node))
    return numeric


def _over_value(aggregate: exp.Expr, match: str, nullable: bool) -> exp.Expr:
    """``aggregate`` over the rows of one value; if ``nullable``, NULL where there are none."""
    filtered = aggregate.copy().transform(partial(_filtered, match))
    plain = isinstance(aggregate, exp.Anonymous) and aggregate.name.lower() in NULL_OVER_NOTHING
    if plain or not nullable:
        return filtered
    some = exp.GT(this=exp.Anonymous(this="count_if", expressions=[_column(match)]), expression=exp.Literal.number(0))
    return exp.Case(ifs=[exp.If(this=some, true=filtered)])


def _filtered(match: str, node: exp.Expr) -> exp.Expr:
    """An aggregate with FILTER (WHERE match) added to its own; other nodes as they are."""
    if isinstance(node.parent, AROUND_AGGREGATES) and node.arg_key == "this":
        return node
    call_ = node
    while isinstance(call_, AROUND_AGGREGATES):
        call_ = call_.this
    if not (isinstance(call_, exp.Anonymous) and is_aggregate(call_.name.lower())):
        return node
    condition: exp.Expr = _column(match)
    if isinstance(node, exp.Filter):
        condition = exp.And(this=condition, expression=node.expression.this)
        node = node.this
    return exp.Filter(this=node, expression=exp.Where(this=condition))


def _column(name: str) -> exp.Column:
    return exp.Column(this=exp.to_identifier(name, quoted=True))


def _named(node: exp.Expr, name: str) -> exp.Alias:
    return exp.Alias(this=node, alias=exp.to_identifier(name))


def _members(node: exp.Expr) -> list[exp.Expr]:
    mark_translated(node)
    return node.expressions if isinstance(node, exp.Tuple) else [node]


def _pivoted(context: QueryContext, scope: Scope, name: exp.Expr) -> Column:
    mark_translated(name)
    with context.source.locating(name):
        found = scope.find([name.name.lower()])
        if found is None:
            raise scope.unknown([name.name.lower()])
    return found[0]


def _value(context: QueryContext, columns: Sequence[Column], node: exp.Expr) -> tuple[Scalar, str]:
    """The condition that the pivoted columns have a listed value, and the name for its columns."""
    value = node.this if isinstance(node, exp.PivotAlias) else node
    parts = _members(value) if len(columns) > 1 else [value]
    with context.source.locating(value):
        if len(parts) != len(columns):
            raise TypeMismatch(f"{len(parts)} values are listed for {len(columns)} columns")
        given = [_constant(context, part) for part in parts]
        equal = [call("null_safe_eq", own, _converted(one, own.type)) for own, one in zip(columns, given, strict=True)]
        texts = [_text(one) for one in given]
    label = texts[0] if len(columns) == 1 else f"{{{', '.join(texts)}}}"
    name = node.args["alias"].name if isinstance(node, exp.PivotAlias) else label
    return reduce(partial(call, "and"), equal), name.lower()


def _constant(context: QueryContext, node: exp.Expr) -> Scalar:
    if isinstance(node, exp.Tuple):
        mark_translated(node)
        parts = [_constant(context, part) for part in node.expressions]
        names = [Literal(f"col{place}", STRING) for place in range(1, len(parts) + 1)]
        return call("named_struct", *(part for pair in zip(names, parts, strict=True) for part in pair))
    scalar = replace(context.expressions(Scope()), subquery=None).scalar(node)
    if columns_in(scalar):
        raise Unsupported("PIVOT takes constants", hint="List the values.")
    return scalar


def _converted(value: Scalar, of: Type) -> Scalar:
    if not can_cast(value.type, of):
        raise TypeMismatch(f"the pivoted column is {of}, and {value.type} does not convert")
    return Literal(evaluate_scalar(convert(value, of), {}), of)


def _text(value: Scalar) -> str:
    found = evaluate_scalar(convert(value, STRING), {})
    return "null" if found is None else str(found)


def _aggregate(context: QueryContext, node: exp.Expr) -> tuple[exp.Expr, str]:
    """An aggregate of PIVOT and its name."""
    inner = node.unalias()
    mark_translated(node)
    if not has_aggregate(inner) or inner.find(exp.Window):
        raise Unsupported("PIVOT takes aggregates", where=context.source.place(node))
    return inner, node.alias.lower() if isinstance(node, exp.Alias) else column_label(inner)


# ------------------------------------------------------------------------------------------------------------- UNPIVOT


def _from_unpivot(context: QueryContext, item: FromItem, node: exp.Pivot) -> FromItem:
    """A row for each listed column, or set of columns, with its name; without NULLs unless these are included."""
    relation, scope = item
    (listed,) = node.args["fields"]
    values = [name.name.lower() for name in _members(node.expressions[0])]
    sets = [_listed_columns(context, scope, one) for one in listed.expressions]
    for columns, _ in sets:
        if len(columns) != len(values):
            raise TypeMismatch(
                f"{len(columns)} columns are listed for {len(values)}", where=context.source.place(listed)
            )
    mark_translated(listed.this)
    made = _stacked(context, listed, sets, [listed.this.name.lower(), *values])
    alias = context.aliases.take("unpivot")
    rows = made.applied_to(relation, alias)
    name, *found = made.columns(alias)
    used = {own.name for columns, _ in sets for own in columns}
    kept = [binding for binding in scope.star() if binding.column.name not in used]
    if not node.args.get("include_nulls"):
        if taken := {binding.name for binding in kept} & set(values):
            raise NameTaken(f'there is a column "{min(taken)}" already', where=context.source.place(node))
        rows = Filter(rows, reduce(partial(call, "or"), (call("is_not_null", value) for value in found)))
    added = [Binding("", label, own) for label, own in zip(made.names, (name, *found), strict=True)]
    return rows, replace(scope, bindings=(*kept, *added))


def _listed_columns(context: QueryContext, scope: Scope, node: exp.Expr) -> tuple[list[Column], str]:
    """The columns of one set, and its name: its alias, or the names of the columns as they are written."""
    listed = node.this if isinstance(node, exp.PivotAlias) else node
    nodes, columns = _members(listed), []
    for one in nodes:
        found = scope.find([part.name.lower() for part in one.parts]) if isinstance(one, exp.Column) else None
        if found is None or found[1]:
            raise Unsupported("UNPIVOT takes columns", where=context.source.place(one))
        mark_translated(one)
        columns.append(found[0])
    if isinstance(node, exp.PivotAlias):
        return columns, node.args["alias"].name
    return columns, "_".join(one.name for one in nodes)


def _stacked(
    context: QueryContext, listed: exp.Expr, sets: Sequence[tuple[Sequence[Column], str]], names: Sequence[str]
) -> GeneratedRows:
    """An array of records, one for each set: its name and its values."""
    records = []
    with context.source.locating(listed):
        types = [
            common_type([one.type for one in ones]) for ones in zip(*(columns for columns, _ in sets), strict=True)
        ]
        for columns, label in sets:
            values = [convert(one, of) for one, of in zip(columns, types, strict=True)]
            parts: list[Scalar] = [Literal("name", STRING), Literal(label, STRING)]
            for place, value in enumerate(values):
                parts += [Literal(f"value{place}", STRING), value]
            records.append(call("named_struct", *parts))
        return GeneratedRows(call("array", *records), tuple(names), members=True)
