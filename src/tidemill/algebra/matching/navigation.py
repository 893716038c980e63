"""What conditions and the rows that come out read of a run: the rows that it has taken so far, and their variables.

================  ========================================================================================
function          value
================  ========================================================================================
first, last       the argument in the first or last row of the variables, ``offset`` rows after or before it
count, sum ...    an aggregate of the argument over the rows of the variables
classifier        the variable of the last row, in capitals
match_number      the number of the match in its part, from 1
================  ========================================================================================

A *fold* keeps what such a value needs while rows are added, at O(1) a row. States of folds are never changed in place:
runs that have begun alike share them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from typing import Any

from tidemill.algebra.functions.comparison import order_key
from tidemill.algebra.kernels.moving_aggregates import MovingSum
from tidemill.algebra.relational.aggregates import AggregateCall
from tidemill.algebra.relational.match import Navigation


class Fold(ABC):
    """How a value goes on from row to row."""

    start: Any = None

    @abstractmethod
    def add(self, state: Any, value: Any, variable: str) -> Any:
        """The state after one more row, in which the argument has this value."""

    @abstractmethod
    def value(self, state: Any) -> Any:
        """What is read."""


class FirstFold(Fold):
    """The value in the first row, or so many rows after it."""

    start = ()

    def __init__(self, offset: int) -> None:
        self._offset = offset

    def add(self, state: Any, value: Any, variable: str) -> Any:
        return state if len(state) > self._offset else (*state, value)

    def value(self, state: Any) -> Any:
        return state[self._offset] if len(state) > self._offset else None


class LatestFold(Fold):
    """The value in the last row."""

    def add(self, state: Any, value: Any, variable: str) -> Any:
        return value

    def value(self, state: Any) -> Any:
        return state


class LastFold(Fold):
    """The value so many rows before the last one."""

    start = ()

    def __init__(self, offset: int) -> None:
        self._kept = offset + 1

    def add(self, state: Any, value: Any, variable: str) -> Any:
        return (*state[1 - self._kept :], value)

    def value(self, state: Any) -> Any:
        return state[0] if len(state) == self._kept else None


class CountFold(Fold):
    """COUNT, of rows or of values that are not NULL."""

    start = 0

    def __init__(self, rows: bool) -> None:
        self._rows = rows

    def add(self, state: Any, value: Any, variable: str) -> Any:
        return state + 1 if self._rows or value is not None else state

    def value(self, state: Any) -> Any:
        return state


class SumFold(Fold):
    """SUM and AVG, exactly."""

    def __init__(self, call: AggregateCall) -> None:
        self.start = MovingSum(call)

    def add(self, state: Any, value: Any, variable: str) -> Any:
        if value is None:
            return state
        state = copy(state)
        state.enter(value)
        return state

    def value(self, state: Any) -> Any:
        return state.value()


class ExtremeFold(Fold):
    """MIN and MAX."""

    def __init__(self, greatest: bool) -> None:
        self._greatest = greatest

    def add(self, state: Any, value: Any, variable: str) -> Any:
        if value is None or state is None:
            return state if value is None else value
        one, other = order_key(state), order_key(value)
        return value if (other > one if self._greatest else other < one) else state

    def value(self, state: Any) -> Any:
        return state


class ClassifierFold(Fold):
    """CLASSIFIER()."""

    def add(self, state: Any, value: Any, variable: str) -> Any:
        return variable.upper()

    def value(self, state: Any) -> Any:
        return state


class MatchNumberFold(Fold):
    """MATCH_NUMBER(), which a run is told when it begins."""

    def add(self, state: Any, value: Any, variable: str) -> Any:
        return state

    def value(self, state: Any) -> Any:
        return state


def fold_of(look: Navigation) -> Fold:
    """How the value of ``look`` goes on."""
    match look.function:
        case "first":
            return FirstFold(look.offset)
        case "last":
            return LastFold(look.offset) if look.offset else LatestFold()
        case "count":
            return CountFold(rows=look.argument is None)
        case "sum" | "avg":
            return SumFold(AggregateCall(look.name, look.function, look.argument, look.of))
        case "min" | "max":
            return ExtremeFold(greatest=look.function == "max")
        case "classifier":
            return ClassifierFold()
        case "match_number":
            return MatchNumberFold()
    raise TypeError(f"a pattern cannot follow {look.function}")
