"""Window functions as Spark SQL, where that gives what ``algebra.windows`` says to the last bit.

Rows stand in a full order (``Place.full``): equal terms are followed by all columns, so that a row is never before
another in one epoch and after it in the next. Functions of peers, and frames by value, take the terms alone. Sums of
DOUBLE are left out: Spark rounds them as it goes along.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tidemill.algebra.aggregates import EXTREMES, SUMS, AggregateCall
from tidemill.algebra.ordering import Order
from tidemill.algebra.scalars import Column
from tidemill.algebra.sums import Part, finish, parts
from tidemill.algebra.windows import OFFSETS, RANKINGS, VALUES, WHOLE, Frame, WindowCall
from tidemill.model import types as t
from tidemill.model.schema import WEIGHT
from tidemill.model.types import BIGINT, DOUBLE
from tidemill.runtimes.spark import rings
from tidemill.runtimes.spark.spell import join, quote, spell, spell_literal, spell_type

POSITION = quote("the position")
"""The column that has the number of a row in the full order of its part."""

_OF_PEERS = frozenset(("rank", "dense_rank", "percent_rank", "cume_dist"))


@dataclass(frozen=True, slots=True)
class Place:
    """Where a row stands: the texts of what parts are equal in, of the terms of the order, and of what breaks ties."""

    partition: Sequence[str]
    order: Sequence[Order]
    ties: Sequence[str]

    @property
    def full(self) -> str:
        """The window in which no two different rows are equal."""
        terms = [*map(_term, self.order), *(f"{column} ASC NULLS FIRST" for column in self.ties)]
        # Where all rows of a part are equal, Spark still wants to be told an order.
        return self._window(terms or self.partition[:1])

    @property
    def peers(self) -> str:
        """The window in which rows are equal that are equal in the terms."""
        return self._window([*map(_term, self.order)])

    def framed(self, frame: Frame) -> str:
        """The window with a frame. Without terms all rows are peers."""
        if frame.rows or not self.order:
            return f"{self.full} {_spell_frame(frame if frame.rows else WHOLE, t.INT)}"
        return f"{self.peers} {_spell_frame(frame, self.order[0].scalar.type)}"

    def _window(self, terms: Sequence[str]) -> str:
        return f"PARTITION BY {join(self.partition)} ORDER BY {join(terms)}"


def _term(order: Order) -> str:
    direction = "DESC" if order.descending else "ASC"
    return f"{spell(order.scalar)} {direction} NULLS {'FIRST' if order.nulls_first else 'LAST'}"


def _spell_frame(frame: Frame, by: t.Type) -> str:
    kind = "ROWS" if frame.rows else "RANGE"
    start = "UNBOUNDED PRECEDING" if frame.start is None else _spell_end(frame.start, by)
    end = "UNBOUNDED FOLLOWING" if frame.end is None else _spell_end(frame.end, by)
    return f"{kind} BETWEEN {start} AND {end}"


def _spell_end(offset: Any, by: t.Type) -> str:
    if not offset:
        return "CURRENT ROW"
    distance = abs(offset)
    match by:
        case t.Timestamp():
            text = spell_interval(distance)
        case t.Date():
            text = f"INTERVAL '{distance}' DAY"
        case _:
            text = spell_literal(distance, by)
    return f"{text} {'PRECEDING' if offset < 0 else 'FOLLOWING'}"


def spell_interval(microseconds: int) -> str:
    """A span of time that is not negative.

    >>> spell_interval(1_500_000)
    "INTERVAL '1.500000' SECOND"
    """
    return f"INTERVAL '{microseconds // 1_000_000}.{microseconds % 1_000_000:06}' SECOND"


def lower_call(call: WindowCall, place: Place) -> str | None:
    """The SQL of a window function over rows at ``place`` that have a ``POSITION``; None where none is exact."""
    if call.function in RANKINGS:
        text = _lower_ranking(call, place)
    elif call.function in OFFSETS:
        text = f"{_called(call)} OVER ({place.full})"
    elif call.function in VALUES:
        text = _lower_value(call, place)
    elif call.function in EXTREMES:
        text = f"{call.function}({_filtered(call, spell(call.arguments[0]))}) OVER ({place.framed(call.frame)})"
    elif call.function in SUMS:
        text = _lower_sum(call, place)
    else:
        text = None
    return None if text is None else f"CAST({text} AS {spell_type(call.of)})"


def _lower_ranking(call: WindowCall, place: Place) -> str | None:
    if call.function not in _OF_PEERS:
        return f"{_called(call)} OVER ({place.full})"
    # Spark ranks by something or not at all.
    return f"{_called(call)} OVER ({place.peers})" if place.order else None


def _lower_value(call: WindowCall, place: Place) -> str | None:
    """A value of the frame. Within a frame by value Spark has peers in any order, so the position picks the row."""
    if call.frame.rows or not place.order:
        return f"{_called(call)} OVER ({place.framed(call.frame)})"
    if call.function == "nth_value":
        return None
    pick, value = "min_by" if call.function == "first_value" else "max_by", spell(call.arguments[0])
    position = f"CASE WHEN {value} IS NOT NULL THEN {POSITION} END" if call.ignore_nulls else POSITION
    return f"{pick}({value}, {position}) OVER ({place.framed(call.frame)})"


def _called(call: WindowCall) -> str:
    nulls = " IGNORE NULLS" if call.ignore_nulls else ""
    return f"{call.function}({join(map(spell, call.arguments))}){nulls}"


def _lower_sum(call: WindowCall, place: Place) -> str | None:
    """A count, sum or average: from the sums of its parts, as for a group."""
    argument, *others = call.arguments or (None,)
    aggregate = AggregateCall(call.name, call.function, argument, call.of, filter=call.filter, others=tuple(others))
    summed = parts(aggregate)
    if any(part.of == DOUBLE for part in summed):
        return None
    over = f"OVER ({place.framed(call.frame)})"
    texts = {f"part {i}": _lower_part(part, over) for i, part in enumerate(summed)} | {WEIGHT: f"count(*) {over}"}
    columns = [Column(f"part {i}", part.of, nullable=False) for i, part in enumerate(summed)]
    return spell(finish(aggregate, columns, Column(WEIGHT, BIGINT, nullable=False)), texts)


def _lower_part(part: Part, over: str) -> str:
    text = spell(part.argument)
    if part.of == BIGINT and not rings.is_narrow(part.argument):
        text = f"CAST({text} AS DECIMAL(20,0))"
    of = spell_type(part.of)
    return f"coalesce(CAST(sum({text}) {over} AS {of}), CAST(0 AS {of}))"


def _filtered(call: WindowCall, text: str) -> str:
    return text if call.filter is None else f"CASE WHEN {spell(call.filter)} THEN {text} END"
