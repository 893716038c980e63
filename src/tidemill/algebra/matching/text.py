"""A pattern's automaton in words: its states, what follows each, and the conditions of its variables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from tidemill.algebra.expressions.scalars import Column, Scalar
from tidemill.algebra.matching.automaton import END, LAST, Automaton, automaton_of
from tidemill.algebra.relational.match import WITHIN, Match, Navigation
from tidemill.algebra.relational.walk import substitute, transform
from tidemill.algebra.text import text_of

MOST_STATES = 24
"""States of an automaton up to which it is written out and drawn."""


@dataclass(frozen=True)
class AutomatonText:
    """The automaton of ``match`` for readers."""

    match: Match

    @cached_property
    def automaton(self) -> Automaton:
        """The automaton itself."""
        return automaton_of(self.match.pattern)

    @cached_property
    def labels(self) -> list[str]:
        """A name for each state: its variable, numbered where it has several states."""
        variables, counts = self.automaton.variables, dict[str, int]()
        found = []
        for name in variables:
            counts[name] = counts.get(name, 0) + 1
            found.append(f"{name}{counts[name]}" if variables.count(name) > 1 else name)
        return found

    def steps(self) -> list[str]:
        """Each state with those that may follow, the preferred one first."""
        if len(self.labels) > MOST_STATES:
            return [f"{len(self.labels):,} states"]
        entry = self.automaton.first_entry or self.automaton.entry
        pairs = [("start", entry), *zip(self.labels, self.automaton.follow, strict=True)]
        return [f"{name} -> {', '.join(self._following(follow)) or 'nothing'}" for name, follow in pairs]

    def _following(self, follow: Sequence[int]) -> Iterator[str]:
        names = {END: "end", LAST: "end of the partition"}
        return (names[state] if state < 0 else self.labels[state] for state in follow)

    def conditions(self) -> Iterator[tuple[str, str]]:
        """The condition of each variable that has one, and that of WITHIN."""
        values: dict[str, Scalar] = {
            navigation.name: Column(text_of_navigation(navigation), navigation.of)
            for navigation in self.match.navigations
        }
        for name, condition in self.match.conditions:
            yield "within" if name == WITHIN else name, text_of(substitute(condition, values))


def _bare(scalar: Scalar) -> Scalar:
    """A column without the name of its table: a variable takes that place."""
    return Column(scalar.name.rpartition(".")[2], scalar.type) if isinstance(scalar, Column) else scalar


def text_of_navigation(navigation: Navigation) -> str:
    """A navigation much as it was written.

    >>> from tidemill.model.types import BIGINT
    >>> text_of_navigation(Navigation("n", "last", Column("x", BIGINT), BIGINT, ("a",)))
    'a.x'
    """
    argument = "*" if navigation.argument is None else text_of(transform(navigation.argument, _bare))
    of = "|".join(navigation.variables)
    shown = f"{of}.{argument}" if of else argument
    if navigation.function != "last" or navigation.offset:
        distinct = "DISTINCT " if navigation.distinct else ""
        offset = f", {navigation.offset}" if navigation.offset else ""
        shown = f"{navigation.function.upper()}({distinct}{shown}{offset})"
    if navigation.step:
        shown = f"{'NEXT' if navigation.step > 0 else 'PREV'}({shown}, {abs(navigation.step)})"
    return shown
