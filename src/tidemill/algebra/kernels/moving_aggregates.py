"""Aggregates over frames that move along a part: what enters is added, what leaves is taken away.

The ends of frames only move forward, so sums, counts and extremes of all frames of a part cost O(rows). Every other
aggregate is computed for each frame by itself.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from tidemill.algebra.functions.comparison import order_key
from tidemill.algebra.kernels.aggregates import total
from tidemill.algebra.kernels.frames import FrameSpan
from tidemill.algebra.relational.aggregates import AggregateCall
from tidemill.algebra.values.decimals import EXACT
from tidemill.changes.zset import Row
from tidemill.model.types import is_numeric


def aggregate_frames(call: AggregateCall, rows: Sequence[Row | None], spans: Sequence[FrameSpan]) -> list[Any]:
    """The value of ``call`` over each span of ``rows``, of which None is not looked at.

    >>> from tidemill.algebra.expressions.scalars import Column
    >>> from tidemill.model.types import BIGINT, INT
    >>> total = AggregateCall("s", "sum", Column("n", INT), BIGINT)
    >>> aggregate_frames(total, [(1,), (2,), (4,)], [(0, 1), (0, 2), (1, 3)])
    [1, 3, 6]
    """
    moving = _moving(call)
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
            found[start, end] = total(call, [(row, 1) for row in rows[start:end] if row is not None])
    return [found[span] for span in spans]


class MovingAggregate(ABC):
    """An aggregate of the values between two ends that move forward."""

    @abstractmethod
    def enter(self, value: Any) -> None:
        """``value`` comes after those that are there."""

    @abstractmethod
    def leave(self, value: Any) -> None:
        """``value``, which came before all that are there, goes."""

    @abstractmethod
    def value(self) -> Any:
        """The aggregate of those that are there."""


class MovingCount(MovingAggregate):
    """COUNT."""

    def __init__(self) -> None:
        self._count = 0

    def enter(self, value: Any) -> None:
        self._count += 1

    def leave(self, value: Any) -> None:
        self._count -= 1

    def value(self) -> int:
        return self._count


class MovingSum(MovingAggregate):
    """SUM and AVG. Sums are exact, so that what is taken away leaves no trace; NaN and infinities are counted apart."""

    def __init__(self, call: AggregateCall) -> None:
        self._call = call
        self._sum: Any = 0
        self._count = 0
        self._special: Counter[str] = Counter()

    def __copy__(self) -> MovingSum:
        other = MovingSum(self._call)
        other._sum, other._count, other._special = self._sum, self._count, self._special.copy()
        return other

    def enter(self, value: Any) -> None:
        self._add(value, 1)

    def leave(self, value: Any) -> None:
        self._add(value, -1)

    def _add(self, value: Any, sign: int) -> None:
        self._count += sign
        if isinstance(value, Decimal):
            self._sum = EXACT.add(self._sum or Decimal(0), value if sign > 0 else -value)
        elif not isinstance(value, float):
            self._sum += sign * value
        elif math.isfinite(value):
            self._sum += sign * Fraction(value)
        else:
            # No NaN equals another, so they are counted under a word.
            self._special[repr(value)] += sign

    def value(self) -> Any:
        """What the aggregate says of one row with all of the sum, and of the others with nothing."""
        if self._count == 0:
            return None
        special: list[tuple[Row, int]] = [((float(word),), count) for word, count in self._special.items() if count]
        rest = self._count - sum(count for _, count in special)
        nothing = self._sum - self._sum
        summed: list[tuple[Row, int]] = [((self._whole(),), 1), ((nothing,), rest - 1)] if rest else []
        return total(self._call, [*summed, *special])

    def _whole(self) -> Any:
        """The sum; infinity where no double is as large."""
        if isinstance(self._sum, Fraction) and abs(self._sum) > _GREATEST:
            return math.inf if self._sum > 0 else -math.inf
        return self._sum


_GREATEST = Fraction(sys.float_info.max)


class MovingExtreme(MovingAggregate):
    """MIN and MAX: of the values that are there, those with none after them that beats them."""

    def __init__(self, call: AggregateCall) -> None:
        self._sign = 1 if call.function == "max" else -1
        self._leaders: deque[tuple[Any, Any]] = deque()

    def enter(self, value: Any) -> None:
        key = order_key(value)
        while self._leaders and self._beats(key, self._leaders[-1][0]):
            self._leaders.pop()
        self._leaders.append((key, value))

    def _beats(self, one: Any, other: Any) -> bool:
        return bool(one > other if self._sign > 0 else one < other)

    def leave(self, value: Any) -> None:
        if self._leaders[0][0] == order_key(value):
            self._leaders.popleft()

    def value(self) -> Any:
        return self._leaders[0][1] if self._leaders else None


def _moving(call: AggregateCall) -> MovingAggregate | None:
    """The way to move ``call`` along; None where it must be computed anew."""
    if call.function == "count" and not call.others:
        return MovingCount()
    if call.function in ("sum", "avg") and call.argument is not None and is_numeric(call.argument.type):
        return MovingSum(call)
    return MovingExtreme(call) if call.function in ("min", "max") else None
