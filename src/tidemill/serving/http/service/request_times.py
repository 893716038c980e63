"""Durations of requests, by kind."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from starlette.types import Message, Send

from tidemill.engine.telemetry.latencies import Latencies

__all__ = ["RequestTimes"]

SQL, POSTS, ROWS, OTHERS = "sql", "posts", "rows", "others"
KINDS = (SQL, POSTS, ROWS, OTHERS)


class RequestTimes:
    """Requests by kind and status, and the time until their answers have begun: a stream may go on for days."""

    def __init__(self) -> None:
        self.latencies: Mapping[str, Latencies] = {kind: Latencies() for kind in KINDS}
        self.statuses: Counter[tuple[str, int]] = Counter()

    def measured(self, scope: Mapping[str, Any], send: Send) -> Send:
        """``send`` for the answer to a request, which begins now."""
        kind, begun = kind_of(scope["method"], scope["path"]), time.perf_counter()

        async def measured(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.latencies[kind].add(time.perf_counter() - begun)
                self.statuses[kind, message["status"]] += 1
            await send(message)

        return measured


def kind_of(method: str, path: str) -> str:
    """Kind of a request.

    >>> [kind_of("POST", "/v1/sql"), kind_of("POST", "/v1/tables/t"), kind_of("GET", "/v1/views/v")]
    ['sql', 'posts', 'rows']
    >>> kind_of("GET", "/v1/views/v/explain"), kind_of("GET", "/v1/status")
    ('others', 'others')
    """
    if path == "/v1/sql":
        return SQL
    kind, _, rest = path.removeprefix("/v1/").partition("/")
    if method == "POST":
        return POSTS if kind in ("tables", "changes") else OTHERS
    return ROWS if kind in ("tables", "views") and rest and "/" not in rest else OTHERS
