"""Readers that come again after the server was killed: live changes from where they were, and reads by key."""

from __future__ import annotations

import http.client
import json
import time
from threading import Event, Thread

import psycopg

from benchmarks.serve.served import Served

__all__ = ["CountReader", "LiveReader", "Readers"]

PAUSE = 0.05
"""Seconds before a reader tries again."""


class _Reader(Thread):
    """A thread that reads from a server, and again from the next one when it is gone."""

    def __init__(self, server: Served) -> None:
        super().__init__(daemon=True)
        self.server = server
        self.stopped = Event()
        self.joined = 0
        """How often it has come to a server."""
        self.fault: AssertionError | None = None

    def run(self) -> None:
        while not self.stopped.is_set():
            try:
                self.read()
            except AssertionError as fault:
                self.fault = fault
                return
            except (OSError, http.client.HTTPException, psycopg.Error):
                time.sleep(PAUSE)

    def read(self) -> None:
        """Read until the server is gone, or the reader is stopped."""
        raise NotImplementedError


class LiveReader(_Reader):
    """A reader of all live changes of ``arrivals``; ``heard`` has the sum of the weights of each number."""

    def __init__(self, server: Served) -> None:
        super().__init__(server)
        self.position = 0
        self.heard: dict[int, int] = {}

    def read(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=2)
        try:
            headers = {"Accept": "text/event-stream", "Last-Event-ID": str(self.position)}
            connection.request("GET", "/v1/views/arrivals/changes", headers=headers)
            self._listen(connection.getresponse())
        finally:
            connection.close()

    def _listen(self, response: http.client.HTTPResponse) -> None:
        assert response.status == 200, response.read()
        self.joined += 1
        position = self.position
        while not self.stopped.is_set() and (line := response.readline()):
            if line.startswith(b"id: "):
                position = int(line[4:])
            elif line.startswith(b"event: "):
                assert line == b"event: end\n", line  # nothing was vacuumed, so nobody falls behind
                return
            elif line.startswith(b"data: "):
                event = json.loads(line[6:])
                assert event["epoch"] == position > self.position, (event["epoch"], position, self.position)
                for weight, (number, *_) in zip(event["weights"], event["rows"], strict=True):
                    self.heard[number] = self.heard.get(number, 0) + weight
                self.position = position


class CountReader(_Reader):
    """A reader of one group of ``spend`` by its key over PostgreSQL's protocol: its count never falls."""

    def __init__(self, server: Served) -> None:
        super().__init__(server)
        self.count = self.reads = 0

    def read(self) -> None:
        address = f"host=127.0.0.1 port={self.server.pg_port} user=bench dbname=shop connect_timeout=2"
        with psycopg.connect(address, autocommit=True) as client:
            self.joined += 1
            while not self.stopped.is_set():
                row = client.execute("SELECT n FROM spend WHERE customer = %s", ("c1",), prepare=True).fetchone()
                found = row[0] if row else 0
                assert found >= self.count, f"the count fell from {self.count} to {found}"
                self.count = found
                self.reads += 1


class Readers:
    """So many readers of live changes, and one by key, that follow a server through its restarts."""

    def __init__(self, server: Served, live: int) -> None:
        self.live = [LiveReader(server) for _ in range(live)]
        self.counts = CountReader(server)
        self._all = [*self.live, self.counts]
        for one in self._all:
            one.start()

    def follow(self, server: Served) -> None:
        """Go on with the next server."""
        for one in self._all:
            one.server = server

    def wait_until_heard(self, numbers: set[int], seconds: float) -> None:
        """Wait until every reader of live changes has heard these numbers, and check that it heard each once."""
        until = time.monotonic() + seconds
        for one in self.live:
            while numbers - one.heard.keys() and one.is_alive() and time.monotonic() < until:
                time.sleep(PAUSE)
            if missing := numbers - one.heard.keys():
                raise AssertionError(f"a reader has not heard {len(missing)} rows") from one.fault
            if several := [number for number, times in one.heard.items() if times != 1]:
                raise AssertionError(f"a reader heard {len(several)} rows more than once")

    def stop(self) -> None:
        """End the readers; a wrong answer that one has met is raised."""
        for one in self._all:
            one.stopped.set()
        for one in self._all:
            one.join(10)
            if one.fault is not None:
                raise one.fault
