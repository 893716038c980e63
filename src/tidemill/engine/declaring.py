"""Where rows come from: sources and feeds, declared and taken back. The catalog is committed with each of them."""

from __future__ import annotations

from functools import partial

from tidemill.engine.engine import Engine
from tidemill.engine.feeds import FolderFeed
from tidemill.engine.origins import Origin


def connect(engine: Engine, origin: Origin) -> None:
    """Add a source."""
    with engine.settled():
        engine.require_writable()
        with engine.defining() as catalog:
            catalog.connect(origin)
            engine.commit_catalog()


def disconnect(engine: Engine, name: str) -> None:
    """Remove a source that no view reads."""
    with engine.settled():
        engine.require_writable()
        with engine.defining() as catalog:
            catalog.disconnect(name)
            engine.commit_catalog()


def add_feed(engine: Engine, feed: FolderFeed) -> None:
    """Add a feed, which begins to take in files if it does so by itself."""
    with engine.settled():
        engine.require_writable()
        with engine.defining() as catalog:
            catalog.add_feed(feed)
            engine.commit_catalog(positions={feed.position: ""})
    engine.feeds.follow(feed)


def drop_feed(engine: Engine, name: str) -> None:
    """Remove a feed; its folder stays as it is."""
    with engine.settled():
        engine.require_writable()
        with engine.defining() as catalog:
            del catalog.feeds[engine.feeds.find(name).name]
            engine.commit_catalog(then=partial(engine.feeds.drop, name))
