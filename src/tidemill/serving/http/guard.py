"""The guard before all endpoints: who may ask from where, and how long a body may be.

Without users only this machine may ask, by one of its own names: a page of somebody else that had its name resolved to
this machine has another one. What changes something must not come from a page of another origin, and what comes from a
form is no request for us.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidemill.model.errors import TidemillError
from tidemill.serving.http.authentication import NOBODY, Caller, address_of, is_open, unknown_caller
from tidemill.serving.http.errors import HttpError, error_response
from tidemill.serving.http.request_limits import LimitedBody, too_long
from tidemill.serving.http.service.service import Service

__all__ = ["Guard"]

Headers = dict[bytes, bytes]

OPEN_BYTES = 16 << 10
"""Bytes of a body that anybody may send."""

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""

OWN_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
FORMS = frozenset({b"application/x-www-form-urlencoded", b"multipart/form-data"})
"""Bodies that any page may send anywhere."""

_SECURITY = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
POLICY = (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox")
"""The policy of all that is no page of ours: nothing is run or loaded."""


class Guard:
    """Refuses requests that must not be answered, and adds the headers that browsers need to be careful."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service
        self._settings = service.settings
        self._local = service.authentication.users is None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers: Headers = dict(scope["headers"])
        if scope["type"] == "http":
            send = self._service.times.measured(scope, send)
        try:
            self._admit(scope, headers)
            scope["caller"] = await self._caller(scope, headers)
        except TidemillError as refused:
            await self._refuse(refused, scope, receive, send)
            return
        if scope["type"] == "websocket":
            await self._app(scope, receive, send)
            return
        if scope["method"] in SAFE:
            await self._app(scope, receive, _careful(send))
            return
        body = LimitedBody(receive, self._longest(scope), self._settings.body_seconds, self._service.bodies)
        try:
            await self._app(scope, body.receive, _careful(send))
        finally:
            body.release()

    async def _refuse(self, refused: TidemillError, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": refused.what})
        else:
            await error_response(refused)(scope, receive, _careful(send))

    async def _caller(self, scope: Scope, headers: Headers) -> Caller:
        """The caller, refused after too many requests."""
        found = self._service.authentication.caller(scope, headers)
        if self._local:
            assert found is not None
            return found
        address = address_of(scope)
        self._service.limits.take(found.principal.name or "" if found else address)
        if found is None and not (scope["type"] == "http" and is_open(scope["path"])):
            refused = unknown_caller()
            if b"authorization" in headers:
                await self._service.login_failed(address, refused)
            raise refused
        if found is not None and found.by == "cookie":
            _require_sent_by_own_page(scope, headers)
        return found or NOBODY

    def _admit(self, scope: Scope, headers: Headers) -> None:
        host = _host_of(headers.get(b"host", b""))
        if self._local:
            _require_this_machine(scope)
        if self._local and host not in OWN_NAMES:
            raise HttpError(
                403,
                "the server does not go by this name",
                where=f"Host: {host[:100]}",
                hint=f"Use one of {', '.join(sorted(OWN_NAMES))}.",
            )
        if scope["type"] == "websocket" or scope["method"] not in SAFE:
            _require_own_page(headers)
            length, most = headers.get(b"content-length", b"0"), self._longest(scope)
            if not length.isdigit() or len(length) > 18 or int(length) > most:
                raise too_long(most)

    def _longest(self, scope: Scope) -> int:
        """The bytes of a body that are taken."""
        return OPEN_BYTES if is_open(scope["path"]) else self._settings.body_bytes


def _require_this_machine(scope: Scope) -> None:
    client = scope.get("client")
    if client is None or _is_loopback(client[0]):
        return
    raise HttpError(403, "only this machine may ask", hint="Add users to open the server to other machines.")


@lru_cache
def _is_loopback(address: str) -> bool:
    return ip_address(address.partition("%")[0]).is_loopback


def _require_own_page(headers: Headers) -> None:
    """Refuse a change, or a socket, that a page of another origin asks for."""
    if headers.get(b"content-type", b"").partition(b";")[0].strip().lower() in FORMS:
        raise HttpError(415, "a form is no request", where="Content-Type", hint="Send JSON: application/json.")
    if b"origin" in headers and not _is_own_origin(headers):
        raise foreign_page()


def _require_sent_by_own_page(scope: Scope, headers: Headers) -> None:
    """Refuse what a browser sends with its cookie for other pages: it says by itself for which it sends a change."""
    if scope["type"] == "websocket" or scope["method"] not in SAFE:
        own = _is_own_origin(headers)
    else:
        site = headers.get(b"sec-fetch-site", b"none")
        own = site in (b"none", b"same-origin") or is_open(scope["path"])
    if not own:
        raise foreign_page()


def _is_own_origin(headers: Headers) -> bool:
    return urlsplit(headers.get(b"origin", b"")).netloc.lower() == headers.get(b"host", b"").lower()


def foreign_page() -> HttpError:
    """The error for what the page of somebody else asks for."""
    return HttpError(403, "the request comes from a page of another origin", where="Origin")


@lru_cache
def _host_of(header: bytes) -> str:
    """The name in a Host header, without its port.

    >>> _host_of(b"[::1]:6874"), _host_of(b"LocalHost:6874"), _host_of(b"localhost")
    ('::1', 'localhost', 'localhost')
    """
    text = header.decode("latin-1").lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0]


def _careful(send: Send) -> Send:
    async def careful(message: Message) -> None:
        if message["type"] == "http.response.start":
            present = {name for name, _ in message["headers"]}
            extra = _SECURITY if POLICY[0] in present else (*_SECURITY, POLICY)
            message["headers"] = [*message["headers"], *extra]
        await send(message)

    return careful
