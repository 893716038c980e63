"""Where rows come from: sources and feeds, declared and taken back. The catalog is committed with each of them."""

from __future__ import annotations

from functools import partial

from tidemill.engine.catalog.source_entry import SourceEntry
from tidemill.engine.engine import Engine
from tidemill.engine.remote.folder_feeds import FeedEntry


def connect_source(engine: Engine, origin: SourceEntry) -> None:
    """Add a source."""
    with engine.settled():
        engine.require_writable()
        with engine.changing_catalog() as catalog:
            catalog.connect(origin)
            engine.commit_catalog()


def disconnect_source(engine: Engine, name: str) -> None:
    """Remove a source that no view reads."""
    with engine.settled():
        engine.require_writable()
        with engine.changing_catalog() as catalog:
            catalog.disconnect(name)
            engine.commit_catalog()


def add_feed(engine: Engine, feed: FeedEntry) -> None:
    """Add a feed, which begins to take in files if it does so by itself."""
    with engine.settled():
        engine.require_writable()
        with engine.changing_catalog() as catalog:
            catalog.add_feed(feed)
            engine.commit_catalog(positions={feed.position: ""})
    engine.feeds.follow(feed)


def drop_feed(engine: Engine, name: str) -> None:
    """Remove a feed; its folder stays as it is."""
    with engine.settled():
        engine.require_writable()
        with engine.changing_catalog() as catalog:
            del catalog.feeds[engine.feeds.find(name).name]
            engine.commit_catalog(then=partial(engine.feeds.drop, name))
