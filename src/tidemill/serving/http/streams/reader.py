"""The changes of a view for one client: those after the epoch that it has seen, from the store, and then those to come.

A reader joins the queue of its topic first and looks into the store then, so nothing falls between the two. What comes
twice is passed over by its epoch. A queue that has overflowed sends its reader to the store again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, TypeVar

from tidemill.engine.subscriptions.subscription import Subscription
from tidemill.model.errors import BadValue
from tidemill.serving.http.authentication import Caller
from tidemill.serving.http.conditions import epoch_number
from tidemill.serving.http.errors import HttpError
from tidemill.serving.http.service.caller_watch import changed_rights
from tidemill.serving.http.service.service import Service
from tidemill.serving.http.service.topic import Encoded, Queue, Topic, encoded

__all__ = ["ChangeReader", "last_seen"]

T = TypeVar("T")

STEP_BYTES = 256 << 10
"""Bytes of changes that are read from the store at a time."""

Run = Callable[..., Any]


class ChangeReader:
    """Iterates over the changes of a topic after epoch ``seen``; None stands for a while without any.

    They are those that ``caller`` may see, until he is no longer who he was: ``changed`` is set then. ``seen`` is the
    epoch up to which everything was given out: None until then means from now on.
    """

    def __init__(self, service: Service, caller: Caller, view: str, where: Sequence[str], seen: int | None) -> None:
        self.changed = service.callers.changed(caller)
        self._reader = caller.limited
        self._hub = service.changes
        self._service = service
        self._view = view
        self._where = tuple(where)
        self._asked = seen
        self.seen = 0
        self.notes: tuple[str, ...] = ()
        """Notes about the view, as of the last pause."""

    async def __aiter__(self) -> AsyncGenerator[Encoded | None, None]:
        topic, queue = await self._hub.join(self._view, self._where, self._reader)
        try:
            self.seen = topic.position if self._asked is None else self._asked
            missing = self.seen != topic.position
            self.notes = topic.subscription.notes
            yield None  # so that a client knows from where on it hears everything
            while True:
                if missing:
                    async for missed in self._missed(topic, queue):
                        yield missed
                async for changes in self._waiting(topic, queue):
                    yield changes
                if not queue.lagging:
                    return
                missing = True
        finally:
            self._hub.leave(topic, queue)

    async def _waiting(self, topic: Topic, queue: Queue) -> AsyncGenerator[Encoded | None, None]:
        """Events of the queue, until it has overflowed or ended; None after a while without any."""
        while not queue.lagging:
            changes = queue.take()
            if changes is not None:
                if changes.epoch > self.seen:
                    self.seen = changes.epoch
                    yield changes
                continue
            self.seen = max(self.seen, topic.position)
            if queue.refused:
                raise changed_rights()
            if queue.ended:
                return
            if not await self._woken(queue):
                self._hub.look(topic)
                self.notes = topic.subscription.notes
                yield None

    async def _woken(self, queue: Queue) -> bool:
        try:
            await asyncio.wait_for(queue.wake.wait(), self._service.settings.heartbeat)
        except TimeoutError:
            return False
        return True

    async def _missed(self, topic: Topic, queue: Queue) -> AsyncGenerator[Encoded, None]:
        """Stored events after the epoch that was seen; meanwhile the queue takes in what comes."""
        run = self._service.reads.run
        stored: Subscription = await run(self._from_store, topic)  # refuses an epoch that is still to come
        try:
            while True:
                queue.lagging = False
                found, position = await run(_step, stored, topic)
                for changes in found:
                    if changes.epoch > self.seen:
                        self.seen = changes.epoch
                        yield changes
                if not found:
                    self.seen = max(self.seen, position)
                    return
        finally:
            stored.close()

    def _from_store(self, topic: Topic) -> Subscription:
        return topic.source.subscribe(topic.view, since=self.seen, where=topic.where, timeout=0, buffer=1)


def _step(stored: Subscription, topic: Topic) -> tuple[list[Encoded], int]:
    """The next changes from the store, a bounded number of bytes, and the epoch up to which these are all."""
    found: list[Encoded] = []
    size = 0
    for batch in stored:
        found.append(encoded(batch, topic.fields))
        size += len(found[-1].data)
        if size > STEP_BYTES:
            break
    return found, stored.epoch


def last_seen(since: int | None, header: str | None) -> int | None:
    """The epoch after which a client asks for changes: that of ``Last-Event-ID``, or else its parameter."""
    if header is None:
        return since
    try:
        return epoch_number(header, "Last-Event-ID")
    except BadValue:
        raise HttpError(400, "Last-Event-ID is an epoch", where=f"Last-Event-ID: {header[:60]}") from None
