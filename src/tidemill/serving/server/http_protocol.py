"""Uvicorn's side of a connection, which does not wait for a request forever."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

__all__ = ["http_protocol"]

if TYPE_CHECKING:

    class _Base(asyncio.Protocol):
        """What both of uvicorn's protocols have."""

        cycle: Any
        loop: asyncio.AbstractEventLoop
        transport: asyncio.Transport

        def __init__(self, *given: Any, **named: Any) -> None: ...

else:
    _Base = AutoHTTPProtocol


def http_protocol(seconds: float) -> type[asyncio.Protocol]:
    """A protocol that closes a connection on which a request has begun, or should have, and is not whole in time.

    Uvicorn waits so long for nothing but the next request of a connection that has had one.
    """

    class TimedHttp(_Base):
        timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._expect()

        def data_received(self, data: bytes) -> None:
            before = self.cycle
            super().data_received(data)
            if self.cycle is not before:
                self._stop()
            elif self.timer is None and (self.cycle is None or self.cycle.response_complete):
                self._expect()

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
            if self.timer is not None:
                self.timer.cancel()
                self.timer = None

    return TimedHttp
