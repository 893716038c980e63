"""The status of a warehouse as it was last committed, told without its lock: also while a view is filled.

Everything here is read from what a commit replaces as a whole: the catalog, the manifest and the counters of epochs.
What is being changed meanwhile, such as the runtime of a view that is placed anew, is left out rather than waited for.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from tidemill.engine.builds.builds import BuildStatus
from tidemill.engine.catalog.catalog import Catalog
from tidemill.engine.catalog.views.publication import Publication
from tidemill.engine.catalog.views.view import View
from tidemill.engine.definitions.stored_statistics import counted_rows
from tidemill.engine.engine import Engine
from tidemill.engine.inspect.staleness import Unseen, staleness_of
from tidemill.engine.quarantine.notes import quarantine_note
from tidemill.engine.telemetry.latencies import Latencies
from tidemill.engine.telemetry.totals import RefreshTotals
from tidemill.engine.workers import Trouble
from tidemill.model.errors import TidemillError
from tidemill.model.schema import Table
from tidemill.protocols.remote_subplans import SUBPLAN_SIGN

__all__ = ["Activity", "FeedStatus", "RelationStatus", "SourceStatus", "WarehouseStatus", "activity_of", "status_of"]


@dataclass(frozen=True)
class RelationStatus:
    """A table, stream or view: ``kind``, what it ``reads``, how many ``rows`` it has, and the ``epoch`` that it shows.

    A view is ``fresh``, ``behind`` by ``epochs_behind`` and ``seconds_behind``, ``building`` or ``quarantined``, with a
    ``note`` that says why. ``bytes`` are those of its stored rows and maps, where they were asked for.
    """

    name: str
    kind: str
    reads: tuple[str, ...] = ()
    rows: int | None = None
    bytes: int | None = None
    epoch: int = 0
    state: str = "fresh"
    epochs_behind: int = 0
    seconds_behind: float = 0.0
    strategy: str = ""
    runtime: str = ""
    refresh: str = ""
    serve: str = ""
    note: str = ""


@dataclass(frozen=True)
class SourceStatus:
    """A source, with the tables that it offers to views and when these are synced."""

    name: str
    kind: str
    tables: tuple[str, ...]
    sync: str


@dataclass(frozen=True)
class FeedStatus:
    """A feed of files into a table."""

    name: str
    table: str
    folder: str
    sync: str


@dataclass(frozen=True)
class WarehouseStatus:
    """A warehouse as of its last commit; ``committed_at`` is the time of its last epoch in UTC, if it is known."""

    epoch: int
    oldest: int
    committed_at: datetime | None
    tables: tuple[RelationStatus, ...]
    views: tuple[RelationStatus, ...]
    sources: tuple[SourceStatus, ...]
    feeds: tuple[FeedStatus, ...]
    published: Mapping[str, str]
    builds: tuple[BuildStatus, ...]
    troubles: Mapping[str, Trouble]


@dataclass(frozen=True)
class Activity:
    """Activity since the warehouse was opened: totals of all epochs and of each view, by table its changed
    rows, and how long the epochs of this process took.
    """

    epoch: int
    epochs: RefreshTotals
    views: Mapping[str, RefreshTotals] = field(default_factory=dict)
    tables: Mapping[str, int] = field(default_factory=dict)
    latencies: Latencies = field(default_factory=Latencies, compare=False)


def status_of(engine: Engine, troubles: Mapping[str, Trouble], *, sizes: bool = False) -> WarehouseStatus:
    """The status of a warehouse with these troubles; with ``sizes`` also bytes, for which folders are listed."""
    catalog, epoch = engine.state.shown, engine.store.epoch
    known: dict[tuple[str, int], Unseen] = {}
    return WarehouseStatus(
        epoch=epoch,
        oldest=engine.store.oldest,
        committed_at=_last_commit(engine),
        tables=tuple(_table(engine, catalog, table, epoch, sizes) for table in _tables(catalog)),
        views=(
            *(_view(engine, catalog, view, epoch, known, sizes) for view in catalog.shown_views()),
            *(_building(entry.view) for entry in catalog.builds.values()),
        ),
        sources=tuple(
            SourceStatus(one.name, one.kind, tuple(one.tables), one.sync) for one in catalog.sources.values()
        ),
        feeds=tuple(FeedStatus(one.name, one.table, one.folder, one.sync) for one in catalog.feeds.values()),
        published={name: f"{found.place.format} {found.place.location}" for name, found in _publications(catalog)},
        builds=tuple(engine.builds.statuses()),
        troubles=troubles,
    )


def activity_of(engine: Engine) -> Activity:
    """The totals of refreshes and of changed rows since the warehouse was opened."""
    totals = engine.refreshes.totals()
    epochs = totals.pop(None, RefreshTotals())
    views = {name: one for name, one in totals.items() if name is not None}
    changed = engine.refreshes.changed
    tables = {table.name: changed[table.name] for table in _tables(engine.state.shown) if table.name in changed}
    return Activity(engine.store.epoch, epochs, views, tables, engine.refreshes.latencies)


def _tables(catalog: Catalog) -> Iterator[Table]:
    return (table for table in catalog.tables.values() if SUBPLAN_SIGN not in table.name)


def _table(engine: Engine, catalog: Catalog, table: Table, epoch: int, sizes: bool) -> RelationStatus:
    lake = catalog.lakes.get(table.name)
    kind = "lake table" if lake else "table" if table.kept else "stream"
    rows = counted_rows(catalog, engine.store, table.name) if table.kept else None
    stored = engine.store.bytes(table.name) if sizes and table.kept else None
    return RelationStatus(table.name, kind, rows=rows, bytes=stored, epoch=epoch)


def _view(
    engine: Engine,
    catalog: Catalog,
    view: View,
    epoch: int,
    known: dict[tuple[str, int], Unseen],
    sizes: bool,
) -> RelationStatus:
    placed = engine.pipeline.find(view.name)
    note = quarantine_note(catalog, engine.state.quarantine.marks, view)
    late = staleness_of(catalog, engine.store, view, known)
    return RelationStatus(
        view.name,
        "view",
        tuple(dict.fromkeys(_reads(view))),
        None if view.computed_on_read else counted_rows(catalog, engine.store, view.name),
        sum(map(engine.store.bytes, view.map_names)) if sizes else None,
        view.fresh if view.refresh.deferred or view.stopped else epoch,
        "quarantined" if note else "behind" if late.epochs else "fresh",
        late.epochs,
        round(late.seconds, 3),
        ", ".join(dict.fromkeys(stage.strategy for stage in view.full_program.stages)),
        "" if placed is None else placed.runtime.name,
        view.options.get("refresh", "immediate"),
        view.serve.value,
        note,
    )


def _reads(view: View) -> Iterator[str]:
    """The relations that a view reads, those of sources in place of the subplans that hold their rows."""
    yield from (name for name in view.inputs if SUBPLAN_SIGN not in name)
    for one in view.remote_subplans:
        yield from one.subplan.product.relations


def _building(view: View) -> RelationStatus:
    return RelationStatus(view.name, "view", tuple(view.inputs), epoch=view.fresh, state="building")


def _publications(catalog: Catalog) -> Iterator[tuple[str, Publication]]:
    for view in catalog.views.values():
        found = Publication.of(view.options)
        if found is not None:
            yield view.name, found


def _last_commit(engine: Engine) -> datetime | None:
    """The time of the last epoch: of this process, or else of the newest entry of the refresh log."""
    ended = engine.refreshes.ended
    if ended:
        seconds = time.time() - (time.perf_counter() - ended)
        return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)
    try:
        newest = next(iter(engine.refreshes.entries()), None)
    except (OSError, TidemillError):
        return None
    return None if newest is None else newest.time
