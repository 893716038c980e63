"""Requests to a server, over a connection that each thread keeps; its errors are raised as the same classes."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from types import MappingProxyType
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from tidemill.model import errors as e
from tidemill.model.errors import InvalidArgument, SourceLost, TidemillError

__all__ = ["Connection", "raised", "with_query"]

ATTEMPTS = 5
"""Times that a request is sent which may be sent again."""

PAUSE = 0.2
"""Seconds before it is sent again; they double."""

BUSY = 429

Query = Mapping[str, Any]

NO_QUERY: Query = MappingProxyType({})


def with_query(path: str, query: Query) -> str:
    """A path with parameters; those that are None are left out, and lists are repeated.

    >>> with_query("/v1/views/a b", {"where": ["k:1", "k:2"], "epoch": None})
    '/v1/views/a%20b?where=k%3A1&where=k%3A2'
    """
    given = {name: value for name, value in query.items() if value is not None}
    return quote(path) + (f"?{urlencode(given, doseq=True)}" if given else "")


class Connection:
    """Connections to the server at ``url``."""

    def __init__(self, url: str, token: str | None, timeout: float) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/"):
            raise InvalidArgument(f"{url!r} is not the address of a server", hint='As in "http://127.0.0.1:6874".')
        self.url = f"{parts.scheme}://{parts.netloc}"
        self._kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._host, self._port = parts.hostname, parts.port
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._timeout = timeout
        self._local = threading.local()
        self._all: list[HTTPConnection] = []
        self._closed = False

    def get(self, path: str, query: Query = NO_QUERY, *, accept: str = "application/json") -> bytes:
        """The body of an answer."""
        return self._ask("GET", with_query(path, query), None, {"Accept": accept}, again=True)

    def json(self, path: str, query: Query = NO_QUERY) -> Any:
        """An answer of JSON."""
        return json.loads(self.get(path, query))

    def post(
        self,
        path: str,
        body: bytes,
        kind: str,
        query: Query = NO_QUERY,
        *,
        key: str = "",
        accept: str = "application/json",
    ) -> bytes:
        """The answer to a body; with a ``key`` it is sent again if the connection is lost."""
        headers = {"Content-Type": kind, "Accept": accept}
        if key:
            headers["Idempotency-Key"] = key
        return self._ask("POST", with_query(path, query), body, headers, again=bool(key))

    def stream(self, path: str, query: Query, headers: Mapping[str, str], timeout: float | None) -> HTTPResponse:
        """An answer that is still to be read, over a connection of its own."""
        connection = self._opened(timeout)
        connection.request("GET", with_query(path, query), headers={**self._headers, **headers})
        response = connection.getresponse()
        if response.status != 200:
            raise raised(response.read(), response.status)
        return response

    def _ask(self, method: str, path: str, body: bytes | None, headers: dict[str, str], *, again: bool) -> bytes:
        pause = PAUSE
        for attempt in range(1, ATTEMPTS + 1):
            try:
                status, answer = self._asked(method, path, body, headers)
            except (OSError, HTTPException) as lost:
                self._drop()
                if not again or attempt == ATTEMPTS:
                    raise self._lost(lost) from lost
            else:
                if status < 300:
                    return answer
                if status != BUSY or attempt == ATTEMPTS:
                    raise raised(answer, status)
            time.sleep(pause)
            pause *= 2
        raise AssertionError

    def _asked(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> tuple[int, bytes]:
        if self._closed:
            raise InvalidArgument("the connection is closed", hint="Connect again.")
        connection: HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._opened(self._timeout)
            self._all.append(connection)
        connection.request(method, path, body, {**self._headers, **headers})
        response = connection.getresponse()
        return response.status, response.read()

    def _opened(self, timeout: float | None) -> HTTPConnection:
        return self._kind(self._host, self._port, timeout=timeout)

    def _drop(self) -> None:
        connection: HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._all.remove(connection)
            self._local.connection = None

    def _lost(self, lost: Exception) -> SourceLost:
        return SourceLost(
            "the server cannot be reached",
            where=self.url,
            detail=str(lost) or type(lost).__name__,
            hint="Is it running? tidemill serve",
        )

    def close(self) -> None:
        """Close all connections."""
        self._closed = True
        for connection in self._all:
            connection.close()


def raised(body: bytes, status: int) -> TidemillError:
    """The error of an answer, as the class that the server has raised."""
    try:
        fields = json.loads(body)["error"]
        kind, texts = fields["kind"], [fields[name] for name in ("what", "where", "detail", "hint")]
    except (ValueError, KeyError, TypeError):
        return SourceLost(f"the server has answered {status}", detail=body[:200].decode("utf-8", "replace"))
    what, where, detail, hint = texts
    if kind == "FellBehind":
        return fell_behind(fields)
    found = getattr(e, kind, None) if kind in e.__all__ else None
    error = found if isinstance(found, type) and issubclass(found, TidemillError) else InvalidArgument
    return error(what, where=where, detail=detail, hint=hint)


def fell_behind(fields: Mapping[str, Any]) -> TidemillError:
    """The error of a subscriber whose changes are no longer kept."""
    error = e.FellBehind.__new__(e.FellBehind)
    e.EpochGone.__init__(error, *(fields["what"],), **{name: fields[name] for name in ("where", "detail", "hint")})
    error.seen, error.resume = fields["seen"], fields["resume"]
    return error
