"""Aggregates over a moving frame: values that enter are added, values that leave are subtracted."""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from tidemill.algebra.functions.comparison import order_key
from tidemill.algebra.values.decimals import EXACT
from tidemill.changes.zset import Row


class MovingAggregate(ABC):
    """An aggregate of the values in a frame whose ends only move forward."""

    @abstractmethod
    def enter(self, value: Any) -> None:
        """Add ``value`` at the end."""

    @abstractmethod
    def leave(self, value: Any) -> None:
        """Remove ``value``, which is the first."""

    @abstractmethod
    def value(self) -> Any:
        """The aggregate of the current values."""


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
    """SUM and AVG, by their kernel. Sums are exact, so that subtraction is too.

    NaN and infinities are counted separately.
    """

    def __init__(self, value_of: Callable[[Sequence[tuple[Row, int]]], Any]) -> None:
        self._value_of = value_of
        self._sum: Any = 0
        self._count = 0
        self._special: Counter[str] = Counter()

    def __copy__(self) -> MovingSum:
        other = MovingSum(self._value_of)
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
            # No NaN equals another, so they are counted under a string.
            self._special[repr(value)] += sign

    def value(self) -> Any:
        """The aggregate of one row with all of the sum, and of the others with nothing."""
        if self._count == 0:
            return None
        special: list[tuple[Row, int]] = [((float(word),), count) for word, count in self._special.items() if count]
        rest = self._count - sum(count for _, count in special)
        nothing = self._sum - self._sum
        summed: list[tuple[Row, int]] = [((self._whole(),), 1), ((nothing,), rest - 1)] if rest else []
        return self._value_of([*summed, *special])

    def _whole(self) -> Any:
        """The sum; infinity if it overflows DOUBLE."""
        if isinstance(self._sum, Fraction) and abs(self._sum) > _GREATEST:
            return math.inf if self._sum > 0 else -math.inf
        return self._sum


_GREATEST = Fraction(sys.float_info.max)


class MovingExtreme(MovingAggregate):
    """MIN and MAX: keeps the values that no later one beats."""

    def __init__(self, greatest: bool) -> None:
        self._sign = 1 if greatest else -1
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
