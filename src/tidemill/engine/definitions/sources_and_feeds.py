"""DDL of sources, folder feeds and lake tables. Each statement commits the catalog."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tidemill.engine.catalog.entries.feed_entry import FeedEntry
from tidemill.engine.catalog.entries.lake_entry import LakeEntry
from tidemill.engine.catalog.entries.source_entry import SourceEntry
from tidemill.engine.epochs.commit import EpochCommitter, Settled
from tidemill.engine.epochs.state import EngineState
from tidemill.engine.partitions.lateness import initial_head
from tidemill.engine.remote.folder_feeds import FolderFeeds
from tidemill.engine.remote.lake_tables import LakeTables
from tidemill.engine.remote.source_views import SourceViews
from tidemill.model.schema import Table

__all__ = ["SourceDefinitions"]


class SourceDefinitions:
    """Creates and drops the sources and feeds of a warehouse, and creates its lake tables."""

    def __init__(
        self,
        state: EngineState,
        epochs: EpochCommitter,
        settled: Settled,
        source_views: SourceViews,
        feeds: FolderFeeds,
        lakes: LakeTables,
    ) -> None:
        self._state = state
        self._epochs = epochs
        self._settled = settled
        self._source_views = source_views
        self._feeds = feeds
        self._lakes = lakes

    def create_source(self, source: SourceEntry) -> None:
        """Add a source."""
        with self._settled():
            self._state.require_writable()
            with self._epochs.changing_catalog() as catalog:
                catalog.connect(source)
                self._epochs.commit_catalog()

    def drop_source(self, name: str) -> None:
        """Remove a source that no view reads."""
        with self._settled():
            self._state.require_writable()
            with self._epochs.changing_catalog() as catalog:
                catalog.disconnect(name)
                self._epochs.commit_catalog()

    def sync_source(self, name: str, sync: str) -> None:
        """Sync the views over a source at other times."""
        with self._settled():
            self._state.require_writable()
            with self._epochs.changing_catalog() as catalog:
                source = catalog.source(name)
                catalog.sources[source.name] = replace(source, options={**source.options, "sync": sync})
                self._epochs.commit_catalog()
            views = [view for view in self._state.catalog.views.values() if source.name in view.sources]
        for view in views:
            self._source_views.follow_again(view)

    def sync_feed(self, name: str, sync: str) -> None:
        """Ingest the files of a feed at other times."""
        with self._settled():
            self._state.require_writable()
            known = self._feeds.find(name)
            feed = replace(known, options={**known.options, "sync": sync})
            with self._epochs.changing_catalog() as catalog:
                catalog.feeds[feed.name] = feed
                self._epochs.commit_catalog()
        self._feeds.drop(feed.name)
        self._feeds.follow(feed)

    def create_feed(self, feed: FeedEntry) -> None:
        """Add a feed, and start it if it is not manual."""
        with self._settled():
            self._state.require_writable()
            with self._epochs.changing_catalog() as catalog:
                catalog.add_feed(feed)
                self._epochs.commit_catalog(positions={feed.position: ""})
        self._feeds.follow(feed)

    def drop_feed(self, name: str) -> None:
        """Remove a feed; its folder is left unchanged."""
        with self._settled():
            self._state.require_writable()
            with self._epochs.changing_catalog() as catalog:
                del catalog.feeds[self._feeds.find(name).name]
                self._epochs.commit_catalog(then=partial(self._feeds.drop, name))

    def create_lake_table(self, table: Table, lake: LakeEntry) -> None:
        """Add a table, empty at first, whose rows come from a lake table."""
        with self._settled():
            self._state.require_writable()
            with self._epochs.changing_catalog() as catalog:
                catalog.add(table)
                catalog.lakes[lake.name] = lake
                # An earlier table of this name may have left its position.
                again = {lake.position: ""} if lake.position in self._state.store.positions else {}
                self._epochs.commit_catalog(positions={**initial_head(table, self._state.store.positions), **again})
