"""One connection: bytes in, messages handled in order, bytes out.

A message is handled at once where that takes microseconds; else a task handles it, and those behind it wait. So answers
are in the order of the questions, and the event loop never waits for the engine.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
from collections.abc import Callable, Coroutine
from traceback import format_tb
from typing import TYPE_CHECKING, Any

from tidemill.model.errors import InternalError, TidemillError
from tidemill.serving.access.hashed_secrets import ScramVerifier
from tidemill.serving.access.principal import LOCAL_OWNER, Principal
from tidemill.serving.pgwire import messages as m
from tidemill.serving.pgwire.codec import LARGEST_STARTUP, FrameReader, MalformedMessage
from tidemill.serving.pgwire.errors import PgError, error_fields
from tidemill.serving.pgwire.protocol.copying import CopyingIn
from tidemill.serving.pgwire.protocol.extended import ExtendedQuery
from tidemill.serving.pgwire.protocol.sending import ResultSender
from tidemill.serving.pgwire.protocol.simple import run_query
from tidemill.serving.pgwire.protocol.startup import Startup
from tidemill.serving.pgwire.session import PgSession
from tidemill.serving.pgwire.settings import milliseconds

if TYPE_CHECKING:
    from tidemill.serving.pgwire.server import PgServer

__all__ = ["Connection"]

LOG = logging.getLogger("tidemill.pgwire")

WRITE_LIMIT = 256 << 10
"""Bytes that may wait for a slow client before its rows wait, too."""

READ_LIMIT = 1 << 20
"""Bytes of messages that may wait while one is handled; fewer until somebody has logged in."""

LAST_WORD_SECONDS = 5.0
"""Seconds in which a client may read why its connection ends; then it is cut off."""

CANCEL_SECONDS = 0.02
"""Seconds between two attempts to cancel a statement."""

IDLE_LIMITS = {
    "I": ("idle_session_timeout", "57P05", "the session was idle for too long"),
    "T": ("idle_in_transaction_session_timeout", "25P03", "the session was idle in a transaction for too long"),
}
"""By the state of a session: the setting that has its limit, a SQLSTATE, and what is said at the end."""

KEEPALIVE = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 60_000))
"""After so long a client that does not answer is taken for gone, also one that just listens."""


class Connection(asyncio.Protocol):
    """The protocol's side of a client."""

    def __init__(self, server: PgServer) -> None:
        self.server = server
        self.process, self.key = 0, b""
        self.session: PgSession | None = None
        self.frames = FrameReader(LARGEST_STARTUP)
        self.transport: asyncio.Transport | None = None
        self.startup: Startup | None = Startup(self)
        self.principal: Principal = LOCAL_OWNER
        self.verifier: ScramVerifier | None = None
        """Verifier that the user was checked against."""
        self.since = 0.0
        """When it connected."""
        self.address, self.peer = "", ""
        self.is_local = False
        self.is_encrypted = False
        self.cancelled = asyncio.Event()
        self.copying: CopyingIn | None = None
        self.password: asyncio.Future[bytes] | None = None
        """The awaited message while a user is authenticated."""
        self.sender = ResultSender(self)
        self.extended = ExtendedQuery(self)
        self._out = bytearray()
        self._task: asyncio.Task[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._paused = False
        self._closing = False
        self._idle_since: float | None = None
        self._last_word: PgError | None = None
        self._abort: asyncio.TimerHandle | None = None

    # -- the transport's calls ----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self.transport = transport  # type: ignore[assignment]
        transport.set_write_buffer_limits(high=WRITE_LIMIT)  # type: ignore[attr-defined]
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if isinstance(peer, tuple) else "local"
        self.peer = f"{self.address}:{peer[1]}" if isinstance(peer, tuple) else "local"
        self.is_local = not isinstance(peer, tuple) or peer[0] in ("127.0.0.1", "::1", "::ffff:127.0.0.1")
        _keep_alive(transport.get_extra_info("socket"))
        self.since, self.key = asyncio.get_running_loop().time(), secrets.token_bytes(4)
        self.process = self.server.clients.admit(self)

    def data_received(self, data: bytes) -> None:
        self.frames.feed(data)
        self.pump()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        self._writable.set()
        if self.session is not None:
            self.session.ended_by = self.session.ended_by or PgError("08006", "the client is gone")
        self.cancelled.set()
        if self.copying is not None:
            self.copying.abandon()
        if self._task is not None:
            self._task.cancel()
        if self._abort is not None:
            self._abort.cancel()
        self.server.clients.leave(self)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # -- sending ------------------------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """Add bytes to those that go out with the next ``flush``."""
        self._out += data

    def flush(self) -> None:
        """Send everything."""
        if self._out and self.transport is not None and not self._closing:
            self.transport.write(bytes(self._out))
        self._out.clear()

    async def drain(self) -> None:
        """Send everything, and wait until a slow client has taken most of it."""
        self.flush()
        if not self._writable.is_set():
            await self._writable.wait()
        if self._closing:
            raise asyncio.CancelledError

    @property
    def unsent(self) -> int:
        """Bytes that wait for ``flush``."""
        return len(self._out)

    def send_notices(self) -> None:
        """Send what statements had to tell, and settings that have changed."""
        if self.session is None:
            return
        for notice in self.session.notices:
            self.send(m.fields_message(b"N", notice))
        self.session.notices.clear()

    def refuse(self, error: BaseException, position: int | None = None, hint: str | None = None) -> None:
        """Send an error, perhaps with one more hint; a transaction that is open has failed."""
        if not isinstance(error, TidemillError):
            _log_fault("a statement", error)
        elif isinstance(error, InternalError):
            number = secrets.token_hex(4)
            LOG.error("fault %s: %s\n%s", number, error.what, error.report or error.detail or "")
            error = PgError(
                "XX000", error.what, detail=f"The report is in the log of the server, under {number}.", hint=error.hint
            )
        self.send_notices()
        fields = dict(error_fields(error, position=position))
        if hint is not None:
            fields["H"] = " ".join(part for part in (fields.get("H"), hint) if part)
        self.send(m.fields_message(b"E", fields))
        if self.session is not None:
            self.session.failed()

    def end(self, error: PgError | None = None, *, within: float = LAST_WORD_SECONDS) -> None:
        """End the connection, with a last word, ``within`` so many seconds: a client that reads nothing is cut off."""
        if self.transport is not None and not self._closing:
            if error is not None:
                self.send(m.fields_message(b"E", error_fields(error, severity="FATAL")))
            self.flush()
            self._closing = True
            self.transport.close()
            self._abort = asyncio.get_running_loop().call_later(within, self.transport.abort)
        elif self.transport is not None and not within:
            self.transport.abort()

    @property
    def is_ending(self) -> bool:
        """True once it has said its last word."""
        return self._closing

    def expel(self, error: PgError, *, within: float = LAST_WORD_SECONDS) -> None:
        """End the connection now, with what it runs."""
        if self.session is not None:
            self.session.ended_by = error
        self.cancel()
        self.end(error, within=within)

    def conclude(self, error: PgError) -> None:
        """End the connection as soon as what runs is finished; a subscription ends now."""
        self._last_word = error
        if self.session is None or not self.busy:
            self.end(error)
        else:
            self.session.ended_by = error

    # -- receiving ----------------------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """True while a task handles a message."""
        return self._task is not None

    def pump(self) -> None:
        """Handle the messages that are there, until one has to be waited for."""
        try:
            if self.password is not None and (found := self.frames.message()) is not None:
                self._take_password(*found)
            while not self._closing and (self._task is None or self.copying is not None):
                if self._last_word is not None and self._task is None:
                    self.end(self._last_word)
                    break
                if self.startup is not None:
                    work = self.startup.step()
                    if work is None:
                        break
                elif (found := self.frames.message()) is not None:
                    work = self._handle(*found)
                else:
                    break
                if work is not True and work is not None:
                    self._begin(work)
        except MalformedMessage as error:
            self.end(PgError("08P01", f"this is not PostgreSQL's protocol: {error}"))
        except Exception as error:
            _log_fault("a connection", error)
            self.end(PgError("XX000", f"a fault in Tidemill ({type(error).__name__})"))
        if self._task is None or self.copying is not None:
            self.flush()
        self._hold_reading()

    def _take_password(self, kind: int, payload: bytes) -> None:
        if kind != ord("p"):
            raise MalformedMessage("something else than a password")
        assert self.password is not None
        self.password.set_result(payload)
        self.password = None

    async def next_password(self) -> bytes:
        """The client's next message of authentication."""
        self.flush()
        found: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.password = found
        asyncio.get_running_loop().call_soon(self.pump)  # it may be there already
        return await found

    def _handle(self, kind: int, payload: bytes) -> Coroutine[Any, Any, None] | None:
        if self.copying is not None:
            self.copying.message(kind, payload)
            return None
        self._idle_since = None
        handler = _HANDLERS.get(kind)
        if handler is None:
            raise MalformedMessage(f"a message of type {bytes([kind])!r}")
        return handler(self, payload)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        self._task = asyncio.get_running_loop().create_task(work)
        self._task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if task.cancelled():
            self.end()
        elif (error := task.exception()) is not None:
            if isinstance(error, MalformedMessage):
                self.end(PgError("08P01", f"this is not PostgreSQL's protocol: {error}"))
            elif isinstance(error, PgError) and self.startup is not None:
                self.end(error)
            else:
                _log_fault("a connection", error)
                self.end(PgError("XX000", "a fault in Tidemill"))
        else:
            self.pump()

    def _hold_reading(self) -> None:
        """Read no more while too much waits: the client's system then holds it back."""
        most = READ_LIMIT if self.startup is None else LARGEST_STARTUP
        too_much = self._task is not None and self.copying is None and self.frames.waiting > most
        if self.transport is None or self._closing or too_much == self._paused:
            return
        self._paused = too_much
        if too_much:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    # -- messages -----------------------------------------------------------------------------------------------

    def on_query(self, payload: bytes) -> Coroutine[Any, Any, None]:
        """A text of statements."""
        self.extended.skipping = False
        self.cancelled.clear()  # here, and not once it runs: it can be cancelled from now on
        return run_query(self, m.read_text(payload))

    def on_terminate(self, payload: bytes) -> None:
        """The client leaves."""
        self.end()

    def on_function_call(self, payload: bytes) -> None:
        """A call of the oldest kind, which no client makes any more."""
        self.refuse(PgError("0A000", "function calls by the protocol are not served"))
        self.ready()

    def on_late_copy(self, payload: bytes) -> None:
        """Ignore messages that a client still sends after its COPY was refused."""

    def on_password(self, payload: bytes) -> None:
        """A password that nobody has asked for."""
        raise MalformedMessage("a password at the wrong time")

    def ready(self) -> None:
        """Tell the client that the next query may come."""
        assert self.session is not None
        self.tell_settings()
        self.send(m.READY[self.session.status])
        self._idle_since = asyncio.get_running_loop().time()

    def idle_too_long(self, now: float) -> PgError | None:
        """Why a session that has asked nothing for long has to end, by its settings; None if it may go on."""
        if self._idle_since is None or self.session is None:
            return None
        setting, state, told = IDLE_LIMITS["I" if self.session.status == "I" else "T"]
        limit = self.session.settings[setting]
        if limit == "0" or not milliseconds(limit) or now - self._idle_since < milliseconds(limit) / 1000:
            return None
        return PgError(state, told, detail=f"{setting} is {limit}.")

    def tell_settings(self) -> None:
        """Tell the settings that have changed."""
        assert self.session is not None
        for name, value in self.session.settings.reported_since(self.told_settings).items():
            self.send(m.parameter_status(name, value))
        self.told_settings = self.session.settings.snapshot()

    told_settings: dict[str, str] = {}

    def cancel(self) -> None:
        """Cancel what runs, at somebody's request."""
        if not self.busy:
            return
        self.cancelled.set()
        if self.copying is not None:
            self.copying.cancel()
        self._cancel_statement()

    def _cancel_statement(self) -> None:
        """Have the warehouse end what runs; one that is about to begin is ended a little later."""
        if not self.busy or self.session is None or not self.cancelled.is_set():
            return
        if not self.session.cancel():
            asyncio.get_running_loop().call_later(CANCEL_SECONDS, self._cancel_statement)


Handler = Callable[[Connection, bytes], Coroutine[Any, Any, None] | None]

_HANDLERS: dict[int, Handler] = {
    ord("Q"): Connection.on_query,
    ord("P"): lambda connection, payload: connection.extended.parse(payload),
    ord("B"): lambda connection, payload: connection.extended.bind(payload),
    ord("D"): lambda connection, payload: connection.extended.describe(payload),
    ord("E"): lambda connection, payload: connection.extended.execute(payload),
    ord("C"): lambda connection, payload: connection.extended.close(payload),
    ord("S"): lambda connection, payload: connection.extended.sync(payload),
    ord("H"): lambda connection, payload: connection.flush(),
    ord("X"): Connection.on_terminate,
    ord("F"): Connection.on_function_call,
    ord("d"): Connection.on_late_copy,
    ord("c"): Connection.on_late_copy,
    ord("f"): Connection.on_late_copy,
    ord("p"): Connection.on_password,
}


def _log_fault(what: str, error: BaseException) -> None:
    """Log where a fault is, without its text: it may quote values."""
    LOG.error("%s failed by %s at\n%s", what, type(error).__name__, "".join(format_tb(error.__traceback__)))


def _keep_alive(sock: socket.socket | None) -> None:
    """Have the system find out about clients that are gone."""
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for name, value in KEEPALIVE:
        option = getattr(socket, name, None)
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
