"""Server-sent events: what an event looks like, and a response that goes on until somebody ends it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from starlette.responses import StreamingResponse

from tidemill.model.errors import TidemillError
from tidemill.serving.http.authentication import Caller
from tidemill.serving.http.errors import error_body
from tidemill.serving.http.service.caller_watch import changed_rights
from tidemill.serving.http.service.service import Service
from tidemill.serving.render import json_line

__all__ = ["EVENT_STREAM", "HEARTBEAT", "event", "event_stream"]

EVENT_STREAM = "text/event-stream"

HEARTBEAT = b": still here\n\n"
"""A comment, which clients pass over: it tells proxies, and this process, that the other side is there."""


def event(data: Any, *, number: int | None = None, name: str = "") -> bytes:
    r"""An event. JSON has no line ends, so no value can end a line of it.

    >>> event({"text": "a\ndata: b"}, number=7, name="change")
    b'event: change\nid: 7\ndata: {"text": "a\\ndata: b"}\n\n'
    """
    head = (f"event: {name}\n" if name else "") + (f"id: {number}\n" if number is not None else "")
    return f"{head}data: {json_line(data)}\n\n".encode()


def event_stream(events: AsyncIterator[bytes], service: Service, caller: Caller) -> StreamingResponse:
    """A response of events, with heartbeats between them, that ends when the server stops or the caller is let go."""
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(_with_heartbeats(events, service, caller), 200, headers, EVENT_STREAM)


async def _with_heartbeats(events: AsyncIterator[bytes], service: Service, caller: Caller) -> AsyncIterator[bytes]:
    changed = service.callers.changed(caller)
    stopped, refused = (asyncio.ensure_future(one.wait()) for one in (service.stopped, changed))
    following: asyncio.Future[bytes] | None = None
    heartbeat = service.settings.heartbeat
    try:
        while not stopped.done():
            following = following or asyncio.ensure_future(anext(events))
            await asyncio.wait((following, stopped, refused), timeout=heartbeat, return_when="FIRST_COMPLETED")
            if changed.is_set():
                raise changed_rights()
            if following.done():
                yield following.result()
                following = None
            elif not stopped.done():
                yield HEARTBEAT
    except StopAsyncIteration:
        pass
    except TidemillError as error:
        yield event(error_body(error), name="error")
    finally:
        stopped.cancel()
        refused.cancel()
        if following is not None:
            following.cancel()
