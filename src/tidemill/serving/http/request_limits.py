"""How often one may ask, and how long a request may take to come."""

from __future__ import annotations

import asyncio
from math import ceil

from starlette.types import Message, Receive

from tidemill.serving.access.limits import RateLimit
from tidemill.serving.http.errors import HttpError, TooOften
from tidemill.serving.server.settings import Settings

__all__ = ["RequestLimits", "limited_body", "too_long"]

FAILURES, FAILURE_RATE = 20, 0.5
"""Requests with a token that is nobody's that an address may send at once, and then in a second."""

SLOWEST = 16 << 10
"""Bytes of a body in a second with which a client has all the time that it needs."""


class RequestLimits:
    """Limits for each user, and for the address of who is not known.

    A token that is right is never refused for those that were wrong: nobody can guess one, and whoever shares an
    address, or a proxy, with somebody who tries must get in.
    """

    def __init__(self, settings: Settings) -> None:
        self._requests = RateLimit(settings.rate, settings.burst)
        self._failures = RateLimit(FAILURE_RATE, FAILURES)

    def take(self, key: str) -> None:
        """Count a request; refused if there were too many."""
        wait = self._requests.take(key)
        if wait:
            raise TooOften("too many requests", wait=ceil(wait))

    def failed(self, address: str) -> None:
        """Count a token that is nobody's; refused if there were too many."""
        wait = self._failures.take(address)
        if wait:
            raise TooOften("too many tokens that are nobody's", wait=ceil(wait))


def limited_body(receive: Receive, most: int, seconds: float) -> Receive:
    """``receive`` up to the end of a body, which is refused if it is too long, or comes too slowly.

    A body that is sent in chunks does not tell its length before.
    """
    taken, whole = 0, False
    begin: float | None = None

    async def limited() -> Message:
        nonlocal taken, whole, begin
        if whole:
            return await receive()
        if begin is None:
            begin = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout_at(begin + seconds + taken / SLOWEST):
                message = await receive()
        except TimeoutError:
            raise HttpError(408, "the body did not come in time", detail=f"{taken:,} bytes have come.") from None
        taken += len(message.get("body", b""))
        if taken > most:
            raise too_long(most)
        whole = not message.get("more_body")
        return message

    return limited


def too_long(most: int) -> HttpError:
    """The error for a body that is too long."""
    return HttpError(413, "the body is too long", detail=f"{most:,} bytes are taken.", hint="Send it in several parts.")
