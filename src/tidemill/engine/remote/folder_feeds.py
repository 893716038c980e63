"""Feeds: folders that receive files; each file is one epoch of a table or stream, ingested exactly once.

The name of a file is its position. It is committed with the file's rows, and then the file is moved away; so after a
crash the last name shows if a file that is still there was ingested. A file that is refused, because of its own rows or
by a view, is set aside whole with the reason, and the feed continues with the next one.

A feed can be interrupted before an ingested file is moved away, after that, and before a file is set aside whose reason
is already written.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa

from tidemill.changes.zset import Row
from tidemill.engine.catalog.entries.feed_entry import FeedEntry
from tidemill.engine.catalog.refresh_mode import sync_interval
from tidemill.engine.epochs.state import EngineState
from tidemill.engine.intake_counts import IntakeCounts, IntakeTotals
from tidemill.engine.partitions.late_replay import late_change_count
from tidemill.engine.remote.source_maintainer import ApplyChanges
from tidemill.engine.streams.rejected_rows import rejected, rejects_of
from tidemill.engine.workers import Trouble, WorkerGroup
from tidemill.model.errors import DataError, OutOfBudget, SetupError, SqlError, TidemillError, UnknownName
from tidemill.model.schema import Table
from tidemill.runtimes.native.python.check_conditions import row_checker
from tidemill.sources.ingest.files import IngestedFiles, Reject, read_files
from tidemill.sources.ingest.inbox import InboxFolder
from tidemill.storage.filesystem.durable_files import fault

__all__ = ["FeedState", "FolderFeeds"]

POLL_SECONDS = 0.2
"""Seconds between two scans of the folder of a continuous feed."""


@dataclass(frozen=True)
class FeedState:
    """State of a feed: the number of waiting files, the last ingested one, the number set aside, and its trouble.

    The numbers are None, unknown, if its folder cannot be read.
    """

    waiting: int | None
    last: str | None
    aside: int | None
    trouble: str | None


class FolderFeeds(WorkerGroup):
    """Runs the feeds of a warehouse. One thread at a time ingests the files of a feed."""

    def __init__(self, state: EngineState, apply: ApplyChanges, keys: Callable[[Table], Iterable[Row]]) -> None:
        self._keys = keys
        super().__init__("feed")
        self._state = state
        self._apply = apply
        self._locks: dict[str, threading.RLock] = {}
        self._all = False
        self.tally = IntakeTotals()
        """Counts of everything ingested since the warehouse was opened."""

    def follow(self, feed: FeedEntry) -> None:
        """Start a worker for a feed, if it is not manual or all feeds are followed."""
        interval = 0.0 if self._all else sync_interval(feed.options)
        self.start_worker(feed.name, partial(self.sync, feed.name), interval, POLL_SECONDS)

    def follow_all(self) -> None:
        """Start workers for all feeds, including those created later."""
        self._state.require_writable()
        self._all = True
        for feed in self._state.catalog.feeds.values():
            self.follow(feed)

    def sync(self, name: str | None = None) -> IntakeCounts:
        """Ingest all waiting files of one feed or of all; returns the counts."""
        feeds = self._state.catalog.feeds
        wanted = list(feeds.values()) if name is None else [self.find(name)]
        return IntakeCounts.total(map(self._take, wanted))

    def find(self, name: str) -> FeedEntry:
        """The feed of that name."""
        feeds = self._state.catalog.feeds
        if name.lower() not in feeds:
            raise UnknownName(f'there is no feed "{name}"', hint=f"Feeds: {', '.join(feeds) or 'none'}.")
        return feeds[name.lower()]

    def state(self, feed: FeedEntry) -> FeedState:
        """The state of a feed."""
        last, arrivals = self._state.store.positions.get(feed.position) or None, feed.arrivals
        known = self.troubles().get(feed.name)
        trouble = None if known is None else str(known)
        try:
            waiting = [item for item in arrivals.waiting() if item.name != last]
            return FeedState(len(waiting), last, len(arrivals.aside()), trouble)
        except TidemillError as error:
            return FeedState(None, last, None, trouble or str(error).partition("\n")[0])

    def troubles(self) -> dict[str, Trouble]:
        """The feeds that should ingest files but cannot at present, with the reason."""
        wanted = () if self._state.read_only else self._state.catalog.feeds.values()
        return self.worker_troubles((feed.name, sync_interval(feed.options)) for feed in wanted)

    # -- files --------------------------------------------------------------------------------------------------

    def _take(self, feed: FeedEntry) -> IntakeCounts:
        """Ingest the waiting files, each as an epoch; returns the counts."""
        arrivals, taken = feed.arrivals, IntakeCounts()
        with self._locks.setdefault(feed.name, threading.RLock()):
            self._state.require_writable()
            last = self._state.store.positions.get(feed.position)
            if last:
                arrivals.archive(last)
            for item in arrivals.waiting():
                if self._state.closed or feed.name not in self._state.catalog.feeds:
                    break
                taken += self._take_or_set_aside(feed, arrivals, item)
        return taken

    def _take_or_set_aside(self, feed: FeedEntry, arrivals: InboxFolder, item: Path) -> IntakeCounts:
        try:
            return self._take_one(feed, arrivals, item)
        except TidemillError as error:
            if not _is_refused(error):
                raise
            arrivals.set_aside(item.name, error.render())
            self.tally.add(IntakeCounts(aside=1))
            return IntakeCounts(aside=1)

    def _take_one(self, feed: FeedEntry, arrivals: InboxFolder, item: Path) -> IntakeCounts:
        if arrivals.is_known(item.name):
            raise DataError("something of this name was taken in before", where=str(item), hint="Give it another name.")
        arrivals.refuse_links(item)
        table, rejects = self._state.catalog.table(feed.table), rejects_of(feed.on_error)
        read = self._read(table, feed, item, rejects)
        came = IntakeCounts(len(read.change), read.files, rejected=read.rejected)
        bad = rejected(self._state.catalog, table, f"{feed.name}: {item.name}", rejects or ())
        with self.tally.counting(came):
            epoch = self._apply({feed.table: read.change, **bad}, {feed.position: item.name})
        fault("fed")
        arrivals.archive(item.name)
        fault("put-away")
        late = IntakeCounts(late=late_change_count(self._state.store, self._state.catalog.table(feed.table), epoch))
        self.tally.add(late)
        return came + late

    def _read(self, table: Table, feed: FeedEntry, item: Path, rejects: list[Reject] | None) -> IngestedFiles:
        judge = row_checker(self._state.catalog.constraints.conditions_of(table.name))
        keys = () if rejects is None else self._keys(table)
        try:
            form = feed.options.get("format")
            return read_files(table, [item], format=form, rejects=rejects, taken=keys, judge=judge, csv=feed.csv)
        except pa.ArrowException as error:
            raise DataError("the file cannot be read", where=str(item), detail=str(error)) from error


def _is_refused(error: TidemillError) -> bool:
    """True if the file is at fault. Otherwise it stays, and is tried again."""
    if isinstance(error, SetupError):
        # Arrow raises OSError for malformed files too, but without an errno.
        return isinstance(error.__cause__, OSError) and error.__cause__.errno is None
    return isinstance(error, (DataError, SqlError)) and not isinstance(error, OutOfBudget)
