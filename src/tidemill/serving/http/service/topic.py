"""A topic: the changes of a view with one filter, encoded once, and the queues of those who read them.

A queue is bounded. One that overflows is emptied and marked as lagging: its reader takes what it missed from the store,
so a client that does not read costs neither memory nor anybody's time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from tidemill.engine.sessions.session import Session
from tidemill.engine.subscriptions.change_batches import ChangeBatch
from tidemill.engine.subscriptions.row_filter import Where
from tidemill.engine.warehouse import Warehouse
from tidemill.model.types import Field
from tidemill.serving.http.content import json_rows
from tidemill.serving.render import json_line

__all__ = ["Encoded", "Queue", "Topic", "encoded"]

BUFFER_ROWS = 100_000
"""Rows of changes of a view that may wait for the thread of all topics, and for readers who catch up."""

QUEUE_BYTES = 256 << 10
"""Bytes of changes that wait for one client; one more change waits in any case."""


class Encoded(NamedTuple):
    """The changes of an epoch as JSON."""

    epoch: int
    data: bytes


def encoded(batch: ChangeBatch, fields: Sequence[Field]) -> Encoded:
    """The changes of an epoch as JSON: pairs of a weight and a row."""
    changes = batch.changes
    rows = json_rows([row for _, row in changes], fields)
    weights = [weight for weight, _ in changes]
    notes = f',"notes":{json_line(batch.notes)}' if batch.notes else ""
    return Encoded(batch.epoch, f'{{"epoch":{batch.epoch},"weights":{weights},"rows":{rows}{notes}}}'.encode())


class Queue:
    """Events that wait for one reader. Only the event loop uses it."""

    def __init__(self) -> None:
        self.waiting: deque[Encoded] = deque()
        self.lagging = False
        self.ended = False
        self.refused = False
        """True if nothing comes any more since it may not be seen."""
        self.wake = asyncio.Event()
        self._bytes = 0

    def offer(self, changes: Encoded) -> None:
        """Add the changes of an epoch, unless there is no room."""
        if self.lagging:
            return
        self.waiting.append(changes)
        self._bytes += len(changes.data)
        if self._bytes > QUEUE_BYTES and len(self.waiting) > 1:
            self.waiting.clear()
            self._bytes, self.lagging = 0, True
        self.wake.set()

    def take(self) -> Encoded | None:
        """The changes that came first; None if nothing waits."""
        if not self.waiting:
            self.wake.clear()
            return None
        changes = self.waiting.popleft()
        self._bytes -= len(changes.data)
        return changes

    @property
    def size(self) -> int:
        """Bytes that wait."""
        return self._bytes

    def end(self) -> None:
        """Nothing comes any more."""
        self.ended = True
        self.wake.set()

    def refuse(self) -> None:
        """Nothing comes any more, also of what waits."""
        self.waiting.clear()
        self._bytes = 0
        self.refused = True
        self.end()


class Topic:
    """The changes of a view with a filter: ``position`` is the epoch up to which they were given to all queues.

    They are read from ``source``: the warehouse, or the session of a user who may see some of them.
    """

    def __init__(self, source: Warehouse | Session, view: str, where: Where | None, fields: Sequence[Field]) -> None:
        self.source = source
        self.conditions = source.conditions(view) if isinstance(source, Session) else ()
        self.view = view
        self.where = where
        self.fields = fields
        self.subscription = source.subscribe(view, where=where, timeout=0, buffer=BUFFER_ROWS)
        self.queues: set[Queue] = set()
        self.position = self.subscription.epoch
        self.ended = False

    @property
    def is_allowed(self) -> bool:
        """True as long as its readers may see what they have seen so far."""
        return not isinstance(self.source, Session) or self.source.conditions(self.view) == self.conditions

    def close(self) -> None:
        """End its subscription, and the session that it is of."""
        self.ended = True
        self.subscription.close()
        if isinstance(self.source, Session):
            self.source.close()

    def refuse(self) -> None:
        """End all queues, with what waits in them; called by the event loop."""
        self.ended = True
        for queue in self.queues:
            queue.refuse()

    def publish(self, found: Sequence[Encoded], position: int, *, ended: bool) -> None:
        """Give changes to all queues; called by the event loop."""
        for changes in found:
            for queue in self.queues:
                queue.offer(changes)
        self.position = max(self.position, position)
        if ended:
            self.ended = True
            for queue in self.queues:
                queue.end()
