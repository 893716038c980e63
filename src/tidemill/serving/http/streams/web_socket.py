"""The changes of a view as messages of a web socket: JSON texts, as server-sent events have them in ``data``."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress

from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from tidemill.model.errors import TidemillError
from tidemill.serving.http.conditions import epoch_number
from tidemill.serving.http.errors import error_body, fault_in
from tidemill.serving.http.service.caller_watch import changed_rights
from tidemill.serving.http.service.service import Service
from tidemill.serving.http.streams.reader import ChangeReader
from tidemill.serving.render import json_line

__all__ = ["SOCKETS"]


async def changes(socket: WebSocket) -> None:
    """Send the changes of a view, until the client leaves or the view ends."""
    service: Service = socket.app.state.service
    await socket.accept()
    try:
        since = socket.query_params.get("since")
        seen = None if since is None else epoch_number(since, "parameter since")
        where = socket.query_params.getlist("where")
        reader = ChangeReader(service, socket.scope["caller"], socket.path_params["name"], where, seen)
        await _until_left(socket, reader)
    except TidemillError as error:
        await _end(socket, error)
    except Exception as error:
        await _end(socket, fault_in("socket of changes", error))
    else:
        with suppress(RuntimeError, WebSocketDisconnect):
            await socket.close(1001)


async def _send_all(socket: WebSocket, reader: ChangeReader) -> None:
    async with aclosing(aiter(reader)) as found:
        async for one in found:
            await socket.send_text(_position(reader) if one is None else one.data.decode())


def _position(reader: ChangeReader) -> str:
    """The epoch up to which everything was sent, and what the view does not show."""
    notes = {"notes": list(reader.notes)} if reader.notes else {}
    return json_line({"epoch": reader.seen, **notes})


async def _until_left(socket: WebSocket, reader: ChangeReader) -> None:
    sending = asyncio.ensure_future(_send_all(socket, reader))
    leaving = asyncio.ensure_future(_left(socket))
    refused = asyncio.ensure_future(reader.changed.wait())
    try:
        await asyncio.wait((sending, leaving, refused), return_when="FIRST_COMPLETED")
        if reader.changed.is_set():
            raise changed_rights()
        if sending.done():
            sending.result()
    except WebSocketDisconnect:
        pass
    finally:
        for task in (sending, leaving, refused):
            task.cancel()
            with suppress(asyncio.CancelledError, WebSocketDisconnect, TidemillError):
                await task


async def _left(socket: WebSocket) -> None:
    """Wait until the client has gone; what it says is not for us."""
    with suppress(WebSocketDisconnect, RuntimeError):
        while (await socket.receive())["type"] != "websocket.disconnect":
            pass


async def _end(socket: WebSocket, error: TidemillError) -> None:
    """Tell an error and close."""
    with suppress(RuntimeError, WebSocketDisconnect):
        await socket.send_text(json_line(error_body(error)))
        await socket.close(1008)


SOCKETS = (WebSocketRoute("/v1/views/{name}/changes", changes),)
"""The web sockets."""
