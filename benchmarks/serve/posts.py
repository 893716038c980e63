"""Clients that post one row at a time over connections that they keep: one thread and one selector for all of them.

Both sides share the cores of this machine, so a client must cost little: requests are bytes that are made beforehand as
far as can be, and of a response the status and the epoch are looked at.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import chain, count

__all__ = ["Load", "post_rows"]

Row = Callable[[int], bytes]
"""The body of a number."""


@dataclass
class Load:
    """What came of posts: seconds to each response, the numbers sent, and those acknowledged with their epochs."""

    latencies: list[float] = field(default_factory=list)
    acknowledged: dict[int, int] = field(default_factory=dict)
    sent: set[int] = field(default_factory=set)
    refused: int = 0
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Acknowledged posts a second."""
        return len(self.latencies) / self.seconds if self.seconds else 0.0

    def percentile(self, share: float) -> float:
        """The milliseconds within which this share was answered."""
        ordered = sorted(self.latencies)
        return 1e3 * ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0.0


class _Client:
    """A connection with one request under way."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.number = -1
        self.begun = 0.0
        self.received = b""

    def send(self, number: int, body: bytes, key: str) -> None:
        named = b"Idempotency-Key: %b\r\n" % key.encode() if key else b""
        self.socket.sendall(_HEAD % (named, len(body)) + body)
        self.number, self.begun, self.received = number, time.perf_counter(), b""

    def receive(self) -> bytes | None:
        """The body of the response, once it is there; an empty one if the connection was closed."""
        part = self.socket.recv(65536)
        if not part:
            return b""
        self.received += part
        head, found, body = self.received.partition(b"\r\n\r\n")
        if not found or not body.endswith(b"}"):
            return None
        return body if head.startswith(b"HTTP/1.1 200") else b"refused"


_HEAD = (
    b"POST /v1/tables/orders HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"%bContent-Length: %d\r\n\r\n"
)


def post_rows(
    port: int,
    clients: int,
    seconds: float,
    row: Row,
    *,
    first: int = 0,
    again: Iterable[int] = (),
    rate: float = 0.0,
    key: str = "",
) -> Load:
    """Post the rows of numbers from ``first`` on, for so many seconds or until the server is gone.

    Those ``again`` come before them. Each client sends its next row when the last is acknowledged; with ``rate`` all of
    them together so many a second. With ``key`` each row has a key that begins so.
    """
    load, selector, numbers = Load(), selectors.DefaultSelector(), chain(again, count(first))
    begun = time.perf_counter()

    def send(client: _Client) -> None:
        number = next(numbers)
        load.sent.add(number)
        client.send(number, row(number), f"{key}{number}" if key else "")

    idle: list[_Client] = []
    for _ in range(clients):
        client = _Client(port)
        selector.register(client.socket, selectors.EVENT_READ, client)
        idle.append(client)
    busy = 0
    while busy or time.perf_counter() - begun < seconds:
        now = time.perf_counter() - begun
        while idle and now < seconds and (not rate or len(load.sent) < now * rate):
            try:
                send(idle.pop())
            except OSError:  # the server is gone
                seconds = 0.0
                break
            busy += 1
        for event, _ in selector.select(0.001 if idle else 0.1):
            client = event.data
            busy -= _taken(client, load, selector, idle)
        if not selector.get_map():
            break
    load.seconds = time.perf_counter() - begun
    for client in (event.data for event in list(selector.get_map().values())):
        client.socket.close()
    selector.close()
    return load


def _taken(client: _Client, load: Load, selector: selectors.BaseSelector, idle: list[_Client]) -> bool:
    """Take what a client has received; true if its request has ended."""
    try:
        body = client.receive()
    except OSError:
        body = b""
    if body is None:
        return False
    if not body:
        selector.unregister(client.socket)
        client.socket.close()
        return True
    if body == b"refused":
        load.refused += 1
    else:
        load.latencies.append(time.perf_counter() - client.begun)
        load.acknowledged[client.number] = int(body.partition(b'"epoch": ')[2].partition(b",")[0])
    idle.append(client)
    return True
