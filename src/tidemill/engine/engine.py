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
from tidemill.algebra.registry import Registry
from tidemill.algebra.relations import Relation
from tidemill.algebra.walk import scans
from tidemill.changes.batch import ChangeSet, Epoch, together
from tidemill.changes.zset import Row
from tidemill.compiler.compile import compile_view
from tidemill.engine.admission import require_weights
from tidemill.engine.catalog import Catalog, View
from tidemill.engine.catching_up import catch_up
from tidemill.engine.feed import Events
from tidemill.engine.feeds import Feeds
from tidemill.engine.followings import Followings
from tidemill.engine.lateness import Gate, headless
from tidemill.engine.logs import Logs, unseen, without_logs
from tidemill.engine.memory import Budget, give_back
from tidemill.engine.pipeline import Pipeline, Walk, check_tables
from tidemill.engine.placement import DRIVER_WORK, Placement
from tidemill.engine.publish import Publications
from tidemill.engine.replacing import require_new
from tidemill.engine.results import Costs
from tidemill.engine.retention import Retention, forgetful_rows, recalled, require_bounded
from tidemill.engine.scheduling import Scheduler
from tidemill.engine.sharing import bequeath, family_of, heirs_of, inherited, share
from tidemill.engine.staleness import marks_of
from tidemill.engine.transaction import REFUSALS, Transaction
from tidemill.engine.upkeep import Upkeep
from tidemill.model.errors import ArithmeticFault, CommitUnknown, StorageError
from tidemill.model.schema import LATE, WEIGHT, Table
from tidemill.model.types import Field
from tidemill.program.reads import row_wise
from tidemill.runtimes.garbage import garbage_waits
from tidemill.runtimes.native.runtime import NativeRuntime
from tidemill.runtimes.runtime import Runtime
from tidemill.sources.secrets import Secrets
from tidemill.storage.store import AsOf, Store

NOTHING: Mapping[str, ChangeSet] = {}

LOOK_AGAIN = 0.2
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
        self.budget = Budget(memory)
        self.placement = placement
        self.placement.fields_of = self.fields_of
        self.placement.room = self.budget.room
        self.pipeline = Pipeline()
        self.upkeep = Upkeep(store, keep)
        self.retention = Retention(self)
        self.logs = Logs(store)
        self.read_only = read_only
        self.lock = threading.RLock()
        self.transaction = Transaction(self)
        self.publications = Publications(store.epoch)
        self.closed = False
        self.drafting = False
        """Whether an epoch of objects is under way, whose draft others would not see."""
        self.events = Events(self)
        self.followings = Followings(self)
        self.feeds = Feeds(self)
        self.scheduler = Scheduler(self)
        self._last = Epoch(0)
        self.registry = Registry()
        self.catalog, outdated = Catalog.from_json(store.catalog, self.registry)
        self._count_rows()
        for view in self.catalog.views.values():
            self._place(view)
        if not read_only:
            for view in outdated:
                self.fill(view, forgetful_rows(self, view), rebuilt=True)
            for view in [view for view in self.catalog.views.values() if not self.followings.is_filled(view)]:
                self.drop(view.name)  # the process ended before it had its first rows
        if follow and not read_only:
            for view in self.catalog.views.values():
                self.followings.follow(view)
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
        known = self.catalog.relations.get(relation)
        return known if known is not None else self.pipeline.fields_of(relation)

    def contents(self, name: str, until: int | None = None) -> ChangeSet:
        """The rows of a table or view, as they are now or were at an epoch; equal rows may come in several parts."""
        self.events.flush()
        view = self.catalog.views.get(name)
        if view is not None and view.made_when_read:
            return self._make(view, until)
        fields = self.catalog.relations[name]
        if until is None:
            with self.settled():
                runtime = self._runtime(self.store.rows(name))
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
            made = {name: self.contents(name) for name in read if name in views and views[name].made_when_read}
            if made:
                return self.placement.native.answer(program, made)
            work = sum(self.store.rows(name) for name in read)
            return self._runtime(work, row_wise=any(map(row_wise, program.stages))).answer(program)

    def keys(self, table: Table) -> Iterator[Row]:
        """The primary keys that ``table`` holds."""
        positions = table.key_positions()
        return (tuple(row[i] for i in positions) for row in self.contents(table.name).zset())

    def near(self) -> NativeRuntime:
        """What looks up single rows at the cost of these rows: this process, or on Spark the driver."""
        runtime = self._runtime(0)
        assert isinstance(runtime, NativeRuntime)
        return runtime

    def costs(self) -> Costs:
        """What the last epoch cost: Spark's jobs and bytes, and the bytes of changes that this process stored."""
        jobs, read, written = self.placement.spark_counters()
        changes = [change for change in self._last.changes.values() if change.files is None]
        stored = sum(table.nbytes for change in changes for table in change.encoded())
        return Costs(jobs, read, written + stored)

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
        with garbage_waits(), self.settled():
            self.require_writable()
            self.catalog.require_moving(changes)
            if not objects:
                self.catalog.require_free(changes)
            number = self.store.epoch + 1
            gate = self.gate(number)
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

    def gate(self, number: int) -> Gate:
        """What tells the late changes of an epoch from the others."""
        return Gate(self.catalog.tables, self.store.positions, number)

    def _run(self, number: int, changes: Mapping[str, ChangeSet], *, in_turn: bool = False) -> dict[str, ChangeSet]:
        """What epoch ``number`` stores, or an error that leaves all runtimes as they were."""
        with self.between(number, sum(map(len, changes.values()))) as runtimes:
            self.pipeline.announce(changes, self.catalog.tables, self.catalog.constraints, runtimes)
            possible = check_tables(changes, self.catalog.tables, self.catalog.constraints, runtimes[0])
            return self.collect(self.pipeline.walk(possible, runtimes, in_turn=in_turn), runtimes)

    @property
    def look_every(self) -> float | None:
        """After how many seconds to look for what another process has committed; None where nobody else can."""
        return LOOK_AGAIN if self.read_only else None

    def look(self) -> None:
        """See what was committed since. A reader is not told by the writer's process."""
        with self.lock:
            if not self.closed and self.store.refresh():
                self.reload()
                self.publications.look(self.store.epoch)

    def refresh(self, *names: str) -> int:
        """Bring deferred views up to their inputs, as epochs of their own; an immediate one already is."""
        with self.settled():
            wanted = set[str]().union(*(family_of(self.catalog.view(name), self.catalog.views) for name in names))
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
        for view in self.catalog.views.values():
            self._place(view, work)
        views = self.catalog.views.values()
        cut = bool(views) and all(view.partitioning is not None for view in views)
        runtimes = self.pipeline.runtimes(always=(self._runtime(work, by_partitions=cut),))
        self.placement.forget(but=runtimes)
        for runtime in runtimes:
            runtime.begin(number)
        try:
            with self.budget.epoch(work):
                yield runtimes
        except REFUSALS:
            for runtime in runtimes:
                runtime.rollback()
            self.transaction.undone(before)
            raise

    def collect(self, walk: Walk, runtimes: Sequence[Runtime]) -> dict[str, ChangeSet]:
        """What an epoch stores: changes of relations that are kept, and of the maps behind the views."""
        stored = {name: change for name, change in walk.stored.items() if self.keeps(name)}
        for runtime in runtimes:
            stored.update(runtime.commit())
        require_weights(stored, runtimes)
        return stored

    def keeps(self, relation: str) -> bool:
        """Streams are not kept, except for a deferred view that has not seen their rows yet."""
        table = self.catalog.tables.get(relation)
        if table is None or table.kept:
            return True
        return any(v.refresh.deferred and relation in v.inputs for v in self.catalog.views.values())

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
        self.publications.offer(epoch)
        self._last = epoch
        self.upkeep.note(epoch)
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
            self.publications.publish(number)
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

    def clear_up(self) -> None:
        """Do what an exception has kept from being done, once the warehouse is back at the last commit."""
        self.logs.keep(self.catalog.views)
        self.feeds.keep(self.catalog.feeds)
        self.followings.keep(self.catalog.views)
        self.events.resume()

    # -- definitions --------------------------------------------------------------------------------------------

    @contextmanager
    def defining(self) -> Iterator[Catalog]:
        """The catalog, to be changed and committed within. Where that is refused, it is as before."""
        before = self.catalog
        self.transaction.begin()
        self.catalog = before.copy()
        try:
            yield self.catalog
        except REFUSALS:
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
            with self.defining() as catalog:
                catalog.add(table)
                self.commit_catalog(positions=headless(table))

    def create_view(self, view: View) -> None:
        """Add a view and fill it from what its inputs hold."""
        with self.settled():
            self.require_writable()
            require_bounded(self.catalog, view)
            pending = forgetful_rows(self, view)
            try:
                with self.defining() as catalog:
                    view = share(view, catalog, self.store)
                    catalog.add(view)
                    begun = tuple(filter(self.store.rows, maps_of(view)))
                    if begun:  # by a process that died before the view was whole
                        self.commit(Epoch(self.store.epoch, dropped=begun), ends=False)()
                    self.fill(view, pending)
            except REFUSALS:
                if view.name not in self.catalog:
                    self.release(view.name, maps_of(view))
                raise
        if view.cores:
            try:
                self.followings.begin(view)
            except BaseException:
                self.drop(view.name)
                raise

    def drop(self, name: str) -> None:
        """Remove a table or view that no view reads."""
        with self.followings.alone(name), self.settled(), self.publications.ending(name):
            self.require_writable()
            view = self.catalog.views.get(name)
            with self.defining() as catalog:
                left, dropped = self.take_out(catalog, name)
                self.commit_catalog(left, dropped=dropped, then=partial(self.release, name, dropped))
            if view is not None:
                self.followings.drop(view)

    def take_out(self, catalog: Catalog, name: str) -> tuple[dict[str, ChangeSet], tuple[str, ...]]:
        """Remove a table or view from the catalog; returns what is to be stored for others, and the maps that end."""
        late, view = name in catalog.late, catalog.views.get(name)
        catalog.drop(name)
        if view is None:
            return {}, (name, name + LATE) if late else (name,)
        return self._bequeath(view), (*maps_of(view), *(kept.core.name for kept in view.cores))

    def release(self, name: str, relations: Iterable[str]) -> None:
        """Let go of what is in memory of a table or view that is gone, or is about to be replaced."""
        self.pipeline.remove(name)
        self.logs.forget(name)
        for relation in relations:
            self.placement.forget_relation(relation)
        self._count_rows()

    def _bequeath(self, view: View) -> dict[str, ChangeSet]:
        """Let those who share stages of a view that goes have them; returns what these hold, to be stored anew."""
        heirs, owners = bequeath(view, heirs_of(view, self.catalog.views.values()))
        for heir in heirs:
            self.catalog.renew(heir)
            self._place(heir)
        return inherited(view.program.stages, owners, self.store)

    def part(self, view: View) -> None:
        """Let a view share with nobody any more: it, and those who follow it, have copies of what was shared."""
        with self.settled():
            if not view.shares and not heirs_of(view, self.catalog.views.values()):
                return
            with self.defining() as catalog:
                left = self._bequeath(view)
                stages = [stage for other in catalog.views.values() for stage in other.program.stages]
                left |= inherited(stages, {shared: own for own, shared in view.shares.items()}, self.store)
                self._place(catalog.alone(view))
                self.commit_catalog(left)

    def fill(
        self,
        view: View,
        pending: Mapping[str, ChangeSet] = NOTHING,
        *,
        rebuilt: bool = False,
        number: int | None = None,
        left: Mapping[str, ChangeSet] = NOTHING,
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
            require_new(view, dropped)
        view = replace(view, fresh=number)
        replaced = maps_of(view) if rebuilt else ()
        if rebuilt and view.made_when_read:
            # Its log ends here, and maps of another layout cannot be read as of an epoch before.
            view, replaced, dropped = replace(view, created=number), (), replaced
        if in_store:
            # Spark finds the state of a view in the store. There it is not a view before all of it is there.
            self.commit(Epoch(number, stored, replaced=replaced, dropped=dropped), ends=False)()
            stored, replaced, dropped = {}, (), ()
        stored = {**left, **together(stored, recalled(self, view, pending, number, work))}
        self.catalog.renew(view)
        epoch = Epoch(number, stored, catalog=self.catalog.to_json(), replaced=replaced, dropped=dropped)
        self.commit(epoch, refreshed=(view.name,))()

    def _place(self, view: View, work: int = 0) -> None:
        """Let a view be run by the runtime for work on so many rows."""
        option, cut = view.options.get("runtime", "auto"), view.partitioning is not None
        name, _ = self.placement.choose(work, option, row_wise=view.row_wise, by_partitions=cut)
        self.pipeline.place(view.program, self.placement.runtime(name, work), deferred=view.refresh.deferred)

    def _runtime(self, work: int, *, row_wise: bool = False, by_partitions: bool = False) -> Runtime:
        """The runtime that checks tables and answers queries, for work on so many rows."""
        name, _ = self.placement.choose(work, row_wise=row_wise, by_partitions=by_partitions)
        return self.placement.runtime(name, work)

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
        if not self.upkeep.due:
            return
        with self.lock:
            if self.closed:
                return
            behind = [view.fresh for view in self.catalog.views.values() if view.refresh.deferred]
            maps, oldest = without_logs(self.catalog.maps(), self.catalog), self.store.oldest
            try:
                if self.upkeep.run(maps, seen=min(behind, default=self.store.epoch)):
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
            freed = self.store.compact(without_logs(self.catalog.maps(), self.catalog))
            self.logs.trim(self.catalog)
            self._count_rows()
            return freed

    def vacuum(self, keep: int) -> int:
        """Forget all but the last ``keep`` epochs; where only so many are kept, keep that many from now on."""
        with self.settled():
            self.require_writable()
            if self.upkeep.keep is not None:
                self.upkeep.keep = max(keep, 1)
            # What a stream brought is nowhere else, so it stays until late views have seen it.
            streams = [name for name, table in self.catalog.tables.items() if not table.kept]
            behind = [epoch for name in streams for epoch in unseen(self.catalog, name)]
            keep = max(keep, self.store.epoch - min(behind, default=self.store.epoch) + 1)
            self.placement.forget_files(self.catalog.maps())
            self.logs.trim(self.catalog, self.store.epoch - max(keep, 1) + 1)
            return self.store.vacuum(keep)

    def close(self) -> None:
        """End the engine's work; waiting subscribers end with it."""
        self.feeds.close()
        self.scheduler.close()
        self.followings.close()
        with self.lock:
            try:
                self.events.flush()
            except CommitUnknown:
                pass  # whoever made that commit was told, and opening again tells the rest
            finally:
                self.closed = True
                self._last = Epoch(0)
                self.publications.close()
                self.placement.forget()
                self.store.close()
        give_back()


def maps_of(view: View) -> tuple[str, ...]:
    """The names under which a view's rows and state are stored."""
    return tuple(n for stage in view.program.stages for n in (stage.name, *(m.name for m in stage.maps)))
