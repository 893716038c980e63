"""The engine: takes changes in, carries them to the views and commits them, one epoch at a time."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from tidemill.algebra.evaluate import evaluate
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.walk import scans
from tidemill.algebra.user_functions import Registry
from tidemill.changes.changeset import ChangeSet, Epoch, merge_changes
from tidemill.changes.zset import Row
from tidemill.compiler.passes import compile_view
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.shared_stages import (
    share_stages,
    shared_stage_users,
    sharing_group,
    transfer_shared_stages,
    transferred_contents,
)
from tidemill.engine.catalog.view import RuntimeNeeds, View
from tidemill.engine.definitions.replace_view import require_not_replacing
from tidemill.engine.epochs.events import EventWriter
from tidemill.engine.epochs.memory_budget import MemoryBudget, return_free_memory
from tidemill.engine.epochs.pipeline import Pipeline, Propagation, check_tables
from tidemill.engine.epochs.placement import DRIVER_WORK, Placement
from tidemill.engine.epochs.staleness_marks import marks_of
from tidemill.engine.epochs.transaction import REVERTIBLE_ERRORS, EpochTransaction
from tidemill.engine.epochs.weights import require_weights
from tidemill.engine.maintenance.change_logs import ChangeLogs
from tidemill.engine.maintenance.compaction_schedule import CompactionSchedule
from tidemill.engine.partitions.lateness import LatenessFilter, initial_head
from tidemill.engine.partitions.retention import Retention, replay_retained_rows, require_bounded, retained_rows
from tidemill.engine.refresh.catch_up import catch_up
from tidemill.engine.refresh.scheduler import Scheduler
from tidemill.engine.remote.folder_feeds import FolderFeeds
from tidemill.engine.remote.source_views import SourceViews
from tidemill.engine.results import EpochCosts
from tidemill.engine.subscriptions.publisher import Publisher
from tidemill.model.errors import ArithmeticFault, CommitUnknown, StorageError
from tidemill.model.schema import LATE, WEIGHT, Table
from tidemill.model.types import Field
from tidemill.program.reads import row_wise
from tidemill.runtimes.garbage_collection import garbage_collection_paused
from tidemill.runtimes.native.runtime import NativeRuntime
from tidemill.runtimes.runtime import Runtime
from tidemill.sources.secrets import Secrets
from tidemill.storage.store import AsOf, Store

NO_CHANGES: Mapping[str, ChangeSet] = {}

POLL_SECONDS = 0.2
"""How often, in seconds, a reader looks for what another process has committed."""


class Engine:
    """A store, a catalog over it, and the pipeline that keeps the catalog's views fresh.

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
        self.secrets = secrets or Secrets.of()
        self.budget = MemoryBudget(memory)
        self.placement = placement
        self.placement.fields_of = self.fields_of
        self.placement.room = self.budget.room
        self.pipeline = Pipeline()
        self.compaction_schedule = CompactionSchedule(store, keep)
        self.retention = Retention(self)
        self.logs = ChangeLogs(store)
        self.read_only = read_only
        self.lock = threading.RLock()
        self.transaction = EpochTransaction(self)
        self.publisher = Publisher(store.epoch)
        self.closed = False
        self.object_epoch_open = False
        """Whether an epoch of objects is under way, whose draft others would not see."""
        self.events = EventWriter(self)
        self.source_views = SourceViews(self)
        self.feeds = FolderFeeds(self)
        self.scheduler = Scheduler(self)
        self._last = Epoch(0)
        self._placed_views: Mapping[str, View] | None = None
        self._placed_for: tuple[bool, ...] = ()
        self._checking: Runtime | None = None
        self.registry = Registry()
        self.catalog, outdated = Catalog.from_json(store.catalog, self.registry)
        self._count_rows()
        for view in self.catalog.views.values():
            self._place(view)
        if not read_only:
            for view in outdated:
                self.fill(view, retained_rows(self, view), rebuilt=True)
            for view in [view for view in self.catalog.views.values() if not self.source_views.is_filled(view)]:
                self.drop(view.name)  # the process ended before it had its first rows
        if follow and not read_only:
            for view in self.catalog.views.values():
                self.source_views.follow(view)
            for feed in self.catalog.feeds.values():
                self.feeds.follow(feed)

    @contextmanager
    def settled(self) -> Iterator[None]:
        """Alone, with every event that was fed in an epoch, and after an exception back at the last commit.

        So begins whatever looks at the warehouse or changes it.
        """
        with self.lock:
            self.transaction.recover()
            self.events.flush()
            yield

    # -- reading ------------------------------------------------------------------------------------------------

    @property
    def committed(self) -> Catalog:
        """The catalog as of the last commit, also where an exception has left an epoch of this thread under way."""
        if self.transaction.abandoned:
            with self.lock:
                self.transaction.recover()
        return self.catalog

    def fields_of(self, relation: str) -> tuple[Field, ...]:
        """The columns of a table, a view or a stage."""
        known = self.catalog.fields_of(relation)
        return known if known is not None else self.pipeline.fields_of(relation)

    def contents(self, name: str, until: int | None = None) -> ChangeSet:
        """The rows of a table or view, as they are now or were at an epoch; equal rows may come in several parts."""
        self.events.flush()
        view = self.catalog.views.get(name)
        if view is not None and view.computed_on_read:
            return self._make(view, until)
        fields = self.catalog.relations[name]
        if until is None:
            with self.settled():
                runtime = self.placement.runtime_for(self.store.rows(name))
                if isinstance(runtime, NativeRuntime):
                    return runtime.contents(name)
        table = self.store.read(name, fields, until=until)
        return ChangeSet.of_arrow(table.select([*(f.name for f in fields), WEIGHT]), fields)

    def _make(self, view: View, until: int | None) -> ChangeSet:
        """The rows of a view that are not stored, from its maps as they are now or were at an epoch."""
        stage = view.program.stages[-1]
        if until is not None:
            past = NativeRuntime(AsOf(self.store, until), self.fields_of, backend="python")
            past.install(stage)
            return past.produce(stage)
        with self.settled():
            runtime = self.pipeline[view.name].runtime
            # The driver takes small changes to maps of any size, but not all of their rows.
            if runtime.name == "spark" and sum(self.store.rows(map_.name) for map_ in stage.maps) > DRIVER_WORK:
                runtime = self.placement.spark
            return runtime.produce(stage)

    def answer(self, relation: Relation) -> ChangeSet:
        """The rows of a query over the current contents, summed."""
        self.events.flush()
        read = scans(relation)
        if not read:
            return ChangeSet.of(evaluate(relation, {}).items(), relation.fields)
        with self.settled():
            program = compile_view("query", relation, self.catalog.tables, strategy="recompute")
            views = self.catalog.views
            made = {name: self.contents(name) for name in read if name in views and views[name].computed_on_read}
            if made:
                return self.placement.native.answer(program, made)
            work = sum(self.store.rows(name) for name in read)
            needs = RuntimeNeeds(row_wise=any(map(row_wise, program.stages)))
            return self.placement.runtime_for(work, needs).answer(program)

    def keys(self, table: Table) -> Iterator[Row]:
        """The primary keys that ``table`` holds."""
        positions = table.key_positions()
        return (tuple(row[i] for i in positions) for row in self.contents(table.name).zset())

    def lookup_runtime(self) -> NativeRuntime:
        """What looks up single rows at the cost of these rows: this process, or on Spark the driver."""
        runtime = self.placement.runtime_for(0)
        assert isinstance(runtime, NativeRuntime)
        return runtime

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
        """Commit one epoch: all changes and all views together, or nothing. Returns its number.

        Tables of ``objects`` are changed by these alone, which have seen to it that all references are right. With
        ``late`` changes are taken in however late they are: whoever asks for it knows what is retained.
        """
        with garbage_collection_paused(), self.settled():
            self.require_writable()
            self.catalog.require_not_static(changes)
            if not objects:
                self.catalog.require_not_object_tables(changes)
            number = self.store.epoch + 1
            gate = self.lateness_filter(number)
            changes = changes if late else gate.admit(changes)
            try:
                stored = self._run(number, changes)
            except ArithmeticFault:
                # The fault may be of two rows that never stood beside each other: one leaves as the other comes.
                stored = self._run(number, changes, in_turn=True)
            durable = self.commit(Epoch(number, stored, {**(positions or {}), **gate.moved}))
        # Outside the lock: callers that wait together share one sync of the disk.
        durable()
        self.tend()
        return number

    def lateness_filter(self, number: int) -> LatenessFilter:
        """What tells the late changes of an epoch from the others."""
        return LatenessFilter(self.catalog.tables, self.store.positions, number)

    def _run(self, number: int, changes: Mapping[str, ChangeSet], *, in_turn: bool = False) -> dict[str, ChangeSet]:
        """What epoch ``number`` stores, or an error that leaves all runtimes as they were."""
        with self.between(number, sum(map(len, changes.values()))) as runtimes:
            self.pipeline.announce(changes, self.catalog.tables, self.catalog.constraints, runtimes)
            possible = check_tables(changes, self.catalog.tables, self.catalog.constraints, runtimes[0])
            return self.collect(self.pipeline.walk(possible, runtimes, in_turn=in_turn), runtimes)

    @property
    def poll_seconds(self) -> float | None:
        """After how many seconds to look for what another process has committed; None where nobody else can."""
        return POLL_SECONDS if self.read_only else None

    def look(self) -> None:
        """See what was committed since. A reader is not told by the writer's process."""
        with self.lock:
            if not self.closed and self.store.refresh():
                self.reload()
                self.publisher.look(self.store.epoch)

    def refresh(self, *names: str) -> int:
        """Bring deferred views up to their inputs, as epochs of their own; an immediate one already is."""
        with self.settled():
            wanted = set[str]().union(*(sharing_group(self.catalog.view(name), self.catalog.views) for name in names))
            views = [self.catalog.view(name) for name in wanted]
            late = [view for view in views if view.refresh.deferred and view.fresh < self.store.epoch]
            if late:
                self.require_writable()
                catch_up(self, late)
                self.retention.tend()
            return self.store.epoch

    @contextmanager
    def between(self, number: int, work: int) -> Iterator[list[Runtime]]:
        """The runtimes for work on so many rows, between begin and the end of it.

        A change that is refused is undone by them. After any other error they are not trusted to: see ``transaction``.
        The first one checks tables. One that takes no part must forget what it holds, for it will be behind.
        """
        before = self.transaction.phase
        self.transaction.begin()
        runtimes = self.pipeline.runtimes(always=self._place_views(work))
        self.placement.forget(but=runtimes)
        for runtime in runtimes:
            runtime.begin(number)
        try:
            with self.budget.epoch(work):
                yield runtimes
        except REVERTIBLE_ERRORS:
            for runtime in runtimes:
                runtime.rollback()
            self.transaction.undone(before)
            raise

    def collect(self, walk: Propagation, runtimes: Sequence[Runtime]) -> dict[str, ChangeSet]:
        """What an epoch stores: changes of relations that are kept, and of the maps behind the views."""
        stored = {name: change for name, change in walk.stored.items() if self.catalog.keeps_rows_of(name)}
        for runtime in runtimes:
            stored.update(runtime.commit())
        require_weights(stored, runtimes)
        return stored

    def commit(
        self,
        epoch: Epoch,
        refreshed: Collection[str] = (),
        then: Callable[[], None] | None = None,
        *,
        ends: bool = True,
    ) -> Callable[[], None]:
        """Make the epoch visible; the returned function waits until it is durable and wakes subscribers.

        The store commits it in one step. What follows from that in memory, also what is to be done ``then``, is part of
        the epoch. ``refreshed`` are late views that catch up. Unless it ``ends`` what was begun, memory is still ahead.
        """
        self.transaction.begin()
        marks = marks_of(self.catalog, self.store.positions, epoch, refreshed)
        if marks:
            epoch = replace(epoch, positions={**epoch.positions, **marks})
        durable = self.store.append(epoch)
        self.publisher.offer(epoch)
        self._last = epoch
        self.compaction_schedule.note(epoch)
        self.placement.rows += sum(len(c) for name, c in epoch.changes.items() if name in self.catalog.tables)
        if then is not None:
            then()
        if ends:
            self.transaction.end()
        return partial(self._settle, epoch.number, durable)

    def _settle(self, number: int, durable: Callable[[], None]) -> None:
        """Wait until an epoch is durable, and tell those who listen. It is committed, whatever happens here."""
        try:
            durable()
            self.publisher.publish(number)
        except BaseException:
            self.transaction.unpublished = True
            raise

    def reload(self) -> None:
        """Read everything anew that is in memory and follows from the store."""
        self.placement.forget()
        self.pipeline = Pipeline()
        self.catalog, _ = Catalog.from_json(self.store.catalog, self.registry)
        for view in self.catalog.views.values():
            self._place(view)
        self._count_rows()

    def clean_up(self) -> None:
        """Do what an exception has kept from being done, once the warehouse is back at the last commit."""
        self.logs.keep(self.catalog.views)
        self.feeds.keep(self.catalog.feeds)
        self.source_views.keep(self.catalog.views)
        self.events.resume()

    # -- definitions --------------------------------------------------------------------------------------------

    @contextmanager
    def changing_catalog(self) -> Iterator[Catalog]:
        """The catalog, to be changed and committed within. Where that is refused, it is as before."""
        before = self.catalog
        self.transaction.begin()
        self.catalog = before.copy()
        try:
            yield self.catalog
        except REVERTIBLE_ERRORS:
            self.catalog = before
            self.pipeline.keep(before.views)
            for view in before.views.values():
                self._place(view)
            self.transaction.end()
            raise

    def commit_catalog(
        self,
        changes: Mapping[str, ChangeSet] = MappingProxyType({}),
        *,
        positions: Mapping[str, str] = MappingProxyType({}),
        dropped: tuple[str, ...] = (),
        then: Callable[[], None] | None = None,
    ) -> None:
        """Commit the catalog as it is, within the present epoch."""
        catalog = self.catalog.to_json()
        self.commit(Epoch(self.store.epoch, changes, positions, catalog, dropped), then=then)()

    def create_table(self, table: Table) -> None:
        """Add an empty table or a stream."""
        with self.settled():
            self.require_writable()
            with self.changing_catalog() as catalog:
                catalog.add(table)
                self.commit_catalog(positions=initial_head(table))

    def create_view(self, view: View) -> None:
        """Add a view and fill it from what its inputs hold."""
        with self.settled():
            self.require_writable()
            require_bounded(self.catalog, view)
            pending = retained_rows(self, view)
            try:
                with self.changing_catalog() as catalog:
                    view = share_stages(view, catalog, self.store)
                    catalog.add(view)
                    begun = tuple(filter(self.store.rows, view.map_names))
                    if begun:  # by a process that died before the view was whole
                        self.commit(Epoch(self.store.epoch, dropped=begun), ends=False)()
                    self.fill(view, pending)
            except REVERTIBLE_ERRORS:
                if view.name not in self.catalog:
                    self.release(view.name, view.map_names)
                raise
        if view.cores:
            try:
                self.source_views.begin(view)
            except BaseException:
                self.drop(view.name)
                raise

    def drop(self, name: str) -> None:
        """Remove a table or view that no view reads."""
        with self.source_views.alone(name), self.settled(), self.publisher.ending(name):
            self.require_writable()
            view = self.catalog.views.get(name)
            with self.changing_catalog() as catalog:
                left, dropped = self.remove_from_catalog(catalog, name)
                self.commit_catalog(left, dropped=dropped, then=partial(self.release, name, dropped))
            if view is not None:
                self.source_views.drop(view)

    def remove_from_catalog(self, catalog: Catalog, name: str) -> tuple[dict[str, ChangeSet], tuple[str, ...]]:
        """Remove a table or view from the catalog; returns what is to be stored for others, and the maps that end."""
        late, view = name in catalog.late, catalog.views.get(name)
        catalog.drop(name)
        if view is None:
            return {}, (name, name + LATE) if late else (name,)
        return self._transfer_shared_stages(view), (*view.map_names, *(kept.core.name for kept in view.cores))

    def release(self, name: str, relations: Iterable[str]) -> None:
        """Let go of what is in memory of a table or view that is gone, or is about to be replaced."""
        self.pipeline.remove(name)
        self.logs.forget(name)
        for relation in relations:
            self.placement.forget_relation(relation)
        self._count_rows()

    def _transfer_shared_stages(self, view: View) -> dict[str, ChangeSet]:
        """Let those who share stages of a view that goes have them; returns what these hold, to be stored anew."""
        heirs, owners = transfer_shared_stages(view, shared_stage_users(view, self.catalog.views.values()))
        for heir in heirs:
            self.catalog.update_view(heir)
            self._place(heir)
        return transferred_contents(view.program.stages, owners, self.store)

    def part(self, view: View) -> None:
        """Let a view share with nobody any more: it, and those who follow it, have copies of what was shared."""
        with self.settled():
            if not view.shares and not shared_stage_users(view, self.catalog.views.values()):
                return
            with self.changing_catalog() as catalog:
                left = self._transfer_shared_stages(view)
                stages = [stage for other in catalog.views.values() for stage in other.program.stages]
                left |= transferred_contents(stages, {shared: own for own, shared in view.shares.items()}, self.store)
                self._place(catalog.alone(view))
                self.commit_catalog(left)

    def fill(
        self,
        view: View,
        pending: Mapping[str, ChangeSet] = NO_CHANGES,
        *,
        rebuilt: bool = False,
        number: int | None = None,
        left: Mapping[str, ChangeSet] = NO_CHANGES,
        dropped: tuple[str, ...] = (),
    ) -> None:
        """Compute a view from whole inputs, and from rows that are ``pending`` because inputs forget rows.

        Its rows belong to the present epoch, unless one is given for them. With them is committed what a view that is
        ``dropped`` has ``left`` to others.
        """
        number = self.store.epoch if number is None else number
        stored: dict[str, ChangeSet] = {}
        work = sum(self.store.rows(name) for name in view.inputs)
        with self.between(number, work) as runtimes:
            placed = self.pipeline[view.name]
            for stage in placed.program.stages:
                rows = placed.runtime.load(stage)
                if stage.reader is not None:
                    continue
                for runtime in runtimes:
                    runtime.absorb(stage.name, rows)
                if self.pipeline.stored(stage.name):
                    stored[stage.name] = rows
            for runtime in runtimes:
                stored.update(runtime.commit())
        in_store = bool(pending) and placed.runtime.name != "native"
        if in_store:
            require_not_replacing(view, dropped)
        view = replace(view, fresh=number)
        replaced = view.map_names if rebuilt else ()
        if rebuilt and view.computed_on_read:
            # Its log ends here, and maps of another layout cannot be read as of an epoch before.
            view, replaced, dropped = replace(view, created=number), (), replaced
        if in_store:
            # Spark finds the state of a view in the store. There it is not a view before all of it is there.
            self.commit(Epoch(number, stored, replaced=replaced, dropped=dropped), ends=False)()
            stored, replaced, dropped = {}, (), ()
        stored = {**left, **merge_changes(stored, replay_retained_rows(self, view, pending, number, work))}
        self.catalog.update_view(view)
        epoch = Epoch(number, stored, catalog=self.catalog.to_json(), replaced=replaced, dropped=dropped)
        self.commit(epoch, refreshed=(view.name,))()

    def _place_views(self, work: int) -> Runtime:
        """Let each view be run by the runtime for work on so many rows; returns the one that checks tables.

        The choice is made again only when the catalog or the class of the work has changed.
        """
        views, kind = self.catalog.views, self.placement.work_class(work)
        if views is not self._placed_views or kind != self._placed_for:
            self._placed_views = None
            chosen = {needs: self.placement.runtime_for(work, needs) for needs in self.catalog.view_index.runtime_needs}
            for view in views.values():
                self.pipeline.place(view.program, chosen[view.runtime_needs], deferred=view.refresh.deferred)
            by_partitions = bool(chosen) and all(needs.by_partitions for needs in chosen)
            self._checking = self.placement.runtime_for(work, RuntimeNeeds(by_partitions=by_partitions))
            self._placed_views, self._placed_for = views, kind
        assert self._checking is not None
        return self._checking

    def _place(self, view: View) -> None:
        """Let a view be run by the runtime for small work."""
        self._placed_views = None
        runtime = self.placement.runtime_for(0, view.runtime_needs)
        self.pipeline.place(view.program, runtime, deferred=view.refresh.deferred)

    def _count_rows(self) -> None:
        self.placement.rows = sum(self.store.rows(name) for name in self.catalog.tables)

    def require_writable(self) -> None:
        """Refuse to change a warehouse that is closed or open for reading, and in a process that was forked."""
        if self.closed:
            raise StorageError("the warehouse is closed", hint="Open it again.")
        if self.read_only:
            raise StorageError("the warehouse is open for reading only", hint="Open it without read_only=True.")
        self.store.require_writable()

    # -- upkeep ------------------------------------------------------------------------------------------------

    def tend(self) -> None:
        """What is due after an epoch: changes merged, views refreshed whose interval has passed, the past forgotten."""
        self._merge()
        self.scheduler.tend()
        self.retention.tend()

    def _merge(self) -> None:
        """Merge what has piled up. The epoch is safe already, so trouble here is a warning and not an error."""
        if not self.compaction_schedule.due:
            return
        with self.lock:
            if self.closed:
                return
            behind = [view.fresh for view in self.catalog.view_index.deferred]
            maps, oldest = self.catalog.mergeable_maps(), self.store.oldest
            try:
                if self.compaction_schedule.run(maps, seen=min(behind, default=self.store.epoch)):
                    self._count_rows()
                self.logs.trim(self.catalog)
                if self.store.oldest > oldest:
                    self.placement.forget_files(maps)
            except Exception as trouble:
                self.transaction.unpublished |= isinstance(trouble, CommitUnknown)  # so that the next use says it
                warnings.warn(f"stored changes could not be merged: {trouble}", RuntimeWarning, stacklevel=3)

    def compact(self) -> int:
        """Forget and merge what the store can; returns the bytes that the newest state no longer needs."""
        with self.settled():
            self.require_writable()
            self.retention.forget(now=True)
            freed = self.store.compact(self.catalog.mergeable_maps())
            self.logs.trim(self.catalog)
            self._count_rows()
            return freed

    def vacuum(self, keep: int) -> int:
        """Forget all but the last ``keep`` epochs; where only so many are kept, keep that many from now on."""
        with self.settled():
            self.require_writable()
            if self.compaction_schedule.keep is not None:
                self.compaction_schedule.keep = max(keep, 1)
            # What a stream brought is nowhere else, so it stays until late views have seen it.
            streams = [name for name, table in self.catalog.tables.items() if not table.kept]
            behind = [epoch for name in streams for epoch in self.catalog.unread_epochs(name)]
            keep = max(keep, self.store.epoch - min(behind, default=self.store.epoch) + 1)
            self.placement.forget_files(self.catalog.maps())
            self.logs.trim(self.catalog, self.store.epoch - max(keep, 1) + 1)
            return self.store.vacuum(keep)

    def close(self) -> None:
        """End the engine's work; waiting subscribers end with it."""
        self.feeds.close()
        self.scheduler.close()
        self.source_views.close()
        with self.lock:
            try:
                self.events.flush()
            except CommitUnknown:
                pass  # whoever made that commit was told, and opening again tells the rest
            finally:
                self.closed = True
                self._last = Epoch(0)
                self.publisher.close()
                self.placement.forget()
                self.store.close()
        return_free_memory()
