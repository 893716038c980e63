"""The changes of a view as server-sent events: ``id`` is the epoch, so a client that comes again misses nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from tidemill.model.errors import FellBehind, TidemillError
from tidemill.serving.http.errors import error_body, fault_in
from tidemill.serving.http.event_stream import EVENT_STREAM, HEARTBEAT, event
from tidemill.serving.http.service.caller_watch import changed_rights
from tidemill.serving.http.streams.reader import ChangeReader

__all__ = ["ServerSentChanges"]

LAST_WORD_SECONDS = 1.0
"""Seconds in which a client that is no longer allowed to read takes the reason for it."""


class ServerSentChanges(Response):
    """A response of events. Its socket is written as fast as the client reads: nothing waits but in the queue."""

    media_type = EVENT_STREAM

    def __init__(self, reader: ChangeReader) -> None:
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._reader = reader

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        sending = asyncio.ensure_future(self._send_all(send))
        leaving = asyncio.ensure_future(_left(receive))
        refused = asyncio.ensure_future(self._reader.changed.wait())
        try:
            await asyncio.wait((sending, leaving, refused), return_when="FIRST_COMPLETED")
        finally:
            for task in (sending, leaving, refused):
                task.cancel()
                with suppress(asyncio.CancelledError, OSError):
                    await task
        if self._reader.changed.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_WORD_SECONDS):
                    await send(_last(event(error_body(changed_rights()), name="error")))

    async def _send_all(self, send: Send) -> None:
        async with aclosing(self._events()) as events:
            async for data in events:
                await send({"type": "http.response.body", "body": data, "more_body": True})
        await send(_last(b""))

    async def _events(self) -> AsyncGenerator[bytes, None]:
        yield HEARTBEAT  # so that a client knows that it is heard
        told: tuple[str, ...] = ()
        try:
            async with aclosing(aiter(self._reader)) as changes:
                async for one in changes:
                    if one is None:
                        yield HEARTBEAT + b"id: %d\n\n" % self._reader.seen
                        if self._reader.notes != told:
                            told = self._reader.notes
                            yield event({"notes": list(told)}, name="notes")
                    else:
                        yield b"id: %d\ndata: %b\n\n" % one
            yield event({"epoch": self._reader.seen}, number=self._reader.seen, name="end")
        except FellBehind as gone:
            yield event(error_body(gone), name="fellbehind")
        except TidemillError as error:
            yield event(error_body(error), name="error")
        except Exception as error:
            yield event(error_body(fault_in("GET changes", error)), name="error")


def _last(data: bytes) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": False}


async def _left(receive: Receive) -> None:
    """Wait until the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
