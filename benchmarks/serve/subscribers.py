"""Many readers of live changes: one selector for all of their sockets."""

from __future__ import annotations

import json
import selectors
import socket
import time
from dataclasses import dataclass, field

__all__ = ["Heard", "Subscribers"]


@dataclass
class Heard:
    """The numbers of rows that were heard, how often, and after how many seconds."""

    numbers: dict[int, int] = field(default_factory=dict)
    latencies: list[float] = field(default_factory=list)


class Subscribers:
    """Readers of the view ``arrivals``, each of one customer."""

    def __init__(self, port: int, count: int) -> None:
        self.heard = Heard()
        self._selector = selectors.DefaultSelector()
        self._rest: dict[int, bytes] = {}
        for number in range(count):
            one = socket.create_connection(("127.0.0.1", port))
            path = f"/v1/views/arrivals/changes?where=customer:c{number}"
            request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
            one.sendall(request.encode())
            self._selector.register(one, selectors.EVENT_READ)
            self._rest[one.fileno()] = b""

    def wait_until_joined(self, seconds: float = 120.0) -> None:
        """Read until each has been told its position."""
        waiting, until = set(self._rest), time.monotonic() + seconds
        while waiting:
            if time.monotonic() > until:
                raise RuntimeError(f"{len(waiting)} subscribers have not joined")
            for key, _ in self._selector.select(1.0):
                if b"id: " in self._take(key.fileobj):
                    waiting.discard(key.fd)

    def listen(self, until: float) -> None:
        """Take what comes until a moment of the clock."""
        while (left := until - time.monotonic()) > 0:
            for key, _ in self._selector.select(min(left, 0.5)):
                self._take(key.fileobj)

    def _take(self, one: object) -> bytes:
        assert isinstance(one, socket.socket)
        received = one.recv(1 << 16)
        if not received:
            self._selector.unregister(one)
            return b""
        *lines, self._rest[one.fileno()] = (self._rest[one.fileno()] + received).split(b"\n")
        for line in lines:
            if line.startswith(b"data: "):
                self._note(json.loads(line[6:]))
        return received

    def _note(self, event: dict[str, list[list[int]]]) -> None:
        now = time.monotonic_ns()
        for number, _, sent in event["rows"]:
            self.heard.numbers[number] = self.heard.numbers.get(number, 0) + 1
            self.heard.latencies.append((now - sent) / 1e9)

    def close(self) -> None:
        """Leave."""
        for key in list(self._selector.get_map().values()):
            assert isinstance(key.fileobj, socket.socket)
            key.fileobj.close()
        self._selector.close()
