"""Posts that wait for the one thread that commits them: those that wait together share an epoch, and its sync.

The queue is bounded in posts and bytes: who comes when it is full is told to come again, so neither memory nor the time
that a post waits can grow without end.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import NamedTuple

from tidemill.engine.row_changes import KeyedChanges
from tidemill.engine.warehouse import Warehouse
from tidemill.model.errors import Busy, TidemillError

__all__ = ["PostQueue"]

MOST_POSTS = 256
"""Posts that are committed together."""

MOST_ROWS = 2_000
"""Rows of posts that are committed together; one post may have more."""


Told = Callable[[TidemillError | None], None]
"""Is told by the thread how it has ended."""


class Post(NamedTuple):
    """Changes that were sent, how much they are, whoever waits for their epoch, and who else is told."""

    changes: KeyedChanges
    rows: int
    size: int
    done: asyncio.Future[int]
    told: Told | None


class PostQueue:
    """The posts that wait, at most ``posts`` with ``size`` bytes. ``apply`` is for the event loop."""

    def __init__(self, warehouse: Warehouse, posts: int, size: int) -> None:
        self._warehouse = warehouse
        self._most = posts, size
        self._queue: SimpleQueue[Post | None] = SimpleQueue()
        self._held: Post | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.waiting = 0
        """Posts that wait or are being committed."""
        self.waiting_bytes = 0

    async def apply(self, changes: KeyedChanges, rows: int, size: int, told: Told | None = None) -> int:
        """The epoch of changes, once it is durable; ``Busy`` if there is no room for them."""
        posts, most = self._most
        if self.waiting >= posts or (self.waiting and self.waiting_bytes + size > most):
            raise Busy(
                "too many changes wait already", detail=f"{self.waiting} posts wait.", hint="Send them again later."
            )
        if self._thread is None:
            self._begin()
        assert self._loop is not None
        post = Post(changes, rows, size, self._loop.create_future(), told)
        self.waiting += 1
        self.waiting_bytes += size
        self._queue.put(post)
        return await post.done

    def _begin(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="tidemill posts")
        self._thread.start()

    def _run(self) -> None:
        while group := self._next_group():
            try:
                results = self._warehouse.apply_each([post.changes for post in group], together=True)
            except TidemillError as failed:
                results = [failed for _ in group]
            for post, result in zip(group, results, strict=True):
                if post.told is not None:
                    post.told(None if isinstance(result, int) else result)
            try:
                assert self._loop is not None
                self._loop.call_soon_threadsafe(self._tell, group, results)
            except RuntimeError:  # the loop has ended: nobody waits
                pass

    def _next_group(self) -> list[Post]:
        """The posts to commit next; none once the queue is closed and all are committed."""
        first, self._held = self._held or self._queue.get(), None
        if first is None:
            return []
        group, rows = [first], first.rows
        while len(group) < MOST_POSTS:
            try:
                post = self._queue.get_nowait()
            except Empty:
                break
            if post is None or rows + post.rows > MOST_ROWS:
                self._put_back(post)
                break
            group.append(post)
            rows += post.rows
        return group

    def _put_back(self, post: Post | None) -> None:
        if post is None:
            self._queue.put(None)
        else:
            self._held = post

    def _tell(self, group: list[Post], results: list[int | TidemillError]) -> None:
        for post, result in zip(group, results, strict=True):
            self.waiting -= 1
            self.waiting_bytes -= post.size
            if post.done.done():  # whoever has sent it has gone
                continue
            if isinstance(result, int):
                post.done.set_result(result)
            else:
                post.done.set_exception(result)

    def close(self) -> None:
        """Commit what waits, and end the thread."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
