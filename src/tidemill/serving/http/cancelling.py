"""Statements that end with the client who waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from starlette.types import Receive

from tidemill.engine.sessions.session import Session
from tidemill.model.errors import Cancelled
from tidemill.serving.server.statement_pool import StatementPool

__all__ = ["run_while_heard"]

T = TypeVar("T")

RETRY_SECONDS, RESEND_SECONDS = 0.02, 1.0
"""Seconds until a statement is cancelled again, which had not begun, or has not ended by then."""


async def run_while_heard(pool: StatementPool, session: Session, work: Callable[[], T], receive: Receive) -> T:
    """The result of ``work`` in a session, run in a thread; it is cancelled if the client goes away.

    Call it once the whole body has been read: what comes then is that the connection has ended.
    """
    gone = False

    def run() -> T:
        if gone:
            raise Cancelled("the client is gone")
        return work()

    running = asyncio.ensure_future(pool.run(run))
    leaving = asyncio.ensure_future(_left(receive))
    try:
        await asyncio.wait((running, leaving), return_when="FIRST_COMPLETED")
    finally:
        leaving.cancel()
        if not running.done():  # or the server stops
            gone = True
            await _end(running, session)
    return running.result()


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _end(running: asyncio.Future[T], session: Session) -> None:
    """Cancel what a session runs, as often as it takes: it may be just about to begin."""
    while not running.done():
        sent = session.cancel()
        await asyncio.wait((running,), timeout=RESEND_SECONDS if sent else RETRY_SECONDS)
    if not running.cancelled():
        running.exception()  # nobody else may ask for it
