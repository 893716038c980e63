"""Window functions, and the order of rows in a partition, in which no two different rows are equal.

Rows that are equal in ORDER BY are ordered by all of their columns, NULLs first, as everywhere in Tidemill. Functions
that tell such rows apart are given that whole order, and those that treat them as peers the terms of ORDER BY alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.registry import AGGREGATE_FUNCTIONS
from tidemill.algebra.expressions.ordering import SortOrder
from tidemill.algebra.expressions.scalars import Literal, Scalar
from tidemill.algebra.relational.relations import TopK, Window
from tidemill.algebra.relational.windows import OFFSETS, WHOLE, Frame, WindowCall
from tidemill.runtimes.duckdb.aggregates import aggregate_sql
from tidemill.runtimes.duckdb.expressions import Names
from tidemill.runtimes.duckdb.sql_text import NotLowered, cast_sql, comma_list, type_sql

Lower = Callable[[Scalar], str]

PEERS = ("rank", "dense_rank")
"""Rankings that are equal for peers."""

RUNNING = Frame(False, None, 0)
"""From the first row to the last peer of the row."""


def order_sql(order: Sequence[SortOrder], lower: Lower) -> list[str]:
    """The terms of ORDER BY; NaN is the greatest number in both engines."""
    return [
        f"{lower(term.scalar)} {'DESC' if term.descending else 'ASC'} NULLS {'FIRST' if term.nulls_first else 'LAST'}"
        for term in order
    ]


def total_order_sql(node: TopK | Window, names: Names, lower: Lower) -> str:
    """The order of a partition, in which rows that are equal are the same in all columns."""
    for field in node.input.fields:
        type_sql(field.type)
    columns = [f"{names[field.name]} ASC NULLS FIRST" for field in node.input.fields]
    return comma_list([*order_sql(node.order, lower), *columns])


def partition_sql(node: TopK | Window, lower: Lower) -> str:
    """PARTITION BY, or nothing where all rows are one partition."""
    return f"PARTITION BY {comma_list(map(lower, node.partition))} " if node.partition else ""


def window_call_sql(call: WindowCall, node: Window, names: Names, lower: Lower) -> str:
    """The text of a window function of ``node``."""
    if call.ignore_nulls:
        raise NotLowered("IGNORE NULLS")
    if call.function == "row_number":
        return cast_sql(f"row_number() OVER ({_over(node, total_order_sql(node, names, lower), lower)})", call.of)
    if call.function in PEERS and node.order:
        peers = comma_list(order_sql(node.order, lower))
        return cast_sql(f"{call.function}() OVER ({_over(node, peers, lower)})", call.of)
    if call.function in OFFSETS:
        return _offset(call, node, names, lower)
    if call.function in AGGREGATE_FUNCTIONS:
        return _aggregate(call, node, names, lower)
    raise NotLowered(f"window function {call.function}")


def _over(node: Window, order: str, lower: Lower) -> str:
    return f"{partition_sql(node, lower)}ORDER BY {order}" if order else partition_sql(node, lower)


def _offset(call: WindowCall, node: Window, names: Names, lower: Lower) -> str:
    value, distance, default = call.arguments
    if not isinstance(distance, Literal) or not isinstance(default, Literal):
        raise NotLowered(f"{call.function} with a computed distance or default")
    if distance.value is None or distance.value < 0:
        raise NotLowered(f"{call.function} in the other direction")
    if default.value is not None and default.type != value.type:
        raise NotLowered(f"{call.function} with a default of another type")
    filling = "NULL" if default.value is None else lower(default)
    over = _over(node, total_order_sql(node, names, lower), lower)
    return cast_sql(f"{call.function}({lower(value)}, {int(distance.value)}, {filling}) OVER ({over})", call.of)


def _aggregate(call: WindowCall, node: Window, names: Names, lower: Lower) -> str:
    argument = call.arguments[0] if call.arguments else None
    plain = AggregateCall(
        call.name, call.function, argument, call.of, False, call.filter, call.arguments[1:], (), call.parameters
    )
    return aggregate_sql(plain, lower, f" OVER ({_frame(call.frame, node, names, lower)})")


def _frame(frame: Frame, node: Window, names: Names, lower: Lower) -> str:
    if frame == WHOLE or (frame.start, frame.end) == (None, None):
        return partition_sql(node, lower)
    if frame == RUNNING:
        running = "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
        over = _over(node, comma_list(order_sql(node.order, lower)), lower)
        return f"{over} {running}" if node.order else over
    if not frame.rows:
        raise NotLowered("a frame by values")
    bounds = f"ROWS BETWEEN {_bound(frame.start, 'PRECEDING')} AND {_bound(frame.end, 'FOLLOWING')}"
    return f"{_over(node, total_order_sql(node, names, lower), lower)} {bounds}"


def _bound(offset: int | None, unbounded: str) -> str:
    if offset is None:
        return f"UNBOUNDED {unbounded}"
    if offset == 0:
        return "CURRENT ROW"
    return f"{abs(offset)} {'PRECEDING' if offset < 0 else 'FOLLOWING'}"
