"""A served warehouse in this process, and small helpers to ask it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import tidemill
from tidemill.engine.warehouse import Warehouse
from tidemill.serving.server.server import Server
from tidemill.serving.server.settings import Settings

SHOP = """
    CREATE TABLE orders (id BIGINT PRIMARY KEY, customer STRING, amount DECIMAL(12,2));
    CREATE MATERIALIZED VIEW spend AS
      SELECT customer, SUM(amount) AS total, COUNT(*) AS n FROM orders GROUP BY customer;
    INSERT INTO orders VALUES (1, 'ann', 9.50), (2, 'bob', 3.00), (3, NULL, 1.00);
"""


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> Any:
        return self.json["error"]


class Served:
    """A warehouse and its server; ``ask`` uses one connection for each call."""

    def __init__(self, wh: Warehouse, server: Server) -> None:
        self.wh = wh
        self.server = server
        self.port = int(server.url.rpartition(":")[2])

    def connection(self, timeout: float = 20) -> HTTPConnection:
        return HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def ask(self, method: str, path: str, body: bytes | str | None = None, **headers: str) -> Answer:
        connection = self.connection()
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, named)
            found = connection.getresponse()
            return Answer(found.status, {k.lower(): v for k, v in found.getheaders()}, found.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, **headers)

    def post(self, path: str, given: Any = None, **headers: str) -> Answer:
        return self.ask("POST", path, json.dumps(given), content_type="application/json", **headers)

    def sql(self, text: str, **given: Any) -> Answer:
        return self.post("/v1/sql", {"sql": text, **given})

    def events(self, path: str, **headers: str) -> EventReader:
        connection = self.connection()
        connection.request("GET", path, headers={"accept": "text/event-stream", **headers})
        return EventReader(connection, connection.getresponse())


class EventReader:
    """The events of a stream, one after the other."""

    def __init__(self, connection: HTTPConnection, response: HTTPResponse) -> None:
        self.connection = connection
        self.response = response

    def __iter__(self) -> Iterator[dict[str, Any]]:
        event: dict[str, Any] = {}
        for line in iter(self.response.readline, b""):
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name:
                event[name] = json.loads(value) if name == "data" else value
            elif event:
                yield event
                event = {}

    def close(self) -> None:
        self.response.close()
        self.connection.close()


def serve(wh: Warehouse, **settings: Any) -> Iterator[Served]:
    server = Server(wh, "shop", Settings(port=0, **settings))
    server.start()
    try:
        yield Served(wh, server)
    finally:
        server.stop()
        server.wait()
        wh.close()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder: Path = tmp_path_factory.mktemp("served") / "shop"
    wh = tidemill.open(folder, runtime="native")
    wh.sql(SHOP)
    yield from serve(wh)
