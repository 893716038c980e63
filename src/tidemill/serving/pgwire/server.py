"""The door: listens, and has what all its connections share."""

from __future__ import annotations

import asyncio
import logging
import ssl
from contextlib import suppress

from tidemill.engine.warehouse import Warehouse
from tidemill.model.errors import SetupError
from tidemill.serving.access.audit_log import AuditLog
from tidemill.serving.access.binding import require_safe_binding
from tidemill.serving.access.failed_logins import FailedLogins
from tidemill.serving.access.principal import Principal
from tidemill.serving.access.users import Users
from tidemill.serving.pgwire.audit import Audit
from tidemill.serving.pgwire.clients import Clients
from tidemill.serving.pgwire.connection import Connection
from tidemill.serving.pgwire.limits import PgLimits
from tidemill.serving.pgwire.session import Shared, StatementRunner, TidemillSession

__all__ = ["PgServer"]

LOG = logging.getLogger("tidemill.pgwire")


class PgServer:
    """PostgreSQL's protocol in front of a warehouse.

    Without ``users`` everybody on this machine may connect, as the owner, and nobody from elsewhere. Clients may
    speak TLS, or with ``tls_required`` have to. ``start`` binds the address, ``stop`` ends all connections and closes
    the ``pool``.
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
        tls_required: bool = False,
        audit: AuditLog | None = None,
        limits: PgLimits | None = None,
    ) -> None:
        self.warehouse = warehouse
        self.users = users if users else None
        """The users who may connect; None where anybody on this machine is the owner."""
        self.pool = pool
        self.tls = tls
        self.tls_required = tls_required
        self.limits = limits or PgLimits()
        self.audit_log = audit
        """Where statements and logins are noted; whoever starts the door may still set it."""
        self.audit = Audit(None)
        self.clients = Clients(self.users, self.limits)
        self.failed_logins = FailedLogins()
        self.shared = Shared(self.limits)
        self._address = host, port
        self._server: asyncio.Server | None = None
        self._looking: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        """The port that it listens on."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def connections(self) -> int:
        """The number of clients, also of those that have not logged in yet."""
        return len(self.clients)

    async def start(self) -> None:
        """Listen."""
        loop = asyncio.get_running_loop()
        host, port = self._address
        warning = require_safe_binding(host, self.users, self.tls)
        if warning is not None:
            LOG.warning("%s", warning)
        self.audit = Audit(self.audit_log)
        try:
            self._server = await loop.create_server(lambda: Connection(self), host, port)
        except OSError as error:
            raise SetupError(
                "the server cannot listen here",
                where=f"{host}:{port}",
                detail=error.strerror or str(error),
                hint="Another process may listen there: choose another --pg-port.",
            ) from error
        self._looking = loop.create_task(self.clients.look_after())

    async def stop(self) -> None:
        """Listen no more, let what runs finish for some seconds, and end all connections."""
        if self._server is not None:
            self._server.close()
        await self.clients.end_all()
        if self._looking is not None:
            self._looking.cancel()
            with suppress(asyncio.CancelledError):
                await self._looking
        await self.audit.close()
        await asyncio.to_thread(self.pool.close)

    def open_session(self, principal: Principal, name: str) -> TidemillSession:
        """A session of the warehouse with the rights of a user."""
        return principal.session(self.warehouse, name)
