"""The server: the doors to one warehouse on one event loop, opened together and closed in order."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import Any, Protocol

import uvicorn

from tidemill.engine.warehouse import Warehouse
from tidemill.model.errors import SetupError
from tidemill.serving.access.audit_log import AuditLog
from tidemill.serving.access.principal import LOCAL_OWNER
from tidemill.serving.http.application import application
from tidemill.serving.http.service.service import Service
from tidemill.serving.server.http_protocol import http_protocol
from tidemill.serving.server.settings import Settings

__all__ = ["Door", "Server"]

BACKLOG = 2048
"""Connections that may wait to be accepted."""

IDLE_SECONDS = 75
"""Seconds for which a connection without a request is kept."""


SIGNAL_SECONDS = 0.1
"""Seconds after which a signal is answered at the latest."""

MOST_SAID = 16 << 10
"""Bytes of a message of a web socket from a client, who has nothing to say there."""


class Door(Protocol):
    """Another protocol by which the warehouse is served; ``audit_log`` is that of the server, unless it has one."""

    audit_log: AuditLog | None

    async def start(self) -> None:
        """Listen from now on."""

    async def stop(self) -> None:
        """Take no requests from now on, finish what runs, and close all connections."""

    @property
    def port(self) -> int:
        """The port that it listens on, once it has started."""

    @property
    def connections(self) -> int:
        """The number of its clients."""

    @property
    def pool(self) -> Any:
        """The threads that run its statements."""


class Server:
    """Serves an open warehouse under a ``name`` until it is told to stop; the warehouse stays open.

    The socket is bound at once, so an address that is taken is an error before anything begins. ``stop`` may be called
    from any thread: no requests are taken from then on, what runs is finished, and streams end. ``doors`` are opened
    beside the one for HTTP, on the same event loop.
    """

    def __init__(self, warehouse: Warehouse, name: str, settings: Settings, doors: Sequence[Door] = ()) -> None:
        self.settings = settings
        self._doors = doors
        self._service = Service(warehouse, name, settings)
        self._service.doors = doors
        for door in doors:
            door.audit_log = door.audit_log or self._service.audit
        self._socket = _bound(settings.host, settings.port)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()
        self._listening = Event()
        self._thread: Thread | None = None
        self._failure: BaseException | None = None

    @property
    def url(self) -> str:
        """The address of the HTTP door."""
        return self._address("http" if self.settings.tls is None else "https", self._socket.getsockname()[1])

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses of all doors: the others speak PostgreSQL's protocol."""
        return (self.url, *(self._address("postgresql", door.port) for door in self._doors))

    def _address(self, scheme: str, port: int) -> str:
        host = self._socket.getsockname()[0]
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"

    def invite_owner(self) -> str:
        """The address of the console; where there are users, with a token that lets one browser in as the owner."""
        logins = self._service.authentication.logins
        return self.url if logins is None else f"{self.url}/#{logins.invite(LOCAL_OWNER)}"

    def start(self) -> None:
        """Serve in a thread; all doors listen from then on. What one cannot do is raised."""
        self._thread = Thread(target=self._run, name="tidemill server")
        self._thread.start()
        self._listening.wait()
        if self._failure is not None:
            self.wait()

    def wait(self) -> None:
        """Wait until the server has stopped; what has ended it, if nobody asked for it, is raised."""
        assert self._thread is not None
        while self._thread.is_alive():
            # A signal that the system gives to another thread wakes nobody: this one has to look by itself.
            self._thread.join(SIGNAL_SECONDS)
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Stop taking requests; ``wait`` returns once what runs is finished."""
        if self._loop is None:
            self._stopping.set()
            return
        with suppress(RuntimeError):  # it has ended already
            self._loop.call_soon_threadsafe(self._stopping.set)

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=_loop_factory()) as runner:
                runner.run(self._serve())
        except BaseException as failure:
            self._failure = failure
        finally:
            self._listening.set()

    async def _serve(self) -> None:
        """Open the doors, and close them when ``stop`` is called."""
        self._loop, service = asyncio.get_running_loop(), self._service
        config = uvicorn.Config(application(service), **self._options())
        config.load()
        config.ssl = self.settings.tls
        http = _HttpDoor(config)
        serving = asyncio.create_task(http.serve(sockets=[self._socket]))
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            for door in self._doors:
                await door.start()
            self._listening.set()
            await asyncio.wait((serving, stopping), return_when="FIRST_COMPLETED")
        finally:
            stopping.cancel()
            service.stop()
            http.should_exit = True
            await asyncio.gather(serving, *(door.stop() for door in self._doors))
            self._socket.close()
            await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._service.close()
        if self.settings.audit is not None:
            self.settings.audit.close()

    def _options(self) -> dict[str, Any]:
        return {
            "log_config": None,
            "access_log": False,
            "lifespan": "off",
            "server_header": False,
            "proxy_headers": False,
            "backlog": BACKLOG,
            "timeout_keep_alive": IDLE_SECONDS,
            "timeout_graceful_shutdown": self.settings.patience,
            "ws": "websockets-sansio",
            "ws_max_size": MOST_SAID,
            "limit_concurrency": self.settings.connections,
            "http": http_protocol(self.settings.request_seconds, self.settings.connections),
            "h11_max_incomplete_event_size": 64 << 10,
        }


class _HttpDoor(uvicorn.Server):
    """Uvicorn without its own signals: whoever runs the server decides what ends it."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _loop_factory() -> Any:
    try:
        import uvloop
    except ModuleNotFoundError:
        return None
    return uvloop.new_event_loop


def _bound(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address, family=family, backlog=BACKLOG)
    except OSError as error:
        raise SetupError(
            "the server cannot listen here",
            where=f"{host}:{port}",
            detail=error.strerror or str(error),
            hint="Another process may listen there: choose another --port.",
        ) from error
