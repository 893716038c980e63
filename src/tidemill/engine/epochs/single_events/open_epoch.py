"""An epoch that takes changes one by one."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress

from tidemill.changes.changeset import ChangeSet, Epoch
from tidemill.changes.zset import Row
from tidemill.engine.epochs.clock_advance import ClockAdvance
from tidemill.engine.epochs.commit import EpochCommitter, WaitUntilDurable
from tidemill.engine.epochs.pipeline import Propagation
from tidemill.engine.epochs.state import EngineState
from tidemill.engine.epochs.table_checks import check_tables
from tidemill.engine.partitions.lateness import LatenessFilter
from tidemill.model.errors import DataError
from tidemill.runtimes.runtime import Runtime

__all__ = ["OpenEpoch", "RowEvent"]

RowEvent = tuple[str, Row, int]
"""A relation, a row in stored form, and its weight."""


class OpenEpoch:
    """An epoch that takes changes one by one. It is invisible until it is closed."""

    def __init__(self, state: EngineState, epochs: EpochCommitter) -> None:
        state.require_writable()
        self._state = state
        self._epochs = epochs
        self._number = state.store.epoch + 1
        self._stack = ExitStack()
        self._runtimes: Sequence[Runtime] = self._stack.enter_context(epochs.running(self._number, 1))
        self._walk: Propagation = state.pipeline.start(self._runtimes)
        self._static = state.catalog.static
        self._gate = LatenessFilter(state.catalog.late, state.store.positions, self._number)
        self._clocks = ClockAdvance(state.catalog, state.store.positions)
        self._taken: dict[str, list[tuple[Row, int]]] = {}

    def take(self, event: RowEvent) -> None:
        """Propagate one event to every view."""
        name, row, weight = event
        if name in self._static:
            self._state.catalog.require_not_static([name])
        change = ChangeSet.of([(row, weight)], self._state.fields_of(name))
        catalog = self._state.catalog
        admitted: Mapping[str, ChangeSet] = self._gate.admit({name: change})
        if catalog.clocks:
            admitted = self._clocks.with_clocks(admitted)
        for taken, possible in check_tables(admitted, catalog.tables, catalog.constraints, self._runtimes[0]).items():
            self._walk.take(taken, possible)
            self._walk.recompute_pending(taken)
            self._taken.setdefault(taken, []).extend(admitted[taken].pairs())

    def undo(self) -> None:
        """Roll back to the state before the epoch."""
        with suppress(_RollBack), self._stack:
            raise _RollBack("undone")

    def close(self) -> WaitUntilDurable:
        """Commit the epoch with all its changes; the returned function waits until it is durable."""
        fields_of = self._state.fields_of
        return self._finish({name: ChangeSet.of(pairs, fields_of(name)) for name, pairs in self._taken.items()})

    def close_fed(self, relations: Iterable[str]) -> WaitUntilDurable:
        """Commit the epoch, in which events of ``relations`` went to machine code directly."""
        for relation in relations:
            self._walk.fed(relation)
        return self._finish({})

    def _finish(self, stored: Mapping[str, ChangeSet]) -> WaitUntilDurable:
        with self._stack:
            # Events were propagated as they came, with waits between them that are not the epoch's.
            self._walk.done.started = self._walk.done.checked = time.perf_counter()
            self._walk.stored.update(stored)
            self._walk.finish()
            changes = self._epochs.collect(self._walk, self._runtimes)
        return self._epochs.commit(Epoch(self._number, changes, self._gate.moved | self._clocks.moved))


class _RollBack(DataError):
    """Raised to roll an epoch back, like a refused change."""
