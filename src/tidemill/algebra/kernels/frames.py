"""Frames: the rows around a row that a window function reads, as positions in an ordered partition."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from tidemill.algebra.expressions.ordering import SortOrder, sort_key
from tidemill.algebra.functions.comparison import order_key
from tidemill.algebra.relational.windows import Frame
from tidemill.algebra.values.decimals import EXACT
from tidemill.changes.zset import Row

FrameSpan = tuple[int, int]
"""The positions of a frame's rows: the first, and the one after the last."""


@dataclass(frozen=True, slots=True)
class Peers:
    """For each position, the span of the rows that are equal to it in all terms of the order."""

    starts: list[int]
    ends: list[int]

    @classmethod
    def of(cls, places: Sequence[Row]) -> Peers:
        """The peers of rows with these values of the terms.

        >>> Peers.of([("a",), ("a",), ("b",)])
        Peers(starts=[0, 0, 2], ends=[2, 2, 3])
        """
        keys = [order_key(place) for place in places]
        starts: list[int] = []
        for place, key in enumerate(keys):
            starts.append(starts[-1] if place and keys[place - 1] == key else place)
        last = {start: place + 1 for place, start in enumerate(starts)}
        return cls(starts, [last[start] for start in starts])

    def __len__(self) -> int:
        return len(self.starts)


def spans_of(frame: Frame, places: Sequence[Row], order: Sequence[SortOrder]) -> list[FrameSpan]:
    """The span of ``frame`` around each row. Neither end ever moves back from one row to the next.

    >>> spans_of(Frame(True, -1, 0), [("a",), ("b",), ("c",)], ())
    [(0, 1), (0, 2), (1, 3)]
    """
    rows = range(len(places))
    if frame.start is None and frame.end is None:
        return [(0, len(places)) for _ in rows]
    starts, ends = _ends_by_row(frame, rows) if frame.rows else _ends_by_value(frame, places, order)
    return [(start, max(start, end)) for start, end in zip(starts, ends, strict=True)]


def _ends_by_row(frame: Frame, rows: range) -> tuple[list[int], list[int]]:
    count = len(rows)
    starts = [0 if frame.start is None else min(max(place + frame.start, 0), count) for place in rows]
    return starts, [count if frame.end is None else min(max(place + frame.end + 1, 0), count) for place in rows]


def _ends_by_value(frame: Frame, places: Sequence[Row], order: Sequence[SortOrder]) -> tuple[list[int], list[int]]:
    peers = Peers.of(places)
    starts, ends = peers.starts, peers.ends
    if frame.start is None:
        starts = [0] * len(places)
    elif frame.start:
        keys = [sort_key(place, order) for place in places]
        starts = [bisect_left(keys, sort_key((moved(value, frame.start, order[0]),), order)) for (value,) in places]
    if frame.end is None:
        ends = [len(places)] * len(places)
    elif frame.end:
        keys = [sort_key(place, order) for place in places]
        ends = [bisect_right(keys, sort_key((moved(value, frame.end, order[0]),), order)) for (value,) in places]
    return starts, ends


def moved(value: Any, offset: Any, order: SortOrder) -> Any:
    """``value`` moved by ``offset`` along the order. NULL stays NULL: its frame is its peers."""
    if order.descending:
        offset = -offset
    match value:
        case None:
            return None
        case datetime():
            return _shifted(value, lambda: timedelta(microseconds=offset), offset)
        case date():
            return _shifted(value, lambda: timedelta(days=offset), offset)
        case Decimal():
            return EXACT.add(value, offset)
    return value + offset


def _shifted(moment: Any, distance: Any, offset: int) -> Any:
    """``moment`` shifted by an offset; clamped to the first or last one of the calendar."""
    try:
        return moment + distance()
    except OverflowError:
        return type(moment).max if offset > 0 else type(moment).min
