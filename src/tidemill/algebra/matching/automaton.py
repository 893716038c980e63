"""The automaton of a pattern: a state for each occurrence of a variable in the pattern, and its successors.

This is the finite state machine of the ViewDF thesis (algorithm 1) for all regular expressions. Successors are ordered
by preference: of two ways in which rows match, the one that takes an earlier successor where they differ is the better
one. So ``d+`` prefers to continue, and ``d+?`` prefers to end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tidemill.algebra.relational.row_patterns import (
    Alternation,
    Anchor,
    Concatenation,
    Exclusion,
    PatternVariable,
    Repetition,
    RowPattern,
)
from tidemill.model.errors import Unsupported

END = -1
"""Among the successors: the pattern is complete."""

LAST = -2
"""Among the successors: the pattern is complete if no row follows in the partition."""

MOST_STATES = 1_000
"""Maximum number of states: ``(a{1,100}){1,100}`` would have ten thousand."""


@dataclass(frozen=True, slots=True)
class Automaton:
    """``variables`` has the variable of each state, ``entry`` and ``follow`` the states that may come first and next.

    ``first_entry`` is the ``entry`` at the first row of a partition. Rows taken by ``excluded`` states are not output.

    >>> automaton_of(Concatenation((PatternVariable("a"), Repetition(PatternVariable("d"), 1, None))))
    Automaton(variables=('a', 'd'), entry=(0,), follow=((1,), (1, -1)))
    """

    variables: tuple[str, ...]
    entry: tuple[int, ...]
    follow: tuple[tuple[int, ...], ...]
    first_entry: tuple[int, ...] = field(default=(), repr=False)
    excluded: frozenset[int] = field(default=frozenset(), repr=False)


def automaton_of(pattern: RowPattern) -> Automaton:
    """The automaton of a pattern."""
    writing = _AutomatonBuilder()
    first = writing.write(pattern, writing.add(END))
    states = [place for place, step in enumerate(writing.steps) if isinstance(step, str)]
    numbers = {place: number for number, place in enumerate(sorted(states, reverse=True))}

    def reached(place: int, *, is_first: bool = False) -> tuple[int, ...]:
        return tuple(numbers.get(found, found) for found in writing.reached(place, is_first))

    ordered = sorted(states, reverse=True)
    return Automaton(
        tuple(str(writing.steps[place]) for place in ordered),
        reached(first),
        tuple(reached(writing.after[place]) for place in ordered),
        reached(first, is_first=True),
        frozenset(numbers[place] for place in writing.excluded),
    )


class _AutomatonBuilder:
    """Steps, written from the last to the first: a variable to be taken, successors in order of preference, an anchor,
    or the end."""

    def __init__(self) -> None:
        self.steps: list[_Step] = []
        self.after: dict[int, int] = {}
        self.excluded: set[int] = set()
        self._excludes = False

    def add(self, step: _Step) -> int:
        """The place of a new step."""
        if len(self.steps) > 2 * MOST_STATES:
            raise Unsupported(
                f"a pattern has more than {MOST_STATES:,} states", hint="Repeat less often, or use + instead of {n,m}."
            )
        self.steps.append(step)
        return len(self.steps) - 1

    def write(self, pattern: RowPattern, then: int) -> int:
        """The place at which ``pattern`` begins, after which it goes on at ``then``."""
        match pattern:
            case PatternVariable(name):
                place = self.add(name)
                self.after[place] = then
                self.excluded |= {place} if self._excludes else set()
                return place
            case Anchor():
                place = self.add(pattern)
                self.after[place] = then
                return place
            case Exclusion(item):
                around, self._excludes = self._excludes, True
                place = self.write(item, then)
                self._excludes = around
                return place
            case Concatenation(items):
                for item in reversed(items):
                    then = self.write(item, then)
                return then
            case Alternation(options):
                ways = [self.write(option, then) for option in reversed(options)]
                return self.add(ways[::-1])
            case Repetition():
                return self._repeat(pattern, then)
        raise TypeError(f"no machine for {pattern!r}")

    def _repeat(self, pattern: Repetition, then: int) -> int:
        least = pattern.least
        if pattern.most is None:
            again = self.add([])
            first = self.write(pattern.item, again)
            self.steps[again] = self._ways(pattern, first, then)
            # A pattern that occurs at least once begins within the loop, and needs no copy before it.
            then, least = (first, least - 1) if least else (again, 0)
        else:
            end = then
            for _ in range(pattern.most - least):
                then = self.add(self._ways(pattern, self.write(pattern.item, then), end))
        for _ in range(least):
            then = self.write(pattern.item, then)
        return then

    def _ways(self, pattern: Repetition, again: int, then: int) -> list[int]:
        return [then, again] if pattern.reluctant else [again, then]

    def reached(self, place: int, is_first: bool) -> Iterator[int]:
        """The variables and the ends that can come next at ``place``, each once, in order of preference.

        ``is_first``: no row of the partition comes before it.
        """
        seen: set[tuple[int, bool]] = set()
        waiting = [(place, False)]
        while waiting:
            here, is_last = waiting.pop()
            if (here, is_last) in seen:
                continue
            seen.add((here, is_last))
            step = self.steps[here]
            if isinstance(step, list):
                waiting += ((one, is_last) for one in reversed(step))
            elif isinstance(step, Anchor):
                waiting += [(self.after[here], is_last or step.end)] if step.end or is_first else []
            elif isinstance(step, int):
                yield LAST if is_last else END
            elif not is_last:
                yield here


_Step = str | list[int] | Anchor | int
