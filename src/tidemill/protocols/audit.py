"""Consistency checker: the levels of section 3.1 of the paper that a history satisfies, and what violates the others.

A history is the view evaluated in each state of the source, V[ss_0], V[ss_1] ..., and as the warehouse showed it,
V[ws_0], V[ws_1] ... . The paper defines consistency by pairs of states, and explains it as an order-preserving
correspondence. This module checks the correspondence, on which readers rely: a map m from the states of the warehouse
to those of the source, with V[ws_j] = V[ss_m(j)] and m(j) <= m(j+1). (Pairs alone would accept a view that goes
B, A, B where the source went A, B, A.)

*The greedy map is optimal.* Let g(j) be the first state of the source, not before g(j-1), that equals ws_j. If any
order-preserving m exists, then g is defined everywhere and g(j) <= m(j), by induction: g(0) is the first state equal
to ws_0, and m(0) is one such. If g(j-1) <= m(j-1), then m(j) equals ws_j and is not before m(j-1), hence not before
g(j-1); g(j), the first such state, is not after it. So if g is undefined somewhere, no map exists. One pass finds g.

*Complete* is an order-preserving correspondence that omits no state of either side. Consecutive equal states are
removed first; then no state can correspond to two neighbours, so both sides must be the same sequence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidemill.changes.zset import ZSet
from tidemill.protocols.protocol import Level
from tidemill.sources.remote_queries.signed_query import rows_text

LEVELS = tuple(level for level in Level if level is not Level.NONE)


@dataclass(frozen=True)
class ConsistencyReport:
    """Result of an audit: for each level that a history violates, the first violation."""

    broken: Mapping[Level, str]

    @property
    def kept(self) -> frozenset[Level]:
        """The levels that hold."""
        return frozenset(level for level in LEVELS if level not in self.broken)

    @property
    def level(self) -> Level:
        """The strongest level that holds."""
        return max(self.kept, default=Level.NONE)

    def __str__(self) -> str:
        return "\n".join(f"{level.name.lower()}: {self.broken.get(level, 'yes')}" for level in LEVELS)


def audit(source: Sequence[ZSet], warehouse: Sequence[ZSet]) -> ConsistencyReport:
    """Compare the states of the view at the source and in the warehouse, initial states included, with each level.

    >>> a, b, c = (ZSet({(letter,): 1}) for letter in "abc")
    >>> print(audit([a, b, c], [a, c]))
    convergent: yes
    weak: yes
    consistent: yes
    strong: yes
    complete: no state of the warehouse corresponds to state 1 of the source: [b]
    """
    names: dict[frozenset[tuple[object, int]], int] = {}
    there = [names.setdefault(frozenset(state.items()), len(names)) for state in source]
    here = [names.setdefault(frozenset(state.items()), len(names)) for state in warehouse]
    found = {
        Level.CONVERGENT: _not_convergent(there, here),
        Level.WEAK: _not_weak(there, here),
        Level.CONSISTENT: _not_consistent(there, here),
    }
    found[Level.STRONG] = found[Level.CONSISTENT] or found[Level.CONVERGENT]
    found[Level.COMPLETE] = found[Level.STRONG] or _not_complete(there, here)
    return ConsistencyReport(
        {level: fault.told(source, warehouse) for level, fault in found.items() if fault is not None}
    )


@dataclass(frozen=True)
class _Violation:
    """A violation of a level as a sentence, and the state that the sentence is about."""

    sentence: str
    state: int
    at_source: bool = False

    def told(self, source: Sequence[ZSet], warehouse: Sequence[ZSet]) -> str:
        rows = (source if self.at_source else warehouse)[self.state]
        return f"{self.sentence}: {rows_text(rows)}"


def _not_convergent(there: Sequence[int], here: Sequence[int]) -> _Violation | None:
    if there[-1] == here[-1]:
        return None
    return _Violation("the last state of the warehouse is not the last one of the source", len(here) - 1)


def _not_weak(there: Sequence[int], here: Sequence[int]) -> _Violation | None:
    known = set(there)
    for number, state in enumerate(here):
        if state not in known:
            return _Violation(f"state {number} of the warehouse is none of the source", number)
    return None


def _not_consistent(there: Sequence[int], here: Sequence[int]) -> _Violation | None:
    reached = 0
    for number, state in enumerate(here):
        try:
            reached = there.index(state, reached)
        except ValueError:
            return _Violation(
                f"state {number} of the warehouse is none of the source from state {reached} on,"
                f" which is the earliest that the states before it lead to",
                number,
            )
    return None


def _not_complete(there: Sequence[int], here: Sequence[int]) -> _Violation | None:
    """The first state of the source that is missing in a strongly consistent history."""
    steps = [number for number, state in enumerate(there) if number == 0 or state != there[number - 1]]
    shown = [state for number, state in enumerate(here) if number == 0 or state != here[number - 1]]
    for place, number in enumerate(steps):
        if place >= len(shown) or shown[place] != there[number]:
            return _Violation(f"no state of the warehouse corresponds to state {number} of the source", number, True)
    return None
