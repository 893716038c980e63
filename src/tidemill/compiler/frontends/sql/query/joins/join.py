"""Joins: inner, outer, semi and anti, with ON, USING or NATURAL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.scalars import Exists, Named, Scalar, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Filter, Join, OuterJoin, Project
from tidemill.compiler.frontends.sql.grammar.translation_marks import mark_translated
from tidemill.compiler.frontends.sql.names.projections import all_columns
from tidemill.compiler.frontends.sql.names.scope import Binding, Scope
from tidemill.compiler.frontends.sql.query.context import FromItem, QueryContext
from tidemill.model.errors import Unsupported

PRESERVED_SIDES = {"": (False, False), "LEFT": (True, False), "RIGHT": (False, True), "FULL": (True, True)}
"""For each side of a join, left and right, True if it keeps the rows that have no partner."""

JOIN_KINDS = ("", "INNER", "CROSS", "OUTER", "SEMI", "ANTI")


def from_join(context: QueryContext, left: FromItem, right: FromItem, node: exp.Join) -> FromItem:
    """``left`` joined with the item of a join clause."""
    _refuse(context, node)
    condition, names = join_condition(context, left[1], right[1], node)
    if node.kind in ("SEMI", "ANTI"):
        return filtered_join(left, right[0], condition, node.kind == "ANTI")
    return joined(context, left, right, condition, PRESERVED_SIDES[node.side], names)


def _refuse(context: QueryContext, node: exp.Join) -> None:
    known = node.method in ("", "NATURAL") and node.kind in JOIN_KINDS and node.side in PRESERVED_SIDES
    if (
        not known
        or (node.kind == "OUTER" and not node.side)
        or (node.kind in ("SEMI", "ANTI") and (node.side not in ("", "LEFT") or node.method))
    ):
        raise Unsupported("this kind of join is not supported", where=context.source.place(node))


# ---------------------------------------------------------------------------------------------------------- conditions


def join_condition(context: QueryContext, left: Scope, right: Scope, node: exp.Join) -> tuple[Scalar | None, list[str]]:
    """The join condition, and the names of the columns that USING or NATURAL merges."""
    if node.args.get("using"):
        names = [identifier.name.lower() for identifier in node.args["using"]]
    elif node.method == "NATURAL":
        shared = {binding.name for binding in right.star()}
        names = list(dict.fromkeys(binding.name for binding in left.star() if binding.name in shared))
    else:
        on = node.args.get("on")
        if on is None or is_true(on):
            return None, []
        return context.expressions(left + right).condition(on), []
    with context.source.locating(node):
        return _equal(left, right, names), names


def is_true(on: exp.Expr) -> bool:
    """True for a condition that is just TRUE, which then has been read."""
    if on == exp.true():
        mark_translated(on)
    return on == exp.true()


def _equal(left: Scope, right: Scope, names: Sequence[str]) -> Scalar | None:
    condition: Scalar | None = None
    for name in names:
        equal = call("eq", left.first(name).column, right.first(name).column)
        condition = equal if condition is None else call("and", condition, equal)
    return condition


# ------------------------------------------------------------------------------------------------------ kinds of join


def filtered_join(left: FromItem, right: Relation, condition: Scalar | None, without: bool) -> FromItem:
    """A semi join keeps the rows that have a partner, an anti join those that have none."""
    partner = Exists(right if condition is None else Filter(right, condition))
    return Filter(left[0], call("not", partner) if without else partner), left[1]


def joined(
    context: QueryContext,
    left: FromItem,
    right: FromItem,
    condition: Scalar | None,
    kept: tuple[bool, bool],
    names: list[str],
) -> FromItem:
    """A join that outputs both sides. Of merged columns, that of the preserved side is visible."""
    relation: Relation = Join(left[0], right[0], condition)
    if any(kept):
        relation = OuterJoin(left[0], right[0], condition, *kept)
    scope = seen_in(relation, left[1] + right[1])
    if not names:
        return relation, scope
    count = len(left[1].bindings)
    if all(kept):
        return _coalesced(context, relation, scope, count, names)
    return relation, scope.merge(names, count, keeps_right=kept[1])


def seen_in(relation: Relation, scope: Scope) -> Scope:
    """The columns of ``scope`` in ``relation``: those of the padded side of an outer join are nullable."""
    fields = {f.name: column(f) for f in relation.fields}
    return replace(scope, bindings=tuple(replace(b, column=fields[b.column.name]) for b in scope.bindings))


def _coalesced(context: QueryContext, relation: Relation, scope: Scope, count: int, names: Sequence[str]) -> FromItem:
    """FULL ... USING: either side may be missing, so the one column takes the value of the other."""
    sides = Scope(scope.bindings[:count]), Scope(scope.bindings[count:])
    pairs = {name: (sides[0].first(name).column, sides[1].first(name).column) for name in names}
    alias = context.aliases.take("using")
    ones = [Named(f"{alias}.{name}", call("coalesce", *pair)) for name, pair in pairs.items()]
    hidden = {one for pair in pairs.values() for one in pair}
    first = (Binding("", name, column(one.field)) for name, one in zip(pairs, ones, strict=True))
    merged = [
        replace(b, merged=True) for name in names for b in scope.bindings if b.name == name and b.column in hidden
    ]
    rest = (b for b in scope.bindings if b.column not in hidden)
    return Project(relation, (*all_columns(relation), *ones)), replace(scope, bindings=(*first, *merged, *rest))
