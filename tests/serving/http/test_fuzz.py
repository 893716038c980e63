"""Bytes that are no requests, and requests that are almost right: an answer or a closed connection, soon, and no more.

No traceback, no line of code and no place of this machine comes out, and the server goes on.
"""

from __future__ import annotations

import json
import random
import re
import socket
from collections.abc import Callable, Iterator

import pytest

import tidemill
from tests.serving.http.conftest import SHOP, Served, serve
from tidemill.serving.http.endpoints import ENDPOINTS

LEAKS = re.compile(rb"Traceback|\.py\b|/site-packages|/src/|InternalError")

WORDS = [
    "",
    "0",
    "-1",
    "9" * 30,
    "null",
    "é",
    "a" * 300,
    "%00",
    "..",
    "spend",
    "orders",
    "`",
    "'; DROP",
    "\\",
    "[]",
    "1e999",
]
VALUES = [None, True, -1, 0, 10**40, 1.5, "", "x", "\x00", [], {}, [[]], {"a": {}}, "2024-13-45", "NaN"]
TYPES = [
    "application/json",
    "application/x-ndjson",
    "text/csv",
    "application/vnd.apache.arrow.stream",
    "text/plain",
    "",
]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    wh = tidemill.open(tmp_path_factory.mktemp("fuzz") / "shop", runtime="native")
    wh.sql(SHOP)
    yield from serve(wh, body_bytes=100_000)


def sent(served: Served, data: bytes) -> bytes:
    """What comes back for these bytes, until the server closes or has nothing to say."""
    found = b""
    with socket.create_connection(("127.0.0.1", served.port), timeout=0.3) as one:
        try:
            one.sendall(data)
            if not data.startswith((b"GET /v1", b"POST /v1")):
                one.shutdown(socket.SHUT_WR)
            while part := one.recv(65536):
                found += part
        except OSError:
            pass
    return found


def raw(chance: random.Random) -> bytes:
    """Bytes that are no request, or only the beginning of one."""
    whole = (
        b"POST /v1/sql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 20\r\n\r\n{}"
    )
    match chance.randrange(5):
        case 0:
            return chance.randbytes(chance.randrange(1, 400))
        case 1:
            return whole[: chance.randrange(len(whole))]
        case 2:
            return whole.replace(b"20", chance.choice([b"-1", b"x", b"9" * 25, b"0"]))
        case 3:
            changed = bytearray(whole)
            for _ in range(5):
                changed[chance.randrange(len(changed))] = chance.randrange(256)
            return bytes(changed)
    return b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n"


def request(chance: random.Random) -> bytes:
    """A request to some endpoint with parameters, headers and a body that may be anything."""
    endpoint = chance.choice([one for one in ENDPOINTS if one.path != "/v1/status/stream"])
    path = re.sub(r"{\w+}", lambda _: chance.choice(WORDS).replace(" ", "%20"), endpoint.path)
    query = "&".join(f"{one.name}={chance.choice(WORDS)}" for one in endpoint.query if chance.random() < 0.6)
    record = {chance.choice(["id", "customer", "amount", "sql", "row", "_weight", "limit"]): chance.choice(VALUES)}
    bodies = [json.dumps(record), json.dumps([record]), json.dumps(chance.choice(VALUES)), "{" * 5000, "[" * 100_000]
    body = chance.choice([*map(str.encode, bodies), chance.randbytes(300), b""])
    headers = {
        "Host": "localhost",
        "Connection": "close",
        "Content-Type": chance.choice(TYPES),
        "Content-Length": str(len(body)),
    }
    if chance.random() < 0.3:
        headers[chance.choice(["Accept", "Idempotency-Key", "Last-Event-ID", "Origin"])] = chance.choice(WORDS)
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    query += "&timeout=0" if path.endswith("/wait") else ""
    start = f"{endpoint.method} {path}?{query} HTTP/1.1\r\n"
    return (start + lines + "\r\n").encode("utf-8", "replace") + body


def attack(served: Served, make: Callable[[random.Random], bytes], count: int, seed: int) -> None:
    for number in range(count):
        data = make(random.Random(f"{seed} {number}"))
        found = sent(served, data)
        assert not LEAKS.search(found), (seed, number, data[:300], found[:2000])
    assert served.get("/readyz").json["ready"]
    assert served.get("/v1/views/spend").json["columns"]


def test_bytes_and_requests_that_are_wrong(target: Served) -> None:
    attack(target, raw, 60, seed=1)
    attack(target, request, 150, seed=2)


@pytest.mark.long
def test_many_of_them(target: Served) -> None:
    for seed in range(10, 40):
        attack(target, raw, 200, seed)
        attack(target, request, 800, seed)
