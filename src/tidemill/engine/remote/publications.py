"""Published views: the change since the epoch that a lake table shows is one commit there, made exactly once.

The lake table has the epoch that it shows, in its own log. So nothing is stored here, and a process that ends between
its own commit and that of the table goes on where the table is. The same holds for the table of epochs: what it lacks
is added before anything else is published.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from hashlib import blake2b

from tidemill.changes.changeset import ChangeSet
from tidemill.engine.catalog.new_views.unique_keys import key_of_view
from tidemill.engine.catalog.views.publication import Publication
from tidemill.engine.catalog.views.view import View
from tidemill.engine.epochs.commit import Settled
from tidemill.engine.epochs.state import EngineState
from tidemill.engine.published_epochs import PublishedEpochs, PublishedTable
from tidemill.engine.remote.published_changes import PublishedChange, appended, merged, replaced, replaced_changes
from tidemill.engine.remote.refused_views import RefusedViews
from tidemill.engine.subscriptions.change_batches import ChangeBatch
from tidemill.engine.workers import Trouble, WorkerGroup
from tidemill.model.errors import FellBehind, SourceLost, UnknownName
from tidemill.sources.lake.publication.epochs_table import EpochRow
from tidemill.sources.lake.publication.lake_publication import LakePublication, Place, Shown, Written
from tidemill.sources.lake.registry import open_epochs, open_publication
from tidemill.storage.filesystem.durable_files import fault
from tidemill.storage.mapped.derived_files import delete_derived

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
        self.last: dict[str, PublishedTable] = {}
        """Rows and bytes of the last commit for each view since the warehouse was opened."""

    def follow(self, view: View) -> None:
        """Start a worker for a published view, if it is not manual or all are followed."""
        published = Publication.of(view.options)
        if published is not None:
            interval = 0.0 if self._all else published.interval
            self.start_worker(view.name, partial(self._publish_due, view.name), interval, POLL_SECONDS)

    def follow_all(self) -> None:
        """Start workers for all published views, including those created later."""
        self._all = True
        for view in self._state.catalog.views.values():
            self.follow(view)

    def publish(self, name: str | None = None) -> PublishedEpochs:
        """Publish what one view shows, or all published views at one epoch; returns the epochs that their tables show.

        The rows of all commits are read before the first is made. A view that is refused does not hold up the others:
        its error is raised once these are published.
        """
        with self._lock:
            self._state.require_writable()
            views = self._published() if name is None else [self._find(name)]
            refused = RefusedViews()
            self._forget_derived()
            tables = refused.without(views, self._table_of)
            seen = refused.without(refused.left(views), lambda view: tables[view.name].shown())
            self._record(refused.left(views), seen)  # versions whose process ended before it recorded them
            with self._settled():
                changes = refused.without(
                    refused.left(views), lambda view: self._change(self._unreplaced(view), seen[view.name])
                )
            made = refused.without(
                refused.left(views), lambda view: self._commit(view, tables, seen, changes[view.name])
            )
            self.last |= {view: table for view, table in made.items() if table.bytes or view not in self.last}
            published = PublishedEpochs(made, self._record(refused.left(views), made))
            refused.raise_any(made)
            return published

    def _publish_due(self, name: str) -> None:
        """Publish a view if as many epochs have passed as it waits for."""
        view = self._find(name)
        shown = self.last.get(view.name) or self._table_of(view).shown()
        if shown is None or self._now(view) - shown.epoch >= _publication_of(view).epochs:
            self.publish(name)

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

    def _now(self, view: View) -> int:
        """The epoch that a view shows."""
        return view.fresh if view.refresh.deferred else self._state.store.epoch

    def _change(self, view: View, seen: Shown | None) -> PublishedChange | None:
        """The commit that brings a table from the version seen to what the view shows: its rows are read now."""
        now = self._now(view)
        if seen is not None and seen.epoch == now:
            return None
        if seen is not None and seen.epoch > now:
            raise SourceLost(
                f'view "{view.name}" was published at epoch {seen.epoch}, and shows epoch {now}',
                where=_publication_of(view).place.location,
                detail="The warehouse was set back, to a copy of its folder for instance.",
                hint="CREATE OR REPLACE the view: it is then published anew.",
            )
        if _publication_of(view).mode == "changes":
            if seen is None:
                return replaced_changes(self._contents(view.name).arrow(), view, now)
            return appended(self._changes(view, seen.epoch, now), view, now)
        key = key_of_view(view, self._state.catalog)
        if _publication_of(view).mode == "merge" and seen is not None and not seen.worn and key:
            with suppress(FellBehind):  # the changes are no longer kept, so all rows are written
                return merged(self._changes(view, seen.epoch, now), view, key, now)
        return self._replacement(view, now)

    def _replacement(self, view: View, now: int) -> PublishedChange:
        return replaced(self._contents(view.name).arrow(), view, now)

    def _commit(
        self,
        view: View,
        tables: Mapping[str, LakePublication],
        seen: Mapping[str, Shown | None],
        change: PublishedChange | None,
    ) -> PublishedTable:
        """Commit a change to the table of a view, and compact its files."""
        table, before = tables[view.name], seen[view.name]
        if change is None:
            assert before is not None
            return PublishedTable(before.epoch, before.version)
        written = change.commit(table)
        if written is None:  # somebody else has changed the table, so all rows are written
            with self._settled():
                change = self._replacement(self._unreplaced(view), self._now(view))
            written = change.commit(table)
            assert written is not None
        written = written.then(_compacted(table, _publication_of(view)))
        return PublishedTable(change.epoch, written.version, written.rows, written.bytes)

    def _record(self, views: Sequence[View], shown: Mapping[str, Shown | PublishedTable | None]) -> int:
        """Add the versions that tables show to the tables of epochs, unless they are there; returns the bytes."""
        known: dict[Place, list[EpochRow]] = defaultdict(list)
        for view in views:
            published, found = _publication_of(view), shown[view.name]
            if found is not None and published.together is not None:
                row = EpochRow(found.epoch, view.name, published.place.location, found.version, published.owner)
                known[published.together].append(row)
        written = 0
        for place, rows in known.items():
            epochs = open_epochs(place)
            last = epochs.recorded([row.publication for row in rows])
            missing = [row for row in rows if last.get(row.publication) != row.epoch]
            if missing:
                fault("lake-record")
                written += epochs.record(missing)
                fault("lake-recorded")
        return written

    def _table_of(self, view: View) -> LakePublication:
        published = _publication_of(view)
        derived = self._state.store.published_folder() / _folder_of(published)
        return open_publication(published.place, view.name, published.owner, published.write, derived)

    def _forget_derived(self) -> None:
        """Delete what was derived from the tables of views that are no longer published."""
        known = {_folder_of(_publication_of(view)) for view in self._published()}
        delete_derived(self._state.store.published_folder(), lambda file: file.parent.name in known)

    def drop(self, name: str) -> None:
        """End the worker of a view, and forget what it published."""
        super().drop(name)
        self.last.pop(name, None)

    def troubles(self) -> dict[str, Trouble]:
        """The views that should be published but cannot at present, with the reason."""
        wanted = [] if self._state.read_only else self._published()
        return self.worker_troubles((view.name, _publication_of(view).interval) for view in wanted)


def _publication_of(view: View) -> Publication:
    found = Publication.of(view.options)
    assert found is not None
    return found


def _folder_of(published: Publication) -> str:
    return blake2b(published.owner.encode(), digest_size=16).hexdigest()


def _compacted(table: LakePublication, published: Publication) -> Written | None:
    """Compact the files of a table, and delete old ones, as its publication says."""
    if published.compacted is None:
        return None
    compacted = table.compact(published.compacted)
    fault("lake-compacted")
    if compacted is not None and published.vacuum is not None:
        table.vacuum(published.vacuum)
    return compacted
