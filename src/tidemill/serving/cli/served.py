"""A server for an open warehouse, as the options of a command want it."""

from __future__ import annotations

import resource
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.model.errors import SetupError
from tidemill.serving.cli.warehouse_options import local_folder

if TYPE_CHECKING:
    from tidemill.engine.warehouse import Warehouse
    from tidemill.serving.access.audit_log import AuditLog
    from tidemill.serving.access.users import Users
    from tidemill.serving.server.server import Server

__all__ = ["ServerOptions", "server_of", "tls_is_required"]


@dataclass(frozen=True)
class ServerOptions:
    """Where a server listens and for whom: with ``users`` and ``audit`` in other places than the warehouse, and with
    TLS, which is ``tls_required`` beyond this machine unless it is said.
    """

    host: str = "127.0.0.1"
    port: int = 0
    pg_port: int | None = None
    users: Path | None = None
    audit: Path | None = None
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    tls_required: bool | None = None
    statement_timeout: float | None = None
    rate: float = 2_000.0


FILES = 512
"""Files of a warehouse that may be open beside connections."""


def server_of(wh: Warehouse, warehouse: str, options: ServerOptions) -> Server:
    """A server for an open warehouse; its packages are an extra."""
    try:
        from tidemill.serving.access.binding import require_safe_binding
        from tidemill.serving.access.tls import tls_context
        from tidemill.serving.server.server import Server
        from tidemill.serving.server.settings import Settings
        from tidemill.serving.server.statement_pool import StatementPool
    except ModuleNotFoundError as error:
        raise SetupError(
            f"{error.name} is not installed",
            detail="The server is an extra: nothing else needs it.",
            hint="Run: python -m pip install 'tidemill[server]'",
        ) from error

    users = _users(warehouse, options.users)
    tls = tls_context(options.tls_certificate, options.tls_key)
    if options.tls_required and tls is None:
        raise SetupError("TLS is required, and there is no certificate", hint="Give --tls-cert and --tls-key.")
    warning = require_safe_binding(options.host, users, tls)
    if warning is not None:
        print(f"note: {warning}", file=sys.stderr, flush=True)
    settings = Settings(
        host=options.host,
        port=options.port,
        statement_timeout=options.statement_timeout,
        rate=options.rate,
        connections=_connections(Settings.connections),
        tls=tls,
        users=users,
        audit=None if users is None else _audit(warehouse, users, options.audit),
    )
    doors = []
    if options.pg_port is not None:
        from tidemill.serving.pgwire.limits import PgLimits
        from tidemill.serving.pgwire.server import PgServer

        doors.append(
            PgServer(
                wh,
                users,
                StatementPool(settings.threads, settings.queue, "pgwire statement"),
                options.host,
                options.pg_port,
                tls,
                tls_required=tls_is_required(options),
                limits=PgLimits(
                    statement_bytes=settings.statement_bytes,
                    statement_timeout=settings.statement_timeout,
                    patience=settings.patience,
                ),
            )
        )
    return Server(wh, Path(warehouse).name, settings, doors)


def tls_is_required(options: ServerOptions) -> bool:
    """True if clients have to speak TLS where they could do without.

    >>> tls_is_required(ServerOptions("0.0.0.0", tls_certificate=Path("server.pem")))
    True
    """
    from tidemill.serving.access.binding import is_loopback

    if options.tls_required is not None:
        return options.tls_required
    return options.tls_certificate is not None and not is_loopback(options.host)


def _connections(wanted: int) -> int:
    """Number of connections, as far as this process may have files open: its limit is raised for that."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return wanted if soft == resource.RLIM_INFINITY else max(min(wanted, soft - FILES), 64)


def _users(warehouse: str, given: Path | None) -> Users | None:
    """The users of a file, or of the one in the folder of the warehouse, if there are any."""
    from tidemill.serving.access.users import Users

    if given is not None and not given.exists():
        raise SetupError("there is no file of users", where=str(given), hint="tidemill user add NAME --users FILE")
    place = given or local_folder(warehouse)
    users = None if place is None else Users.load(place) or None
    if users is None and given is not None:
        raise SetupError("nobody is in the file of users", where=str(given), hint="tidemill user add NAME --users FILE")
    return users


def _audit(warehouse: str, users: Users, given: Path | None) -> AuditLog:
    """The audit log: in the folder of the warehouse, or beside the file of users where that is elsewhere."""
    from tidemill.serving.access.audit_log import AUDIT_FOLDER, AuditLog

    folder = given or (local_folder(warehouse) or users.path.parent) / AUDIT_FOLDER
    try:
        return AuditLog(folder)
    except OSError as error:
        raise SetupError(
            "the audit log cannot be written", where=str(folder), detail=error.strerror, hint="Name a folder: --audit."
        ) from error
