"""Limits of the rate of requests, and of the time that one may take to come."""

from __future__ import annotations

import asyncio
from math import ceil

from starlette.types import Message, Receive

from tidemill.model.errors import Busy
from tidemill.serving.access.limits import RateLimit
from tidemill.serving.http.errors import HttpError, TooOften
from tidemill.serving.server.settings import Settings

__all__ = ["Bodies", "LimitedBody", "RequestLimits", "too_long"]

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


class Bodies:
    """The bytes of all bodies that are held, ``most`` together."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.held = 0

    def take(self, size: int) -> None:
        """Hold more; refused where there is no room for it."""
        if self.held + size > self._most:
            raise Busy(
                "too many bodies are being read", detail=f"{self.held:,} bytes are held.", hint="Ask again later."
            )
        self.held += size


class LimitedBody:
    """The body of a request up to its end, refused if it is too long, or comes too slowly.

    One that is sent in chunks does not tell its length before. What it has is held until ``release``.
    """

    def __init__(self, receive: Receive, most: int, seconds: float, bodies: Bodies) -> None:
        self._receive = receive
        self._most = most
        self._seconds = seconds
        self._bodies = bodies
        self._taken = 0
        self._whole = False
        self._begin: float | None = None

    async def receive(self) -> Message:
        """The next part of the body; what comes after it is passed on."""
        if self._whole:
            return await self._receive()
        if self._begin is None:
            self._begin = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout_at(self._begin + self._seconds + self._taken / SLOWEST):
                message = await self._receive()
        except TimeoutError:
            detail = f"{self._taken:,} bytes have come."
            raise HttpError(408, "the body did not come in time", detail=detail) from None
        size = len(message.get("body", b""))
        if self._taken + size > self._most:
            raise too_long(self._most)
        self._bodies.take(size)
        self._taken += size
        self._whole = not message.get("more_body")
        return message

    def release(self) -> None:
        """The request was answered."""
        self._bodies.held -= self._taken


def too_long(most: int) -> HttpError:
    """The error for a body that is too long."""
    return HttpError(413, "the body is too long", detail=f"{most:,} bytes are taken.", hint="Send it in several parts.")
