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
        """Publish what one view shows, or all published views; returns the epochs that their tables show then."""
        with self._lock:
            self._state.require_writable()
            if name is not None:
                return {name: self._publish(self._find(name))}
            views = [view for view in self._state.catalog.views.values() if Publication.of(view.options)]
            return {view.name: self._publish(view) for view in views}

    def _find(self, name: str) -> View:
        view = self._state.catalog.view(name)
        if Publication.of(view.options) is None:
            raise UnknownName(
                f'view "{view.name}" is not published', hint="CREATE it WITH (publish = 'delta', location = '...')."
            )
        return view

    def _publish(self, view: View) -> int:
        published = Publication.of(view.options)
        assert published is not None
        table = open_publication(published.location, view.name, published.owner)
        seen = table.epoch()
        with self._settled():
            view = self._state.catalog.view(view.name)
            now = view.fresh if view.refresh.deferred else self._state.store.epoch
            if seen is not None and seen >= now:
                return self._require_own(view, seen, now, published)
            commit = self._commit(view, published, seen, now)
        fault("lake-write")
        commit.make(table, now)
        fault("lake-written")
        return now

    def _require_own(self, view: View, seen: int, now: int, published: Publication) -> int:
        if seen > now:
            raise SourceLost(
                f'view "{view.name}" was published at epoch {seen}, and shows epoch {now}',
                where=published.location,
                detail="The warehouse was set back, to a copy of its folder for instance.",
                hint="CREATE OR REPLACE the view: it is then published anew.",
            )
        return seen

    def _commit(self, view: View, published: Publication, seen: int | None, now: int) -> _Commit:
        """The commit to be made: its rows are read now, while nothing changes."""
        if published.mode == "changes":
            return _Commit("replace", self._first(view, now)) if seen is None else self._appended(view, seen, now)
        key = key_of_view(view, self._state.catalog)
        if published.mode == "merge" and seen is not None and key:
            try:
                merged = _merged(self._changes(view, seen, now), view, key)
                return _Commit("merge", merged, tuple(view.fields[place].name for place in key))
            except FellBehind:
                pass  # the changes are no longer kept, so all rows are written
        return _Commit("replace", self._rows(view))

    def _summed(self, view: View) -> pa.Table:
        """The rows of a view, each once, with its weight."""
        rows = self._contents(view.name).arrow()
        return difference(rows.slice(0, 0), rows, Map(view.name, view.fields))

    def _rows(self, view: View) -> pa.Table:
        """The rows of a view, each as often as it is there."""
        summed = self._summed(view)
        places = np.repeat(np.arange(summed.num_rows), summed.column(WEIGHT).to_numpy())
        return summed.drop_columns([WEIGHT]).take(pa.array(places))

    def _first(self, view: View, now: int) -> pa.Table:
        """All rows of a view, as the changes of its first published epoch."""
        return _at_epoch(self._summed(view), now)

    def _appended(self, view: View, seen: int, now: int) -> _Commit:
        """The changes of a view after an epoch, each with its own."""
        parts = [_at_epoch(batch.arrow(), batch.epoch) for batch in self._changes(view, seen, now)]
        return _Commit("append", pa.concat_tables([_at_epoch(arrow_schema(view.fields).empty_table(), now), *parts]))

    def troubles(self) -> dict[str, Trouble]:
        """The views that should be published but cannot at present, with the reason."""
        found = ((view.name, Publication.of(view.options)) for view in self._state.catalog.views.values())
        wanted = [(name, published.interval) for name, published in found if published is not None]
        return self.worker_troubles(() if self._state.read_only else wanted)


@dataclass(frozen=True)
class _Commit:
    """One commit of a lake table: ``rows`` that replace all others, are added, or are merged by ``key``."""

    kind: Literal["replace", "append", "merge"]
    rows: pa.Table
    key: tuple[str, ...] = ()

    def make(self, table: LakePublication, epoch: int) -> None:
        """Make the commit. An epoch without a change is one too: the table shows it."""
        if self.kind == "replace":
            table.replace(self.rows, epoch)
        elif self.kind == "append":
            table.append(self.rows, epoch)
        elif self.rows.num_rows:
            table.merge(self.rows, self.key, epoch)
        else:
            table.append(self.rows.drop_columns([GONE]), epoch)


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
