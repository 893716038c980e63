"""A bounded pool of threads for engine work: who comes when its queue is full is told to come again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from tidemill.engine.quarantine.notes import hearing
from tidemill.model.errors import Busy

__all__ = ["StatementPool"]

T = TypeVar("T")


class StatementPool:
    """Threads that run work for an event loop: ``threads`` at a time, and at most ``queue`` that wait.

    >>> asyncio.run(StatementPool(1, 1).run(max, 3, 7))
    7
    """

    def __init__(self, threads: int, queue: int, name: str = "statement") -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=f"tidemill {name}")
        self._most = threads + queue
        self.pending = 0
        """Pieces of work that run or wait."""

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """The result of ``function``, run in a thread; ``Busy`` if the queue is full.

        A caller that is cancelled does not wait for it: work that has begun goes on.
        """
        if self.pending >= self._most:
            raise Busy(
                "the server has too much to do",
                detail=f"{self.pending} statements run or wait.",
                hint="Ask again a little later.",
            )
        loop = asyncio.get_running_loop()
        self.pending += 1
        future = self._executor.submit(_heard, function, *args)
        future.add_done_callback(lambda done: self._ended(loop, done))
        return await asyncio.wrap_future(future)

    def _ended(self, loop: asyncio.AbstractEventLoop, done: Future[Any]) -> None:
        try:
            loop.call_soon_threadsafe(self._count)
        except RuntimeError:  # the loop has ended, and with it everybody who counts
            self._count()

    def _count(self) -> None:
        self.pending -= 1

    def close(self) -> None:
        """Wait for what runs; what waits is not begun."""
        self._executor.shutdown(wait=True, cancel_futures=True)


def _heard(function: Callable[..., T], *args: Any) -> T:
    """The result of a function for a client: what it has to be told goes with its rows, not to this process."""
    with hearing():
        return function(*args)
