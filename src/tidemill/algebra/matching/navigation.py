"""Values that conditions and measures read of a partial match: of the rows that it has taken, and their variables.

================  ========================================================================================
function          value
================  ========================================================================================
first, last       the argument in the first or last row of the variables, ``offset`` rows after or before it
count, sum ...    an aggregate of the argument over the rows of the variables
classifier        the variable of the last row, in capitals
match_number      the number of the match in its partition, from 1
================  ========================================================================================

A *fold* maintains such a value while rows are added, in O(1) per row. States of folds are never changed in place: runs
with a common prefix share them.
"""

from __future__ import annotations

from typing import Any

from tidemill.algebra.aggregates.call import AggregateCall
from tidemill.algebra.aggregates.folds import DistinctFold, Fold
from tidemill.algebra.aggregates.registry import AGGREGATE_FUNCTIONS
from tidemill.algebra.relational.match import Navigation


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


class LastFold(Fold):
    """The value so many rows before the last one."""

    start = ()

    def __init__(self, offset: int) -> None:
        self._kept = offset + 1

    def add(self, state: Any, value: Any, variable: str) -> Any:
        return (*state[1 - self._kept :], value)

    def value(self, state: Any) -> Any:
        return state[0] if len(state) == self._kept else None


class ClassifierFold(Fold):
    """CLASSIFIER()."""

    def add(self, state: Any, value: Any, variable: str) -> Any:
        return variable.upper()


class MatchNumberFold(Fold):
    """MATCH_NUMBER(), which a run is told when it begins."""

    def add(self, state: Any, value: Any, variable: str) -> Any:
        return state


def fold_of(navigation: Navigation) -> Fold:
    """The fold that follows the value of ``navigation``."""
    match navigation.function:
        case "first":
            return FirstFold(navigation.offset)
        case "last":
            return LastFold(navigation.offset) if navigation.offset else LatestFold()
        case "classifier":
            return ClassifierFold()
        case "match_number":
            return MatchNumberFold()
    fold = AGGREGATE_FUNCTIONS[navigation.function].fold
    if fold is None:
        raise TypeError(f"a pattern cannot follow {navigation.function}")
    found = fold(AggregateCall(navigation.name, navigation.function, navigation.argument, navigation.of))
    return DistinctFold(found) if navigation.distinct else found
