"""Limits: how often somebody may ask, how much a request may bring, and how long it may take to come."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import tidemill
from tests.serving.http.conftest import SHOP, Served, serve
from tidemill.serving.access.audit_log import AuditLog
from tidemill.serving.access.users import Users

Start = Callable[..., Served]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a server with some settings."""
    running: list[Iterator[Served]] = []

    def started(**settings: Any) -> Served:
        wh = tidemill.open(":memory:", runtime="native")
        wh.sql(SHOP)
        running.append(serve(wh, **settings))
        return next(running[-1])

    yield started
    for one in running:
        assert next(one, None) is None


@pytest.fixture
def users(tmp_path: Path) -> Users:
    found = Users.load(tmp_path / "users.json")
    found.add("ann", ["owner"])
    found.add("bob", ["owner"])
    return found


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def test_a_user_who_asks_too_often_waits(start: Start, users: Users) -> None:
    served = start(users=users, rate=0.01, burst=3)
    ann, bob = (bearer(users.add_token(name)) for name in ("ann", "bob"))
    assert [served.get("/v1/views/spend", **ann).status for _ in range(4)] == [200, 200, 200, 429]
    refused = served.get("/v1/views/spend", **ann)
    assert (refused.error["kind"], refused.headers["retry-after"]) == ("Busy", "100")
    assert served.get("/v1/views/spend", **bob).status == 200
    assert [served.get("/v1/me").status for _ in range(4)] == [200, 200, 200, 429]  # nobody, by address


def test_tokens_that_are_nobodys_are_limited_and_the_right_one_is_not(
    start: Start, users: Users, tmp_path: Path
) -> None:
    log = AuditLog(tmp_path / "audit")
    served = start(users=users, failure_seconds=0.0, audit=log)
    wrong, right = bearer("tidemill_wrong"), bearer(users.add_token("ann"))
    answers = [served.get("/v1/status", **wrong).status for _ in range(25)]
    assert answers[:20] == [401] * 20 and answers[-1] == 429
    login = served.post("/v1/login", {"token": "tidemill_wrong"})
    assert (login.status, login.headers["retry-after"]) == (429, "2")
    assert served.get("/v1/status", **right).status == 200
    assert served.post("/v1/login", {"token": right["authorization"][7:]}).status == 200
    noted = [(entry["event"], entry.get("user"), entry["outcome"]) for entry in log.entries()]
    assert noted[0] == ("login", "ann", "ok") and noted[1:21] == [("login", None, "HttpError")] * 20


def test_a_token_that_is_nobodys_is_answered_slowly(start: Start, users: Users) -> None:
    served = start(users=users, failure_seconds=0.3)
    begun = time.monotonic()
    assert served.get("/v1/status", **bearer("tidemill_wrong")).status == 401
    assert time.monotonic() - begun > 0.3


def test_a_statement_has_a_length(start: Start) -> None:
    served = start(statement_bytes=1000)
    assert served.sql(f"SELECT '{'x' * 900}'").status == 200
    refused = served.sql(f"SELECT '{'x' * 1000}'")
    assert (refused.status, refused.error["what"]) == (400, "a statement has at most 1,000 bytes")


def said(served: Served, first: bytes = b"", then: bytes = b"") -> bytes:
    """What the server answers to these bytes, until it closes the connection."""
    with socket.create_connection(("127.0.0.1", served.port), timeout=30) as one:
        one.sendall(first)
        found = one.recv(65536)
        one.sendall(then)
        return found + b"".join(iter(lambda: one.recv(65536), b""))


def test_a_request_that_does_not_come_ends_its_connection(start: Start) -> None:
    served = start(request_seconds=0.3, body_seconds=0.3)
    assert said(served) == said(served, b"GET /healthz HTTP/1.1\r\nHost: local") == b""
    whole = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    assert said(served, whole, b"GET /heal").count(b"200 OK") == 1
    post = b"POST /v1/sql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    answer = said(served, post)
    assert answer.startswith(b"HTTP/1.1 408") and b"the body did not come in time" in answer
    chunked = post.replace(b"Content-Length: 100", b"Transfer-Encoding: chunked").replace(b"\n{", b"\n1\r\n{\r\n")
    assert said(served, chunked).startswith(b"HTTP/1.1 408")
    table = post.replace(b"/v1/sql", b"/v1/tables/orders")
    assert said(served, table).startswith(b"HTTP/1.1 408")


def test_bodies_are_limited_together(start: Start) -> None:
    served = start(body_bytes=10_000, held_bytes=15_000)
    post = (
        b"POST /v1/sql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 10000\r\n\r\n{"
    )
    with socket.create_connection(("127.0.0.1", served.port), timeout=30) as slow:
        slow.sendall(post + b" " * 8_000)
        until(lambda: served.server._service.bodies.held > 8_000)
        busy = served.ask("POST", "/v1/sql", " " * 9_000, content_type="application/json")
        assert (busy.status, busy.error["kind"]) == (429, "Busy")
        assert served.sql("SELECT 1").status == 200
    until(lambda: served.server._service.bodies.held == 0)
    assert served.ask("POST", "/v1/sql", " " * 9_000, content_type="application/json").status == 422


def test_headers_have_a_length(start: Start) -> None:
    served = start()
    begun = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: "
    assert said(served, begun + b"y" * 30_000 + b"\r\nConnection: close\r\n\r\n").startswith(b"HTTP/1.1 200")
    with socket.create_connection(("127.0.0.1", served.port), timeout=30) as one, suppress(ConnectionError):
        one.sendall(begun)
        for _ in range(100):
            one.sendall(b"y" * 10_000)
        assert one.recv(100) == b""


def test_a_slow_stream_is_not_a_slow_request(start: Start) -> None:
    served = start(request_seconds=0.2, body_seconds=0.2, heartbeat=0.1)
    live = served.events("/v1/views/spend/changes")
    begun = time.monotonic()
    assert any("id" in event and time.monotonic() - begun > 0.5 for event in live)
    live.close()


def test_connections_are_limited(start: Start) -> None:
    served = start(connections=3)
    others = [served.connection() for _ in range(20)]
    for one in others[:3]:
        one.connect()
    until(lambda: served.get("/healthz").status == 503)
    for one in others:
        one.connect()
    assert b"" in [one.sock.recv(1) for one in others[15:]]  # far too many: closed at once
    for one in others:
        one.close()
    until(lambda: served.get("/healthz").status == 200)


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline


def test_who_sends_too_much_gets_an_answer_also_after_that(start: Start) -> None:
    served = start(body_bytes=1000, request_seconds=2.0)
    rows = json.dumps({"id": 7, "customer": "x" * 600}).encode() + b"\n"
    connection = served.connection()
    headers = {"content-type": "application/x-ndjson"}
    for path, body, chunked in [
        ("/v1/tables/orders", iter([rows] * 3), True),
        ("/v1/tables/orders", b" " * 20_000_000, False),
        ("/v1/sql", b" " * 200_000, False),
    ]:
        connection.request("POST", path, body, headers, encode_chunked=chunked)
        answer = connection.getresponse()
        assert (answer.status, json.loads(answer.read())["error"]["what"]) == (413, "the body is too long")
    connection.request("GET", "/v1/views/spend")
    assert json.loads(connection.getresponse().read())["count"] == 3
    connection.close()
