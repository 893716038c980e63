"""The engine: makes the parts of a warehouse and gives each the functions that it needs."""

from __future__ import annotations

from collections.abc import Mapping

from tidemill.changes.changeset import ChangeSet, Epoch
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.definitions.sources_and_feeds import SourceDefinitions
from tidemill.engine.definitions.tables_and_views import RelationDefinitions
from tidemill.engine.epochs.apply import apply_changes
from tidemill.engine.epochs.commit import EpochCommitter
from tidemill.engine.epochs.events import EventWriter
from tidemill.engine.epochs.memory_budget import MemoryBudget, return_free_memory
from tidemill.engine.epochs.pipeline import Pipeline
from tidemill.engine.epochs.placement import Placement
from tidemill.engine.epochs.reader import WarehouseReader
from tidemill.engine.epochs.state import EngineState
from tidemill.engine.epochs.transaction import EpochTransaction
from tidemill.engine.maintenance.change_logs import ChangeLogs
from tidemill.engine.maintenance.compaction_schedule import CompactionSchedule
from tidemill.engine.maintenance.housekeeping import Housekeeping
from tidemill.engine.refresh.catch_up import ViewRefresher
from tidemill.engine.refresh.fill import ViewFiller
from tidemill.engine.refresh.scheduler import Scheduler
from tidemill.engine.remote.folder_feeds import FolderFeeds
from tidemill.engine.remote.source_views import SourceViews
from tidemill.engine.results import EpochCosts
from tidemill.engine.subscriptions.publisher import Publisher
from tidemill.model.errors import CommitUnknown
from tidemill.runtimes.garbage_collection import garbage_collection_paused
from tidemill.sources.secrets import Secrets
from tidemill.storage.store import Store

__all__ = ["Engine"]

POLL_SECONDS = 0.2
"""How often, in seconds, a reader looks for what another process has committed."""


class Engine:
    """A warehouse at work: its state, and the parts that read it, change it and follow it.

    ``keep`` is how many epochs stay readable; None: all, until ``vacuum``. ``memory`` limits what this process holds.
    ``follow``: sources and feeds that go on by themselves do so from the beginning. A folder may come from anybody, so
    that is not done unasked. ``secrets`` are the variables that sources may take passwords from.
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
    ) -> None:
        self.store = store
        self.placement = placement
        self.secrets = secrets or Secrets.of()
        self.state = state = EngineState(store, placement, MemoryBudget(memory), read_only=read_only)
        self.lock = state.lock
        self.registry = state.registry
        self.object_epoch_open = False
        """Whether an epoch of objects is under way, whose draft others would not see."""
        self._last = Epoch(0)
        self.publisher = Publisher(store.epoch)
        self.transaction = EpochTransaction(store, state.reload, self._republish, self._clean_up)
        self.epochs = EpochCommitter(state, self.transaction, self._note, self.publisher.publish)
        self.events = EventWriter(state, self.transaction, self.epochs, self._run_due)
        self.settled = self.events.settled
        self.flush = self.events.flush
        self.reader = reader = WarehouseReader(state, self.settled, self.flush)
        self.contents, self.answer = reader.contents, reader.answer
        self._filler = ViewFiller(state, self.epochs, self.contents)
        self._refresher = ViewRefresher(state, self.epochs, self._filler)
        self._schedule = CompactionSchedule(store, keep)
        self._logs = ChangeLogs(store)
        self.reach = self._logs.reach
        self.housekeeping = Housekeeping(
            state, self.transaction, self._schedule, self._logs, self.settled, lambda: self.events.busy
        )
        self.source_views = SourceViews(state, self.secrets, self.apply, self.contents)
        self.feeds = FolderFeeds(state, self.apply)
        self.definitions = RelationDefinitions(
            state, self.epochs, self.settled, self._filler, self.source_views, self.publisher, self._logs
        )
        self.sources = SourceDefinitions(state, self.epochs, self.settled, self.feeds)
        self.scheduler = Scheduler(state, self.settled, self.refresh, self.definitions.unshare)
        self._open(follow=follow)

    def _open(self, *, follow: bool) -> None:
        """Read the catalog, rebuild views whose layout is outdated, and begin to follow sources and feeds."""
        outdated = self.state.reload()
        if self.state.read_only:
            return
        for view in outdated:
            self._filler.fill(view, self._filler.retained_rows(view), rebuilt=True)
        for view in [view for view in self.catalog.views.values() if not self.source_views.is_filled(view)]:
            self.definitions.drop(view.name)  # the process ended before it had its first rows
        if follow:
            for view in self.catalog.views.values():
                self.source_views.follow(view)
            for feed in self.catalog.feeds.values():
                self.feeds.follow(feed)

    # -- state --------------------------------------------------------------------------------------------------

    @property
    def catalog(self) -> Catalog:
        """The tables and views as they are, also in the middle of a change of them."""
        return self.state.catalog

    @property
    def pipeline(self) -> Pipeline:
        """The programs of all views."""
        return self.state.pipeline

    @property
    def committed(self) -> Catalog:
        """The catalog as of the last commit, also where an exception has left an epoch of this thread under way."""
        if self.transaction.abandoned:
            with self.lock:
                self.transaction.recover()
        return self.catalog

    @property
    def committed_epoch(self) -> int:
        """The last epoch, where the store can tell; events that wait are in none yet, and are not committed here."""
        if not (self.transaction.settled or self.transaction.elsewhere):
            with self.lock:
                self.transaction.recover()
        return self.store.epoch

    @property
    def poll_seconds(self) -> float | None:
        """After how many seconds to look for what another process has committed; None where none can."""
        return POLL_SECONDS if self.state.read_only else None

    def poll(self) -> None:
        """See what another process has committed since; the writer does not tell readers."""
        with self.lock:
            if not self.state.closed and self.store.refresh():
                self.state.reload()
                self.publisher.look(self.store.epoch)

    def costs(self) -> EpochCosts:
        """What the last epoch cost: Spark's jobs and bytes, and the bytes of changes that this process stored."""
        jobs, read, written = self.placement.spark_counters()
        changes = [change for change in self._last.changes.values() if change.files is None]
        stored = sum(table.nbytes for change in changes for table in change.encoded())
        return EpochCosts(jobs, read, written + stored)

    # -- epochs -------------------------------------------------------------------------------------------------

    def apply(
        self,
        changes: Mapping[str, ChangeSet],
        positions: Mapping[str, str] | None = None,
        *,
        objects: bool = False,
        late: bool = False,
    ) -> int:
        """Commit one epoch: all changes and all views together, or nothing. Returns its number."""
        with garbage_collection_paused(), self.settled():
            number, durable = apply_changes(
                self.state, self.epochs, changes, positions or {}, objects=objects, late=late
            )
        # Outside the lock: callers that wait together share one sync of the disk.
        durable()
        self._run_due()
        return number

    def refresh(self, *names: str) -> int:
        """Bring deferred views up to their inputs, as epochs of their own; an immediate one already is."""
        with self.settled():
            if self._refresher.refresh(names):
                self.housekeeping.forget_due()
            return self.store.epoch

    def _run_due(self) -> None:
        """What is due after an epoch: changes merged, views refreshed whose interval has passed, the past forgotten."""
        self.housekeeping.merge_due()
        self.scheduler.tend()
        self.housekeeping.forget_due()

    def _note(self, epoch: Epoch) -> None:
        """An epoch is committed: those who listen are told once it is durable."""
        self.publisher.offer(epoch)
        self._last = epoch
        self._schedule.note(epoch)

    def _republish(self) -> None:
        self.publisher.resume(self.store.epoch, self.catalog.views)

    def _clean_up(self) -> None:
        """Do what an exception has kept from being done, once the warehouse is back at the last commit."""
        self._logs.keep(self.catalog.views)
        self.feeds.keep(self.catalog.feeds)
        self.source_views.keep(self.catalog.views)
        self.events.resume()

    def close(self) -> None:
        """End the engine's work; waiting subscribers end with it."""
        self.feeds.close()
        self.scheduler.close()
        self.source_views.close()
        with self.lock:
            try:
                self.flush()
            except CommitUnknown:
                pass  # whoever made that commit was told, and opening again tells the rest
            finally:
                self.state.closed = True
                self._last = Epoch(0)
                self.publisher.close()
                self.placement.forget()
                self.store.close()
        return_free_memory()
