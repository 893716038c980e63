"""The call before OVER: a window function with its arguments, or an aggregate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from tidemill.algebra.aggregates.registry import AGGREGATE_FUNCTIONS
from tidemill.algebra.evaluate import evaluate_scalar
from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.conversions import convert
from tidemill.algebra.expressions.ordering import SortOrder
from tidemill.algebra.expressions.scalars import Case, Literal, Scalar
from tidemill.algebra.relational.walk import columns_in, subqueries
from tidemill.algebra.relational.windows import WindowCall
from tidemill.compiler.frontends.sql.aggregation.aggregates import AggregateSyntax, aggregate_names, is_aggregate
from tidemill.compiler.frontends.sql.aggregation.grouping import SelectGrouping
from tidemill.compiler.frontends.sql.expressions.translator import ExpressionTranslator
from tidemill.compiler.frontends.sql.grammar.translation_marks import mark_translated
from tidemill.compiler.frontends.text.names import unknown_name
from tidemill.model.errors import TypeMismatch, Unsupported
from tidemill.model.types import BIGINT, DOUBLE, INT, STRING, Boolean, Timestamp, Type, is_numeric


def window_call(node: exp.Expr, operands: ExpressionTranslator) -> WindowCall:
    """The call ``node``, without a name and a frame."""
    found = _WindowSyntax.of(node, operands)
    with operands.source.locating(node):
        if rule := WINDOW_FUNCTIONS.get(found.name):
            if found.condition is not None or found.order:
                raise Unsupported(
                    f"{found.name.upper()} takes neither FILTER nor WITHIN GROUP",
                    where=operands.source.head(node),
                    detail="They belong to aggregates.",
                )
            return rule(found)
        if is_aggregate(found.name):
            return from_aggregate(found)
    raise unknown_name(
        "window function", found.name, [*WINDOW_FUNCTIONS, *aggregate_names()], operands.source.head(node)
    )


@dataclass(frozen=True)
class _WindowSyntax:
    """A call, with the FILTER, the WITHIN GROUP and the IGNORE NULLS around it."""

    node: exp.Anonymous
    operands: ExpressionTranslator
    condition: exp.Expr | None
    order: tuple[exp.Expr, ...]
    ignore_nulls: bool

    @classmethod
    def of(cls, node: exp.Expr, operands: ExpressionTranslator) -> _WindowSyntax:
        """``node`` with its wrappings taken off."""
        condition, order, ignores, call = None, (), False, node
        while isinstance(call, exp.Filter | exp.WithinGroup | exp.IgnoreNulls | exp.RespectNulls):
            condition = call.expression.this if isinstance(call, exp.Filter) else condition
            order = tuple(call.expression.expressions) if isinstance(call, exp.WithinGroup) else order
            ignores = ignores or isinstance(call, exp.IgnoreNulls)
            mark_translated(call)
            call = call.this
        if not isinstance(call, exp.Anonymous):
            raise Unsupported("this function takes no OVER", where=operands.source.head(node))
        mark_translated(call)
        return cls(call, operands, condition, order, ignores)

    @property
    def name(self) -> str:
        """The function's name in the algebra."""
        name = self.node.name.lower()
        return WINDOW_FUNCTION_SYNONYMS.get(name, name)

    def arguments(self, least: int, most: int) -> list[Scalar]:
        """The arguments, of which there must be so many."""
        given = self.node.expressions
        if not least <= len(given) <= most:
            wanted = f"{least}" if least == most else f"{least} to {most}"
            raise TypeMismatch(f"{self.name.upper()} takes {wanted} arguments, not {len(given)}")
        return [self.operands.scalar(argument) for argument in given]

    def call(self, arguments: Sequence[Scalar], of: Type) -> WindowCall:
        """The call over ``arguments``."""
        return WindowCall("", self.name, tuple(arguments), of, ignore_nulls=self.ignore_nulls)


WINDOW_FUNCTION_SYNONYMS = {"first": "first_value", "last": "last_value", "any_value": "first_value"}
"""Other names of functions that pick a row of the frame."""


def from_ranking(found: _WindowSyntax) -> WindowCall:
    """ROW_NUMBER, RANK, DENSE_RANK: a number; PERCENT_RANK, CUME_DIST: a share. Ranks ignore their arguments."""
    found.arguments(0, MOST_RANKED if found.name.endswith("rank") else 0)
    return found.call((), DOUBLE if found.name in ("percent_rank", "cume_dist") else INT)


MOST_RANKED = 1000
"""The number of arguments that RANK and its kind may have."""


def from_ntile(found: _WindowSyntax) -> WindowCall:
    """NTILE(n); without n there is one bucket."""
    given = found.arguments(0, 1) or [Literal(1, INT)]
    return found.call([Literal(_constant(given[0], found.name, least=1), INT)], INT)


def from_offset(found: _WindowSyntax) -> WindowCall:
    """LAG and LEAD: by one row and with NULL as the default, unless they say otherwise."""
    value, *rest = found.arguments(1, 3)
    offset = _constant(rest[0], found.name) if rest else 1
    default = convert(rest[1], value.type) if len(rest) > 1 else Literal(None, value.type)
    return found.call((value, Literal(offset, INT), default), value.type)


def from_counter(found: _WindowSyntax) -> WindowCall:
    """COUNTER_DIFF(value, start): the value of the row before that has one, with its start."""
    value, *starts = found.arguments(1, 2)
    if not is_numeric(value.type) or any(not isinstance(start.type, Timestamp) for start in starts):
        raise TypeMismatch("COUNTER_DIFF takes a number, and perhaps the timestamp at which it was zero")
    if found.ignore_nulls:
        raise Unsupported("COUNTER_DIFF takes no IGNORE NULLS")
    state = counter_state(value, starts)
    arguments = (state, Literal(1, INT), Literal(None, state.type))
    return WindowCall("", "lag", arguments, state.type, ignore_nulls=True)


def counter_state(value: Scalar, starts: Sequence[Scalar]) -> Scalar:
    """State of a counter for the next row: its value, with its start where it has one; NULL without a value."""
    if not starts:
        return value
    both = call("named_struct", Literal("value", STRING), value, Literal("start", STRING), starts[0])
    return Case(((call("is_null", value), Literal(None, both.type)),), both, both.type)


def counter_change(value: Scalar, starts: Sequence[Scalar], before: Scalar) -> Scalar:
    """The growth of a counter since the row before; NULL where it was set back."""
    nothing, of = Literal(None, value.type), value.type
    negative = convert(call("raise_error", Literal("COUNTER_DIFF takes counters that are not negative", STRING)), of)
    branches = [(call("is_null", value), nothing), (call("lt", value, convert(Literal(0, INT), of)), negative)]
    branches.append((call("is_null", before), nothing))
    past = before
    if starts:
        past, began = (call("get_field", before, Literal(name, STRING)) for name in ("value", "start"))
        earlier = convert(call("raise_error", Literal("the start of a counter never decreases", STRING)), of)
        branches += [(call("lt", starts[0], began), earlier), (call("gt", starts[0], began), nothing)]
    branches.append((call("lt", value, past), nothing))
    return Case(tuple(branches), convert(call("subtract", value, past), of), of)


def from_first_or_last(found: _WindowSyntax) -> WindowCall:
    """FIRST_VALUE and LAST_VALUE; a second argument that is true means IGNORE NULLS."""
    value, *rest = found.arguments(1, 2)
    call = found.call((value,), value.type)
    ignores = bool(rest) and _constant_of(rest[0], found.name, Boolean) is True
    return replace(call, ignore_nulls=call.ignore_nulls or ignores)


def from_nth_value(found: _WindowSyntax) -> WindowCall:
    """NTH_VALUE(x, n), counted from 1."""
    value, *rest = found.arguments(2, 3)
    position = convert(rest[0], INT) if rest[0].type in (BIGINT, STRING) else rest[0]
    call = found.call((value, Literal(_constant(position, found.name, least=1), INT)), value.type)
    ignores = len(rest) > 1 and _constant_of(rest[1], found.name, Boolean) is True
    return replace(call, ignore_nulls=call.ignore_nulls or ignores)


def orders_values(node: exp.Expr) -> bool:
    """True if the call before OVER is an aggregate over ordered values, for which Spark takes no ordered window."""
    name = "" if (call := node.find(exp.Anonymous)) is None else call.name.lower()
    return name in ("median", "percentile_cont", "percentile_disc") or (
        name in ("listagg", "string_agg") and node.find(exp.WithinGroup) is not None
    )


JOIN_HINT = "GROUP BY what the window partitions by, and join the result."


def from_aggregate(found: _WindowSyntax) -> WindowCall:
    """An aggregate over the rows of a frame: typed as that over a group."""
    if found.ignore_nulls:
        raise Unsupported(f"{found.name.upper()} takes no IGNORE NULLS", detail="An aggregate sees no NULL anyway.")
    if any(isinstance(argument, exp.Distinct) for argument in found.node.expressions):
        raise Unsupported("an aggregate over DISTINCT takes no OVER", hint=JOIN_HINT)
    # Its operands are over the rows of this SELECT, which has no groups.
    seen = [*(a for a in found.node.expressions if not isinstance(a, exp.Star)), *(term.this for term in found.order)]
    own = frozenset().union(*(columns_in(found.operands.scalar(node)) for node in seen))
    grouping = SelectGrouping(found.operands.source, found.operands.scalar, found.operands.condition, own)
    call = grouping.call(AggregateSyntax(found.node, found.condition, found.order))
    if call.distinct:
        raise Unsupported(f"{found.name.upper()} takes no OVER like this", hint=JOIN_HINT)
    arguments = () if call.argument is None else (call.argument, *call.others)
    plain = WindowCall("", call.function, arguments, call.of, filter=call.filter, parameters=call.parameters)
    return from_within_group(plain, call.order) if call.order else plain


def from_within_group(call: WindowCall, order: Sequence[SortOrder]) -> WindowCall:
    """A list whose own order, that of WITHIN GROUP, is among its arguments."""
    terms = tuple(term.scalar for term in order)
    directions = tuple((term.descending, term.nulls_first) for term in order)
    within = f"{call.function}_within"
    assert within in AGGREGATE_FUNCTIONS, f"{call.function} has no order of its own"
    return replace(
        call, function=within, arguments=(*call.arguments, *terms), parameters=(*call.parameters, directions)
    )


def _constant(scalar: Scalar, name: str, least: int | None = None) -> int:
    """A whole number that is the same for all rows."""
    value = _constant_of(scalar, name, Type) if is_numeric(scalar.type) else None
    if not isinstance(value, int) or (least is not None and value < least) or scalar.type == BIGINT:
        raise TypeMismatch(f"{name.upper()} counts by a constant whole number{'' if least is None else ' above zero'}")
    return value


def _constant_of(scalar: Scalar, name: str, kind: type[Type]) -> Any:
    if columns_in(scalar) or subqueries(scalar) or not isinstance(scalar.type, kind):
        raise TypeMismatch(f"this argument of {name.upper()} must be a constant")
    return evaluate_scalar(scalar, {})


WINDOW_FUNCTIONS: dict[str, Callable[[_WindowSyntax], WindowCall]] = {
    **dict.fromkeys(("row_number", "rank", "dense_rank", "percent_rank", "cume_dist"), from_ranking),
    "ntile": from_ntile,
    "lag": from_offset,
    "counter_diff": from_counter,
    "lead": from_offset,
    "first_value": from_first_or_last,
    "last_value": from_first_or_last,
    "nth_value": from_nth_value,
}
