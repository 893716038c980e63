"""Published views: the change since the epoch that a lake table shows is one commit there, made exactly once.

The lake table has the epoch that it shows, in its own log. So nothing is stored here, and a process that ends between
its own commit and that of the table goes on where the table is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import pyarrow as pa

from tidemill.changes.arrow import arrow_schema, to_arrow
from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import Row, ZSet
from tidemill.engine.catalog.publication import Publication
from tidemill.engine.catalog.unique_keys import key_of_view
from tidemill.engine.catalog.view import View
from tidemill.engine.epochs.commit import Settled
from tidemill.engine.epochs.state import EngineState
from tidemill.engine.subscriptions.change_batches import ChangeBatch
from tidemill.engine.workers import Trouble, WorkerGroup
from tidemill.model.errors import FellBehind, SourceLost, UnknownName
from tidemill.model.schema import EPOCH, WEIGHT
from tidemill.model.types import BOOLEAN, Field
from tidemill.program.maps import Map
from tidemill.sources.lake.lake_publication import GONE, LakePublication
from tidemill.sources.lake.registry import open_publication
from tidemill.storage.compaction.consolidate import difference
from tidemill.storage.filesystem.durable_files import fault

__all__ = ["Publications"]

POLL_SECONDS = 1.0
"""Seconds between two looks at a view that is published continuously."""

ReadContents = Callable[[str], ChangeSet]
ReadChanges = Callable[[View, int, int], list[ChangeBatch]]
"""Reads the changes of a view after one epoch, up to another one."""


class Publications(WorkerGroup):
    """Publishes views as lake tables. One thread at a time does."""

    def __init__(self, state: EngineState, settled: Settled, contents: ReadContents, changes: ReadChanges) -> None:
        super().__init__("publication of")
        self._state = state
        self._settled = settled
        self._contents = contents
        self._changes = changes
        self._lock = threading.RLock()
        self._all = False

    def follow(self, view: View) -> None:
        """Start a worker for a published view, if it is not manual or all are followed."""
        published = Publication.of(view.options)
        if published is not None:
            interval = 0.0 if self._all else published.interval
            self.start_worker(view.name, partial(self.publish, view.name), interval, POLL_SECONDS)

    def follow_all(self) -> None:
        """Start workers for all published views, including those created later."""
        self._all = True
        for view in self._state.catalog.views.values():
            self.follow(view)

    def publish(self, name: str | None = None) -> dict[str, int]:
        """Publish what one view shows, or all published views at one epoch; returns the epochs that their tables show.

        The rows of all commits are read before the first is made.
        """
        with self._lock:
            self._state.require_writable()
            views = self._published() if name is None else [self._find(name)]
            tables = {view.name: _table_of(view) for view in views}
            seen = {view.name: tables[view.name].epoch() for view in views}
            with self._settled():
                commits = {view.name: self._commit(self._unreplaced(view), seen[view.name]) for view in views}
            for view, commit in commits.items():
                commit.make(tables[view])
            return {view: commit.epoch for view, commit in commits.items()}

    def _published(self) -> list[View]:
        return [view for view in self._state.catalog.views.values() if Publication.of(view.options) is not None]

    def _find(self, name: str) -> View:
        view = self._state.catalog.view(name)
        if Publication.of(view.options) is None:
            raise UnknownName(
                f'view "{view.name}" is not published', hint="CREATE it WITH (publish = 'delta', location = '...')."
            )
        return view

    def _unreplaced(self, view: View) -> View:
        """The view as it is now: another one of its name may have been created since the table was looked at."""
        now = self._find(view.name)
        if _publication_of(now).owner != _publication_of(view).owner:
            raise SourceLost(f'view "{view.name}" was replaced while it was published', hint="Publish it again.")
        return now

    def _commit(self, view: View, seen: int | None) -> _Commit:
        """The commit that brings a table from epoch ``seen`` to what the view shows: its rows are read now."""
        published = _publication_of(view)
        now = view.fresh if view.refresh.deferred else self._state.store.epoch
        if seen == now:
            return _Commit(now, "none", pa.table({}))
        if seen is not None and seen > now:
            raise SourceLost(
                f'view "{view.name}" was published at epoch {seen}, and shows epoch {now}',
                where=published.location,
                detail="The warehouse was set back, to a copy of its folder for instance.",
                hint="CREATE OR REPLACE the view: it is then published anew.",
            )
        if published.mode == "changes":
            return self._changed(view, seen, now)
        key = key_of_view(view, self._state.catalog)
        if published.mode == "merge" and seen is not None and key:
            try:
                merged = _merged(self._changes(view, seen, now), view, key)
                return _Commit(now, "merge", merged, tuple(view.fields[place].name for place in key))
            except FellBehind:
                pass  # the changes are no longer kept, so all rows are written
        return _Commit(now, "replace", self._rows(view))

    def _changed(self, view: View, seen: int | None, now: int) -> _Commit:
        """The changes of a view after an epoch, each with its own; at first all of its rows."""
        if seen is None:
            return _Commit(now, "replace", _at_epoch(self._summed(view), now))
        parts = [_at_epoch(batch.arrow(), batch.epoch) for batch in self._changes(view, seen, now)]
        empty = _at_epoch(arrow_schema(view.fields).empty_table(), now)
        return _Commit(now, "append", pa.concat_tables([empty, *parts]))

    def _summed(self, view: View) -> pa.Table:
        """The rows of a view, each once, with its weight."""
        rows = self._contents(view.name).arrow()
        return difference(rows.slice(0, 0), rows, Map(view.name, view.fields))

    def _rows(self, view: View) -> pa.Table:
        """The rows of a view, each as often as it is there."""
        summed = self._summed(view)
        places = np.repeat(np.arange(summed.num_rows), summed.column(WEIGHT).to_numpy())
        return summed.drop_columns([WEIGHT]).take(pa.array(places))

    def troubles(self) -> dict[str, Trouble]:
        """The views that should be published but cannot at present, with the reason."""
        wanted = [] if self._state.read_only else self._published()
        return self.worker_troubles((view.name, _publication_of(view).interval) for view in wanted)


def _publication_of(view: View) -> Publication:
    found = Publication.of(view.options)
    assert found is not None
    return found


def _table_of(view: View) -> LakePublication:
    published = _publication_of(view)
    return open_publication(published.location, view.name, published.owner)


@dataclass(frozen=True)
class _Commit:
    """One commit of a lake table: ``rows`` that replace all others, are added, or are merged by ``key``."""

    epoch: int
    kind: Literal["none", "replace", "append", "merge"]
    rows: pa.Table
    key: tuple[str, ...] = ()

    def make(self, table: LakePublication) -> None:
        """Make the commit. An epoch without a change is one too: the table shows it."""
        if self.kind == "none":
            return
        fault("lake-write")
        if self.kind == "replace":
            table.replace(self.rows, self.epoch)
        elif self.kind == "append":
            table.append(self.rows, self.epoch)
        elif self.rows.num_rows:
            table.merge(self.rows, self.key, self.epoch)
        else:
            table.append(self.rows.drop_columns([GONE]), self.epoch)
        fault("lake-written")


def _at_epoch(rows: pa.Table, epoch: int) -> pa.Table:
    return rows.append_column(EPOCH, pa.repeat(pa.scalar(epoch, pa.int64()), rows.num_rows))


def _merged(batches: list[ChangeBatch], view: View, key: tuple[int, ...]) -> pa.Table:
    """For each key that changed its row now, or the last one with the mark that it is gone."""
    net = ZSet.summed(pair for batch in batches for pair in batch.net.items())
    latest: dict[Row, tuple[Row, bool]] = {}
    for row, weight in net.items():
        place = tuple([row[i] for i in key])
        if weight > 0 or place not in latest:
            latest[place] = (row, weight < 0)
    fields = (*view.fields, Field(GONE, BOOLEAN))
    return to_arrow([((*row, gone), 1) for row, gone in latest.values()], fields).drop_columns([WEIGHT])
