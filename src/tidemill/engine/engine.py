"""The engine: creates the components of a warehouse and connects them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from logging import INFO
from pathlib import Path
from threading import get_ident
from typing import TypeVar

from tidemill.algebra.expressions.scalars import Literal
from tidemill.algebra.user_functions import Registry
from tidemill.changes.changeset import ChangeSet, Epoch
from tidemill.compiler.frontends.sql.named_definitions import NamedDefinitions
from tidemill.engine.access.allowed_changes import naming_nothing_hidden, require_changes, with_plain_refusals
from tidemill.engine.access.allowed_reads import AllowedReads
from tidemill.engine.access.rights import Rights
from tidemill.engine.builds.builds import Builds
from tidemill.engine.builds.place import KEPT_EPOCHS, BuildPlaces
from tidemill.engine.calls.running_calls import RunningCalls
from tidemill.engine.calls.session_state import SessionState
from tidemill.engine.catalog.altered.table import AlteredTable
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.views.view import View
from tidemill.engine.clocks.clocks import Clocks
from tidemill.engine.clocks.ticker import Ticker
from tidemill.engine.definitions.definition_changes import DefinitionChanges
from tidemill.engine.definitions.planning import Planner
from tidemill.engine.definitions.replacing.replacement import ViewReplacement
from tidemill.engine.definitions.sources_and_feeds import SourceDefinitions
from tidemill.engine.definitions.stored_statistics import stored_statistics
from tidemill.engine.definitions.tables_and_views import RelationDefinitions
from tidemill.engine.epochs.apply import NothingDue, apply_changes
from tidemill.engine.epochs.commit import EpochCommitter, WaitUntilDurable
from tidemill.engine.epochs.concurrent_changes.apply_each import SentChanges, SeparateEpochs
from tidemill.engine.epochs.concurrent_changes.combining import CommittedEpoch, EpochCombiner
from tidemill.engine.epochs.concurrent_changes.post_keys import PostKeys
from tidemill.engine.epochs.memory_budget import MemoryBudget, return_free_memory
from tidemill.engine.epochs.pipeline import Pipeline
from tidemill.engine.epochs.placement import Placement
from tidemill.engine.epochs.reading.reader import WarehouseReader
from tidemill.engine.epochs.single_events.events import EventWriter
from tidemill.engine.epochs.state import EngineState
from tidemill.engine.epochs.transaction import EpochTransaction
from tidemill.engine.following import POLL_SECONDS, WriterFollower
from tidemill.engine.maintenance.change_logs import ChangeLogs
from tidemill.engine.maintenance.compaction_schedule import CompactionSchedule
from tidemill.engine.maintenance.housekeeping import Housekeeping
from tidemill.engine.refresh.catch_up import ViewRefresher
from tidemill.engine.refresh.fill import ViewFiller
from tidemill.engine.refresh.healing import Healer, Release
from tidemill.engine.refresh.scheduler import Scheduler
from tidemill.engine.remote.folder_feeds import FolderFeeds
from tidemill.engine.remote.lake_tables import LakeTables, lake_rows
from tidemill.engine.remote.publications import Publications
from tidemill.engine.remote.source_views import SourceViews
from tidemill.engine.results import EpochCosts
from tidemill.engine.subscriptions.change_batches import stored_batches
from tidemill.engine.subscriptions.publisher import Publisher
from tidemill.engine.telemetry.events import WAREHOUSE, log_refused, tell
from tidemill.engine.telemetry.recorder import RefreshRecorder
from tidemill.engine.transactions.pending import OpenTransactions
from tidemill.model.errors import CommitUnknown, Conflict, TidemillError, Unsupported
from tidemill.sources.secrets import Secrets
from tidemill.storage.bounded_log import BoundedLog
from tidemill.storage.memory_store import MemoryStore
from tidemill.storage.store import Store

__all__ = ["Engine"]

T = TypeVar("T")

SHARED_ROWS = 100
"""Largest number of changed rows with which an epoch is left to another thread, whose own caller waits for it."""

_NO_PARAMETERS: Mapping[str, Literal] = {}


class Engine:
    """An open warehouse: its state, and the components that read, change and publish it.

    ``keep`` is the number of epochs that stay readable; None: all, until ``vacuum``. ``memory`` limits the memory of
    this process. ``follow`` starts the workers of sources and feeds that are not manual, and makes a reader follow the
    writer. A folder may come from anybody, so that is not the default. ``secrets`` are the variables that sources may
    take passwords from. Views that are built in the background are kept in the folder ``builds`` meanwhile, or in
    memory. ``registry`` has functions.
    ``refresh_log`` has what epochs and views cost; without it the last of that is in memory.
    """

    def __init__(
        self,
        store: Store,
        placement: Placement,
        *,
        read_only: bool = False,
        keep: int | None = None,
        memory: int | None = None,
        follow: bool = False,
        secrets: Secrets | None = None,
        builds: Path | None = None,
        registry: Registry | None = None,
        refresh_log: BoundedLog | None = None,
    ) -> None:
        self.store = store
        self.placement = placement
        self.secrets = secrets or Secrets.of()
        self.state = state = EngineState(store, placement, MemoryBudget(memory), read_only=read_only, registry=registry)
        state.statistics = lambda: stored_statistics(state.catalog, store)
        self.lock = state.lock
        self.registry = state.registry
        self.object_epoch_open = False
        """True while an epoch of objects is open, whose draft others would not see."""
        self.reads: Counter[str] = Counter()
        """Reads of tables and views by users, since the warehouse was opened."""
        self.calls = RunningCalls(placement.interrupt, self._recover_own)
        self.transactions = OpenTransactions(self.calls)
        self._given = threading.local()
        self._last = Epoch(0)
        self.publisher = Publisher(store.epoch)
        self.transaction = EpochTransaction(store, self._reload, self._republish, self._clean_up)
        self._combiner = EpochCombiner(state.lock)
        self._post_keys = PostKeys()
        self.refreshes = RefreshRecorder(refresh_log, self._runtime_reason, writes=not read_only)
        self.epochs = EpochCommitter(
            state, self.transaction, self.calls, self._note, self.publisher.publish, self.refreshes
        )
        self.events = EventWriter(state, self.transaction, self.epochs, self.calls, self._run_due)
        self.settled = self.events.settled
        self.flush = self.events.flush
        self.reader = reader = WarehouseReader(
            state, self.transactions, self.settled, self.flush, partial(lake_rows, state)
        )
        self.follower = WriterFollower(self.lock, self.poll, lambda: store.catalog)
        contents, answer = reader.contents, reader.answer
        if read_only:
            contents, answer = self.follower.retrying(contents), self.follower.retrying(answer)
        self.allowed = AllowedReads(state, self.calls, reader, contents, answer)
        self.contents, self.answer = self.allowed.contents, self.allowed.answer
        self.notes, self.tell = self.allowed.notes, self.allowed.tell
        self._filler = ViewFiller(state, self.epochs, contents)
        self._refresher = ViewRefresher(state, self.epochs, self._filler, self._rebuild)
        self._healer = Healer(state, self.epochs, self._refresher)
        self._schedule = CompactionSchedule(store, keep)
        self._logs = ChangeLogs(store)
        self.reach = self._logs.reach
        self.housekeeping = Housekeeping(
            state, self.transaction, self._schedule, self._logs, self.settled, lambda: self.events.busy
        )
        self.source_views = SourceViews(state, self.secrets, self.apply, self.apply_in_order, contents)
        self.feeds = FolderFeeds(state, self.apply, reader.keys)
        self.lakes = LakeTables(state, partial(self.apply, owned=True), reader.columns, self._alter_lake_table)
        self.publications = Publications(state, self.settled, contents, partial(stored_batches, self))
        self.clocks = Clocks(state, self.epochs, self.settled, partial(self.apply, owned=True), contents)
        self.ticker = Ticker(self.clocks)
        self.definitions = RelationDefinitions(
            state, self.epochs, self.settled, self._filler, self.source_views, self.publisher, self._logs, self.clocks
        )
        self.replacements = ViewReplacement(
            state, self.epochs, self.settled, self._filler, self.publisher, self.definitions, answer
        )
        self.altering = DefinitionChanges(
            state, self.epochs, self.settled, self._filler, self.publisher, self.definitions, answer, self.refresh
        )
        self.sources = SourceDefinitions(state, self.epochs, self.settled, self.source_views, self.feeds, self.lakes)
        self.planner = Planner(state, self.definitions)
        self.builds = Builds(state, self.epochs, self.settled, BuildPlaces(builds, self._build_engine))
        self.scheduler = Scheduler(state, self.settled, self.refresh, self.definitions.unshare)
        self._open(follow=follow)
        tell(WAREHOUSE, INFO, f"opened at epoch {store.epoch}", phase="open", epoch=store.epoch, read_only=read_only)

    def _open(self, *, follow: bool) -> None:
        """Read the catalog, rebuild views whose layout is outdated, and start the workers of sources and feeds."""
        outdated = self.state.reload()
        self.state.changed_rows = self.placement.rows
        if self.state.read_only:
            if follow:
                self.follower.start()
            return
        for view in outdated:
            self._filler.fill(view, self._filler.retained_rows(view), rebuilt=True)
        for view in [view for view in self.catalog.views.values() if not self.source_views.is_filled(view)]:
            self.definitions.drop(view.name)  # the process ended before it had its first rows
        self.builds.go_on()
        if follow:
            for view in self.catalog.views.values():
                self.source_views.follow(view)
                self.publications.follow(view)
            for feed in self.catalog.feeds.values():
                self.feeds.follow(feed)
            for lake in self.catalog.lakes.values():
                self.lakes.follow(lake)

    def _build_engine(self, store: Store) -> Engine:
        """The engine of a build, whose warehouse is in ``store``; it keeps no more epochs than it has to."""
        placement = Placement(store, "native", None, isinstance(store, MemoryStore), self.placement.backend)
        limit = self.state.budget.limit
        return Engine(store, placement, keep=KEPT_EPOCHS, memory=limit, registry=self.registry)

    # -- state --------------------------------------------------------------------------------------------------

    @property
    def catalog(self) -> Catalog:
        """The present tables and views, including uncommitted changes of the catalog."""
        return self.state.catalog

    @property
    def session(self) -> SessionState:
        """The session that this thread works for."""
        return self.calls.session

    @property
    def rights(self) -> Rights:
        """Rights of the session that this thread works for."""
        return self.allowed.rights

    def run_in(self, session: SessionState | None, work: Callable[[], T]) -> T:
        """The result of ``work`` for a session; None is that of this thread. Errors name nothing that is hidden."""
        if session is None:
            return work()

        def run() -> T:
            rights = self.rights
            if rights.reads_all:
                return work()
            with naming_nothing_hidden(rights):
                return work()

        return self.calls.run(session, run)

    @property
    def named(self) -> NamedDefinitions:
        """All definitions in SQL that a statement may use: temporary ones hide those of the catalog."""
        own = self.session.definitions
        stored = self.catalog.named if self.rights.reads_all else NamedDefinitions()
        return NamedDefinitions(
            {**stored.queries, **own.queries},
            {**stored.functions, **own.functions},
            own.variables,
            self.registry.keys,
            self.parameters,
            self.catalog.named.table_of,
        )

    @property
    def parameters(self) -> Mapping[str, Literal]:
        """The values of the parameter markers of the statement that this thread runs."""
        return getattr(self._given, "parameters", _NO_PARAMETERS)

    @contextmanager
    def given(self, parameters: Mapping[str, Literal]) -> Iterator[None]:
        """Run statements of this thread with values for their parameter markers."""
        before = self.parameters
        self._given.parameters = parameters
        try:
            yield
        finally:
            self._given.parameters = before

    @property
    def pipeline(self) -> Pipeline:
        """The programs of all views."""
        return self.state.pipeline

    @property
    def committed(self) -> Catalog:
        """The catalog as of the last commit, even if an exception has left an epoch of this thread unfinished."""
        if self.transaction.abandoned:
            self._recover_own()
        return self.state.catalog

    def _recover_own(self) -> None:
        """Go back to the last commit if an exception has left an epoch of this thread unfinished."""
        if self.transaction.abandoned:
            with self.lock:
                self.transaction.recover()

    @property
    def committed_epoch(self) -> int:
        """The last epoch, if the store can tell; does not commit the open epoch of events."""
        if not (self.transaction.settled or self.transaction.elsewhere):
            with self.lock:
                self.transaction.recover()
        return self.store.epoch

    @property
    def poll_seconds(self) -> float | None:
        """Seconds between two checks for commits of another process; None if there can be none."""
        return POLL_SECONDS if self.state.read_only else None

    def poll(self) -> bool:
        """Read commits of another process, which does not notify readers; True if there was one."""
        with self.lock:
            if self.state.closed or not self.store.refresh():
                return False
            self.state.reload()
            self.publisher.look(self.store.epoch)
            return True

    def costs(self) -> EpochCosts:
        """Costs of the last epoch: Spark's jobs and bytes, and the bytes of changes that this process stored."""
        found = self.placement.spark_counters()
        changes = [change for change in self._last.changes.values() if change.files is None]
        stored = sum(table.nbytes for change in changes for table in change.encoded())
        told = ("jobs", "bytes_read", "bytes_written", "tasks", "task_seconds", "exchanges", "bytes_exchanged")
        costs = EpochCosts(**{name: sum(getattr(counters, name) for counters in found) for name in told})
        return replace(costs, bytes_written=costs.bytes_written + stored)

    def read_contents(self, name: str) -> ChangeSet:
        """The rows of a table or view for a user, whose reads are counted."""
        self.reads[name] += 1
        return self.contents(name)

    # -- epochs -------------------------------------------------------------------------------------------------

    def apply(
        self,
        changes: Mapping[str, ChangeSet],
        positions: Mapping[str, str] | None = None,
        *,
        owned: bool = False,
        late: bool = False,
        idle: bool = True,
    ) -> int:
        """Commit one epoch: all changes and all views together, or nothing. Returns its number."""

        def run() -> CommittedEpoch:
            if not self.transaction.settled:
                self.events.settle()
            return apply_changes(self.state, self.epochs, changes, positions, owned=owned, late=late, idle=idle)

        # Objects, rows of lake tables and late changes come from callers that have a lock.
        leader = self._combiner.leader
        shared = leader and leader != get_ident() and not (owned or late) and _is_small(changes)
        calls = self.calls if self.calls.by_thread else None
        if calls is not None:
            if shared:
                calls.commit_point()  # whether the leader has committed it is not seen from here
            else:
                calls.wait_for(self.lock)  # until it has the lock a call can be cancelled
        try:
            number = self._combiner.join(run) if shared else self._combiner.lead(run)
        except NothingDue:
            raise
        except TidemillError as refused:
            log_refused(refused, self.store.epoch)
            raise
        if calls is not None:
            calls.note_epoch(number)
        self._run_due()
        return number

    def apply_in_order(self, epochs: Sequence[tuple[Mapping[str, ChangeSet], Mapping[str, str]]]) -> None:
        """Commit several epochs, each as a whole, and sync them together; none after one that is refused.

        The error of the first that is refused is raised once those before it are durable.
        """
        refused: list[TidemillError] = []
        waits: list[WaitUntilDurable] = []

        def run() -> CommittedEpoch:
            number = self.store.epoch
            for changes, positions in epochs:
                try:
                    if not self.transaction.settled:
                        self.events.settle()
                    number, durable = apply_changes(
                        self.state, self.epochs, changes, positions, owned=False, late=False
                    )
                except TidemillError as error:
                    refused.append(error)
                    break
                waits.append(durable)
            return number, partial(_wait_for_all, waits)

        self._combiner.lead(run)
        self._run_due()
        if refused:
            log_refused(refused[0], self.store.epoch)
            raise refused[0]

    def apply_each(self, sent: Sequence[SentChanges]) -> list[int | Exception]:
        """Commit several epochs, each as a whole or not at all, and sync them together; an epoch or error of each."""
        if self.calls.by_thread:
            self.calls.commit_point()  # those of other threads may be run with them, which nobody has cancelled
        results = SeparateEpochs(sent, self.store, self._post_keys, self._apply_sent).commit(self._combiner)
        self._run_due()
        return results

    def _apply_sent(self, sent: SentChanges, positions: Mapping[str, str]) -> CommittedEpoch:
        """Commit an epoch of what was sent, with the rights of its session."""

        def run() -> CommittedEpoch:
            changes = sent.made()
            if self.calls.by_thread:
                require_changes(self.rights, changes, None)
            if not self.transaction.settled:
                self.events.settle()
            return apply_changes(self.state, self.epochs, changes, positions, owned=False, late=False)

        if sent.session is None:
            return run()

        def refused_plainly() -> CommittedEpoch:
            with with_plain_refusals(self.rights):
                return run()

        return self.run_in(sent.session, refused_plainly)

    def change(self, changes: Mapping[str, ChangeSet], positions: Mapping[str, str] | None = None) -> int:
        """Commit one epoch; or, in a transaction, add to its changes, and return the last epoch."""
        if self.calls.by_thread:
            require_changes(self.rights, changes, positions)
        pending = self.transactions.mine()
        if pending is None:
            if not self.calls.by_thread:
                return self.apply(changes, positions)
            with with_plain_refusals(self.rights):
                return self.apply(changes, positions)
        pending.require_sound()
        self.state.require_writable()
        self.catalog.require_own_rows(changes)
        self.catalog.require_not_static(changes)
        pending.add(changes, positions or {})
        return self.store.epoch

    def commit_transaction(self) -> int | None:
        """Commit the changes of this thread's transaction as one epoch; None if it has none."""
        with self.settled(), with_plain_refusals(self.rights):
            pending = self.transactions.end()
            pending.require_sound(ended=True)
            pending.require_unchanged()
            changes = pending.changes()
            for name, change in changes.items():
                if self.catalog.table(name).fields != change.fields:
                    raise Conflict(f'table "{name}" was altered meanwhile', hint="Run the whole transaction again.")
            return self.apply(changes, pending.positions) if changes or pending.positions else None

    def refresh(self, *names: str) -> int:
        """Refresh deferred views, in separate epochs; immediate views are always up to date."""
        with self.settled():
            if self._refresher.refresh(names):
                self.housekeeping.forget_due()
            return self.store.epoch

    def _rebuild(self, view: View, left: Mapping[str, ChangeSet]) -> None:
        self.replacements.rebuild(view, left)

    def _run_due(self) -> None:
        """Do the work due after an epoch: merge changes, plan views anew, refresh periodic ones, drop partitions."""
        if self.state.catalog.guarded:
            self._heal()
        self.housekeeping.merge_due()
        self.planner.replan_due()
        self.scheduler.tend()
        self.housekeeping.forget_due()

    def _heal(self) -> None:
        """Catch up views that stopped at a row which they could not compute, and now can."""
        if self._healer.due:
            with self.settled():
                self._healer.heal()

    def release(self, name: str, *, skip: bool = False) -> Release:
        """Try the rows again that a view in quarantine does not show; with ``skip`` go on without those at fault."""
        with self.settled():
            self.state.require_writable()
            view = self.catalog.view(name)
            if not view.quarantines:
                raise Unsupported(
                    f'view "{view.name}" has no errors to release',
                    detail="Rows that it cannot compute are refused with their epoch.",
                    hint="Views WITH (on_error = 'quarantine') have.",
                )
            return self._healer.release(view, skip=skip)

    def _note(self, epoch: Epoch) -> None:
        """Record a committed epoch; subscribers are notified once it is durable."""
        self.publisher.offer(epoch)
        if self.transactions.by_owner:
            self.transactions.note_commit(epoch)
        self._last = epoch
        self._schedule.note(epoch)

    def _runtime_reason(self, view: str, rows: int) -> str:
        """The reason why a view runs where it does, for a change of so many rows; empty once it was dropped."""
        known = self.catalog.views.get(view)
        return "" if known is None else self.placement.choose(rows, known.runtime_needs)[1]

    def _alter_lake_table(self, altered: AlteredTable, positions: Mapping[str, str]) -> None:
        self.altering.tables.alter(altered, positions=positions)

    def _reload(self) -> None:
        """Load what is stored after an exception, which may have come before altered views were rebuilt."""
        outdated = self.state.reload()
        if not self.state.read_only:
            self._filler.rebuild(outdated)

    def _republish(self) -> None:
        self.publisher.resume(self.store.epoch, self.catalog.views)

    def _clean_up(self) -> None:
        """Finish work that an exception has interrupted, once the last commit is recovered."""
        self._logs.keep(self.catalog.views)
        self.feeds.keep(self.catalog.feeds)
        self.lakes.keep(self.catalog.lakes)
        self.publications.keep(self.catalog.views)
        self.source_views.keep(self.catalog.views)
        self.events.resume()

    def close(self, *, keep: bool = True) -> None:
        """Close the engine; waiting subscribers end. What is not to be kept is not written to files."""
        self.calls.close()
        self.builds.close()
        self.follower.close()
        self.feeds.close()
        self.lakes.close()
        self.publications.close()
        self.scheduler.close()
        self.ticker.close()
        self.source_views.close()
        with self.lock:
            try:
                self.flush()
            except CommitUnknown:
                pass  # the writer of that commit was told, and opening again reports the rest
            finally:
                self.state.closed = True
                self._last = Epoch(0)
                self.refreshes.close()
                self.publisher.close()
                self.placement.forget()
                self.store.close(keep=keep)
        tell(WAREHOUSE, INFO, "closed", phase="close")
        return_free_memory()


def _is_small(changes: Mapping[str, ChangeSet]) -> bool:
    """True if the caller of another epoch may wait for this one."""
    return sum(map(len, changes.values())) <= SHARED_ROWS


def _wait_for_all(waits: Iterable[WaitUntilDurable]) -> None:
    """Wait until several epochs are durable: the first sync is for all of them."""
    for wait in waits:
        wait()
