"""The deterministic automaton of a pattern whose conditions read one row, so that a row costs one step.

Where conditions read nothing of a run but the row that is tried, and perhaps the row before it in the partition, runs
in the same state continue alike. Of a partition it is then enough to know which states have a run, the oldest first:
a *configuration*, of which there are finitely many. The conditions that hold for a row are its *symbol*. Configuration
and symbol decide the next configuration, the run before that each run continues, and the run that is complete.

Runs from all rows are followed together. A run that begins later matters only once all older ones have failed, so one
in a state in which an older run is, too, is dropped: it fails with it, or the older one completes. Patterns for which
that is not enough are left to ``search``: those of which a later run may be complete before an older one has failed,
and those of which a complete run may continue over rows that then do not belong to a match.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tidemill.algebra.expressions.scalars import Column, Scalar
from tidemill.algebra.matching.automaton import END, Automaton, automaton_of
from tidemill.algebra.matching.partial_matches import navigations_read
from tidemill.algebra.relational.match import Contiguity, Match, Navigation, RowsPerMatch
from tidemill.algebra.relational.walk import substitute

MAX_CONDITIONS = 6
MAX_TRANSITIONS = 4_096

START = -1
"""In place of the run before it: a run that begins."""

Configuration = tuple[bool, tuple[tuple[int, ...], ...]]
"""True if the pattern is complete; and for each row at which runs have begun, the oldest first, their states."""

NO_RUN: Configuration = (False, ())


class NotDeterministic(Exception):
    """A match without such an automaton; the message names what it does."""


@dataclass(frozen=True, slots=True)
class RowValue:
    """A value that conditions read: ``argument`` in the row that is tried, or with ``step`` -1 in the row before it."""

    argument: Scalar
    step: int


@dataclass(frozen=True, slots=True)
class Transition:
    """The step from a configuration with a symbol.

    ``runs`` has for each run of the next ``configuration`` the number of the run that it continues (or ``START``) and
    the variable for which it has taken the row. A complete run that cannot continue comes after these. ``complete`` is
    the number of the run that comes out.
    """

    configuration: int
    runs: tuple[tuple[int, str], ...]
    complete: int | None = None


@dataclass(frozen=True, slots=True)
class DeterministicAutomaton:
    """``transitions`` by configuration, of which 0 has no run, and by symbol: bit i is set if ``conditions[i]`` holds.

    Conditions are over columns ``row <i>``, the values of ``reads``.
    """

    reads: tuple[RowValue, ...]
    conditions: tuple[Scalar, ...]
    configurations: tuple[Configuration, ...]
    transitions: tuple[tuple[Transition, ...], ...]

    @property
    def most_runs(self) -> int:
        """The largest number of runs that a transition leads to."""
        return max((len(step.runs) for steps in self.transitions for step in steps), default=0)

    def forgets(self, symbol: int) -> bool:
        """True if no run outlives a row with that symbol, whatever came before it."""
        return all(steps[symbol].configuration == 0 for steps in self.transitions)


@lru_cache(maxsize=64)
def determinize(match: Match) -> DeterministicAutomaton:
    """The deterministic automaton of a match; raises ``NotDeterministic`` where it has none, with the reason."""
    if match.output is not RowsPerMatch.EACH or match.skips is not Contiguity.NONE or match.overlaps:
        raise NotDeterministic(f"a pattern with {_form(match)}")
    reads: dict[RowValue, Column] = {}
    named = {name: _over_rows(match, name, condition, reads) for name, condition in match.conditions}
    conditions = tuple(dict.fromkeys(named.values()))
    if len(conditions) > MAX_CONDITIONS:
        raise NotDeterministic(f"a pattern with more than {MAX_CONDITIONS} different conditions")
    needed = {name: 1 << conditions.index(condition) for name, condition in named.items()}
    builder = _SubsetConstruction(automaton_of(match.pattern), needed)
    configurations, transitions = builder.explore(range(1 << len(conditions)))
    return DeterministicAutomaton(tuple(reads), conditions, configurations, transitions)


def _form(match: Match) -> str:
    if match.output is not RowsPerMatch.EACH:
        return match.output.value.upper()
    return "SKIP TILL NEXT MATCH" if match.skips is Contiguity.NEXT else "runs from every row"


def _over_rows(match: Match, variable: str, condition: Scalar, reads: dict[RowValue, Column]) -> Scalar:
    """The condition of a variable over the columns of ``reads``, to which it adds those that it needs."""
    values: dict[str, Scalar] = {}
    for navigation in (match.navigations[number] for number in navigations_read(match, variable)):
        read = _row_value(navigation, variable)
        if read is None:
            raise NotDeterministic("conditions that read other rows of a match")
        values[navigation.name] = reads.setdefault(read, Column(f"row {len(reads)}", read.argument.type))
    return substitute(condition, values)


def reads_one_row(match: Match) -> bool:
    """True if conditions read nothing of a run: only the row that is tried, or the row before it."""
    return all(
        _row_value(match.navigations[number], name) is not None
        for name, _ in match.conditions
        for number in navigations_read(match, name)
    )


def _row_value(navigation: Navigation, variable: str) -> RowValue | None:
    """What a condition of ``variable`` reads by ``navigation``, if that is in the row that is tried or before it."""
    is_last = navigation.function == "last" and not navigation.offset and not navigation.earlier
    if not is_last or navigation.argument is None or not navigation.sees(variable) or navigation.step not in (0, -1):
        return None
    return RowValue(navigation.argument, navigation.step)


class _SubsetConstruction:
    """The configurations that are reached from ``NO_RUN``; ``needed`` has the bits of each variable's condition."""

    def __init__(self, automaton: Automaton, needed: Mapping[str, int]) -> None:
        self._automaton = automaton
        self._needed = [needed.get(name, 0) for name in automaton.variables]

    def explore(self, symbols: Sequence[int]) -> tuple[tuple[Configuration, ...], tuple[tuple[Transition, ...], ...]]:
        """All configurations and their transitions."""
        numbers, transitions = {NO_RUN: 0}, list[tuple[Transition, ...]]()
        waiting = [NO_RUN]
        for configuration in waiting:  # it grows meanwhile
            steps = []
            for symbol in symbols:
                following, runs, complete = self._step(configuration, symbol)
                if following not in numbers:
                    numbers[following] = len(numbers)
                    waiting.append(following)
                steps.append(Transition(numbers[following], runs, complete))
            transitions.append(tuple(steps))
            if len(waiting) * len(symbols) > MAX_TRANSITIONS:
                raise NotDeterministic(f"a pattern with more than {MAX_TRANSITIONS:,} transitions")
        return tuple(numbers), tuple(transitions)

    def _step(
        self, configuration: Configuration, symbol: int
    ) -> tuple[Configuration, tuple[tuple[int, str], ...], int | None]:
        is_complete, begun = configuration
        places = {state: place for place, state in enumerate(state for states in begun for state in states)}
        kept: list[dict[int, int]] = []
        seen: set[int] = set()
        for states in (*begun, None):
            threads = (
                [(START, self._automaton.entry)]
                if states is None
                else [(places[state], self._automaton.follow[state]) for state in states]
            )
            taken = dict(self._taken(threads, symbol))
            complete = next((state for state in taken if END in self._automaton.follow[state]), None)
            if complete is not None:
                if kept:
                    raise NotDeterministic("a pattern of which a later run may be complete before an earlier one")
                return self._completed(taken, complete)
            if is_complete and states is not None and taken:
                raise NotDeterministic("a pattern of which a complete run may continue over rows outside of the match")
            mine = {state: place for state, place in taken.items() if state not in seen}
            seen |= mine.keys()
            kept += [mine] if mine else []
        following = tuple(tuple(mine) for mine in kept)
        return (False, following), self._runs([item for mine in kept for item in mine.items()]), None

    def _taken(self, threads: Sequence[tuple[int, tuple[int, ...]]], symbol: int) -> Iterator[tuple[int, int]]:
        """The states that take a row, the best one first, each with the run that it continues."""
        taken: set[int] = set()
        for place, follow in threads:
            for state in follow:
                if state != END and state not in taken and self._needed[state] & ~symbol == 0:
                    taken.add(state)
                    yield state, place

    def _completed(
        self, taken: Mapping[int, int], complete: int
    ) -> tuple[Configuration, tuple[tuple[int, str], ...], int]:
        """Only runs from the row at which the complete one began continue."""
        going = [state for state in taken if any(after != END for after in self._automaton.follow[state])]
        runs = going if complete in going else [*going, complete]
        following: Configuration = (True, (tuple(going),)) if going else NO_RUN
        return following, self._runs([(state, taken[state]) for state in runs]), runs.index(complete)

    def _runs(self, taken: Sequence[tuple[int, int]]) -> tuple[tuple[int, str], ...]:
        return tuple((place, self._automaton.variables[state]) for state, place in taken)
