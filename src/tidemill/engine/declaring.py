"""Where rows come from: sources and feeds, declared and taken back. The catalog is committed with each of them."""

from __future__ import annotations

from collections.abc import Mapping

from tidemill.changes.batch import Epoch
from tidemill.engine.engine import Engine
from tidemill.engine.feeds import FolderFeed
from tidemill.engine.origins import Origin

UNMOVED: Mapping[str, str] = {}


def connect(engine: Engine, origin: Origin) -> None:
    """Add a source."""
    with engine.settled():
        engine.require_writable()
        engine.catalog.connect(origin)
        _commit(engine)


def disconnect(engine: Engine, name: str) -> None:
    """Remove a source that no view reads."""
    with engine.settled():
        engine.require_writable()
        engine.catalog.disconnect(name)
        _commit(engine)


def add_feed(engine: Engine, feed: FolderFeed) -> None:
    """Add a feed, which begins to take in files if it does so by itself."""
    with engine.settled():
        engine.require_writable()
        engine.catalog.add_feed(feed)
        _commit(engine, {feed.position: ""})
    engine.feeds.follow(feed)


def drop_feed(engine: Engine, name: str) -> None:
    """Remove a feed; its folder stays as it is."""
    with engine.settled():
        engine.require_writable()
        del engine.catalog.feeds[engine.feeds.find(name).name]
        _commit(engine)
        engine.feeds.drop(name)


def _commit(engine: Engine, positions: Mapping[str, str] = UNMOVED) -> None:
    engine.commit(Epoch(engine.store.epoch, positions=positions, catalog=engine.catalog.to_json()))()
