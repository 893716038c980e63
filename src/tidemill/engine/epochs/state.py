"""The state of a warehouse in this process: its store, and the in-memory state derived from it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from tidemill.algebra.user_functions import Registry
from tidemill.compiler.statistics.sizes import Statistics
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.serialization import catalog_from_json
from tidemill.engine.catalog.views.view import RuntimeNeeds, View
from tidemill.engine.epochs.memory_budget import MemoryBudget
from tidemill.engine.epochs.pipeline import Pipeline, PipelineIndex, PlacedProgram
from tidemill.engine.epochs.placement import Placement
from tidemill.engine.quarantine.quarantine import Quarantine
from tidemill.model.errors import StorageError
from tidemill.model.schema import Table
from tidemill.model.types import Field
from tidemill.runtimes.runtime import Runtime
from tidemill.storage.store import Store

__all__ = ["NO_CHOICE", "EngineState", "EpochWay"]

CHECKS = RuntimeNeeds(sharded=True)
"""The needs of the check of tables: a large change is checked where most of its views run."""


class EpochWay(NamedTuple):
    """The runtime of a view that was chosen for one epoch, and why."""

    runtime: Runtime
    reason: str


NO_CHOICE: Mapping[str, EpochWay] = MappingProxyType({})


class EngineState:
    """A store, its catalog, and the views of the catalog, each placed on a runtime.

    It is derived from the store, so ``reload`` can rebuild it. Nothing here commits. ``lock`` must be held to change
    any of it.
    """

    def __init__(
        self,
        store: Store,
        placement: Placement,
        budget: MemoryBudget,
        *,
        read_only: bool,
        registry: Registry | None = None,
    ) -> None:
        self.store = store
        self.placement = placement
        self.placement.fields_of = self.fields_of
        self.placement.table_of = self.table_of
        self.placement.room = budget.room
        budget.release_paused = placement.release_paused
        budget.release_state = placement.release_state
        self.budget = budget
        self.statistics: Callable[[], Statistics] = Statistics
        """Gives the sizes of what is stored."""
        self.changed_rows = 0
        """Rows of tables that have changed so far, those included that were stored when the warehouse was opened."""
        self.may_recompute = True
        """False where epochs must tell the change of every map, so that none is replaced as a whole."""
        self.read_only = read_only
        self.joint = False
        """True within a joint commit: others are shown what was committed before it."""
        self.closed = False
        self.lock = threading.RLock()
        self.registry = Registry() if registry is None else registry
        self.catalog = self.shown = Catalog(self.registry)
        """The catalog, with changes that are not committed yet; and as it was last committed, for who has no lock."""
        self.quarantine = Quarantine(store, lambda: self.catalog)
        self.pipeline = Pipeline(store.traffic)
        self._placed_views: Mapping[str, View] | None = None
        self._placed_for: tuple[bool, ...] = ()
        self._placed_as: PipelineIndex | None = None
        self._taking_part: Sequence[Runtime] = ()

    def fields_of(self, relation: str) -> tuple[Field, ...]:
        """The columns of a table, a view or a stage."""
        known = self.catalog.fields_of(relation)
        return known if known is not None else self.pipeline.fields_of(relation)

    def table_of(self, name: str) -> Table | None:
        """The table or stream of a name, None if it is a view or a stage."""
        return self.catalog.tables.get(name)

    def reload(self) -> list[View]:
        """Rebuild the in-memory state from the store; returns the views whose stored state has an outdated layout."""
        self.placement.forget()
        self.pipeline = Pipeline(self.store.traffic)
        self.catalog, outdated = catalog_from_json(self.store.catalog, self.registry)
        for view in self.catalog.views.values():
            self.place(view)
        self.count_rows()
        if not self.joint:
            self.shown = self.catalog
        return outdated

    def restore(self, catalog: Catalog) -> None:
        """Restore the catalog from before a refused change."""
        self.catalog = catalog
        if not self.joint:
            self.shown = catalog
        self.pipeline.keep(catalog.views)
        for view in catalog.running():
            self.place(view)

    def take_part(self, work: int, ways: Mapping[str, EpochWay] = NO_CHOICE) -> Sequence[Runtime]:
        """The runtimes of an epoch on this many rows, the first of which checks tables; all others miss it.

        Views are placed again only when the catalog or the class of the work has changed, and in their ``ways`` if
        these were chosen for the epoch.
        """
        views, kind = self.catalog.views, self.placement.work_class(work)
        changed = views is not self._placed_views or kind != self._placed_for
        if changed or ways or self.pipeline.index is not self._placed_as:
            self._placed_views = None
            self.pipeline.hold = self.quarantine.begin if self.catalog.guarded else None
            chosen = {needs: self.placement.runtime_for(work, needs) for needs in self.catalog.view_index.runtime_needs}
            for view in self.catalog.running():
                runtime = ways[view.name].runtime if view.name in ways else chosen[view.runtime_needs]
                self.pipeline.place(view.program, runtime, deferred=view.refresh.deferred)
            checking = _most_common(ways) if ways else self.placement.runtime_for(work, CHECKS)
            self._taking_part = self.pipeline.runtimes(always=checking)
            self._placed_views, self._placed_for = None if ways else views, kind
            self._placed_as = self.pipeline.index
        self.placement.take_part(self._taking_part)
        return self._taking_part

    def miss_epoch(self, programs: Iterable[PlacedProgram]) -> None:
        """Note that the next epoch was computed elsewhere: what runtimes hold of these programs, and of relations,
        catches up from the store when it is next used."""
        for placed in programs:
            for stage in placed.program.stages:
                for runtime in (placed.runtime, *placed.paused):
                    runtime.pause(stage)
        self.placement.take_part(())

    def place(self, view: View) -> None:
        """Place a view on the runtime for small changes."""
        self._placed_views = None
        runtime = self.placement.runtime_for(0, view.runtime_needs)
        self.pipeline.place(view.program, runtime, deferred=view.refresh.deferred)

    def count_rows(self) -> None:
        """Count the stored rows of all tables, which determine the runtimes that views can run on."""
        self.placement.rows = sum(self.store.rows(name) for name in self.catalog.tables)

    def require_writable(self) -> None:
        """Refuse to change a warehouse that is closed, read-only, or used in a forked process."""
        if self.closed:
            raise StorageError("the warehouse is closed", hint="Open it again.")
        if self.read_only:
            raise StorageError("the warehouse is open for reading only", hint="Open it without read_only=True.")
        self.store.require_writable()


def _most_common(ways: Mapping[str, EpochWay]) -> Runtime:
    """The runtime of most views."""
    runtimes = [way.runtime for way in ways.values()]
    return max(runtimes, key=runtimes.count)
