"""Start of a connection, before the first query: encryption, the protocol's version, and authentication."""

from __future__ import annotations

import asyncio
import logging
import shlex
from collections.abc import Coroutine
from contextlib import suppress
from math import ceil
from typing import TYPE_CHECKING, Any, Literal

from tidemill.model.errors import TidemillError
from tidemill.serving.access.users import Users
from tidemill.serving.pgwire import messages as m
from tidemill.serving.pgwire.codec import LARGEST_MESSAGE, MalformedMessage
from tidemill.serving.pgwire.errors import PgError, error_fields, sqlstate_of
from tidemill.serving.pgwire.protocol.scram import WrongPassword, prove
from tidemill.serving.pgwire.session import PgSession
from tidemill.serving.pgwire.settings import Settings

if TYPE_CHECKING:
    from tidemill.serving.pgwire.connection import Connection

__all__ = ["Startup"]

LOG = logging.getLogger("tidemill.pgwire")

Step = Coroutine[Any, Any, None] | Literal[True] | None

NO_SETTINGS = {"user", "database", "options", "replication"}
"""Startup parameters that are no settings."""


class Startup:
    """The steps up to the first query: ``step`` takes one, and is None while more bytes have to come."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def step(self) -> Step:
        """Take the next packet, if it is there."""
        payload = self._connection.frames.startup()
        if payload is None:
            return None
        match m.read_startup(payload):
            case m.SSL_REQUEST:
                return self._encrypt()
            case m.GSSENC_REQUEST:
                self._connection.send(b"N")
                self._connection.flush()
                return True
            case m.Cancel() as cancel:
                self._connection.server.clients.cancel(cancel.process, cancel.key)
                self._connection.end()
                return True
            case m.Startup() as startup:
                return self._begin(startup)
        raise MalformedMessage("an unknown startup packet")

    def _encrypt(self) -> Step:
        connection = self._connection
        context = connection.server.tls
        if context is None or connection.is_encrypted:
            connection.send(b"N")
            connection.flush()
            return True
        if connection.frames.waiting:  # nothing that came unencrypted may be taken for encrypted
            raise MalformedMessage("bytes that came before encryption was agreed on")
        return self._start_tls()

    async def _start_tls(self) -> None:
        connection = self._connection
        loop, context = asyncio.get_running_loop(), connection.server.tls
        assert connection.transport is not None and context is not None
        connection.transport.write(b"S")
        transport = None
        with suppress(OSError):
            transport = await loop.start_tls(connection.transport, connection, context, server_side=True)
        if transport is None or connection.is_ending:  # nobody else tells the connection that it is lost
            connection.connection_lost(None)
            return
        connection.transport, connection.is_encrypted = transport, True

    async def _begin(self, startup: m.Startup) -> None:
        connection, server = self._connection, self._connection.server
        try:
            self._negotiate(startup)
            if server.tls_required and not connection.is_encrypted:
                raise PgError("28000", "connections are taken with TLS alone", hint="Connect with sslmode=require.")
            user, database, settings = self._read(startup)
            await self._authenticate(user)
            server.clients.enter(connection)
            await self._open(user, database, settings)
        except TidemillError as error:
            LOG.info("a client was refused: %s", sqlstate_of(error))
            connection.send(m.fields_message(b"E", error_fields(error, severity="FATAL")))
            connection.end()

    def _negotiate(self, startup: m.Startup) -> None:
        major, minor = startup.version >> 16, startup.version & 0xFFFF
        if major != 3:
            raise PgError("0A000", f"protocol {major}.{minor} is not spoken here", hint="Use 3.0 or 3.2.")
        unknown = startup.options
        if startup.version not in (m.PROTOCOL_3_0, m.PROTOCOL_3_2) or unknown:
            spoken = m.PROTOCOL_3_0 if minor < 2 else m.PROTOCOL_3_2
            self._connection.send(m.negotiate_version(spoken, unknown))

    def _read(self, startup: m.Startup) -> tuple[str, str, Settings]:
        given = startup.parameters
        user = given.get("user", "")
        if not user:
            raise PgError("28000", "the startup packet names no user")
        if given.get("replication", "off").lower() not in ("off", "false", "no", "0"):
            raise PgError("0A000", "there is no replication protocol here", hint="Use SUBSCRIBE TO.")
        settings = Settings({"session_authorization": user})
        wanted = {name: value for name, value in given.items() if name not in NO_SETTINGS and name[:5] != "_pq_."}
        wanted |= _options(given.get("options", ""))
        for name, value in wanted.items():
            settings.set(name, value)
        return user, given.get("database") or user, Settings(settings.snapshot())

    async def _authenticate(self, user: str) -> None:
        """Find out who connects: a user who proves it, or the owner on this machine, where there are no users."""
        connection, server = self._connection, self._connection.server
        if server.users is not None:
            await self._prove(user, server.users)
        elif not connection.is_local:
            raise PgError("28000", "only clients on this machine may connect, since there are no users")
        server.audit.login(connection.principal.name, connection.address)

    async def _prove(self, user: str, users: Users) -> None:
        connection, server = self._connection, self._connection.server
        failed, verifier = server.failed_logins, users.scram(user)
        try:
            await prove(verifier, connection.send, connection.next_password, lambda: self._require_patience(user))
            found = users.principal(user)
            if found is None:
                raise WrongPassword
        except WrongPassword:
            failed.note(user, connection.address)
            refused = PgError("28P01", f'password authentication failed for user "{user}"')
            known = users.principal(user)
            server.audit.login(None if known is None else known.name, connection.address, refused)
            await asyncio.sleep(server.limits.failure_seconds)
            raise refused from None
        failed.came_in(user, connection.address)
        connection.principal, connection.verifier = found, verifier

    def _require_patience(self, user: str) -> None:
        """Refuse to look at a password where too many were wrong."""
        seconds = self._connection.server.failed_logins.wait(user, self._connection.address)
        if seconds:
            hint = f"Try again in {ceil(seconds)} seconds."
            raise PgError("28000", "there were too many failed logins", hint=hint)

    async def _open(self, user: str, database: str, settings: Settings) -> None:
        connection, server = self._connection, self._connection.server
        connection.frames.largest = LARGEST_MESSAGE
        opened = await server.pool.run(server.open_session, connection.principal, f"pgwire {connection.peer}")
        user = connection.principal.name or user
        connection.session = PgSession(
            opened, server.pool, settings, user, database, connection.process, connection.cancelled, server.shared
        )
        connection.startup = None
        connection.send(m.AUTHENTICATED)
        connection.tell_settings()
        connection.send(m.backend_key(connection.process, connection.key))
        connection.ready()
        connection.flush()


def _options(text: str) -> dict[str, str]:
    """Settings on a command line, as ``-c name=value``.

    >>> _options("-c dialect=postgres --statement-timeout=5s")
    {'dialect': 'postgres', 'statement_timeout': '5s'}
    """
    found: dict[str, str] = {}
    try:
        words = shlex.split(text)
    except ValueError:
        raise PgError("22023", "the options of the connection cannot be read") from None
    while words:
        word = words.pop(0)
        if word == "-c" and words:
            word = words.pop(0)
        elif word.startswith(("-c", "--")):
            word = word[2:]
        else:
            raise PgError("22023", f'the connection has an option "{word[:40]}", which is not known')
        name, equals, value = word.partition("=")
        if not equals:
            raise PgError("22023", f'the option "{name[:40]}" has no value')
        found[name.replace("-", "_")] = value
    return found
