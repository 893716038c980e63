"""Retention: what no change can reach any more is forgotten, by the state of views and by tables that say so.

To forget is no change and no epoch: nothing that is shown depends on it, but for the rows of tables and views with
RETAIN themselves (see ``program.state_expiry``). It is done after an epoch that has moved a head by some partitions,
and by ``compact``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping

from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.view import View
from tidemill.engine.partitions.change_bounds import changeable_from, forgettable_state, heads_of
from tidemill.engine.partitions.lateness import head_of
from tidemill.model.schema import Partitioning, Table, names_of
from tidemill.program.stages import Stage
from tidemill.program.state_expiry import ExpiredEntries
from tidemill.storage.store import Store

FORGET_FRACTION = 4
"""Once a table has moved on by one in so many of the partitions that it retains, those before them are forgotten."""

PAUSE_FACTOR = 10
"""And not before so many times as long has passed as it took the last time: on disk it rewrites files."""

ExpiredByStage = list[tuple[Stage, list[ExpiredEntries]]]
"""What the stages of views can forget."""

DropExpired = Callable[[ExpiredByStage, list[ExpiredEntries], bool], None]


class Retention:
    """Forgets, now and then, what lies behind the heads of tables.

    ``drop_expired`` takes what stages and relations can forget, and whether files are to be rewritten at once, and
    forgets it in the store and in memory alike.
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
        """Whether enough can be forgotten, and some time has passed since it last was."""
        catalog = self._catalog()
        return time.monotonic() >= self._next and (
            any(map(self._is_due, catalog.late.values())) or any(map(self._is_fresh, self._waiting(catalog)))
        )

    def _is_due(self, table: Table) -> bool:
        cut, head = table.partitioning, head_of(self._store.positions, table.name)
        if cut is None or cut.retain is None or head is None:
            return False
        done = self._done.get(table.name)
        return done is None or head - done >= max(cut.retain // cut.every // FORGET_FRACTION, 1)

    def _waiting(self, catalog: Catalog) -> list[View]:
        """The views that were late when it was time to forget."""
        return [catalog.views[name] for name in self._late if name in catalog.views]

    def _is_fresh(self, view: View) -> bool:
        """Whether a view has seen all changes. A late one has yet to see some that are older than the heads."""
        return not view.refresh.deferred or view.fresh == self._store.epoch

    def forget_in_time(self) -> None:
        """Forget all that can be, and not again before some multiple of the time that it took."""
        begun = time.monotonic()
        try:
            self.forget()
        finally:
            now = time.monotonic()
            self._next = now + PAUSE_FACTOR * (now - begun)

    def forget(self, *, now: bool = False) -> None:
        """Forget all that can be, in files as well if ``now``. The caller has the lock of the warehouse."""
        catalog = self._catalog()
        heads = heads_of(catalog, self._store.positions)
        self._done = heads
        known = changeable_from(catalog, heads)
        views = [view for view in catalog.views.values() if view.partitioning is not None]
        self._late = {view.name for view in views if not self._is_fresh(view)}
        stages = [one for view in views if self._is_fresh(view) for one in _of(catalog, view, known)]
        self._drop_expired(stages, [*_rows(catalog, heads, known)], now)


def _of(catalog: Catalog, view: View, known: Mapping[str, int]) -> ExpiredByStage:
    """What the state of a view can forget, stage by stage."""
    found = forgettable_state(catalog, view, known)
    named = [(stage, {stage.name, *(map_.name for map_ in stage.maps)}) for stage in view.program.stages]
    return [(stage, [one for one in found if one.map in own]) for stage, own in named]


def _rows(catalog: Catalog, heads: Mapping[str, int], known: Mapping[str, int]) -> Iterator[ExpiredEntries]:
    """The rows of tables and views that are forgotten."""
    for name, table in catalog.late.items():
        if table.forgets and table.partitioning is not None and name in known:
            yield _before(table, table.partitioning, known[name])
    for view in catalog.views.values():
        cut = view.partitioning
        if cut is not None and cut.retain is not None and view.name in known:
            yield _before(view, cut, min(known[view.name], _last(catalog, view, heads) - cut.retain))


def _before(entry: Table | View, cut: Partitioning, instant: int) -> ExpiredEntries:
    return ExpiredEntries(entry.name, names_of(entry.fields).index(cut.column), cut.column, instant)


def _last(catalog: Catalog, view: View, heads: Mapping[str, int]) -> int:
    """The first instant of the last partition of a view."""
    assert view.partitioning is not None
    tables = [catalog.late[name] for name in catalog.ancestors(view) if name in heads]
    last = max(heads[table.name] * table.partitioning.every for table in tables if table.partitioning is not None)
    return last // view.partitioning.every * view.partitioning.every
