"""COPY from the client: its messages come while the statement runs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tidemill.serving.pgwire import messages as m
from tidemill.serving.pgwire.codec import MalformedMessage
from tidemill.serving.pgwire.errors import Cancelled, PgError
from tidemill.serving.pgwire.outcome import CopyIn

if TYPE_CHECKING:
    from tidemill.serving.pgwire.connection import Connection

__all__ = ["CopyingIn", "copy_in"]

DATA, DONE, FAIL, FLUSH, SYNC, TERMINATE = map(ord, "dcfHSX")


class CopyingIn:
    """A COPY that goes on: takes the client's messages until it says that it is done."""

    def __init__(self, connection: Connection, copy: CopyIn) -> None:
        self._connection = connection
        self._copy = copy
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def message(self, kind: int, payload: bytes) -> None:
        """Take a message."""
        if kind == DATA:
            if not self.done.done():
                self._feed(payload)
        elif kind == DONE:
            self._end(None)
        elif kind == FAIL:
            self._end(PgError("57014", "COPY from the client was given up", detail=m.read_text(payload)[:200]))
        elif kind == TERMINATE:
            self.abandon()
            self._connection.end()
        elif kind not in (FLUSH, SYNC):
            raise MalformedMessage(f"a message of type {bytes([kind])!r} within COPY")

    def _feed(self, payload: bytes) -> None:
        try:
            self._copy.sink.feed(payload)
        except PgError as error:
            self._end(error)

    def _end(self, error: PgError | None) -> None:
        # No further message belongs to this COPY, though its task has yet to hear of it.
        self._connection.copying = None
        if self.done.done():
            return
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)

    def cancel(self) -> None:
        """Give it up at a user's request."""
        self._end(Cancelled())

    def abandon(self) -> None:
        """Give it up because the client is gone."""
        self._end(Cancelled("the client is gone"))


async def copy_in(connection: Connection, copy: CopyIn) -> None:
    """Take what the client sends, and apply it as one epoch."""
    connection.send(m.copy_response(b"G", copy.sink.form, copy.sink.columns))
    connection.copying = CopyingIn(connection, copy)
    done = connection.copying.done
    connection.flush()
    asyncio.get_running_loop().call_soon(connection.pump)  # data may be there already
    await done
    count = await copy.sink.finish()
    connection.sender.complete("COPY {rows}", count)
