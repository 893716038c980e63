"""The deterministic automaton of a pattern whose conditions read one row, so that a row costs one step.

Where conditions read nothing of a run but the row that is tried, and perhaps the row before it in the partition, runs
in the same state continue alike. ``d[i-1].x`` is in the row before where a run goes on from d to d, and so is ``a.x``
where it goes on from a. Of a partition it is then enough to know which states have a run, the oldest first:
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

from tidemill.algebra.expressions.scalars import Call, Column, Literal, Scalar
from tidemill.algebra.matching.automaton import END, Automaton, automaton_of
from tidemill.algebra.matching.partial_matches import navigations_read
from tidemill.algebra.relational.match import WITHIN, AfterMatch, Contiguity, Match, Navigation, RowsPerMatch
from tidemill.algebra.relational.row_patterns import anchors_in
from tidemill.algebra.relational.walk import columns_in, substitute, transform
from tidemill.model.types import BIGINT, BOOLEAN

MAX_CONDITIONS = 6
MAX_TRANSITIONS = 4_096

START = -1
"""In place of the run before it: a run that begins."""

ONE, MORE = (Column(name, BIGINT) for name in ("first of its variable", "later of its variable"))
"""In place of the number of rows of a variable where the row that is tried is the first one of it, and where not."""

UNKNOWN = Column("another row", BIGINT)
"""In place of what is read of a row that is not known."""

TRUE = Literal(True, BOOLEAN)

Edge = tuple[int, int]
"""A state, or ``START``, and one that may follow it."""

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
    the number of the run that comes out, and ``prolongs`` is true if that continues the one which came out before.
    """

    configuration: int
    runs: tuple[tuple[int, str], ...]
    complete: int | None = None
    prolongs: bool = False


@dataclass(frozen=True, slots=True)
class DeterministicAutomaton:
    """``transitions`` by configuration, of which 0 has no run, and by symbol: bit i is set if ``conditions[i]`` holds.

    Conditions are over columns ``row <i>``, the values of ``reads``. If a match is output once, ``at_end``, a complete
    run comes out when no later row has prolonged it.
    """

    reads: tuple[RowValue, ...]
    conditions: tuple[Scalar, ...]
    configurations: tuple[Configuration, ...]
    transitions: tuple[tuple[Transition, ...], ...]
    at_end: bool = False

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
    automaton, at_end = automaton_of(match.pattern), match.output is RowsPerMatch.ONE
    form = _other_form(match)
    if form or (at_end and END in automaton.entry):
        raise NotDeterministic(f"a pattern with {form or 'empty matches'}")
    edges = _EdgeConditions(match, automaton)
    on_edges = {edge: edges.condition(*edge) for edge in _edges(automaton)}
    conditions = tuple(dict.fromkeys(condition for condition in on_edges.values() if condition != TRUE))
    if len(conditions) > MAX_CONDITIONS:
        raise NotDeterministic(f"a pattern with more than {MAX_CONDITIONS} different conditions")
    needed = {edge: 0 if one == TRUE else 1 << conditions.index(one) for edge, one in on_edges.items()}
    builder = _SubsetConstruction(automaton, needed, at_end)
    configurations, transitions = builder.explore([_is_possible(conditions, s) for s in range(1 << len(conditions))])
    return DeterministicAutomaton(tuple(edges.reads), conditions, configurations, transitions, at_end)


def is_deterministic(match: Match) -> bool:
    """True if a match has such an automaton."""
    try:
        determinize(match)
    except NotDeterministic:
        return False
    return True


def _other_form(match: Match) -> str:
    """The form of output, contiguity or pattern for which there is no such automaton; empty if there may be one."""
    if match.output is RowsPerMatch.ALL:
        return str(match.output.value).upper()
    if match.skips is not Contiguity.NONE:
        return f"SKIP {match.skips.value.upper()}"
    if match.skip.after is not AfterMatch.PAST_LAST:
        return "runs from every row" if match.overlaps else f"AFTER MATCH SKIP {match.skip.after.value.upper()}"
    if any(name == WITHIN for name, _ in match.conditions):
        return "WITHIN, which depends on the row at which a run has begun"
    return "anchors" if anchors_in(match.pattern) else ""


def _edges(automaton: Automaton) -> Iterator[Edge]:
    """All pairs of a state, or ``START``, and one that may follow."""
    for state, follow in ((START, automaton.entry), *enumerate(automaton.follow)):
        yield from ((state, after) for after in follow if after != END)


class _EdgeConditions:
    """The conditions of steps from one state to another, over the columns of ``reads``."""

    def __init__(self, match: Match, automaton: Automaton) -> None:
        self._match, self._automaton = match, automaton
        self._conditions = dict(match.conditions)
        self.reads: dict[RowValue, Column] = {}

    def condition(self, source: int, target: int) -> Scalar:
        """The condition on the row that a run in state ``source`` takes for ``target``."""
        variable = self._automaton.variables[target]
        if variable not in self._conditions:
            return TRUE
        before = None if source == START else self._automaton.variables[source]
        values: dict[str, Scalar] = {}
        for number in navigations_read(self._match, variable):
            navigation = self._match.navigations[number]
            values[navigation.name] = self._value(navigation, before, variable)
        return _decided(substitute(self._conditions[variable], values))

    def _value(self, navigation: Navigation, before: str | None, variable: str) -> Scalar:
        """Value of a navigation where the row before was taken for ``before``, and this one for ``variable``."""
        counts_own = navigation.counts_rows and navigation.variables == (variable,) and not navigation.earlier
        if counts_own and (first := self._is_first(before, variable)) is not None:
            return ONE if first else MORE
        read = _row_value(navigation, before, variable)
        own_first = navigation.variables == (variable,) and not navigation.step and self._is_first(before, variable)
        if own_first and navigation.function == "first" and not navigation.offset and navigation.argument is not None:
            read = RowValue(navigation.argument, 0)
        if read is not None:
            return self.reads.setdefault(read, Column(f"row {len(self.reads)}", read.argument.type))
        if own_first and navigation.function == "last" and navigation.offset == 1:
            return Literal(None, navigation.of)
        return UNKNOWN

    def _is_first(self, before: str | None, variable: str) -> bool | None:
        """True if the row is the first of its variable, False if the one before it was, too; None if that is open."""
        if before == variable or before is None:
            return before is None
        variables, follow = self._automaton.variables, self._automaton.follow
        left = {after for state, name in enumerate(variables) if name == variable for after in follow[state]}
        waiting = [state for state in left if state != END and variables[state] != variable]
        reached = set(waiting)
        for state in waiting:  # it grows meanwhile
            further = [after for after in follow[state] if after != END and after not in reached]
            reached.update(further)
            waiting += further
        return None if any(variables[state] == variable for state in reached) else True


def _decided(condition: Scalar) -> Scalar:
    """A condition without the question whether a row is the first of its variable, which its edge has answered."""

    def settle(scalar: Scalar) -> Scalar:
        match scalar:
            case Call("eq" | "ne" as name, (Column(name=count), Literal(value=1))) if count in (ONE.name, MORE.name):
                return Literal((count == ONE.name) == (name == "eq"), BOOLEAN)
            case Call("or" | "and" as name, (Literal(value=bool(known)), other)):
                return Literal(known, BOOLEAN) if known == (name == "or") else other
        return scalar

    settled = transform(condition, settle)
    if not columns_in(settled).isdisjoint((ONE.name, MORE.name, UNKNOWN.name)):
        raise NotDeterministic("conditions that read other rows of a match")
    return settled


def reads_one_row(match: Match) -> bool:
    """True if conditions read nothing of a run: only the row that is tried, or the row before it."""
    return all(
        _row_value(match.navigations[number], None, name) is not None
        for name, _ in match.conditions
        for number in navigations_read(match, name)
    )


def _row_value(navigation: Navigation, before: str | None, variable: str) -> RowValue | None:
    """The value that ``navigation`` reads in the row that is tried for ``variable``, or in the one before it.

    That one was taken for the variable ``before``; None where that is not known.
    """
    if navigation.function != "last" or navigation.earlier or navigation.argument is None:
        return None
    if navigation.sees(variable) and not navigation.offset:
        return RowValue(navigation.argument, navigation.step) if navigation.step in (0, -1) else None
    is_before = before is not None and navigation.sees(before) and not navigation.step
    if is_before and navigation.offset == navigation.sees(variable):
        return RowValue(navigation.argument, -1)
    return None


_OUTCOMES = {"lt": {-1}, "le": {-1, 0}, "eq": {0}, "ge": {0, 1}, "gt": {1}, "ne": {-1, 1}}
"""The comparisons of two values that make a condition true."""


def _is_possible(conditions: Sequence[Scalar], symbol: int) -> bool:
    """False if some conditions that hold compare the same values and contradict each other."""
    outcomes: dict[frozenset[Scalar], set[int]] = {}
    for bit, condition in enumerate(conditions):
        match condition:
            case Call(name, (one, other)) if symbol >> bit & 1 and name in _OUTCOMES:
                first = min(one, other, key=repr)
                found = {outcome if one == first else -outcome for outcome in _OUTCOMES[name]}
                outcomes.setdefault(frozenset((one, other)), {-1, 0, 1}).intersection_update(found)
    return all(outcomes.values())


class _SubsetConstruction:
    """The configurations that are reached from ``NO_RUN``; ``needed`` has the bit of the condition of each step."""

    def __init__(self, automaton: Automaton, needed: Mapping[Edge, int], at_end: bool) -> None:
        """``at_end``: of all complete runs the best one is wanted, so worse ones are dropped once there is one."""
        self._needed, self._at_end = needed, at_end
        self._variables, self._entry = automaton.variables, automaton.entry
        self._completes = [END in follow for follow in automaton.follow]
        self._follow = [self._live(follow) for follow in automaton.follow]

    def _live(self, follow: tuple[int, ...]) -> tuple[int, ...]:
        if self._at_end and END in follow:
            return follow[: follow.index(END)]
        return tuple(state for state in follow if state != END)

    def explore(self, possible: Sequence[bool]) -> tuple[tuple[Configuration, ...], tuple[tuple[Transition, ...], ...]]:
        """All configurations and their transitions."""
        numbers, transitions = {NO_RUN: 0}, list[tuple[Transition, ...]]()
        waiting = [NO_RUN]
        for configuration in waiting:  # it grows meanwhile
            steps = []
            for symbol, may_be in enumerate(possible):
                if not may_be:
                    steps.append(Transition(0, ()))
                    continue
                following, runs, complete, prolongs = self._step(configuration, symbol)
                if following not in numbers:
                    numbers[following] = len(numbers)
                    waiting.append(following)
                steps.append(Transition(numbers[following], runs, complete, prolongs))
            transitions.append(tuple(steps))
            if len(waiting) * len(possible) > MAX_TRANSITIONS:
                raise NotDeterministic(f"a pattern with more than {MAX_TRANSITIONS:,} transitions")
        return tuple(numbers), tuple(transitions)

    def _step(
        self, configuration: Configuration, symbol: int
    ) -> tuple[Configuration, tuple[tuple[int, str], ...], int | None, bool]:
        is_complete, begun = configuration
        places = {state: place for place, state in enumerate(state for states in begun for state in states)}
        kept: list[dict[int, int]] = []
        seen: set[int] = set()
        for states in (*begun, None):
            sources = [(START, START)] if states is None else [(state, places[state]) for state in states]
            taken = dict(self._taken(sources, symbol))
            complete = next((state for state in taken if self._completes[state]), None)
            if complete is not None:
                if kept:
                    raise NotDeterministic("a pattern of which a later run may be complete before an earlier one")
                return *self._completed(taken, complete), is_complete and states is not None
            if is_complete and states is not None and taken:
                raise NotDeterministic("a pattern of which a complete run may continue over rows outside of the match")
            mine = {state: place for state, place in taken.items() if state not in seen}
            seen |= mine.keys()
            kept += [mine] if mine else []
        following = tuple(tuple(mine) for mine in kept)
        return (False, following), self._runs([item for mine in kept for item in mine.items()]), None, False

    def _taken(self, sources: Sequence[tuple[int, int]], symbol: int) -> Iterator[tuple[int, int]]:
        """The states that take a row, the best one first, each with the run that it continues."""
        taken: set[int] = set()
        for source, place in sources:
            for state in self._entry if source == START else self._follow[source]:
                if state != END and state not in taken and self._needed[source, state] & ~symbol == 0:
                    taken.add(state)
                    yield state, place
                    if self._at_end and self._completes[state]:
                        return

    def _completed(
        self, taken: Mapping[int, int], complete: int
    ) -> tuple[Configuration, tuple[tuple[int, str], ...], int]:
        """Only runs from the row at which the complete one began continue."""
        going = [state for state in taken if self._follow[state]]
        runs = going if complete in going else [*going, complete]
        following: Configuration = (True, (tuple(going),)) if going else NO_RUN
        return following, self._runs([(state, taken[state]) for state in runs]), runs.index(complete)

    def _runs(self, taken: Sequence[tuple[int, int]]) -> tuple[tuple[int, str], ...]:
        return tuple((place, self._variables[state]) for state, place in taken)
