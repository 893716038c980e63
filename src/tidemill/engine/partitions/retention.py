"""Retention: state of views that no change can reach any more is dropped, and so are old rows of tables with RETAIN.

Dropping is neither a change nor an epoch: no visible row depends on it, except the rows of tables and views with RETAIN
themselves (see ``program.expiry``). It happens after an epoch that has moved a head by some partitions, and in
``compact``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping

from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.views.view import View
from tidemill.engine.partitions.change_bounds import CatalogExpiry, expiry_of, heads_of
from tidemill.engine.partitions.lateness import head_of
from tidemill.model.partition_lengths import period_floor
from tidemill.model.schema import Partitioning, Table, names_of
from tidemill.program.expiry.entries import ExpiredEntries
from tidemill.program.stages import Stage
from tidemill.storage.store import Store

FORGET_FRACTION = 4
"""Expired partitions are dropped once the head has moved by one in this many of the partitions that a table retains."""

PAUSE_FACTOR = 10
"""Pause between two passes, as a multiple of the duration of the last one: on disk a pass rewrites files."""

ExpiredByStage = list[tuple[Stage, list[ExpiredEntries]]]
"""The expired state of views, by stage."""

DropExpired = Callable[[ExpiredByStage, list[ExpiredEntries], bool], None]


class Retention:
    """Periodically drops state and rows that have expired as the heads of tables moved on.

    ``drop_expired`` takes the expired entries of stages and of relations, and a flag to rewrite files at once; it drops
    them in the store and in memory.
    """

    def __init__(self, catalog: Callable[[], Catalog], store: Store, drop_expired: DropExpired) -> None:
        self._catalog = catalog
        self._store = store
        self._drop_expired = drop_expired
        self._done: dict[str, int] = {}
        self._late: set[str] = set()
        self._next = -math.inf

    @property
    def due(self) -> bool:
        """True if enough has expired, and the pause after the last pass is over."""
        catalog = self._catalog()
        if not (catalog.late or self._late):
            return False
        return time.monotonic() >= self._next and (
            any(map(self._is_due, catalog.late.values())) or any(map(self._is_fresh, self._waiting(catalog)))
        )

    def _is_due(self, table: Table) -> bool:
        cut, head = table.partitioning, head_of(self._store.positions, table.name)
        if cut is None or cut.retain is None or head is None:
            return False
        done = self._done.get(table.name)
        return done is None or head - done >= max(cut.retain // cut.head_unit // FORGET_FRACTION, 1)

    def _waiting(self, catalog: Catalog) -> list[View]:
        """The views that were behind at the last pass."""
        return [catalog.views[name] for name in self._late if name in catalog.views]

    def _is_fresh(self, view: View) -> bool:
        """True if a view has seen all changes. One that is behind has yet to see some that are older than the heads."""
        return not view.refresh.deferred or view.fresh == self._store.epoch

    def forget_in_time(self) -> None:
        """Drop all that has expired, and set the pause before the next pass by the time that it took."""
        begun = time.monotonic()
        try:
            self.forget()
        finally:
            now = time.monotonic()
            self._next = now + PAUSE_FACTOR * (now - begun)

    def forget(self, *, now: bool = False) -> None:
        """Drop all that has expired; with ``now`` files are rewritten too. The caller holds the warehouse lock."""
        catalog = self._catalog()
        heads = heads_of(catalog, self._store.positions)
        self._done = heads
        known = expiry_of(catalog, self._store.positions, heads)
        views = [catalog.views[name] for name in known.maps]
        self._late = {view.name for view in views if not self._is_fresh(view)}
        stages = [one for view in views if self._is_fresh(view) for one in _of(known, view)]
        self._drop_expired(stages, [*_rows(catalog, heads, known)], now)


def _of(known: CatalogExpiry, view: View) -> ExpiredByStage:
    """The expired state of a view, by stage."""
    found = known.expired(view)
    named = [(stage, {stage.name, *(map_.name for map_ in stage.maps)}) for stage in view.program.stages]
    by_stage = [(stage, [one for one in found if one.map in own]) for stage, own in named]
    return [(stage, some) for stage, some in by_stage if some]


def _rows(catalog: Catalog, heads: Mapping[str, int], known: CatalogExpiry) -> Iterator[ExpiredEntries]:
    """The expired rows of tables and views."""
    for name, table in catalog.late.items():
        if table.forgets and table.partitioning is not None and (first := known.changeable_from(name)) is not None:
            yield _before(table, table.partitioning, first)
    for view in catalog.views.values():
        cut, first = view.partitioning, known.changeable_from(view.name)
        if cut is not None and cut.retain is not None and first is not None:
            yield _before(view, cut, min(first, period_floor(_last(catalog, view, heads) - cut.retain, cut.every)))


def _before(entry: Table | View, cut: Partitioning, instant: int) -> ExpiredEntries:
    return ExpiredEntries(entry.name, names_of(entry.fields).index(cut.column), cut.column, instant)


def _last(catalog: Catalog, view: View, heads: Mapping[str, int]) -> int:
    """The first instant of the last partition of a view."""
    assert view.partitioning is not None
    tables = [catalog.late[name] for name in catalog.ancestors(view) if name in heads and name in catalog.late]
    last = max(heads[table.name] * table.partitioning.head_unit for table in tables if table.partitioning is not None)
    return period_floor(last, view.partitioning.every)
