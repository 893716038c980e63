"""Retention: what no change can reach any more is forgotten, by the state of views and by tables that say so.

To forget is no change and no epoch: nothing that is shown depends on it, but for the rows of tables and views with
RETAIN themselves (see ``program.state_expiry``). It is done after an epoch that has moved a head by some partitions,
and by ``compact``.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tidemill.changes.changeset import ChangeSet
from tidemill.engine.partitions.lateness import head_of, retained_from
from tidemill.model.errors import Unsupported
from tidemill.model.schema import Partitioning, Table, names_of
from tidemill.program.stages import Stage
from tidemill.program.state_expiry import ExpiredEntries, StateExpiry

if TYPE_CHECKING:
    from tidemill.engine.catalog.catalog import Catalog
    from tidemill.engine.catalog.view import View
    from tidemill.engine.engine import Engine

FORGET_FRACTION = 4
"""Once a table has moved on by one in so many of the partitions that it retains, those before them are forgotten."""

PAUSE_FACTOR = 10
"""And not before so many times as long has passed as it took the last time: on disk it rewrites files."""

ForgottenByStage = list[tuple[Stage, list[ExpiredEntries]]]
"""What the stages of views can forget."""


class Retention:
    """Forgets, now and then, what lies behind the heads of tables."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._done: dict[str, int] = {}
        self._late: set[str] = set()
        self._next = -math.inf

    def tend(self) -> None:
        """Forget what can be, if it is enough. The epoch is safe already, so trouble here is a warning."""
        catalog = self._engine.catalog
        if time.monotonic() < self._next or not (
            any(map(self._is_due, catalog.late.values())) or any(map(self._is_fresh, self._waiting(catalog)))
        ):
            return
        with self._engine.lock:
            if self._engine.closed or self._engine.events.busy:
                return
            self._engine.transaction.recover()
            begun = time.monotonic()
            try:
                self.forget()
            except Exception as trouble:
                warnings.warn(f"old partitions could not be forgotten: {trouble}", RuntimeWarning, stacklevel=3)
            now = time.monotonic()
            self._next = now + PAUSE_FACTOR * (now - begun)

    def _is_due(self, table: Table) -> bool:
        cut, head = table.partitioning, head_of(self._engine.store.positions, table.name)
        if cut is None or cut.retain is None or head is None:
            return False
        done = self._done.get(table.name)
        return done is None or head - done >= max(cut.retain // cut.every // FORGET_FRACTION, 1)

    def _waiting(self, catalog: Catalog) -> list[View]:
        """The views that were late when it was time to forget."""
        return [catalog.views[name] for name in self._late if name in catalog.views]

    def _is_fresh(self, view: View) -> bool:
        """Whether a view has seen all changes. A late one has yet to see some that are older than the heads."""
        return not view.refresh.deferred or view.fresh == self._engine.store.epoch

    def forget(self, *, now: bool = False) -> None:
        """Forget all that can be, in files as well if ``now``. The caller has the engine's lock."""
        engine = self._engine
        heads = heads_of(engine.catalog, engine.store.positions)
        self._done = heads
        known = changeable_from(engine.catalog, heads)
        views = [view for view in engine.catalog.views.values() if view.partitioning is not None]
        self._late = {view.name for view in views if not self._is_fresh(view)}
        stages = [one for view in views if self._is_fresh(view) for one in self._of(view, known)]
        rows = [*_rows(engine.catalog, heads, known)]
        # Runtimes forget what the store does, or are read anew.
        engine.transaction.begin()
        engine.store.forget([*(one for _, some in stages for one in some), *rows], now=now)
        engine.placement.forget_entries(stages, rows)
        engine.transaction.end()

    def _of(self, view: View, known: Mapping[str, int]) -> ForgottenByStage:
        """What the state of a view can forget, stage by stage."""
        found = forgettable_state(self._engine.catalog, view, known)
        named = [(stage, {stage.name, *(map_.name for map_ in stage.maps)}) for stage in view.program.stages]
        return [(stage, [one for one in found if one.map in own]) for stage, own in named]


def forgettable_state(catalog: Catalog, view: View, known: Mapping[str, int]) -> list[ExpiredEntries]:
    """What the state of a view by partitions can forget, where tables and views are open as ``known``."""
    return list(StateExpiry(catalog.partitionings, dict(known)).of(view.full_program))


def heads_of(catalog: Catalog, positions: Mapping[str, str]) -> dict[str, int]:
    """The heads of the tables that have one."""
    found = {name: head_of(positions, name) for name in catalog.late}
    return {name: head for name, head in found.items() if head is not None}


def changeable_from(catalog: Catalog, heads: Mapping[str, int], *, by_replay: bool = True) -> dict[str, int]:
    """From which instant on tables and views can change, for those that cannot change at any; see ``forgetting``.

    ``by_replay`` also where late changes are replayed.
    """
    known: dict[str, int] = {}
    for name, table in catalog.late.items():
        cut = table.partitioning
        if cut is not None and cut.lateness is not None and name in heads:
            first = retained_from(cut, heads[name]) if by_replay else heads[name] * cut.every - cut.lateness
            if first is not None:
                known[name] = first
    for view in catalog.views.values():
        _open(catalog, view, known)
    return known


def _open(catalog: Catalog, view: View, known: dict[str, int]) -> None:
    """Add from when on a view can change. One that is late may bring changes that are older than all heads."""
    if view.partitioning is not None and not view.refresh.deferred:
        found = StateExpiry(catalog.partitionings, dict(known))
        list(found.of(view.full_program))
        if view.name in found.opens:
            known[view.name] = found.opens[view.name]


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


def retained_rows(engine: Engine, view: View) -> dict[str, ChangeSet]:
    """What is left of tables and views that forget rows, and that a view reads; nothing where none has any."""
    rows = {name: engine.contents(name) for name in engine.catalog.inputs_with_retention(view)}
    return rows if any(map(len, rows.values())) else {}


def replay_retained_rows(
    engine: Engine, view: View, pending: Mapping[str, ChangeSet], number: int, work: int
) -> dict[str, ChangeSet]:
    """What a new view stores once it is shown ``pending``, the ``retained_rows``.

    It cannot load them, being streams to it. As for a late view, they are shown to it without these rows, and then the
    rows come.
    """
    if not pending:
        return {}
    with engine.between(number, work) as runtimes:
        for name, rows in pending.items():
            for runtime in runtimes:
                runtime.absorb(name, rows.negated())
        return engine.collect(engine.pipeline.walk(pending, runtimes, only=frozenset({view.name})), runtimes)


def require_bounded(catalog: Catalog, view: View) -> None:
    """Refuse to forget rows of a view that may change at any time, which it must be able to take back."""
    known = changeable_from(catalog, dict.fromkeys(catalog.late, 0))
    _open(catalog, view, known)
    if view.forgets and view.name not in known:
        raise Unsupported(
            f'view "{view.name}" cannot forget its partitions',
            detail="Each of them may still change.",
            hint="Declare all that it reads by partitions, with LATENESS or RETAIN, and let it be immediate.",
        )
