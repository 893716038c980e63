"""The publisher: the changes of an epoch are matched with all listeners in one pass, and queued once for all of them.

Each view with listeners has a bounded queue of its last epochs, which they share. A listener that filters by values
(see ``row_filter``) is found through them: one hash lookup for each row and each set of filter columns, however many
listeners there are. A listener without rows in an epoch is not even woken. A listener that is slower than the queue is
long is *behind*, and reads the store until it has caught up.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tidemill.changes.changeset import ChangeSet, Epoch
from tidemill.engine.subscriptions.listener_index import FilterColumns, Inbox, ListenerIndex, RowSpans, rows_in_spans
from tidemill.engine.subscriptions.row_filter import RowFilter
from tidemill.model.types import Field


@dataclass
class _QueuedEpoch:
    """An epoch in a queue: the rows that match listeners, by filter columns."""

    changes: dict[FilterColumns, ChangeSet]
    unread: int = 0

    @property
    def rows(self) -> int:
        return sum(map(len, self.changes.values()))


class Publisher:
    """The queues of all views. Epochs are *offered* when they are committed and *published* once they are durable."""

    def __init__(self, epoch: int) -> None:
        self.lock = threading.Lock()
        self.published = epoch
        self.closed = False
        self._offered: deque[Epoch] = deque()
        self._views: dict[str, ChangeQueue] = {}
        self._abandoned: deque[Inbox] = deque()
        self._ending: set[str] = set()
        self._joint = False

    def offer(self, epoch: Epoch) -> None:
        """Add an epoch that has just been committed; called in the order of epochs."""
        with self.lock:
            self._offered.append(epoch)

    def publish(self, number: int) -> None:
        """Publish all epochs up to ``number``: if that one is durable, so are those before it."""
        with self.lock:
            while self._abandoned:
                self._leave(self._abandoned.popleft())
            while self._offered and self._offered[0].number <= number:
                epoch = self._offered.popleft()
                if self._ending and (epoch.dropped or epoch.replaced):
                    self._end(self._ending.intersection((*epoch.dropped, *epoch.replaced)))
                for name in self._views and self._views.keys() & {*epoch.changes, *epoch.replaced, *epoch.dropped}:
                    change = epoch.changes.get(name)
                    # Files belong to the store by now, which may merge and delete them.
                    if change is None or name in epoch.replaced or change.files is not None:
                        self._views[name].read_from_store(self.published)
                    else:
                        self._views[name].publish(epoch.number, change)
                if epoch.number > self.published:
                    self.published = epoch.number
            if number > self.published:
                self.published = number

    def look(self, number: int) -> None:
        """Make all listeners read epochs up to ``number``, committed by another process, from the store."""
        with self.lock:
            for publication in self._views.values():
                publication.read_from_store(self.published)
            self.published = max(self.published, number)

    def resume(self, number: int, views: Collection[str]) -> None:
        """Make all listeners read from the store, after an exception.

        Epochs up to ``number`` are durable, but may not have been published, or not to all. Listeners of views that are
        not among ``views`` end.
        """
        with self.lock:
            self._offered.clear()
            for view in self._views.keys() - set(views):
                for inbox in list(self._views[view].listeners):
                    self._leave(inbox)
        self.look(number)

    def join(
        self, view: str, fields: tuple[Field, ...], since: int, now: int, where: RowFilter | None, buffer: int
    ) -> Inbox:
        """A new listener that has seen epoch ``since``, in a warehouse whose last epoch is ``now``."""
        inbox = Inbox(threading.Condition(self.lock), view, since, since < now, where, buffer)
        with self.lock:
            self._views.setdefault(view, ChangeQueue(fields)).add(inbox)
        return inbox

    def subscribers(self, view: str) -> int:
        """The number of listeners of a view."""
        with self.lock:
            return len(self._views[view].listeners) if view in self._views else 0

    def leave(self, inbox: Inbox) -> None:
        """Remove a listener, and wake a thread that waits for it."""
        with self.lock:
            self._leave(inbox)

    def abandon(self, inbox: Inbox) -> None:
        """Remove a listener at the next epoch: the garbage collector may call this while the lock is held."""
        self._abandoned.append(inbox)

    def _leave(self, inbox: Inbox) -> None:
        publication = self._views.get(inbox.view)
        if publication is not None and not inbox.ended:
            publication.remove(inbox)
            if not publication.listeners:
                del self._views[inbox.view]
        inbox.ended = True
        inbox.tell()

    def take(self, inbox: Inbox) -> tuple[int, ChangeSet] | None:
        """The next epoch that waits for a listener; None if none does, or if it must read the store."""
        with self.lock:
            publication = self._views.get(inbox.view)
            return None if publication is None or inbox.ended else publication.take(inbox)

    def caught_up(self, inbox: Inbox, seen: int) -> bool:
        """Switch a listener that has read the store up to ``seen`` to the queue, unless newer epochs are published."""
        with self.lock:
            if seen >= self.published:
                inbox.behind, inbox.since = False, seen
            return not inbox.behind

    def position(self, inbox: Inbox, seen: int) -> int:
        """The epoch up to which a listener that has read up to ``seen`` has missed nothing."""
        with self.lock:
            if inbox.behind or inbox.ended:
                return max(seen, inbox.since)
            return max(seen, inbox.waiting[0][0] - 1 if inbox.waiting else self.published)

    @contextmanager
    def ending(self, view: str) -> Iterator[None]:
        """End the listeners of a view with the epoch in this block that drops it, or replaces all of its rows, once
        that is published."""
        self._ending.add(view)
        try:
            yield
        finally:
            if not self._joint:
                self._ending.discard(view)

    @contextmanager
    def joint(self) -> Iterator[None]:
        """Context of a joint commit, at whose end the listeners end whose views were dropped or replaced in it."""
        self._joint = True
        try:
            yield
        finally:
            self._joint = False
            self._ending.clear()

    def _end(self, gone: set[str]) -> None:
        """End the listeners of dropped views, even if new views have the same names."""
        for view in self._views.keys() & gone:
            for inbox in list(self._views[view].listeners):
                self._leave(inbox)

    def close(self) -> None:
        """End all listeners and wake their threads."""
        with self.lock:
            self.closed = True
            for publication in self._views.values():
                for inbox in publication.listeners:
                    inbox.tell()


class ChangeQueue:
    """The listeners of one view and the queue that they share."""

    def __init__(self, fields: tuple[Field, ...]) -> None:
        self.listeners: dict[Inbox, None] = {}
        self._routes: dict[FilterColumns, ListenerIndex] = {}
        self._fields = fields
        self._queue: dict[int, _QueuedEpoch] = {}
        self._rows = 0
        self._room = 0

    def add(self, inbox: Inbox) -> None:
        """Add a listener; the queue is as long as the largest buffer of its listeners."""
        self.listeners[inbox] = None
        self._routes.setdefault(inbox.columns, ListenerIndex(self._fields, inbox.columns)).add(inbox)
        self._room = max(self._room, inbox.buffer)

    def remove(self, inbox: Inbox) -> None:
        """Remove a listener and its queued epochs."""
        self._empty(inbox)
        del self.listeners[inbox]
        # A listener with an empty filter has no entry in the index, and may be the last one of its columns.
        route = self._routes.get(inbox.columns)
        if route is not None:
            route.remove(inbox)
            if route.idle:
                del self._routes[inbox.columns]

    def publish(self, epoch: int, change: ChangeSet) -> None:
        """Match the rows of an epoch with the listeners; rows without a listener are not copied."""
        published = _QueuedEpoch({})
        for columns, route in self._routes.items():
            sorted_, parts = route.sort(change)
            heard = sum(self._push(inbox, epoch, columns, spans) for inbox, spans in parts.items())
            if heard:
                published.changes[columns] = sorted_
                published.unread += heard
        if published.unread:
            self._queue[epoch] = published
            self._rows += published.rows
        while self._rows > self._room and len(self._queue) > 1:
            self._forget(next(iter(self._queue)))

    def read_from_store(self, published: int) -> None:
        """Make all listeners read the store after the epochs that are already published."""
        for inbox in self.listeners:
            self._fall_behind(inbox, published)
            inbox.tell()

    def take(self, inbox: Inbox) -> tuple[int, ChangeSet] | None:
        """The next epoch for a listener; if the queue has released it, the listener falls behind."""
        if not inbox.waiting:
            return None
        epoch, columns, spans = inbox.waiting[0]
        if epoch not in self._queue:
            self._fall_behind(inbox)
            return None
        change = rows_in_spans(self._queue[epoch].changes[columns], spans)
        inbox.waiting.popleft()
        inbox.since = epoch
        self._read(epoch)
        return epoch, change

    def _push(self, inbox: Inbox, epoch: int, columns: FilterColumns, spans: RowSpans) -> bool:
        if inbox.behind or epoch <= inbox.since:
            return False
        if inbox.waiting and inbox.waiting[0][0] not in self._queue:
            self._fall_behind(inbox)
            return False
        inbox.waiting.append((epoch, columns, spans))
        if inbox.awaited:
            inbox.wake.notify_all()
        inbox.call()
        return True

    def _fall_behind(self, inbox: Inbox, published: int = 0) -> None:
        """Make a listener read the store, after the last epoch that it has received or that had no rows for it."""
        if not inbox.behind:
            inbox.since = max(inbox.since, inbox.waiting[0][0] - 1 if inbox.waiting else published)
        self._empty(inbox)
        inbox.behind = True

    def _empty(self, inbox: Inbox) -> None:
        for epoch, _, _ in inbox.waiting:
            self._read(epoch)
        inbox.waiting.clear()

    def _read(self, epoch: int) -> None:
        """Count a listener that has read an epoch; the epoch is released after the last one."""
        published = self._queue.get(epoch)
        if published is not None:
            published.unread -= 1
            if not published.unread:
                self._forget(epoch)

    def _forget(self, epoch: int) -> None:
        self._rows -= self._queue.pop(epoch).rows
