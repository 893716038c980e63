"""Partial matches (runs): rows that have been taken for the variables of a pattern, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tidemill.algebra.aggregates.folds import Fold
from tidemill.algebra.matching.automaton import automaton_of
from tidemill.algebra.matching.navigation import LatestFold, fold_of
from tidemill.algebra.relational.match import MATCH_NUMBER, WITHIN, Match
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

    @property
    def last(self) -> int:
        """The last row that was taken, or the row at which an empty run is."""
        return self.first if self.before is None else self.row

    def backwards(self) -> Iterator[PartialMatch]:
        """The run as of each of its rows, the last one first."""
        run = self
        while run.before is not None:
            yield run
            run = run.before


def navigations_read(match: Match, variable: str) -> tuple[int, ...]:
    """The numbers of those of ``match.navigations`` that the condition of a variable reads."""
    read = columns_in(dict(match.conditions)[variable])
    return tuple(number for number, navigation in enumerate(match.navigations) if navigation.name in read)


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
        self._navigations = (*match.navigations, *match.measures)
        arguments = {argument: place for place, argument in enumerate(match.arguments)}
        self._states = [
            _NavigationState(
                number,
                fold_of(navigation),
                None if navigation.argument is None else arguments[navigation.argument],
                navigation.step,
            )
            for number, navigation in enumerate(self._navigations)
        ]
        read = {name: navigations_read(match, name) for name in holds}
        kept = self._kept(read)
        trials = {name: self._trial(name, holds.get(name), read.get(name, ()), kept) for name in self.machine.variables}
        self._trials = [trials[name] for name in self.machine.variables]
        self._within = self._trial(WITHIN, holds[WITHIN], read[WITHIN], kept) if WITHIN in holds else None
        self._relevant = len(match.navigations)
        self._remembers = match.needs_all_rows

    def _kept(self, read: Mapping[str, Sequence[int]]) -> list[_NavigationState]:
        """The navigations that are maintained from row to row, without those that only read the row that is tried."""
        by = [[name for name, numbers in read.items() if state.number in numbers] for state in self._states]
        pairs = zip(self._navigations, self._states, by, strict=True)
        return [
            state
            for navigation, state, names in pairs
            if not (
                names
                and isinstance(state.fold, LatestFold)
                and not navigation.earlier
                and all(map(navigation.sees, names))
            )
        ]

    def _trial(
        self, variable: str, holds: Holds | None, read: Sequence[int], kept: Sequence[_NavigationState]
    ) -> _Trial:
        sees = [navigation.sees(variable) for navigation in self._navigations]
        tried = ((self._states[number], sees[number] and not self._navigations[number].earlier) for number in read)
        return _Trial(variable, holds, tuple(tried), tuple(state for state in kept if sees[state.number]))

    def begin(self, row: int, number: int) -> PartialMatch:
        """An empty run at a row, for the match of that number."""
        pairs = zip(self._navigations, self._states, strict=True)
        values = tuple(
            number if navigation.function == MATCH_NUMBER else state.fold.start for navigation, state in pairs
        )
        return PartialMatch(None, row, -1, -1, values)

    def take(self, run: PartialMatch, state: int, row: int, rows: PartitionRows) -> PartialMatch | None:
        """The run after it has taken ``row`` for ``state``; None if it cannot."""
        return self.taken(run, state, row, rows) if self._holds(self._trials[state], run, row, rows) else None

    def taken(self, run: PartialMatch, state: int, row: int, rows: PartitionRows) -> PartialMatch:
        """The run after it has taken ``row`` for ``state``, whether or not it can."""
        trial = self._trials[state]
        variable, values = trial.variable, list(run.values)
        for kept in trial.continuing:
            values[kept.number] = kept.added(run, variable, row, rows)
        before = run if self._remembers or run.before is None else run.before
        return PartialMatch(before, run.first, row, state, tuple(values))

    def ends(self, run: PartialMatch, row: int, rows: PartitionRows) -> bool:
        """True if a run that has taken rows is over because ``row`` is not within the time of its first one."""
        return self._within is not None and run.before is not None and not self._holds(self._within, run, row, rows)

    def _holds(self, trial: _Trial, run: PartialMatch, row: int, rows: PartitionRows) -> bool:
        if trial.holds is None:
            return True
        given = [
            kept.fold.value(kept.added(run, trial.variable, row, rows) if goes_on else run.values[kept.number])
            for kept, goes_on in trial.read
        ]
        return trial.holds(tuple(given))

    def unmatched(self) -> Row:
        """The output for a row that is in no match."""
        return (None,) * (len(self._navigations) - self._relevant)

    def measured(self, run: PartialMatch, last: PartialMatch) -> Row:
        """The output for a partial match that is a prefix of ``last``, or all of it."""
        pairs = zip(self._navigations[self._relevant :], self._states[self._relevant :], strict=True)
        return tuple([s.fold.value((last if navigation.final else run).values[s.number]) for navigation, s in pairs])

    def continuation_key(self, run: PartialMatch) -> tuple[Any, ...]:
        """All that decides how a run can continue: runs with equal keys can continue alike."""
        return (run.state, *run.values[: self._relevant])
