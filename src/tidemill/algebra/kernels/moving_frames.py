"""Aggregates over frames that move along a partition: values that enter are added, values that leave are subtracted.

The ends of frames only move forward, so sums, counts and extremes of all frames of a partition cost O(rows). Every
other aggregate is computed for each frame separately.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.registry import aggregate_multiset, function_of
from tidemill.algebra.kernels.frames import FrameSpan
from tidemill.changes.zset import Row


def aggregate_frames(call: AggregateCall, rows: Sequence[Row | None], spans: Sequence[FrameSpan]) -> list[Any]:
    """The value of ``call`` over each span of ``rows``, in which None is skipped.

    >>> from tidemill.algebra.expressions.scalars import Column
    >>> from tidemill.model.types import BIGINT, INT
    >>> summed = AggregateCall("s", "sum", Column("n", INT), BIGINT)
    >>> aggregate_frames(summed, [(1,), (2,), (4,)], [(0, 1), (0, 2), (1, 3)])
    [1, 3, 6]
    """
    function = function_of(call)
    if function.over_ordered is not None:
        known = [[row[0] for row in rows[start:end] if row is not None and row[0] is not None] for start, end in spans]
        return [function.over_ordered(call, values) for values in known]
    moving = None if function.moving is None else function.moving(call)
    if moving is None:
        return _one_by_one(call, rows, spans)
    values = [None if row is None else row[0] if row else True for row in rows]
    start = end = 0
    found: list[Any] = []
    for span in spans:
        entering, leaving = values[end : span[1]], values[start : span[0]]
        for value in entering:
            if value is not None:
                moving.enter(value)
        for value in leaving:
            if value is not None:
                moving.leave(value)
        start, end = span
        found.append(moving.value() if entering or leaving or not found else found[-1])
    return found


def _one_by_one(call: AggregateCall, rows: Sequence[Row | None], spans: Sequence[FrameSpan]) -> list[Any]:
    found: dict[FrameSpan, Any] = {}
    for start, end in spans:
        if (start, end) not in found:
            found[start, end] = aggregate_multiset(call, [(row, 1) for row in rows[start:end] if row is not None])
    return [found[span] for span in spans]
