"""Partial matches (runs): rows that have been taken for the variables of a pattern, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tidemill.algebra.aggregates.folds import Fold
from tidemill.algebra.matching.automaton import automaton_of
from tidemill.algebra.matching.navigation import LatestFold, fold_of
from tidemill.algebra.relational.match import MATCH_NUMBER, Match
from tidemill.algebra.relational.walk import columns_in
from tidemill.changes.zset import Row

Holds = Callable[[Row], bool]
"""Tests the condition of a variable on the values of its navigations, in the order of ``navigations_read``."""


class PartitionRows(Protocol):
    """The rows of a partition by number, from ``begin`` to before ``end``: the values that navigations read of each."""

    @property
    def begin(self) -> int: ...

    @property
    def end(self) -> int: ...

    def seen(self, number: int) -> Row:
        """The values of ``Match.arguments`` in a row."""


@dataclass(frozen=True, slots=True)
class ListedRows:
    """Rows held in a list."""

    all: Sequence[Row]
    begin: int = 0

    @property
    def end(self) -> int:
        return len(self.all)

    def seen(self, number: int) -> Row:
        return self.all[number]


@dataclass(frozen=True, slots=True, eq=False)
class PartialMatch:
    """The last row that was taken, the state that took it, and the run before it; ``values`` are the folds' states.

    A run that has taken no row has state -1, and none before it. ``first`` is the row at which the run begins. If the
    rows of the match are not needed, the run before is the one that has taken none.
    """

    before: PartialMatch | None
    first: int
    row: int
    state: int
    values: tuple[Any, ...]

    def backwards(self) -> Iterator[PartialMatch]:
        """The run as of each of its rows, the last one first."""
        run = self
        while run.before is not None:
            yield run
            run = run.before


def navigations_read(match: Match, variable: str) -> tuple[int, ...]:
    """The numbers of those of ``match.looks`` that the condition of a variable reads."""
    read = columns_in(dict(match.conditions)[variable])
    return tuple(number for number, look in enumerate(match.looks) if look.name in read)


@dataclass(frozen=True, slots=True)
class _NavigationState:
    """One navigation: its number, its fold, and which value of which row it reads."""

    number: int
    fold: Fold
    place: int | None
    step: int

    def added(self, run: PartialMatch, variable: str, row: int, rows: PartitionRows) -> Any:
        """The state of the fold after one more row."""
        there = row + self.step
        value = rows.seen(there)[self.place] if self.place is not None and rows.begin <= there < rows.end else None
        return self.fold.add(run.values[self.number], value, variable)


@dataclass(frozen=True, slots=True)
class _Trial:
    """The data for taking a row for a variable: its condition, the navigations that it reads, and those that it
    updates.

    A navigation that is read includes the row that is tried, unless it is declared not to.
    """

    variable: str
    holds: Holds | None
    read: tuple[tuple[_NavigationState, bool], ...]
    continuing: tuple[_NavigationState, ...]


class MatchBuilder:
    """Extends runs by rows. ``holds`` has the conditions, by variable."""

    def __init__(self, match: Match, holds: Mapping[str, Holds]) -> None:
        self.machine = automaton_of(match.pattern)
        self._looks = (*match.looks, *match.measures)
        arguments = {argument: place for place, argument in enumerate(match.arguments)}
        self._navigations = [
            _NavigationState(
                number, fold_of(look), None if look.argument is None else arguments[look.argument], look.step
            )
            for number, look in enumerate(self._looks)
        ]
        read = {name: navigations_read(match, name) for name in holds}
        kept = self._kept(read)
        trials = {name: self._trial(name, holds.get(name), read.get(name, ()), kept) for name in self.machine.variables}
        self._trials = [trials[name] for name in self.machine.variables]
        self._relevant = len(match.looks)
        self._remembers = match.needs_all_rows

    def _kept(self, read: Mapping[str, Sequence[int]]) -> list[_NavigationState]:
        """The navigations that are maintained from row to row, without those that only read the row that is tried."""
        by = [
            [name for name, numbers in read.items() if navigation.number in numbers] for navigation in self._navigations
        ]
        pairs = zip(self._looks, self._navigations, by, strict=True)
        return [
            navigation
            for look, navigation, names in pairs
            if not (
                names and isinstance(navigation.fold, LatestFold) and not look.earlier and all(map(look.sees, names))
            )
        ]

    def _trial(
        self, variable: str, holds: Holds | None, read: Sequence[int], kept: Sequence[_NavigationState]
    ) -> _Trial:
        sees = [look.sees(variable) for look in self._looks]
        tried = ((self._navigations[number], sees[number] and not self._looks[number].earlier) for number in read)
        return _Trial(
            variable, holds, tuple(tried), tuple(navigation for navigation in kept if sees[navigation.number])
        )

    def begin(self, row: int, number: int) -> PartialMatch:
        """An empty run at a row, for the match of that number."""
        pairs = zip(self._looks, self._navigations, strict=True)
        values = tuple(number if look.function == MATCH_NUMBER else navigation.fold.start for look, navigation in pairs)
        return PartialMatch(None, row, -1, -1, values)

    def take(self, run: PartialMatch, state: int, row: int, rows: PartitionRows) -> PartialMatch | None:
        """The run after it has taken ``row`` for ``state``; None if it cannot."""
        trial = self._trials[state]
        variable, old = trial.variable, run.values
        if trial.holds is not None:
            given = [
                navigation.fold.value(navigation.added(run, variable, row, rows) if goes_on else old[navigation.number])
                for navigation, goes_on in trial.read
            ]
            if not trial.holds(tuple(given)):
                return None
        values = list(old)
        for navigation in trial.continuing:
            values[navigation.number] = navigation.added(run, variable, row, rows)
        before = run if self._remembers or run.before is None else run.before
        return PartialMatch(before, run.first, row, state, tuple(values))

    def measured(self, run: PartialMatch, last: PartialMatch) -> Row:
        """The output for a partial match that is a prefix of ``last``, or all of it."""
        pairs = zip(self._looks[self._relevant :], self._navigations[self._relevant :], strict=True)
        return tuple([s.fold.value((last if look.final else run).values[s.number]) for look, s in pairs])

    def continuation_key(self, run: PartialMatch) -> tuple[Any, ...]:
        """All that decides how a run can continue: runs with equal keys can continue alike."""
        return (run.state, *run.values[: self._relevant])
