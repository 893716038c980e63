"""Refresh of deferred views: several at once if they were last refreshed at the same epoch.

A deferred view is refreshed by *rewinding*: its inputs are presented as of its last refresh, and its triggers then
apply the changes since, one relation at a time. Views last refreshed at the same epoch are *in step*: they need the
same changes of the same inputs, so these are read once and propagated to all of them, in one epoch. Views that have
been refreshed together stay in step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from tidemill.changes.changeset import ChangeSet, Epoch
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.entries.errors_table import ERRORS
from tidemill.engine.catalog.serialization import catalog_to_json
from tidemill.engine.catalog.views.shared_stages import sharing_group
from tidemill.engine.catalog.views.view import View
from tidemill.engine.epochs.commit import EpochCommitter
from tidemill.engine.epochs.isolation import isolating
from tidemill.engine.epochs.staleness_marks import is_caught_up
from tidemill.engine.epochs.state import EngineState
from tidemill.engine.refresh.fill import ViewFiller
from tidemill.engine.refresh.parallel_refresh import ParallelRefresh
from tidemill.model.errors import Unsupported
from tidemill.model.schema import WEIGHT
from tidemill.runtimes.garbage_collection import garbage_collection_paused
from tidemill.runtimes.runtime import Runtime

__all__ = ["ViewRefresher", "groups_at_same_epoch"]

Rebuild = Callable[[View, Mapping[str, ChangeSet]], None]
"""Computes a view anew as one epoch that tells its readers the difference, and stores some changes with it."""


class ViewRefresher:
    """Refreshes deferred views of a warehouse; the caller holds its lock."""

    def __init__(self, state: EngineState, epochs: EpochCommitter, filler: ViewFiller, rebuild: Rebuild) -> None:
        self._state = state
        self._rebuild_for_readers = rebuild
        self._epochs = epochs
        self._filler = filler
        self._parallel = ParallelRefresh(state, epochs, self.run)

    def refresh(self, names: Iterable[str]) -> bool:
        """Refresh deferred views and those that share stages with them, in separate epochs; true if any was stale."""
        catalog, store = self._state.catalog, self._state.store
        wanted = set[str]().union(*(sharing_group(catalog.view(name), catalog.views) for name in names))
        views = [catalog.view(name) for name in wanted]
        stale = [view for view in views if view.refresh.deferred and view.fresh < store.epoch]
        if stale:
            self._state.require_writable()
            groups = groups_at_same_epoch(catalog, stale)
            done = self._refresh_at_once(groups)
            for group in groups:
                rest = [catalog.view(view.name) for view in group if view.name not in done]
                if rest:
                    self._refresh_group(rest)
        return bool(stale)

    def _refresh_at_once(self, groups: Sequence[Sequence[View]]) -> frozenset[str]:
        """Refresh independent views in processes of their own, as one epoch, where it is worth it; returns their
        names."""
        whole = any(view.stopped or view.fresh < self._reach(view) for group in groups for view in group)
        if whole or not self._parallel.is_possible:
            return frozenset()
        jobs = self._parallel.jobs(groups, self.since)
        return self._parallel.refresh(jobs, self._idle) if jobs else frozenset()

    def _refresh_group(self, group: Sequence[View]) -> None:
        whole = [view for view in group if view.fresh < self._reach(view)]
        for view in whole:
            self._rebuild(view)
        late = [view for view in group if view not in whole]
        if late:
            self._catch_up(late)

    def _rebuild(self, view: View) -> None:
        """Compute a view from its inputs as they are: the changes since its last refresh are no longer stored."""
        quarantine = self._state.quarantine
        pending = self._filler.retained_rows(view)
        cleared = {view.name + ERRORS: quarantine.replaced(view.name, [])} if view.stopped else {}
        readers = [reader.name for reader in self._state.catalog.readers(view.name)]
        running = replace(view, stopped=False)
        if readers and pending:
            raise Unsupported(
                f'"{view.name}" cannot be refreshed',
                detail=f"The changes since its last refresh are gone. It reads {', '.join(pending)}, of which not all "
                f"rows are stored, and {', '.join(readers)} would need the difference.",
                hint=f"Drop and create again: {', '.join((view.name, *readers))}.",
            )
        with quarantine.forgetting(view.name):
            if readers:
                self._rebuild_for_readers(running, cleared)
                return
            with self._epochs.changing_catalog() as catalog:
                number = self._epochs.next_number
                self._filler.fill(catalog.alone(running), pending, rebuilt=True, number=number, left=cleared)

    def _reach(self, view: View) -> int:
        """The epoch after which all changes of a view's inputs are still stored."""
        catalog = self._state.catalog
        logs = (log.created for log in catalog.view_index.subscribe_only if log.name in view.inputs)
        columns = (catalog.views[name].columns_since for name in view.inputs if name in catalog.views)
        return max([self._state.store.oldest, *logs, *columns])

    def _catch_up(self, views: Sequence[View]) -> None:
        """Propagate the changes since their last refresh to views that are in step, as one epoch."""
        state = self._state
        number = self._epochs.next_number
        inputs = dict.fromkeys(name for view in views for name in view.inputs)
        pending = {name: self.since(name, views[0].fresh) for name in inputs}
        names = frozenset(view.name for view in views)

        def run(in_turn: bool) -> dict[str, ChangeSet]:
            # A fault may come from a row that was inserted and deleted, or from two rows that never coexisted.
            shown = {name: _net(change) for name, change in pending.items()} if in_turn else pending
            return self._epochs.within_budget(lambda: self.run(number, shown, names, in_turn=in_turn))

        with isolating(state, self._epochs, number) as isolation:
            state.quarantine.listed.update({view.name: [] for view in views if view.stopped})
            stored = isolation.run(run)
            for view in (*views, *self._idle(names, stored)):
                state.catalog.update_view(replace(view, fresh=number, stopped=view.stopped and view.name not in names))
            epoch = Epoch(number, stored, catalog=catalog_to_json(state.catalog))
            durable = self._epochs.commit(epoch, refreshed=names)
        durable()

    def _idle(self, names: frozenset[str], stored: Mapping[str, ChangeSet]) -> list[View]:
        """The other deferred views that are up to date: their epoch advances too, so that they stay in step."""
        changed = {name for name, change in stored.items() if len(change)}
        return [
            view
            for view in self._state.catalog.view_index.deferred
            if view.name not in names
            and changed.isdisjoint(view.inputs)
            and is_caught_up(self._state.store.positions, view.name)
        ]

    def run(
        self, number: int, pending: Mapping[str, ChangeSet], names: frozenset[str], *, in_turn: bool = False
    ) -> dict[str, ChangeSet]:
        """Propagate to the views ``names`` changes of their inputs that these have, but the views have not seen."""
        catalog, pipeline = self._state.catalog, self._state.pipeline
        pending = catalog.in_order(pending)
        held = {name: change for name, change in pending.items() if _is_held(catalog, name)}
        work = sum(map(len, pending.values()))
        with garbage_collection_paused(), self._epochs.running(number, work) as runtimes:
            _rewind(held, runtimes)
            return self._epochs.collect(pipeline.walk(pending, runtimes, only=names, in_turn=in_turn), runtimes)

    def since(self, relation: str, epoch: int) -> ChangeSet:
        """The changes of a relation after ``epoch``."""
        fields = self._state.catalog.entry(relation).fields
        table = self._state.store.read(relation, fields, since=epoch)
        return ChangeSet.of_arrow(table.select([*(f.name for f in fields), WEIGHT]), fields)


def groups_at_same_epoch(catalog: Catalog, views: Iterable[View]) -> list[list[View]]:
    """The views grouped by the epoch of their last refresh, each group after the groups that it reads."""
    wanted = {view.name for view in views}
    waiting = [view for view in catalog.views.values() if view.name in wanted]
    groups = []
    while waiting:
        group: list[View] = []
        for view in waiting:
            before = catalog.ancestors(view) & {other.name for other in waiting}
            if view.fresh == waiting[0].fresh and before <= {other.name for other in group}:
                group.append(view)
        groups.append(group)
        waiting = [view for view in waiting if view not in group]
    return groups


def _net(change: ChangeSet) -> ChangeSet:
    return ChangeSet.of(change.zset().items(), change.fields)


def _is_held(catalog: Catalog, relation: str) -> bool:
    """True if the contents of a relation are stored; streams and subscribe-only views have no contents."""
    table = catalog.tables.get(relation)
    return catalog.views[relation].keep is None if table is None else table.kept


def _rewind(pending: Mapping[str, ChangeSet], runtimes: Sequence[Runtime]) -> None:
    """Present the inputs as of the last refresh; the triggers then apply the changes one by one."""
    for relation, change in pending.items():
        for runtime in runtimes:
            runtime.absorb(relation, change.negated())
