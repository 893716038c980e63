"""Window functions as Spark SQL, where that matches ``algebra.relational.windows`` to the last bit.

Rows are totally ordered (``WindowSpec.full``): equal terms are followed by all columns, so that the order of two rows
never differs between epochs. Functions of peers, and RANGE frames, use the terms alone. Sums of DOUBLE are excluded:
Spark's rounding depends on the order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.partial_sums import PartialSum
from tidemill.algebra.aggregates.registry import AGGREGATE_FUNCTIONS, finalize, partial_sums
from tidemill.algebra.expressions.ordering import SortOrder
from tidemill.algebra.expressions.scalars import Column
from tidemill.algebra.relational.windows import OFFSETS, RANKINGS, VALUES, WHOLE, Frame, WindowCall
from tidemill.model import types as t
from tidemill.model.schema import WEIGHT
from tidemill.model.types import BIGINT, DOUBLE
from tidemill.runtimes.spark.lowering import ring_values
from tidemill.runtimes.spark.lowering.sql_text import comma_list, expression_sql, literal_sql, quote, type_sql

POSITION = quote("the position")
"""The column with the number of a row in the total order of its partition."""

_OF_PEERS = frozenset(("rank", "dense_rank", "percent_rank", "cume_dist"))


@dataclass(frozen=True, slots=True)
class WindowSpec:
    """A window specification: the texts of the partition keys, of the ORDER BY terms, and of the tie-breaking
    columns."""

    partition: Sequence[str]
    order: Sequence[SortOrder]
    ties: Sequence[str]

    @property
    def full(self) -> str:
        """The window with a total order: no two different rows are equal."""
        terms = [*map(_term, self.order), *(f"{column} ASC NULLS FIRST" for column in self.ties)]
        # Spark requires an ORDER BY even if all rows of a partition are equal.
        return self._window(terms or self.partition[:1])

    @property
    def peers(self) -> str:
        """The window in which rows that are equal in the terms are peers."""
        return self._window([*map(_term, self.order)])

    def with_frame(self, frame: Frame) -> str:
        """The window with a frame. Without terms all rows are peers."""
        if frame.rows or not self.order:
            return f"{self.full} {_frame_sql(frame if frame.rows else WHOLE, t.INT)}"
        return f"{self.peers} {_frame_sql(frame, self.order[0].scalar.type)}"

    def _window(self, terms: Sequence[str]) -> str:
        return f"PARTITION BY {comma_list(self.partition)} ORDER BY {comma_list(terms)}"


def _term(order: SortOrder) -> str:
    direction = "DESC" if order.descending else "ASC"
    return f"{expression_sql(order.scalar)} {direction} NULLS {'FIRST' if order.nulls_first else 'LAST'}"


def _frame_sql(frame: Frame, by: t.Type) -> str:
    kind = "ROWS" if frame.rows else "RANGE"
    start = "UNBOUNDED PRECEDING" if frame.start is None else _frame_end_sql(frame.start, by)
    end = "UNBOUNDED FOLLOWING" if frame.end is None else _frame_end_sql(frame.end, by)
    return f"{kind} BETWEEN {start} AND {end}"


def _frame_end_sql(offset: Any, by: t.Type) -> str:
    if not offset:
        return "CURRENT ROW"
    distance = abs(offset)
    match by:
        case t.Timestamp() | t.Time():
            text = interval_sql(distance)
        case t.Date():
            text = literal_sql(distance, t.INT)  # Spark 3.5 takes no interval here
        case _:
            text = literal_sql(distance, by)
    return f"{text} {'PRECEDING' if offset < 0 else 'FOLLOWING'}"


def interval_sql(microseconds: int) -> str:
    """A span of time that is not negative.

    >>> interval_sql(1_500_000)
    "INTERVAL '1.500000' SECOND"
    """
    return f"INTERVAL '{microseconds // 1_000_000}.{microseconds % 1_000_000:06}' SECOND"


def lower_call(call: WindowCall, place: WindowSpec) -> str | None:
    """The SQL of a window function over rows at ``place`` that have a ``POSITION``; None if none is exact."""
    if call.function in RANKINGS:
        text = _lower_ranking(call, place)
    elif call.function in OFFSETS:
        text = f"{_called(call)} OVER ({place.full})"
    elif call.function in VALUES:
        text = _lower_value(call, place)
    else:
        text = _lower_aggregate(call, place)
    return None if text is None else f"CAST({text} AS {type_sql(call.of)})"


def _lower_aggregate(call: WindowCall, place: WindowSpec) -> str | None:
    aggregate = AGGREGATE_FUNCTIONS.get(call.function)
    if aggregate is not None and aggregate.spark_window:
        argument = _filtered(call, expression_sql(call.arguments[0]))
        return f"{aggregate.spark_window.format(argument)} OVER ({place.with_frame(call.frame)})"
    return None if aggregate is None or aggregate.sums is None else _lower_sum(call, place)


def _lower_ranking(call: WindowCall, place: WindowSpec) -> str | None:
    if call.function not in _OF_PEERS:
        return f"{_called(call)} OVER ({place.full})"
    # Spark does not rank without an ORDER BY.
    return f"{_called(call)} OVER ({place.peers})" if place.order else None


def _lower_value(call: WindowCall, place: WindowSpec) -> str | None:
    """A value of the frame. In a RANGE frame Spark has peers in any order, so the position picks the row."""
    if call.frame.rows or not place.order:
        return f"{_called(call)} OVER ({place.with_frame(call.frame)})"
    if call.function == "nth_value":
        return None
    pick, value = "min_by" if call.function == "first_value" else "max_by", expression_sql(call.arguments[0])
    position = f"CASE WHEN {value} IS NOT NULL THEN {POSITION} END" if call.ignore_nulls else POSITION
    return f"{pick}({value}, {position}) OVER ({place.with_frame(call.frame)})"


def _called(call: WindowCall) -> str:
    nulls = " IGNORE NULLS" if call.ignore_nulls else ""
    return f"{call.function}({comma_list(map(expression_sql, call.arguments))}){nulls}"


def _lower_sum(call: WindowCall, place: WindowSpec) -> str | None:
    """A count, sum or average: from its partial sums, as for a group."""
    argument, *others = call.arguments or (None,)
    aggregate = AggregateCall(call.name, call.function, argument, call.of, filter=call.filter, others=tuple(others))
    summed = partial_sums(aggregate)
    if any(part.of == DOUBLE for part in summed):
        return None
    over = f"OVER ({place.with_frame(call.frame)})"
    texts = {f"part {i}": _lower_part(part, over) for i, part in enumerate(summed)} | {WEIGHT: f"count(*) {over}"}
    columns = [Column(f"part {i}", part.of, nullable=False) for i, part in enumerate(summed)]
    return expression_sql(finalize(aggregate, columns, Column(WEIGHT, BIGINT, nullable=False)), texts)


def _lower_part(part: PartialSum, over: str) -> str:
    text = expression_sql(part.argument)
    if part.of == BIGINT and not ring_values.is_narrow(part.argument):
        text = f"CAST({text} AS DECIMAL(20,0))"
    of = type_sql(part.of)
    return f"coalesce(CAST(sum({text}) {over} AS {of}), CAST(0 AS {of}))"


def _filtered(call: WindowCall, text: str) -> str:
    return text if call.filter is None else f"CASE WHEN {expression_sql(call.filter)} THEN {text} END"
