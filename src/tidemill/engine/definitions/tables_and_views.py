"""DDL of tables and views. Shared stages of a dropped view are transferred to the views that use them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import islice

from tidemill.changes.changeset import ChangeSet, Epoch
from tidemill.compiler.frontends.sql.named_definitions import NamedDefinitions
from tidemill.compiler.passes import streams_of
from tidemill.compiler.plan import Plan
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.entries.deploy_stage import DeployStage
from tidemill.engine.catalog.entries.errors_table import ERRORS
from tidemill.engine.catalog.entries.grants import Grant
from tidemill.engine.catalog.new_views.staged_view import maps_after_promotion, staged_for
from tidemill.engine.catalog.serialization import catalog_to_json
from tidemill.engine.catalog.views.shared_stages import (
    share_stages,
    shared_stage_users,
    transfer_shared_stages,
    transferred_contents,
)
from tidemill.engine.catalog.views.view import View
from tidemill.engine.clocks.clocks import Clocks
from tidemill.engine.epochs.commit import EpochCommitter, Settled
from tidemill.engine.epochs.state import EngineState
from tidemill.engine.epochs.transaction import REVERTIBLE_ERRORS
from tidemill.engine.maintenance.change_logs import ChangeLogs
from tidemill.engine.partitions.bounded_state import require_bounded_state
from tidemill.engine.partitions.change_bounds import forgetful_views, require_bounded
from tidemill.engine.partitions.lateness import initial_head
from tidemill.engine.refresh.fill import ViewFiller, cannot_replace
from tidemill.engine.remote.source_views import SourceViews
from tidemill.engine.subscriptions.publisher import Publisher
from tidemill.model.errors import Unsupported
from tidemill.model.schema import LATE, Table

__all__ = ["RelationDefinitions"]


class RelationDefinitions:
    """Creates, replaces and drops tables and views of a warehouse; each commits the catalog."""

    def __init__(
        self,
        state: EngineState,
        epochs: EpochCommitter,
        settled: Settled,
        filler: ViewFiller,
        source_views: SourceViews,
        publisher: Publisher,
        logs: ChangeLogs,
        clocks: Clocks,
    ) -> None:
        self._state = state
        self._epochs = epochs
        self._settled = settled
        self._filler = filler
        self._source_views = source_views
        self._publisher = publisher
        self._logs = logs
        self._clocks = clocks

    def alone(self, name: str) -> AbstractContextManager[object]:
        """Context in which nobody else maintains, replaces or drops a view; a joint commit has the whole warehouse, so
        it must not wait for who waits for that."""
        return nullcontext() if self._epochs.is_joint else self._source_views.alone(name)

    def create_table(self, table: Table) -> None:
        """Add an empty table or a stream."""
        with self._settled():
            self._state.require_writable()
            with self._epochs.changing_catalog() as catalog:
                catalog.add(table)
                self._epochs.commit_catalog(positions=initial_head(table, self._state.store.positions))

    def define_named(self, named: NamedDefinitions, users: Iterable[View] = ()) -> None:
        """Store these views that are not materialized, and functions in SQL, in place of those that are stored.

        Views that use them and keep their programs are stored as they were compiled with them.
        """
        with self._settled():
            self._state.require_writable()
            with self._epochs.changing_catalog() as catalog:
                catalog.named = named
                for view in users:
                    catalog.update_view(view)
                    self._state.place(view)
                self._epochs.commit_catalog()

    def define_stage(self, stage: DeployStage) -> None:
        """Store a stage, whose views are there, in place of the one of its name."""
        with self._settled(), self._epochs.changing_catalog() as catalog:
            catalog.deploy_stages[stage.name] = stage
            self._epochs.commit_catalog()

    def end_stage(self, stage: DeployStage, named: NamedDefinitions) -> None:
        """Remove a stage, with those of its views that are still there; the other definitions are then ``named``."""
        left = [name for name in self._state.catalog.views if name in stage.staged.values()]
        with self._settled():
            if left:
                self.drop(left[-1], readers=left[:-1])
            with self._epochs.changing_catalog() as catalog:
                catalog.named, catalog.promoted = named, {}
                del catalog.deploy_stages[stage.name]
                self._epochs.commit_catalog()

    @contextmanager
    def joint(self) -> Iterator[None]:
        """Context in which all definitions, and what follows from them, are one commit, of one epoch, or none.

        Writers and readers of this process wait for it.
        """
        with self._settled():
            if self._epochs.is_joint:
                yield
                return
            with self._publisher.joint(), self._epochs.joint() as joint:
                yield
        for work in joint.after:
            work()

    def suspend(self, names: Iterable[str]) -> None:
        """Begin a joint commit that replaces or drops views: until their turn comes nobody has to wait for them.

        They are not maintained, so what they share with others becomes their own.
        """
        waiting = frozenset(names)
        for name in waiting:
            self.unshare(self._state.catalog.view(name))
        self._state.catalog.waiting |= waiting
        for name in waiting:
            self._state.pipeline.remove(name)

    def define_grants(self, grants: tuple[Grant, ...]) -> None:
        """Store these rights in place of those that are stored."""
        with self._settled():
            self._state.require_writable()
            with self._epochs.changing_catalog() as catalog:
                catalog.grants = grants
                self._epochs.commit_catalog()

    def create_view(self, view: View) -> None:
        """Add a view and fill it from the contents of its inputs."""
        store = self._state.store
        with self._settled():
            self._state.require_writable()
            require_bounded(self._state.catalog, view)
            require_bounded_state(self._state.catalog, view)
            self._clocks.begin_for(view)
            if (staged := staged_for(self._state.catalog, view)) is not None:
                self._take_from_stage(view, staged)
                return
            self._state.catalog.require_free(view.name)  # before it would share the stages of a view of its name
            pending = self._filler.retained_rows(view)
            try:
                with self._epochs.changing_catalog() as catalog:
                    view = self.sharing(view, catalog.views)
                    catalog.add(view)
                    begun = tuple(filter(store.rows, view.map_names))
                    if begun:  # by a process that died before the view was complete
                        self._epochs.commit(Epoch(store.epoch, dropped=begun), ends=False)()
                    self._filler.fill(view, pending)
            except REVERTIBLE_ERRORS:
                if view.name not in self._state.catalog:
                    self._release(view.name, view.map_names)
                raise
        if view.remote_subplans:
            try:
                self._source_views.begin(view)
            except BaseException:
                self.drop(view.name)
                raise

    def _take_from_stage(self, view: View, staged: View) -> None:
        """Add a view that a stage has: its rows, its history and its state stay, under its name."""
        with self._epochs.changing_catalog() as catalog:
            catalog.drop(staged.name)
            catalog.add(replace(view, created=staged.created, fresh=staged.fresh))
            renamed = maps_after_promotion(staged, view)
            epoch = Epoch(self._epochs.next_number, catalog=catalog_to_json(catalog), renamed=renamed)
            self._epochs.commit(epoch, then=lambda: self._state.place(catalog.view(view.name)))()

    def replace_view(self, view: View) -> None:
        """Replace the view of the same name, which no other view may read: the new one is built first, then swapped in.

        Whatever fails before the commit (a query that cannot be maintained, a faulty row, an interrupt), the old view
        stays as it was: the store has not changed, so memory is reloaded from it.
        """
        with self.alone(view.name), self._settled():
            self._state.require_writable()
            old = self._state.catalog.view(view.name)
            self._state.catalog.require_unread(view.name, "replaced")
            if view.remote_subplans:
                raise cannot_replace(view, "Its first rows come from sources, and until then it would be empty.")
            self._clocks.begin_for(view)
            pending = self._filler.retained_rows(view)
            before = self._state.catalog.views
            try:
                with self._epochs.changing_catalog() as catalog, self._publisher.ending(view.name):
                    left, dropped = self._remove(catalog, view.name)
                    self._release(view.name, dropped)
                    require_bounded(catalog, view)
                    require_bounded_state(catalog, view)
                    # What is left to others is not stored yet, so it cannot be read.
                    view = self.sharing(view, {n: v for n, v in catalog.views.items() if v is before.get(n)})
                    catalog.add(view)
                    with self._state.quarantine.forgetting(view.name):
                        self._filler.fill(view, pending, left=left, dropped=dropped)
            except REVERTIBLE_ERRORS:
                self._state.reload()  # runtimes hold state of the new view under this name
                raise
            self._epochs.after(partial(self._source_views.drop, old))

    def replan_view(self, view: View) -> None:
        """Maintain a view by another program, which computes the same rows.

        Its maps are filled first, then swapped in by one commit; whatever fails before it leaves the old ones.
        """
        with self.alone(view.name), self._settled():
            self._state.require_writable()
            self.unshare(self._state.catalog.view(view.name))
            old = self._state.catalog.view(view.name)
            reason = self._state.catalog.unfillable(old) or self._state.catalog.unfillable(view)
            if reason:
                hint = "Use CREATE OR REPLACE MATERIALIZED VIEW."
                raise Unsupported(f'view "{view.name}" cannot be altered', detail=reason, hint=hint)
            if not self._is_up_to_date(old):
                raise Unsupported(
                    f'view "{view.name}" cannot be altered now',
                    detail=f"It shows epoch {old.fresh}, and its tables are at epoch {self._state.store.epoch}.",
                    hint=f"REFRESH VIEW {view.name} first.",
                )
            try:
                with self._epochs.changing_catalog() as catalog:
                    self._release(view.name, old.map_names)
                    earlier = list(catalog.views).index(view.name)
                    view = self.sharing(view, dict(islice(catalog.views.items(), earlier)))
                    self._filler.fill_replanned(view, old)
            except REVERTIBLE_ERRORS:
                self._state.reload()  # runtimes hold maps of both programs under these names
                raise
            self._state.reload()
            self._epochs.end()

    def keep_plans(self, plans: Mapping[str, Plan]) -> None:
        """Store for views when their plans, which stay as they are, were last looked at, in one commit."""
        with self._settled(), self._epochs.changing_catalog() as catalog:
            for name, plan in plans.items():
                catalog.update_view(replace(catalog.view(name), plan=plan))
            self._epochs.commit_catalog()

    def is_refillable(self, view: View) -> bool:
        """True if all maps of a view can be computed from what is stored now."""
        return not self._state.catalog.unfillable(view) and self._is_up_to_date(view)

    def _is_up_to_date(self, view: View) -> bool:
        return not view.refresh.deferred or view.fresh == self._state.store.epoch

    def drop(self, name: str, *, readers: Sequence[str] = ()) -> None:
        """Remove a table or view that no view reads but those given, which go with it, in one commit."""
        gone = [*readers, name]
        with ExitStack() as held:
            for one in gone:
                held.enter_context(self.alone(one))
            held.enter_context(self._settled())
            for one in gone:
                held.enter_context(self._publisher.ending(one))
            self._state.require_writable()
            views = [view for one in gone if (view := self._state.catalog.views.get(one)) is not None]
            with self._epochs.changing_catalog() as catalog:
                left, dropped = self.remove_all(catalog, gone)
                clocks = catalog.unread_clocks()
                catalog.drop_clocks(clocks)
                dropped = (*dropped, *clocks)
                self._epochs.commit_catalog(left, dropped=dropped, then=lambda: self.release_all(gone, dropped))
                self._state.catalog.note_changed(gone, caught_up=name)
            self._epochs.after(partial(self.stop_following, views))

    def stop_following(self, views: Iterable[View]) -> None:
        """Stop what follows the sources of dropped views."""
        for view in views:
            with self._source_views.alone(view.name):
                self._source_views.drop(view)

    def release_all(self, names: Iterable[str], relations: Iterable[str]) -> None:
        """Release the memory of tables and views that are dropped."""
        for name in names:
            self._release(name, relations)

    def remove_all(self, catalog: Catalog, names: Sequence[str]) -> tuple[dict[str, ChangeSet], tuple[str, ...]]:
        """Remove tables and views from the catalog, readers before what they read, as ``_remove`` does one."""
        left: dict[str, ChangeSet] = {}
        dropped: list[str] = []
        ranks = {name: rank for rank, name in enumerate(catalog)}
        for name in sorted(names, key=lambda one: ranks.get(one, 0), reverse=True):
            contents, maps = self._remove(catalog, name)
            left |= contents
            dropped += maps
        return {name: change for name, change in left.items() if name not in dropped}, tuple(dropped)

    def unshare(self, view: View) -> None:
        """Give a view its own stages: it and the views that use its stages get copies of the shared contents."""
        with self._settled():
            if not view.shares and not shared_stage_users(view, self._state.catalog.views.values()):
                return
            with self._epochs.changing_catalog() as catalog:
                left = self._transfer_shared_stages(view)
                stages = [stage for other in catalog.views.values() for stage in other.program.stages]
                owners = {shared: own for own, shared in view.shares.items()}
                left |= transferred_contents(stages, owners, self._state.store)
                self._state.place(catalog.alone(view))
                self._epochs.commit_catalog(left)

    def sharing(self, view: View, earlier: Mapping[str, View]) -> View:
        """A new view, without the stages that it shares with earlier ones; those that wait are not up to date."""
        catalog = self._state.catalog
        earlier = {name: other for name, other in earlier.items() if name not in catalog.waiting}
        unkept = {*streams_of(catalog.tables | catalog.as_streams()), *forgetful_views(catalog)}
        return share_stages(view, earlier, self._state.store, unkept)

    def _remove(self, catalog: Catalog, name: str) -> tuple[dict[str, ChangeSet], tuple[str, ...]]:
        """Remove a table or view from the catalog; returns contents to store for other views, and the maps to drop."""
        late, view = name in catalog.late, catalog.views.get(name)
        catalog.drop(name)
        if view is None:
            return {}, (name, name + LATE) if late else (name,)
        return self._transfer_shared_stages(view), (
            *view.map_names,
            *(kept.subplan.name for kept in view.remote_subplans),
            *((view.name + ERRORS,) if view.quarantines else ()),
        )

    def _release(self, name: str, relations: Iterable[str]) -> None:
        """Release the memory of a table or view that is dropped or about to be replaced."""
        self._state.pipeline.remove(name)
        self._logs.forget(name)
        for relation in relations:
            self._state.placement.forget_relation(relation)
        self._state.count_rows()

    def _transfer_shared_stages(self, view: View) -> dict[str, ChangeSet]:
        """Transfer the shared stages of a view to their users; returns their contents, to be stored."""
        catalog = self._state.catalog
        users, owners = transfer_shared_stages(view, shared_stage_users(view, catalog.views.values()))
        for user in users:
            catalog.update_view(user)
            self._state.place(user)
        return transferred_contents(view.program.stages, owners, self._state.store)
