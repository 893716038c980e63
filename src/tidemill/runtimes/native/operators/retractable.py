"""Aggregates that can take rows back: the state of each group is kept, and follows the rows that come and go."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tidemill.algebra.user_functions import Accumulator, UserAggregate
from tidemill.changes.zset import Row
from tidemill.model.errors import ArithmeticFault
from tidemill.runtimes.native.state.ordered_groups import OrderedGroup

ValuesOf = Callable[[Row], Row]
"""The values of a row that an aggregate or a pattern reads."""


class RetractableStates:
    """Follows the map of a bag. A group gets its state when it is first touched, at the cost of the group.

    A rollback moves the entries back, and the states with them. One that cannot follow is let go of, and made anew when
    it is asked for: so it is there, and not in the midst of a move, that a failing function is noticed.
    """

    def __init__(self, width: int, aggregate: UserAggregate, seen: ValuesOf) -> None:
        self._width = width
        self._aggregate = aggregate
        self._seen = seen
        self._body: Accumulator | None = None
        self._states: dict[Row, Any] = {}

    def fill(self, entries: Iterable[tuple[Row, int]]) -> None:
        """Groups that nobody has asked for have no state."""

    def move(self, key: Row, old: int | None, new: int | None) -> None:
        """Let an entry have another weight; one below zero is nowhere yet."""
        group = key[: self._width]
        if group in self._states:
            state = self._states.pop(group)
            try:
                moved = self._aggregate.moved(state, [(self._seen(key), max(new or 0, 0) - max(old or 0, 0))])
            except ArithmeticFault:
                return
            self._states[group] = moved

    def now(self, group: Row, pile: OrderedGroup) -> Any:
        """The value of a group."""
        return self._aggregate.finished(self._state(group, pile))

    def before(self, group: Row, pile: OrderedGroup) -> Any:
        """The value that a group had before the epoch: what it has done is taken back, and done again."""
        changes = [(self._seen(place[-1]), new[0] - old[0]) for place, old, new in pile.changed]
        state = self._state(group, pile)
        del self._states[group]  # a function may change it in place, and fail on the way
        state = self._aggregate.moved(state, [(row, -weight) for row, weight in changes])
        value = self._aggregate.finished(state)
        if next(pile.now.ascending(), None) is not None:
            self._states[group] = self._aggregate.moved(state, changes)
        return value

    def _state(self, group: Row, pile: OrderedGroup) -> Any:
        if self._body is not self._aggregate.body:
            self._states.clear()  # they were made by a function that is no longer registered
            self._body = self._aggregate.body
        if group not in self._states:
            entries = [(self._seen(place[-1]), weight) for place, weight in pile.now.ascending()]
            self._states[group] = self._aggregate.moved(self._aggregate.started(), entries)
        return self._states[group]
