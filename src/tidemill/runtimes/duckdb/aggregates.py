"""The aggregates that have a translation: exact ones. A sum of DOUBLEs depends on the order of addition in DuckDB."""

from __future__ import annotations

from collections.abc import Callable

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.expressions.scalars import Scalar
from tidemill.model import types as t
from tidemill.runtimes.duckdb import decimals
from tidemill.runtimes.duckdb.sql_text import NotLowered, cast_sql, type_sql

Lower = Callable[[Scalar], str]
"""From an expression over the rows of a group to its text."""

Over = str
"""The text after each call of a function: its FILTER, and OVER for a window."""


def aggregate_sql(call: AggregateCall, lower: Lower, over: Over = "") -> str:
    """The text of an aggregate over a group, or with ``over`` over a frame."""
    translation = AGGREGATE_SQL.get(call.function)
    if translation is None or call.order or call.parameters:
        raise NotLowered(f"aggregate {call.function}")
    restriction = "" if call.filter is None else f" FILTER (WHERE {lower(call.filter)})"
    return translation(call, lower, f"{restriction}{over}")


def _argument(call: AggregateCall) -> Scalar:
    if call.argument is None or call.others:
        raise NotLowered(f"{call.function} of several arguments")
    type_sql(call.argument.type)
    return call.argument


def _given(call: AggregateCall, text: str) -> str:
    return f"DISTINCT {text}" if call.distinct else text


def _count(call: AggregateCall, lower: Lower, over: Over) -> str:
    if call.argument is None:
        return f"count(*){over}"
    return f"count({_given(call, lower(_argument(call)))}){over}"


def _sum(call: AggregateCall, lower: Lower, over: Over) -> str:
    argument = _argument(call)
    if argument.type == t.DOUBLE:
        raise NotLowered("SUM of DOUBLE")
    return cast_sql(f"sum({_given(call, lower(argument))}){over}", call.of)


def _average(call: AggregateCall, lower: Lower, over: Over) -> str:
    """AVG by its sum and count: DuckDB's own rounds whole numbers and DECIMALs in other ways."""
    argument = _argument(call)
    text = _given(call, lower(argument))
    count = f"count({text}){over}"
    if isinstance(argument.type, t.Decimal) and isinstance(call.of, t.Decimal):
        digits = _given(call, decimals.unscaled_sql(lower(argument), argument.type))
        average = decimals.average_sql(f"sum({digits}){over}", count, argument.type, call.of)
        return f"CASE WHEN {count} > 0 THEN {average} END"
    if not isinstance(argument.type, t.Integral):
        raise NotLowered(f"AVG of {argument.type}")
    total = cast_sql(cast_sql(f"sum({text}){over}", t.BIGINT), t.DOUBLE)
    return f"CASE WHEN {count} > 0 THEN {total} / {cast_sql(count, t.DOUBLE)} END"


def _plain(name: str) -> Callable[[AggregateCall, Lower, Over], str]:
    def translation(call: AggregateCall, lower: Lower, over: Over) -> str:
        return cast_sql(f"{name}({lower(_argument(call))}){over}", call.of)

    return translation


AGGREGATE_SQL: dict[str, Callable[[AggregateCall, Lower, Over], str]] = {
    "count": _count,
    "sum": _sum,
    "avg": _average,
    "min": _plain("min"),
    "max": _plain("max"),
    "bool_and": _plain("bool_and"),
    "bool_or": _plain("bool_or"),
}
"""Every aggregate that has a translation."""
