"""Uvicorn's side of a connection, which does not wait for a request forever."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

__all__ = ["http_protocol"]

if TYPE_CHECKING:

    class _Base(asyncio.Protocol):
        """Attributes that both of uvicorn's protocols have."""

        connections: set[Any]
        cycle: Any
        loop: asyncio.AbstractEventLoop
        transport: asyncio.Transport

        def __init__(self, *given: Any, **named: Any) -> None: ...

        def on_message_begin(self) -> None: ...

else:
    _Base = AutoHTTPProtocol


MOST_HEADERS = 64 << 10
"""Bytes of the line and headers of a request that may come before they are whole."""


def http_protocol(seconds: float, connections: int) -> type[asyncio.Protocol]:
    """A protocol that closes a connection on which a request has begun, or should have, and whose headers are not whole
    in time, or are too long.

    Uvicorn waits so long for nothing but the next request of a connection that has had one. It answers a request on a
    connection too many; where there are more by far, they are closed.
    """
    most = connections + connections // 8 + 8

    class TimedHttp(_Base):
        timer: asyncio.TimerHandle | None = None
        heard = 0
        begun = False

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > most:
                transport.close()
            else:
                self._expect()

        def data_received(self, data: bytes) -> None:
            before = self.cycle
            super().data_received(data)
            if self.cycle is not before:
                self._stop()
            elif before is None or before.response_complete:
                # Of a request that was refused the rest of its body still comes: a client reads the answer after that.
                if before is None or self.begun or not before.more_body:
                    self.heard += len(data)
                if self.heard > MOST_HEADERS:
                    self._give_up()
                elif self.timer is None:
                    self._expect()

        def on_message_begin(self) -> None:
            self.begun = True
            super().on_message_begin()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop()
            super().connection_lost(exc)

        def _expect(self) -> None:
            self.timer = self.loop.call_later(seconds, self._give_up)

        def _give_up(self) -> None:
            self.timer = None
            if self.transport.get_protocol() is self and not self.transport.is_closing():  # it is no web socket now
                self.transport.close()

        def _stop(self) -> None:
            self.heard, self.begun = 0, False
            if self.timer is not None:
                self.timer.cancel()
                self.timer = None

    return TimedHttp
