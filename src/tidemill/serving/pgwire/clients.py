"""The clients of the door: who is about to log in, who is in, and who has to go."""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections import Counter
from typing import TYPE_CHECKING

from tidemill.model.errors import TidemillError
from tidemill.serving.access.users import Users
from tidemill.serving.pgwire.errors import PgError
from tidemill.serving.pgwire.limits import PgLimits

if TYPE_CHECKING:
    from tidemill.serving.pgwire.connection import Connection

__all__ = ["Clients"]

LOG = logging.getLogger("tidemill.pgwire")

TICK = 0.25
"""Seconds between two looks at all connections."""


class Clients:
    """All connections by their numbers. Those that have not logged in are counted apart, and take nobody's place."""

    def __init__(self, users: Users | None, limits: PgLimits) -> None:
        self._users = users
        self._limits = limits
        self._waiting: dict[int, Connection] = {}
        self._inside: dict[int, Connection] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._last = 0

    def __len__(self) -> int:
        return len(self._waiting) + len(self._inside)

    def admit(self, connection: Connection) -> int:
        """The number of a new connection.

        Where too many wait to log in, one has to go: of the address that has most of them the one that waits longest.
        """
        self._last = self._last % 0x7FFF_FFFF + 1
        self._waiting[self._last] = connection
        if len(self._waiting) > self._limits.waiting:
            ((address, _),) = Counter(one.address for one in self._waiting.values()).most_common(1)
            number, oldest = next(item for item in self._waiting.items() if item[1].address == address)
            oldest.end(PgError("53300", "too many clients are about to log in"), within=0)
            del self._waiting[number]
        return self._last

    def enter(self, connection: Connection) -> None:
        """Admit an authenticated client; refused if there are too many."""
        if len(self._inside) >= self._limits.connections:
            raise PgError("53300", "there are too many connections", hint="Close some, or use a pool.")
        self._inside[connection.process] = connection
        self._waiting.pop(connection.process, None)

    def leave(self, connection: Connection) -> None:
        """A connection has ended: its session is closed, and with it its transaction."""
        self._waiting.pop(connection.process, None)
        left = self._inside.pop(connection.process, None)
        if left is not None and left.session is not None:
            task = asyncio.get_running_loop().create_task(left.session.close())
            self._closing.add(task)
            task.add_done_callback(self._closed)

    def _closed(self, task: asyncio.Task[None]) -> None:
        self._closing.discard(task)
        if not task.cancelled() and task.exception() is not None:
            LOG.error("a session could not be closed: %s", type(task.exception()).__name__)

    def cancel(self, process: int, key: bytes) -> None:
        """Cancel what a connection runs, if the key is its own."""
        connection = self._inside.get(process)
        if connection is not None and hmac.compare_digest(connection.key, key):
            connection.cancel()

    # -- who has to go ------------------------------------------------------------------------------------------

    async def look_after(self) -> None:
        """See again and again who has to go, as long as the door is open."""
        while True:
            await asyncio.sleep(TICK)
            try:
                self._look()
            except Exception as error:
                LOG.error("connections could not be looked at: %s", type(error).__name__)

    def _look(self) -> None:
        now = asyncio.get_running_loop().time()
        for connection in list(self._waiting.values()):
            if now - connection.since > self._limits.login_seconds:
                connection.end(PgError("08006", "the login took too long"))
        self._read_users()
        for connection in list(self._inside.values()):
            error = self._changed(connection) or connection.idle_too_long(now)
            if error is not None:
                connection.expel(error)

    def _read_users(self) -> None:
        try:
            if self._users is not None:
                self._users.names()
        except TidemillError as error:  # nobody is let in by this file, and nobody stays
            LOG.error("%s", error.what)

    def _changed(self, connection: Connection) -> PgError | None:
        """Why a user whose entry has changed since the login has to go; None if it is as it was."""
        users, principal = self._users, connection.principal
        if users is None or principal.name is None:
            return None
        present = users.principal(principal.name)
        if present is None or users.verifier(principal.name) != connection.verifier:
            return PgError("28000", f'user "{principal.name}" was removed, or has another password')
        if present.roles != principal.roles:
            return PgError("57P01", f'the roles of user "{principal.name}" have changed', hint="Connect again.")
        return None

    async def end_all(self) -> None:
        """End all connections: what runs is finished within the patience, and what is left then is cut off."""
        for connection in self._all():
            connection.conclude(PgError("57P01", "the server shuts down"))
        await self._empty(self._limits.patience)
        for connection in self._all():
            connection.expel(PgError("57P01", "the server shuts down"), within=0)
        await self._empty(None)

    def _all(self) -> list[Connection]:
        return [*self._waiting.values(), *self._inside.values()]

    async def _empty(self, seconds: float | None) -> None:
        """Wait until everybody is gone, for so many seconds at most."""
        loop = asyncio.get_running_loop()
        until = None if seconds is None else loop.time() + seconds
        while (len(self) or self._closing) and (until is None or loop.time() < until):
            await asyncio.sleep(0.01)
