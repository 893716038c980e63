"""Running values, updated in O(1) per row. A state is never changed in place, so that several may share it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from copy import copy
from fractions import Fraction
from typing import Any

from tidemill.algebra.aggregates.moving import MovingAggregate
from tidemill.algebra.functions.comparison import order_key


class Fold(ABC):
    """A running value over rows."""

    start: Any = None

    @abstractmethod
    def add(self, state: Any, value: Any, variable: str) -> Any:
        """The state after one more row, in which the argument has this value."""

    def value(self, state: Any) -> Any:
        """The value of a state: the state itself by default."""
        return state


class CountFold(Fold):
    """COUNT, of rows or of values that are not NULL."""

    start = 0

    def __init__(self, rows: bool) -> None:
        self._rows = rows

    def add(self, state: Any, value: Any, variable: str) -> Any:
        return state + 1 if self._rows or value is not None else state


class SumFold(Fold):
    """SUM and AVG, exactly."""

    def __init__(self, nothing: MovingAggregate) -> None:
        self.start = nothing

    def add(self, state: Any, value: Any, variable: str) -> Any:
        if value is None:
            return state
        state = copy(state)
        state.enter(value)
        return state

    def value(self, state: Any) -> Any:
        return state.value()


class DistinctFold(Fold):
    """An aggregate of the distinct values; a value that is new costs as much as there are different ones."""

    def __init__(self, fold: Fold) -> None:
        self._fold = fold
        self.start = (frozenset(), fold.start)

    def add(self, state: Any, value: Any, variable: str) -> Any:
        seen, inner = state
        key = order_key(value)
        return state if value is None or key in seen else (seen | {key}, self._fold.add(inner, value, variable))

    def value(self, state: Any) -> Any:
        return self._fold.value(state[1])


class VarianceFold(Fold):
    """VAR_POP and VAR_SAMP, or their roots, from the exact sums of values and squares."""

    start = (0, Fraction(), Fraction(), True)

    def __init__(self, *, sample: bool, root: bool) -> None:
        self._sample, self._root = sample, root

    def add(self, state: Any, value: Any, variable: str) -> Any:
        if value is None:
            return state
        count, total, squares, is_number = state
        number = float(value)
        if not is_number or not math.isfinite(number * number):
            return count + 1, total, squares, False
        exact = Fraction(number)
        return count + 1, total + exact, squares + exact * exact, True

    def value(self, state: Any) -> Any:
        count, total, squares, is_number = state
        if count <= self._sample:
            return None
        deviation = float(squares - total * total / count) if is_number else math.nan
        mean = deviation / (count - self._sample) + 0.0
        return math.sqrt(mean) if self._root else mean


class ExtremeFold(Fold):
    """MIN and MAX."""

    def __init__(self, greatest: bool) -> None:
        self._greatest = greatest

    def add(self, state: Any, value: Any, variable: str) -> Any:
        if value is None or state is None:
            return state if value is None else value
        one, other = order_key(state), order_key(value)
        return value if (other > one if self._greatest else other < one) else state
