"""One build: a warehouse of its own, in which the view is maintained while its tables are fed in slices.

The slices are epochs like any other, so the view is exact after each of them, whatever it computes. First the tables
are fed one after the other until all show one epoch of the warehouse; then come the changes of later epochs, as they
are stored. What is fed is the difference between the rows of the warehouse and those that the build has: nothing else
has to be remembered, and a build that was interrupted goes on with what is missing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.changes.changeset import ChangeSet
from tidemill.compiler.frontends.sql.named_definitions import NamedDefinitions
from tidemill.engine.builds.sliceable import build_tables, build_view
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.views.view import View
from tidemill.engine.epochs.state import EngineState
from tidemill.model.errors import Corrupt, EpochGone, Unsupported
from tidemill.model.schema import WEIGHT, Table
from tidemill.program.maps import Map
from tidemill.storage.compaction.consolidate import consolidate, difference
from tidemill.storage.filesystem.durable_files import fault
from tidemill.storage.store import Store

__all__ = ["BuildEngine", "BuildWarehouse", "Progress", "ViewBuild"]

SHOWN = "shown"
"""The position in which a build stores the epoch of the warehouse that its tables show."""

VIEWS = "views"
"""The position in which a build stores which views it reads: one that is replaced may have other rows at an epoch."""

SLICE_SECONDS = 0.03
"""Seconds that a slice should take: as long as another thread may have to wait for the interpreter."""

FIRST_SLICE = 500
"""Rows of the first slice; later ones have as many as take ``SLICE_SECONDS``."""

SLICE_ROWS = 20_000
"""Most rows of a slice."""

BATCH_EPOCHS = 200
"""Most epochs whose changes are taken in together."""

NEAR = 3
"""Epochs that a build may be behind when its view is handed over."""


class Definitions(Protocol):
    """The tables and the view of a build's own warehouse."""

    def create_table(self, table: Table) -> None:
        """Add an empty table."""

    def create_view(self, view: View) -> None:
        """Add a view and fill it."""

    def define_named(self, named: NamedDefinitions) -> None:
        """Store views that are not materialized, and functions."""


class BuildEngine(Protocol):
    """The engine of a build's own warehouse."""

    store: Store
    state: EngineState

    @property
    def definitions(self) -> Definitions:
        """Creates tables and views."""

    @property
    def catalog(self) -> Catalog:
        """The tables and the view."""

    def apply(self, changes: Mapping[str, ChangeSet], positions: Mapping[str, str] | None = None) -> int:
        """Commit one epoch."""

    def close(self, *, keep: bool = True) -> None:
        """Release the folder, which is to be deleted if nothing is to be kept."""


class BuildWarehouse(Protocol):
    """The place of a build's own warehouse, which outlives the process if it is a folder."""

    def open(self) -> BuildEngine:
        """Open it, or create it."""

    def remove(self) -> None:
        """Delete it."""


class Progress:
    """The rows that a build has taken in, of how many, and since when."""

    def __init__(self) -> None:
        self.phase = "filling"
        self.rows = self.total = 0
        self.behind = 0
        self._taken, self._seconds = 0, 0.0

    def begin_filling(self, rows: int, left: int) -> None:
        """Start with rows that were taken in before, and about so many that are missing."""
        self.phase, self.rows, self.total = "filling", rows, rows + left

    def take(self, rows: int, seconds: float) -> None:
        """Count rows that a slice has taken in."""
        self._taken += rows
        self._seconds += seconds

    @property
    def rate(self) -> float | None:
        """Rows a second, while this process builds; None before the first."""
        return self._taken / self._seconds if self._seconds and self._taken else None

    @property
    def seconds_left(self) -> float | None:
        """Seconds until all rows are there, at the present rate."""
        return None if self.rate is None else max(self.total - self.rows, 0) / self.rate


class ViewBuild:
    """A view that is being built: ``steps`` feeds it, and ends when it is near the present."""

    def __init__(self, view: View, main: EngineState, warehouse: BuildWarehouse) -> None:
        self.view = view
        self.progress = Progress()
        self._main = main
        self._warehouse = warehouse
        self._engine: BuildEngine | None = None
        self._slice = FIRST_SLICE
        self._tables: dict[str, Table] = {}

    @property
    def engine(self) -> BuildEngine:
        """The engine of the build's warehouse, opened."""
        if self._engine is None:
            self._engine = self._open()
        return self._engine

    @property
    def shown(self) -> int | None:
        """The epoch of the warehouse that the tables of the build show; None while they are filled."""
        at = self.engine.store.positions.get(SHOWN, "")
        return int(at) if at else None

    def close(self, *, keep: bool = True) -> None:
        """Close the build's warehouse; what it has taken in stays, unless nothing is to be kept of it."""
        if self._engine is not None:
            self._engine.close(keep=keep)
            self._engine = None

    def steps(self) -> Iterator[None]:
        """Take in what is missing, a little with each step, until the build is near the present."""
        self.engine.state.may_recompute = True
        while not self.is_near:
            with suppress(
                EpochGone
            ):  # vacuumed or replaced meanwhile: what is missing then is taken from a later epoch
                yield from self._fill() if self._must_fill() else self._catch_up()

    @property
    def is_near(self) -> bool:
        """True if the build shows one of the last epochs."""
        shown = self.shown
        return shown is not None and not self._must_fill() and self._main.store.epoch - shown <= NEAR

    # -- the first rows -----------------------------------------------------------------------------------------

    def _must_fill(self) -> bool:
        shown = self.shown
        return shown is None or shown < self._main.store.oldest or not self._reads_same_views()

    def _views_read(self) -> str:
        """The views that the build reads, as they are defined now."""
        views = (self._main.catalog.views.get(name) for name in self.view.inputs)
        return repr([(view.name, view.created, view.query) for view in views if view is not None])

    def _reads_same_views(self) -> bool:
        return self.engine.store.positions.get(VIEWS, "") == self._views_read()

    def require_same_views(self) -> None:
        """Refuse to go on from an epoch at which a view that is read was another one."""
        if not self._reads_same_views():
            raise EpochGone(f'a view that "{self.view.name}" reads was replaced')

    def _fill(self) -> Iterator[None]:
        """Feed the tables one after the other until they show one epoch."""
        views, epoch, own = self._views_read(), self._main.store.epoch, self.engine.store
        self._require_same_tables()
        self.engine.apply({}, {SHOWN: ""})
        left = {name: max(self._main.store.rows(name) - own.rows(name), 0) for name in self._tables}
        self.progress.begin_filling(sum(map(own.rows, self._tables)), sum(left.values()))
        for table in self._tables.values():
            missing = self._missing(table, epoch)
            self.progress.total += missing.num_rows - left[table.name]
            yield
            yield from self._feed(table, missing)
        self.engine.apply({}, {SHOWN: str(epoch), VIEWS: views})
        fault("build-filled")

    def _missing(self, table: Table, epoch: int) -> pa.Table:
        """The change from the rows that the build has of a table to those of an epoch, deletes first."""
        rows = self._main.store.read(table.name, table.fields, until=epoch)
        own, map_ = self.engine.store.read(table.name, table.fields), Map(table.name, table.fields)
        names = [*(f.name for f in table.fields), WEIGHT]
        if not own.num_rows:
            parts = [part.select(names) for part, *_ in consolidate(rows, map_, epoch, whole=True, ordered=False)]
            return pa.concat_tables([rows.select(names).schema.empty_table(), *parts])
        change = difference(own, rows, map_)
        leaves = pc.less(change.column(WEIGHT), 0)
        return pa.concat_tables([change.filter(leaves), change.filter(pc.invert(leaves))])

    def _feed(self, table: Table, rows: pa.Table) -> Iterator[None]:
        """Feed the rows of a table in slices."""
        start = 0
        while start < rows.num_rows:
            part = rows.slice(start, self._slice)
            began = time.perf_counter()
            self.engine.apply({table.name: ChangeSet.of_arrow(part, table.fields)})
            self._took(part.num_rows, time.perf_counter() - began)
            self.progress.rows += part.num_rows
            start += part.num_rows
            fault("build-slice")
            yield

    def _took(self, rows: int, seconds: float) -> None:
        """Note a slice, and choose the size of the next one."""
        self.progress.take(rows, seconds)
        wanted = int(rows * SLICE_SECONDS / max(seconds, 1e-6))
        self._slice = max(1, min(wanted, 2 * self._slice, SLICE_ROWS))

    # -- changes that came meanwhile ----------------------------------------------------------------------------

    def _catch_up(self) -> Iterator[None]:
        """Take in the changes of some epochs after the one that the build shows, summed."""
        shown = self.shown
        assert shown is not None
        until = min(self._main.store.epoch, shown + BATCH_EPOCHS)
        self.progress.phase, self.progress.behind = "catching up", self._main.store.epoch - shown
        self.take_in(shown, until)
        yield

    def take_in(self, since: int, until: int) -> None:
        """Take in the changes of the epochs after ``since`` up to ``until``, as one epoch of the build."""
        self._require_same_tables()
        self.require_same_views()
        changes = {name: self._net(table, since, until) for name, table in self._tables.items()}
        began = time.perf_counter()
        self.engine.apply({name: change for name, change in changes.items() if change.rows}, {SHOWN: str(until)})
        self.progress.take(sum(change.rows for change in changes.values()), time.perf_counter() - began)
        fault("build-caught-up")

    def rows_between(self, since: int, until: int) -> int:
        """The number of changed rows in the epochs after ``since`` up to ``until``."""
        reads = (self._main.store.read(t.name, t.fields, since=since, until=until) for t in self._tables.values())
        return sum(read.num_rows for read in reads)

    def _net(self, table: Table, since: int, until: int) -> ChangeSet:
        """The net change of a table by some epochs."""
        stored = self._main.store.read(table.name, table.fields, since=since, until=until)
        net = difference(stored.slice(0, 0), stored, Map(table.name, table.fields)) if stored.num_rows else stored
        names = [*(f.name for f in table.fields), WEIGHT]
        return ChangeSet.of_arrow(net.select(names), table.fields)

    # -- the build's warehouse ----------------------------------------------------------------------------------

    def _require_same_tables(self) -> None:
        """Refuse to go on once an input has other columns."""
        main, own = self._main.catalog, self.engine.catalog
        self._tables = own.tables
        for name, table in self._tables.items():
            if name not in main or main.entry(name).fields != table.fields:
                raise Unsupported(
                    f'view "{self.view.name}" cannot be built further',
                    detail=f'"{name}" was altered meanwhile.',
                    hint=f"CANCEL BUILD {self.view.name}, and create the view again.",
                )

    def _open(self) -> BuildEngine:
        """Open the build's warehouse; one whose view has another layout begins again."""
        try:
            engine = self._warehouse.open()
        except Corrupt:  # all that is in it can be taken in again
            self._warehouse.remove()
            engine = self._warehouse.open()
        view = engine.catalog.views.get(self.view.name)
        if view is not None and view.fingerprint == self.view.fingerprint:
            return engine
        if len(engine.catalog.relations):
            engine.close()
            self._warehouse.remove()
            engine = self._warehouse.open()
        define(engine, self._main.catalog, self.view)
        return engine


def define(engine: BuildEngine, catalog: Catalog, view: View) -> None:
    """Define the empty tables of a build, and its view."""
    if catalog.named.queries or catalog.named.functions:
        engine.definitions.define_named(catalog.named)
    for table in build_tables(catalog, view):
        engine.definitions.create_table(table)
    engine.definitions.create_view(build_view(view))
