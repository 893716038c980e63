"""Epochs begun, collected and committed; a changed catalog is committed the same way."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from threading import get_ident
from types import MappingProxyType
from typing import TypeVar

from tidemill.changes.changeset import ChangeSet, Epoch
from tidemill.engine.calls.running_calls import RunningCalls
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.serialization import catalog_to_json
from tidemill.engine.epochs.joint import JointEpoch
from tidemill.engine.epochs.pipeline import Propagation
from tidemill.engine.epochs.staleness_marks import marks_of
from tidemill.engine.epochs.state import NO_CHOICE, EngineState, EpochWay
from tidemill.engine.epochs.transaction import REVERTIBLE_ERRORS, EpochTransaction
from tidemill.engine.epochs.weights import require_weights
from tidemill.engine.quarantine.marks import error_marks
from tidemill.engine.telemetry.epoch_work import EpochWork, ViewWork
from tidemill.engine.telemetry.recorder import RefreshRecorder
from tidemill.model.errors import OutOfBudget
from tidemill.runtimes.runtime import Runtime
from tidemill.storage.filesystem.durable_files import fault

__all__ = ["EpochCommitter", "Settled", "WaitUntilDurable"]

T = TypeVar("T")

Settled = Callable[[], AbstractContextManager[None]]
"""Context that holds the warehouse lock, with all fed events committed, and after an exception the state recovered."""

WaitUntilDurable = Callable[[], None]
"""Waits until an epoch is durable on disk, and then notifies subscribers."""


class RunningEpoch:
    """Context in which an epoch runs; it gives the runtimes that take part, the first of which checks tables.

    They roll back a change that is refused. After any other error their state is not trusted: see ``transaction``.
    Runtimes that do not take part catch up when they are next used.
    """

    def __init__(
        self,
        state: EngineState,
        transaction: EpochTransaction,
        number: int,
        work: int,
        *,
        stored: bool,
        ways: Mapping[str, EpochWay],
    ) -> None:
        self._state = state
        self._transaction = transaction
        self._number = number
        self._work = work
        self._stored = stored
        self._ways = ways
        self._before = transaction.phase
        self._runtimes: Sequence[Runtime] = ()
        self._held = 0

    def __enter__(self) -> Sequence[Runtime]:
        self._transaction.begin()
        self._runtimes = self._state.take_part(self._work, self._ways)
        for runtime in self._runtimes:
            runtime.begin(self._number)
        if self._state.budget.limit is not None:
            try:
                self._held = self._state.budget.admit(self._work, stored=self._stored)
            except REVERTIBLE_ERRORS:
                self._roll_back()
                raise
        return self._runtimes

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is None and self._state.budget.limit is not None:
            try:
                self._state.budget.measure(self._work, self._held)
            except REVERTIBLE_ERRORS:
                self._roll_back()
                raise
        elif isinstance(error, REVERTIBLE_ERRORS):
            self._roll_back()

    def _roll_back(self) -> None:
        for runtime in self._runtimes:
            runtime.rollback()
        self._transaction.undone(self._before)


class EpochCommitter:
    """Commits epochs of a warehouse; calls ``committed`` at once, and ``publish`` when the epoch is durable."""

    def __init__(
        self,
        state: EngineState,
        transaction: EpochTransaction,
        calls: RunningCalls,
        committed: Callable[[Epoch], None],
        publish: Callable[[int], None],
        recorder: RefreshRecorder,
    ) -> None:
        self._state = state
        self._transaction = transaction
        self._calls = calls
        self._committed = committed
        self._publish = publish
        self._recorder = recorder
        self._done: EpochWork | None = None
        self._joint: JointEpoch | None = None

    @property
    def is_joint(self) -> bool:
        """True within a joint commit of this thread."""
        return self._joint is not None and self._joint.thread == get_ident()

    @property
    def next_number(self) -> int:
        """The number of the next epoch, or of the joint one that has begun."""
        return self._state.store.epoch + 1 if self._joint is None else self._joint.number

    @contextmanager
    def joint(self) -> Iterator[JointEpoch]:
        """Context in which all that is committed becomes one commit, of one epoch, at its end, or none.

        The caller holds the lock, and does what is left for ``after`` once he has released it.
        """
        state = self._state
        try:
            with state.store.joint():
                self._joint = joint = JointEpoch(state.store.epoch)
                state.joint = True
                yield joint
                fault("before-joint")
                self._calls.commit_point()
                self._transaction.begin()
            fault("after-joint")
            state.shown = state.catalog
            self._committed(joint.whole())
        except BaseException:
            self._transaction.begin()  # whoever comes next goes back to the last commit
            raise
        finally:
            self._joint, state.joint = None, False
        self._transaction.end()
        self._settle(joint.number, _nothing, None)
        for done in joint.done:
            self._recorder.note(done)

    def running(
        self, number: int, work: int, *, stored: bool = True, ways: Mapping[str, EpochWay] = NO_CHOICE
    ) -> RunningEpoch:
        """Context of epoch ``number`` on this many rows; it gives the runtimes that take part.

        Unless all state is ``stored``, none of it is released for want of memory. Views run in the ``ways`` that were
        chosen for the epoch.
        """
        return RunningEpoch(self._state, self._transaction, number, work, stored=stored, ways=ways)

    def within_budget(self, run: Callable[[], T]) -> T:
        """The result of an epoch that ``run`` runs; once more if it does not fit into the memory budget, with all state
        released, and looked up in the store."""
        try:
            return run()
        except OutOfBudget:
            if self._state.placement.in_memory:
                raise
            with self._state.placement.sparing_memory(), self._state.budget.sparing():
                return run()

    def collect(self, walk: Propagation, runtimes: Sequence[Runtime]) -> dict[str, ChangeSet]:
        """The changes that an epoch stores: of relations that are kept, and of the maps of views."""
        catalog = self._state.catalog
        stored = walk.stored
        if walk.holding is not None:
            for name, change in self._state.quarantine.changes(walk.holding).items():
                stored[name] = change
                for runtime in runtimes:
                    runtime.absorb(name, change)
        if catalog.streams:
            stored = {name: change for name, change in stored.items() if catalog.keeps_rows_of(name)}
        for runtime in runtimes:
            stored.update(runtime.commit())
        require_weights(stored, runtimes)
        self._done = walk.done
        walk.done.propagated = time.perf_counter()
        return stored

    @property
    def work(self) -> EpochWork:
        """The work of what was collected last, and is not committed yet."""
        assert self._done is not None
        return self._done

    def computed(self, done: EpochWork) -> None:
        """Note that the next commit is of an epoch that other processes have computed."""
        self._done = done

    def filled(self, view: str, started: float, rows: int, stored: Mapping[str, ChangeSet], reason: str) -> None:
        """Note that the next commit has the contents of a view, computed since ``started`` from this many rows."""
        one, work, pipeline = ViewWork(), EpochWork(), self._state.pipeline
        one.placed, one.rows_in, one.filled = pipeline[view], rows, reason
        one.rows_out = stored[view].rows if view in stored else 0
        work.views, work.owners, work.rows = {view: one}, pipeline.index.owners, rows
        work.started = work.checked = started
        work.is_epoch = False
        work.propagated = time.perf_counter()
        one.output = work.propagated - started
        self._done = work

    def commit(
        self,
        epoch: Epoch,
        refreshed: Collection[str] = (),
        then: Callable[[], None] | None = None,
        *,
        ends: bool = True,
    ) -> WaitUntilDurable:
        """Make the epoch visible; the returned function waits until it is durable and wakes subscribers.

        The store commits it in one step. The updates of memory that follow, including ``then``, belong to the epoch.
        ``refreshed`` are deferred views that catch up. Without ``ends`` the transaction stays open for further commits.
        """
        state = self._state
        self._transaction.begin()
        if ends and self._calls.by_thread and self._joint is None:
            self._calls.commit_point()
        marks = marks_of(state.catalog, state.store.positions, epoch, refreshed)
        if state.catalog.guarded or epoch.catalog is not None:
            marks |= error_marks(state.catalog, state.store.positions, epoch)
        if marks:
            epoch = replace(epoch, positions={**epoch.positions, **marks})
        done, written = self._done, state.store.traffic.written
        durable = state.store.append(epoch)
        if done is not None:
            self._done = None
            done.number, done.changes, done.refreshed = epoch.number, epoch.changes, refreshed
            done.checked = done.checked or done.propagated  # nothing was fired
            done.started = done.started or done.checked
            done.stored, done.bytes = time.perf_counter(), state.store.traffic.written - written
        if self._joint is not None:
            self._joint.add(epoch)
        else:
            if epoch.catalog is not None:
                state.shown = state.catalog
            self._committed(epoch)
        for name in epoch.changes:
            if name in state.catalog.tables:
                state.placement.rows += epoch.changes[name].rows
                state.changed_rows += epoch.changes[name].rows
        if then is not None:
            then()
        if self._joint is not None:
            self._joint.done += [] if done is None else [done]
            # State that misses an epoch is told from that which has it by numbers, and these all have one.
            for runtime in state.placement.started if epoch.changes or epoch.renamed else ():
                runtime.free()
        if ends:
            self._transaction.end()
        return _nothing if self._joint is not None else partial(self._settle, epoch.number, durable, done)

    def after(self, work: Callable[[], None]) -> None:
        """Do what must not be done before the commit is visible: at once, or at the end of a joint one."""
        if self._joint is None:
            work()
        else:
            self._joint.after.append(work)

    def end(self) -> None:
        """End a transaction that commits have left open: what is in memory is what is stored."""
        self._transaction.end()

    def _settle(self, number: int, durable: Callable[[], None], done: EpochWork | None) -> None:
        """Wait until an epoch is durable, and notify subscribers. It is committed, whatever happens here."""
        try:
            durable()
            self._publish(number)
        except BaseException:
            self._transaction.unpublished = True
            raise
        if done is not None:
            self._recorder.note(done)

    @contextmanager
    def changing_catalog(self) -> Iterator[Catalog]:
        """A copy of the catalog, to be changed and committed in the block; the old one is restored if that fails."""
        before = self._state.catalog
        self._transaction.begin()
        self._state.catalog = before.copy()
        try:
            yield self._state.catalog
        except REVERTIBLE_ERRORS:
            self._state.restore(before)
            self._transaction.end()
            raise

    def commit_catalog(
        self,
        changes: Mapping[str, ChangeSet] = MappingProxyType({}),
        *,
        positions: Mapping[str, str] = MappingProxyType({}),
        dropped: tuple[str, ...] = (),
        then: Callable[[], None] | None = None,
    ) -> None:
        """Commit the catalog without a new epoch."""
        self._done = None  # that of an epoch that was refused after it had run
        catalog = catalog_to_json(self._state.catalog)
        self.commit(Epoch(self._state.store.epoch, changes, positions, catalog, dropped), then=then)()


def _nothing() -> None:
    """Wait for nothing: it is durable already, or when the joint commit is."""
