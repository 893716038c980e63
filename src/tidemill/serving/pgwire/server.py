"""The door: listens, lets clients in, and knows who is there."""

from __future__ import annotations

import asyncio
import hmac
import logging
import ssl

from tidemill.engine.warehouse import Warehouse
from tidemill.model.errors import SetupError
from tidemill.serving.access.binding import require_safe_binding
from tidemill.serving.access.principal import Principal
from tidemill.serving.access.users import Users
from tidemill.serving.pgwire.connection import Connection
from tidemill.serving.pgwire.errors import PgError
from tidemill.serving.pgwire.session import PgSession, Shared, StatementRunner, TidemillSession

__all__ = ["PgServer"]

LOG = logging.getLogger("tidemill.pgwire")

STARTUP_SECONDS = 30
"""Seconds in which a client has to say who it is."""

MOST_CONNECTIONS = 200


class PgServer:
    """PostgreSQL's protocol in front of a warehouse.

    Without ``users`` everybody on this machine may connect, as the owner, and nobody from elsewhere. ``start`` binds
    the address, ``stop`` ends all connections.
    """

    def __init__(
        self,
        warehouse: Warehouse,
        users: Users | None,
        pool: StatementRunner,
        host: str = "127.0.0.1",
        port: int = 6875,
        tls: ssl.SSLContext | None = None,
        *,
        connections: int = MOST_CONNECTIONS,
    ) -> None:
        self.warehouse = warehouse
        self.users = users if users else None
        """Who may connect; None where whoever is on this machine is the owner."""
        self.pool = pool
        self.tls = tls
        self._address = host, port
        self._most = connections
        self._server: asyncio.Server | None = None
        self._connections: dict[int, Connection] = {}
        self._last_process = 0
        self._closing: set[asyncio.Task[None]] = set()
        self.shared = Shared()

    @property
    def port(self) -> int:
        """The port that it listens on."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def start(self) -> None:
        """Listen."""
        loop = asyncio.get_running_loop()
        host, port = self._address
        warning = require_safe_binding(host, self.users, self.tls)
        if warning is not None:
            LOG.warning("%s", warning)
        try:
            self._server = await loop.create_server(lambda: Connection(self), host, port)
        except OSError as error:
            raise SetupError(
                "the server cannot listen here",
                where=f"{host}:{port}",
                detail=error.strerror or str(error),
                hint="Another process may listen there: choose another --pg-port.",
            ) from error

    async def stop(self) -> None:
        """Listen no more, and end all connections; what they run is cancelled."""
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections.values()):
            connection.cancel()
            connection.end(PgError("57P01", "the server shuts down"))
        while self._connections or self._closing:
            await asyncio.sleep(0.01)

    # -- connections --------------------------------------------------------------------------------------------

    def admit(self, connection: Connection) -> int:
        """The number of a new connection."""
        self._last_process = self._last_process % 0x7FFF_FFFF + 1
        self._connections[self._last_process] = connection
        asyncio.get_running_loop().call_later(STARTUP_SECONDS, self._require_startup, connection)
        return self._last_process

    def _require_startup(self, connection: Connection) -> None:
        if connection.startup is not None and connection.process in self._connections:
            connection.end()

    def leave(self, connection: Connection) -> None:
        """A connection has ended: its session is closed, and with it its transaction."""
        self._connections.pop(connection.process, None)
        session = connection.session
        if session is not None:
            task = asyncio.get_running_loop().create_task(self._close(session))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def _close(self, session: PgSession) -> None:
        try:
            await session.close()
        except Exception:
            LOG.error("a session could not be closed")

    def require_room(self, connection: Connection) -> None:
        """Refuse a connection too many."""
        if len(self._connections) > self._most:
            raise PgError("53300", "there are too many connections", hint="Close some, or use a pool.")

    def cancel(self, process: int, key: bytes) -> None:
        """Cancel what a connection runs, if the key is its own."""
        connection = self._connections.get(process)
        if connection is not None and hmac.compare_digest(connection.key, key):
            connection.cancel()

    def refused(self, connection: Connection, sqlstate: str) -> None:
        """Note that a client was not let in."""
        LOG.info("a client was refused: %s", sqlstate)

    def open_session(self, principal: Principal, name: str) -> TidemillSession:
        """A session of the warehouse with the rights of a user."""
        return principal.session(self.warehouse, name)
