"""The thread between the publisher of a warehouse and the event loop: it waits for all topics at once.

The publisher calls it when a topic may have changes, which costs the writer a queue's ``put``. The thread takes the
changes, encodes them once for all readers of the topic, and hands everything that it has to the event loop in one call.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from functools import partial
from queue import Empty, SimpleQueue

from tidemill.engine.quarantine.notes import hearing
from tidemill.engine.warehouse import Warehouse
from tidemill.model.errors import Busy, FellBehind, TidemillError
from tidemill.serving.access.principal import Principal
from tidemill.serving.http.conditions import wanted_values
from tidemill.serving.http.service.topic import Encoded, Queue, Topic, encoded
from tidemill.serving.server.statement_pool import StatementPool

__all__ = ["ChangeHub"]

MOST_BATCHES = 256
"""Epochs of one topic that are taken before the others have their turn."""

TopicKey = tuple[str, tuple[str, ...], Principal | None]


class ChangeHub:
    """The topics that somebody reads. All methods are for the event loop; ``pool`` runs what may wait for a lock."""

    def __init__(self, warehouse: Warehouse, pool: StatementPool, most: int) -> None:
        self._warehouse = warehouse
        self._pool = pool
        self._most = most
        self._readers = 0
        self._stopped = False
        self._topics: dict[TopicKey, asyncio.Task[Topic]] = {}
        self._ready: SimpleQueue[Topic | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def readers(self) -> int:
        """The number of readers of all topics."""
        return self._readers

    async def join(self, view: str, where: Iterable[str], reader: Principal | None = None) -> tuple[Topic, Queue]:
        """A new queue of a topic, which begins with what comes next; of a ``reader`` with the rights of that user."""
        if self._readers >= self._most:
            raise Busy(
                "there are too many subscribers", detail=f"{self._readers} read changes.", hint="Ask again later."
            )
        self._readers += 1
        key = view.lower(), tuple(sorted(where)), reader
        try:
            topic = await asyncio.shield(self._topic(key))
            while topic.ended:  # the last of its readers has left it meanwhile, or its view is another one now
                topic = await asyncio.shield(self._topic(key))
        except BaseException:
            self._readers -= 1
            raise
        queue = Queue()
        topic.queues.add(queue)
        if self._stopped:
            queue.end()
        return topic, queue

    def queues(self) -> dict[str, list[Queue]]:
        """The queues of all readers, by view."""
        found: dict[str, list[Queue]] = {}
        for topic in map(_topic_of, self._topics.values()):
            if topic is not None:
                found.setdefault(topic.view, []).extend(topic.queues)
        return found

    def look(self, topic: Topic) -> None:
        """Bring the position of a topic up to date: epochs without changes for it call nobody."""
        self._ready.put(topic)

    def leave(self, topic: Topic, queue: Queue) -> None:
        """Remove a queue; a topic that nobody reads is closed."""
        self._readers -= 1
        topic.queues.discard(queue)
        if not topic.queues:
            self._drop(topic)

    def _drop(self, topic: Topic) -> None:
        topic.close()
        self._topics = {key: task for key, task in self._topics.items() if _topic_of(task) is not topic}

    def _topic(self, key: TopicKey) -> asyncio.Task[Topic]:
        task = self._topics.get(key)
        if task is None or (task.done() and ((known := _topic_of(task)) is None or known.ended)):
            self._begin()
            task = self._topics[key] = asyncio.create_task(self._pool.run(self._subscribed, *key))
        return task

    def _subscribed(self, view: str, where: tuple[str, ...], reader: Principal | None) -> Topic:
        """A topic that follows the view from now on; in a thread, since it waits for the lock of the warehouse."""
        source = self._warehouse if reader is None else reader.session(self._warehouse, "http changes")
        fields = source.view(view).fields
        topic = Topic(source, view, wanted_values(where, fields, view) or None, fields)
        topic.subscription.on_ready(partial(self._ready.put, topic))
        return topic

    def _begin(self) -> None:
        if self._thread is None:
            self._loop = asyncio.get_running_loop()
            self._thread = threading.Thread(target=self._run, name="tidemill changes", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            ready = {self._ready.get(): None}
            while True:
                try:
                    ready[self._ready.get_nowait()] = None
                except Empty:
                    break
            with hearing():  # batches have their notes
                found = [(topic, *self._taken(topic)) for topic in ready if topic is not None]
            try:
                assert self._loop is not None
                self._loop.call_soon_threadsafe(_publish, found)
            except RuntimeError:  # the loop has ended
                return
            if None in ready:
                return

    def _taken(self, topic: Topic) -> tuple[list[Encoded], int, bool]:
        """The next changes of a topic, encoded, the epoch up to which there are no others, and if it has ended."""
        found: list[Encoded] = []
        subscription = topic.subscription
        try:
            for batch in subscription:
                found.append(encoded(batch, topic.fields))
                if len(found) == MOST_BATCHES:
                    self._ready.put(topic)
                    break
        except FellBehind as gone:  # readers find out for themselves what they missed
            return found, gone.resume, True
        except TidemillError:
            return found, topic.position, True
        return found, subscription.epoch, subscription.ended

    def end_changed_rights(self) -> None:
        """End the topics whose readers may no longer see what they have seen so far."""
        for topic in map(_topic_of, self._topics.values()):
            if topic is not None and not topic.ended and not topic.is_allowed:
                topic.refuse()

    def stop(self) -> None:
        """End all queues, so that their readers end, also those that come later."""
        self._stopped = True
        for topic in map(_topic_of, self._topics.values()):
            if topic is not None:
                topic.publish((), topic.position, ended=True)

    def close(self) -> None:
        """End the thread, and close all topics; waits for it."""
        if self._thread is not None:
            self._ready.put(None)
            self._thread.join()
        for topic in map(_topic_of, self._topics.values()):
            if topic is not None:
                topic.close()


def _topic_of(task: asyncio.Task[Topic]) -> Topic | None:
    """The topic that a task has made; None if it has not, or could not."""
    return task.result() if task.done() and not task.cancelled() and task.exception() is None else None


def _publish(found: list[tuple[Topic, list[Encoded], int, bool]]) -> None:
    for topic, changes, position, ended in found:
        topic.publish(changes, position, ended=ended)
