"""Recursion, iteration by iteration: the rows that count in each, in order from the first that a change has touched.

An iteration is final once those before it are: its rows only ever add to later ones. So a row is examined only in the
iterations in which its weight has changed.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from tidemill.algebra.evaluate import MOST_RECURSIVE_ROWS, endless, too_many_recursive_rows
from tidemill.changes.zset import Row
from tidemill.program.stages import IterationEmission
from tidemill.runtimes.native.state.row_map import RowMap

IterationChange = dict[Row, int]
"""Keys of a map, the iteration and then the row, with the weights that are added to them."""

NextIteration = Callable[[IterationChange], IterationChange]
"""The rows found because of a change of the rows that count in one iteration; all are in later iterations."""

P = TypeVar("P", set[Row], IterationChange)


def iterate(
    emission: IterationEmission, maps: Mapping[str, Any], go_on: NextIteration, *, recomputed: bool = False
) -> None:
    """Update the rows that count in each iteration for the rows that the epoch has found.

    Running it twice in an epoch is harmless: a row that counts where it should stays there. With ``recomputed``, the
    found rows replace all earlier ones.
    """
    found, kept = maps[emission.source], maps[emission.kept]
    if recomputed:
        kept.replace({})
    if emission.distinct:
        touched = list(found.entries if recomputed else found.journal)
        _UnionDistinctIteration(emission, found, kept, go_on).run(touched)
    else:
        _UnionAllIteration(emission, found, kept, go_on).run(list(found.entries))
    if emission.enough is not None and emission.enough > emission.levels:
        _check_enough(emission.levels, emission.enough, kept.entries)


def _check_enough(levels: int, enough: int, kept: Mapping[Row, int]) -> None:
    """Refuse rows beyond the last level if those before it do not suffice; O(``enough``)."""
    before, beyond = 0, False
    for key, weight in kept.items():
        before += weight if key[0] < levels else 0
        beyond = beyond or key[0] >= levels
        if before >= enough:
            return
    if beyond:
        raise endless(levels)


class _Iteration(ABC, Generic[P]):
    """A recursion in progress: ``pending`` are the rows that are scheduled for each iteration."""

    def __init__(self, emission: IterationEmission, found: RowMap, kept: RowMap, go_on: NextIteration) -> None:
        self._levels = emission.levels
        self._strict = emission.enough is None
        self._found = found
        self._kept = kept
        self._go_on = go_on
        self._pending: dict[int, P] = {}
        self._order: list[int] = []

    def run(self, touched: Iterable[Row]) -> None:
        """Run all affected iterations."""
        self._begin(touched)
        while self._order:
            number = heapq.heappop(self._order)
            change = self._counted(self._pending.pop(number))
            if not change:
                continue
            if self._strict and number >= self._levels and max(change.values()) > 0:
                raise endless(self._levels)
            self._kept.add(change)
            self._schedule(self._go_on(change))

    @abstractmethod
    def _begin(self, touched: Iterable[Row]) -> None:
        """Schedule touched rows for their iterations."""

    @abstractmethod
    def _counted(self, waiting: P) -> IterationChange:
        """The change of the rows that count in an iteration, now that all iterations before it are final."""

    @abstractmethod
    def _schedule(self, found: IterationChange) -> None:
        """Schedule rows that were found for their iteration."""

    def _at(self, number: int, nothing: Callable[[], P]) -> P:
        """The rows that are scheduled for an iteration."""
        if number not in self._pending:
            self._pending[number] = nothing()
            heapq.heappush(self._order, number)
        return self._pending[number]


class _UnionAllIteration(_Iteration[IterationChange]):
    """UNION ALL: a row counts whenever it is found, so found rows count directly."""

    def _begin(self, touched: Iterable[Row]) -> None:
        # No fewer are stored; a row that was found several times is one entry.
        self._rows = len(self._kept.entries)
        self._schedule({key: self._found.entries[key] for key in touched})
        self._found.replace({})

    def _counted(self, waiting: IterationChange) -> IterationChange:
        change = {key: weight for key, weight in waiting.items() if weight}
        self._rows += sum(change.values())
        if self._rows > MOST_RECURSIVE_ROWS:
            raise too_many_recursive_rows()
        return change

    def _schedule(self, found: IterationChange) -> None:
        for key, weight in found.items():
            waiting = self._at(key[0], dict)
            waiting[key] = waiting.get(key, 0) + weight


class _UnionDistinctIteration(_Iteration[set[Row]]):
    """UNION: a row counts once, in the first iteration in which it is found.

    A row that is no longer found in that iteration counts in the next one in which it is found; a row that is found in
    an earlier iteration no longer counts in the later one.
    """

    def _begin(self, touched: Iterable[Row]) -> None:
        for key in touched:
            self._at(key[0], set).add(key)

    def _counted(self, waiting: set[Row]) -> IterationChange:
        counting = self._kept.leading_columns()
        change: IterationChange = {}
        for key in waiting:
            number, row = key[0], key[1:]
            counted = counting.get(row, ())
            before = any(other < number for other in counted)
            now = not before and self._found.entries.get(key, 0) > 0
            if now != (number in counted):
                change[key] = 1 if now else -1
            if not before:
                self._schedule_later(key, counted, now)
        return change

    def _schedule_later(self, key: Row, counted: Sequence[int], now: bool) -> None:
        """Schedule the later iterations of a row: the one in which it no longer counts, or the next in which it is
        found."""
        number, row = key[0], key[1:]
        later = [other for other in counted if other > number]
        if not now:
            further = () if later else self._found.leading_columns().get(row, ())
            later = [min(next_)] if (next_ := [other for other in further if other > number]) else []
        for other in later:
            self._at(other, set).add((other, *row))

    def _schedule(self, found: IterationChange) -> None:
        self._found.add(found)
        self._begin(found)
