"""State that all endpoints share: the warehouse, and the threads that work on it for the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from tidemill.engine.inspect.status import WarehouseStatus
from tidemill.engine.warehouse import Warehouse
from tidemill.model.errors import TidemillError
from tidemill.serving.http.authentication import Authentication, Caller
from tidemill.serving.http.request_limits import Bodies, RequestLimits
from tidemill.serving.http.service.caller_watch import CallerWatch
from tidemill.serving.http.service.change_hub import ChangeHub
from tidemill.serving.http.service.post_queue import PostQueue
from tidemill.serving.http.service.request_times import RequestTimes
from tidemill.serving.server.settings import Settings
from tidemill.serving.server.statement_pool import StatementPool

__all__ = ["Service"]

T = TypeVar("T")

READERS, OBSERVERS = 4, 2
"""Threads for reads of stored rows, and for the status."""

SIZES_SECONDS = 5.0
"""Seconds for which the bytes of relations are not looked up again: folders are listed for that."""


class OtherDoor(Protocol):
    """Facts about a door for another protocol."""

    @property
    def connections(self) -> int:
        """The number of its clients."""

    @property
    def pool(self) -> Any:
        """The threads that run its statements."""


class Service:
    """A warehouse as it is served under a ``name``.

    Statements may wait for the lock of the warehouse. Reads of stored rows do not, and neither does the status, so each
    has threads of its own: they answer while all statements wait for a view that is filled.
    """

    def __init__(self, warehouse: Warehouse, name: str, settings: Settings) -> None:
        self.warehouse = warehouse
        self.name = name
        self.settings = settings
        self.authentication = Authentication(settings.users or None)
        """The users who may send requests."""
        self.limits = RequestLimits(settings)
        self.bodies = Bodies(settings.held_bytes)
        self.times = RequestTimes()
        self.doors: Sequence[OtherDoor] = ()
        """The doors beside this one."""
        self.audit = settings.audit
        self.statements = StatementPool(settings.threads, settings.queue)
        self.reads = StatementPool(READERS, settings.queue, "read")
        self.observers = StatementPool(OBSERVERS, settings.queue, "status")
        self.changes = ChangeHub(warehouse, self.statements, settings.subscribers)
        """The readers of live changes."""
        self.callers = CallerWatch(self.authentication, self.changes.end_changed_rights)
        self.posts = PostQueue(warehouse, settings.waiting_posts, settings.waiting_bytes)
        """Rows that were sent and wait for their epoch."""
        self.stopped = asyncio.Event()
        """Set when the server stops: streams end."""
        self.sizes: Mapping[str, int | None] = {}
        """Bytes of relations, as they were when they were last looked up."""
        self._sized = -SIZES_SECONDS
        self._words: dict[str, dict[str, list[str]]] = {}

    async def observe(self, function: Callable[..., T], *args: Any) -> T:
        """The result of a function that waits for nobody."""
        return await self.observers.run(function, *args)

    def noting(self, caller: Caller, action: str, address: str) -> Callable[..., None]:
        """Notes how something has ended that a caller does, by ``error`` and ``rows``; a file is written for that."""
        if self.audit is None:
            return _nothing
        return partial(self.audit.note_action, caller.principal, action, door="http", address=address)

    async def login_failed(self, address: str, why: TidemillError) -> None:
        """Note that somebody was not let in, and be slow about it; refused at once if that was too often."""
        self.limits.failed(address)
        if self.audit is not None:
            await self.observe(partial(self.audit.note_login, None, door="http", address=address, error=why))
        await asyncio.sleep(self.settings.failure_seconds)

    def status(self) -> WarehouseStatus:
        """The status of the warehouse; now and then ``sizes`` are brought up to date with it."""
        stale = time.monotonic() - self._sized > SIZES_SECONDS
        if stale:
            self._sized = time.monotonic()
        found = self.warehouse.status(sizes=stale)
        if stale:
            self.sizes = {one.name: one.bytes for one in (*found.tables, *found.views)}
        return found

    async def words(self, kind: str) -> dict[str, list[str]]:
        """The functions of a kind (``ALL`` or ``SYSTEM``) and the keywords of SQL, for completion."""
        if kind not in self._words:
            self._words[kind] = await self.observe(self._all_words, kind)
        return self._words[kind]

    def _all_words(self, kind: str) -> dict[str, list[str]]:
        from tidemill.compiler.frontends.script.keywords import keywords

        functions = [name for (name,) in self.warehouse.sql(f"SHOW {kind} FUNCTIONS")]
        return {"functions": functions, "keywords": list(keywords())}

    def stop(self) -> None:
        """End all streams; called by the event loop."""
        self.stopped.set()
        self.changes.stop()

    def close(self) -> None:
        """Wait for what runs."""
        self.posts.close()
        self.changes.close()
        for pool in (self.statements, self.reads, self.observers):
            pool.close()


def _nothing(**ended: Any) -> None:
    """Note nothing."""
