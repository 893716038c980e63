"""Aggregates with retraction: the state of each group is maintained as rows are inserted and deleted."""

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
    """Observes the map of a multiset. A group gets its state when it is first touched, at the cost of the group.

    A rollback reverts the entries, and the states with them. A state whose function fails is released, and recomputed
    when it is read: the failure is then reported there, and not in the middle of a change.
    """

    def __init__(self, width: int, aggregate: UserAggregate, values_of: ValuesOf) -> None:
        self._width = width
        self._aggregate = aggregate
        self._values_of = values_of
        self._body: Accumulator | None = None
        self._states: dict[Row, Any] = {}

    def fill(self, entries: Iterable[tuple[Row, int]]) -> None:
        """Do nothing: a group has no state before it is read."""

    def move(self, key: Row, old: int | None, new: int | None) -> None:
        """Change the weight of an entry; one with a negative weight is in no group yet."""
        group = key[: self._width]
        if group in self._states:
            state = self._states.pop(group)
            try:
                moved = self._aggregate.moved(state, [(self._values_of(key), max(new or 0, 0) - max(old or 0, 0))])
            except ArithmeticFault:
                return
            self._states[group] = moved

    def now(self, group: Row, ordered_group: OrderedGroup) -> Any:
        """The value of a group."""
        return self._aggregate.finished(self._state(group, ordered_group))

    def before(self, group: Row, ordered_group: OrderedGroup) -> Any:
        """The value of a group before the epoch: its changes are retracted, and applied again."""
        changes = [(self._values_of(sort_key[-1]), new[0] - old[0]) for sort_key, old, new in ordered_group.changed]
        state = self._state(group, ordered_group)
        del self._states[group]  # a function may change it in place, and fail halfway
        state = self._aggregate.moved(state, [(row, -weight) for row, weight in changes])
        value = self._aggregate.finished(state)
        if next(ordered_group.new.ascending(), None) is not None:
            self._states[group] = self._aggregate.moved(state, changes)
        return value

    def _state(self, group: Row, ordered_group: OrderedGroup) -> Any:
        if self._body is not self._aggregate.body:
            self._states.clear()  # they were computed by a function that is no longer registered
            self._body = self._aggregate.body
        if group not in self._states:
            entries = [(self._values_of(sort_key[-1]), weight) for sort_key, weight in ordered_group.new.ascending()]
            self._states[group] = self._aggregate.moved(self._aggregate.started(), entries)
        return self._states[group]
