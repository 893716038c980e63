"""Results on the wire, no faster than the client takes them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tidemill.serving.pgwire import messages as m
from tidemill.serving.pgwire.errors import Cancelled
from tidemill.serving.pgwire.outcome import CopyOut, Outcome, ResultColumn, RowStream
from tidemill.serving.pgwire.types.rows import RowEncoder, row_encoder

if TYPE_CHECKING:
    from tidemill.serving.pgwire.connection import Connection

__all__ = ["ResultSender"]

MOST_ENCODERS = 200

CHUNK = 500
"""Rows that are encoded in one go; more are encoded in a thread, piece by piece."""


class ResultSender:
    """Sends the results of one connection's statements."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._encoders: dict[tuple[tuple[ResultColumn, ...], tuple[int, ...]], RowEncoder] = {}
        self.sent: int | None = None
        """Rows of the last statement, once it has ended."""

    def describe(self, columns: Sequence[ResultColumn], formats: Sequence[int]) -> None:
        """Announce columns."""
        self._connection.send(m.row_description([one.description for one in columns], formats))

    def encoder(self, columns: tuple[ResultColumn, ...], formats: tuple[int, ...]) -> RowEncoder:
        """The encoder of rows of these columns; made once, since prepared statements come again."""
        known = self._encoders.get((columns, formats))
        if known is None:
            if len(self._encoders) >= MOST_ENCODERS:
                self._encoders.clear()
            known = row_encoder([one.encoder(form) for one, form in zip(columns, formats, strict=True)])
            self._encoders[columns, formats] = known
        return known

    async def rows(
        self, columns: Sequence[ResultColumn], rows: Sequence[tuple[Any, ...]], formats: Sequence[int]
    ) -> None:
        """Send rows."""
        encode = row_encoder([one.encoder(form) for one, form in zip(columns, formats, strict=True)])
        connection, session = self._connection, self._connection.session
        assert session is not None
        if len(rows) <= CHUNK:
            connection.send(encode(rows))
            return
        for start in range(0, len(rows), CHUNK):
            piece = rows[start : start + CHUNK]
            connection.send(await session.run(encode, piece))
            await connection.drain()
            if connection.cancelled.is_set():
                raise Cancelled

    async def all_rows(self, outcome: Outcome, formats: Sequence[int]) -> None:
        """Send the rows of a statement, and its end."""
        if outcome.columns is not None:
            await self.rows(outcome.columns, outcome.rows, formats)
        self.complete(outcome.tag, len(outcome.rows))

    def complete(self, tag: str, rows: int) -> None:
        """Send the end of a statement."""
        self.sent = rows
        self._connection.send_notices()
        self._connection.send(m.command_complete(tag.replace("{rows}", str(rows))))

    async def stream(self, stream: RowStream, formats: Sequence[int]) -> None:
        """Send rows as they come, until the stream ends or the client cancels it."""
        count = 0
        try:
            async for rows in stream.batches:
                await self.rows(stream.columns, rows, formats)
                count += len(rows)
                await self._connection.drain()
        finally:
            await _closed(stream.batches)
        self.complete(stream.tag, count)

    async def copy(self, out: CopyOut) -> None:
        """Send a COPY."""
        connection, count = self._connection, 0
        connection.send(m.copy_response(b"H", out.form, out.columns))
        try:
            async for rows, piece in out.pieces:
                connection.send(piece)
                count += rows
                await connection.drain()
        finally:
            await _closed(out.pieces)
        connection.send(m.COPY_DONE)
        self.complete("COPY {rows}", count)


async def _closed(pieces: Any) -> None:
    """Close a stream, whatever ended it."""
    close = getattr(pieces, "aclose", None)
    if close is not None:
        await asyncio.shield(close())
