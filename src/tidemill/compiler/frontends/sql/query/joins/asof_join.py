"""``a ASOF JOIN b``: for each row of ``a`` the one row of ``b`` with equal keys that is closest in an order.

``a ASOF JOIN b ON a.k = b.k AND a.at >= b.at`` is DuckDB's spelling, ``a ASOF JOIN b MATCH_CONDITION (a.at >= b.at) ON
a.k = b.k`` Snowflake's. A row of ``b`` is the closest from its own time up to that of the next row with its keys, which
LEAD gives: so the join is an ordinary one by equal keys and this period. A change of a row of ``b`` changes two
periods, its own and that of the row before it.

Of rows with equal keys and times the period of all but the last one is empty. As everywhere rows that are equal in an
order stand in the order of their columns, so the greatest one is joined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.conditions import conjunction, conjuncts
from tidemill.algebra.expressions.ordering import SortOrder
from tidemill.algebra.expressions.scalars import Call, Literal, Scalar, column
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Filter, Window
from tidemill.algebra.relational.walk import columns_in, subqueries
from tidemill.algebra.relational.windows import WindowCall
from tidemill.compiler.frontends.sql.grammar.table_grammar import MATCH_CONDITION
from tidemill.compiler.frontends.sql.names.scope import Scope
from tidemill.compiler.frontends.sql.query.context import FromItem, QueryContext
from tidemill.compiler.frontends.sql.query.joins.join import PRESERVED_SIDES, filtered_join, joined
from tidemill.model.errors import ParseError, TextLocation, TypeMismatch, Unsupported
from tidemill.model.types import INT

ASOF = "ASOF"

REVERSED = {"ge": "le", "gt": "lt", "le": "ge", "lt": "gt"}
"""Comparisons, and each with its operands exchanged."""

OPPOSITE = {"ge": "lt", "gt": "le", "le": "gt", "lt": "ge"}
"""The comparison that holds where another one does not."""

EQUALITIES = ("eq", "null_safe_eq")

KINDS = ("", "INNER", "OUTER", "SEMI", "ANTI")


@dataclass(frozen=True, slots=True)
class AsofCondition:
    """The condition of an ASOF join: ``keys`` are those of the right side in ``equalities``, and times are compared.

    ``comparison`` is that of the left time with the right one, ``ge`` for the last row at the left time or before.
    """

    equalities: tuple[Scalar, ...]
    keys: tuple[Scalar, ...]
    comparison: str
    left: Scalar
    right: Scalar

    def applied_to(self, rows: Relation, alias: str, *, preserved: bool) -> tuple[Relation, Scalar]:
        """The right rows with the time of the next one, and the condition under which one is the closest.

        Rows without a time are closest to nothing, and stay only where they are ``preserved``.
        """
        timed = rows if preserved else Filter(rows, call("is_not_null", self.right))
        onwards = self.comparison in ("ge", "gt")
        order = SortOrder(self.right, descending=not onwards, nulls_first=onwards)
        arguments = (self.right, Literal(1, INT), Literal(None, self.right.type))
        following = WindowCall(f"{alias}.next", "lead", arguments, self.right.type)
        last, end = call("is_null", column(following.field)), column(following.field)
        within = call("or", last, call(OPPOSITE[self.comparison], self.left, end))
        conditions = (*self.equalities, call(self.comparison, self.left, self.right), within)
        condition = conjunction(conditions)
        assert condition is not None
        return Window(timed, self.keys, (order,), (following,)), condition


def from_asof_join(context: QueryContext, left: FromItem, right: FromItem, node: exp.Join) -> FromItem:
    """``left`` joined with the closest row of the item of an ASOF JOIN."""
    side, kind = _kind(context, node)
    condition, names = _condition(context, left, right, node)
    return closest_join(context, left, right, condition, side, kind, names)


def closest_join(
    context: QueryContext,
    left: FromItem,
    right: FromItem,
    condition: AsofCondition,
    side: str = "",
    kind: str = "",
    names: Sequence[str] = (),
) -> FromItem:
    """``left`` joined with the closest row of ``right``; ``names`` are columns that USING merges."""
    kept = PRESERVED_SIDES[side]
    rows, closest = condition.applied_to(right[0], context.aliases.take("asof"), preserved=kept[1])
    if kind in ("SEMI", "ANTI"):
        return filtered_join(left, rows, closest, kind == "ANTI")
    return joined(context, left, (rows, right[1]), closest, kept, list(names))


def _kind(context: QueryContext, node: exp.Join) -> tuple[str, str]:
    """The side that is preserved, and the kind of join. As in Snowflake MATCH_CONDITION preserves the left rows."""
    side, kind = node.side, node.kind
    if kind not in KINDS or side not in PRESERVED_SIDES or (kind in ("SEMI", "ANTI") and side not in ("", "LEFT")):
        raise Unsupported("this kind of ASOF JOIN is not supported", where=context.source.place(node))
    if kind in ("SEMI", "ANTI"):
        return "", kind
    if node.args.get(MATCH_CONDITION) is not None and not side and kind != "INNER":
        return "LEFT", kind
    return side, kind


def _condition(
    context: QueryContext, left: FromItem, right: FromItem, node: exp.Join
) -> tuple[AsofCondition, list[str]]:
    """The condition of ``node``, and the columns that USING merges."""
    compared, on = node.args.get(MATCH_CONDITION), node.args.get("on")
    names = [identifier.name.lower() for identifier in node.args.get("using") or ()]
    expressions = context.expressions(left[1] + right[1])
    parts = [] if on is None else conjuncts(expressions.condition(on))
    with context.source.locating(node):
        pairs = [(left[1].first(name).column, right[1].first(name).column) for name in names]
        timed = compared is None and on is None and bool(pairs)
        comparisons = ["eq"] * (len(pairs) - timed) + ["ge"] * timed
        parts += [call(comparison, *pair) for comparison, pair in zip(comparisons, pairs, strict=True)]
    if compared is not None:
        parts += _only_comparison(conjuncts(expressions.condition(compared)), context.source.place(compared))
    return asof_condition(parts, left[1], right[1], context.source.place(node)), names


def _only_comparison(parts: list[Scalar], place: TextLocation) -> list[Scalar]:
    if len(parts) != 1 or not isinstance(parts[0], Call) or parts[0].function not in REVERSED:
        raise ParseError("MATCH_CONDITION is one comparison: >=, >, <= or <", where=place)
    return parts


def asof_condition(parts: Sequence[Scalar], left: Scope, right: Scope, place: TextLocation) -> AsofCondition:
    """The condition of an ASOF join from its parts: one comparison, and equalities between both sides."""
    rights = {binding.column.name for binding in right.bindings}
    equalities: list[Scalar] = []
    keys: list[Scalar] = []
    compared: list[tuple[str, Scalar, Scalar]] = []
    for part in parts:
        function, one, other = _between_sides(part, rights, place)
        if function in EQUALITIES:
            equalities.append(part)
            keys.append(other)
        else:
            compared.append((function, one, other))
    if len(compared) != 1:
        raise TypeMismatch(
            f"an ASOF JOIN has one comparison between its two sides, not {len(compared)}",
            where=place,
            hint="Write ON a.k = b.k AND a.ts >= b.ts, or MATCH_CONDITION (a.ts >= b.ts) ON a.k = b.k.",
        )
    return AsofCondition(tuple(equalities), tuple(dict.fromkeys(keys)), *compared[0])


def _between_sides(part: Scalar, rights: set[str], place: TextLocation) -> tuple[str, Scalar, Scalar]:
    """A comparison of a scalar over the left side with one over the right side, in this order."""
    match part:
        case Call(function=function, arguments=(one, other)) if function in EQUALITIES or function in REVERSED:
            if _is_over(other, rights) and _is_beside(one, rights):
                return function, one, other
            if _is_over(one, rights) and _is_beside(other, rights):
                return REVERSED.get(function, function), other, one
    raise Unsupported(
        "an ASOF JOIN takes equalities and one comparison between its two sides",
        where=place,
        detail="A further one might be meant for the rows among which the closest one is chosen, or for that one.",
        hint="Filter the right side in a subquery, or the result in WHERE.",
    )


def _is_over(scalar: Scalar, names: set[str]) -> bool:
    """True for a scalar over these columns alone, at least one."""
    return bool(columns_in(scalar)) and columns_in(scalar) <= names and not subqueries(scalar)


def _is_beside(scalar: Scalar, names: set[str]) -> bool:
    """True for a scalar over other columns than these, at least one."""
    return bool(columns_in(scalar)) and columns_in(scalar).isdisjoint(names) and not subqueries(scalar)
