"""Bytes that are no requests, and requests and web sockets that are almost right: an answer or a closed connection, and
no more.

No traceback, no line of code and no place of this machine comes out, and the server goes on, with no more threads,
files and memory than before.
"""

from __future__ import annotations

import base64
import json
import random
import re
import socket
import struct
from collections.abc import Callable, Iterable, Iterator

import pytest

import tidemill
from tests.fuzz.campaign import few, many
from tests.serving.http.conftest import SHOP, Served, serve
from tests.serving.http.test_limits import until
from tests.serving.resources import Resources
from tidemill.serving.access.users import Users
from tidemill.serving.http.endpoints import ENDPOINTS

LEAKS = re.compile(rb"Traceback|\.py\b|/site-packages|/src/|InternalError|xyzzy")

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
BODY = 100_000
"""Bytes of a body that these servers take."""

TYPES = [
    "application/json",
    "application/x-ndjson",
    "text/csv",
    "application/vnd.apache.arrow.stream",
    "text/plain",
    "",
]


class Target:
    """A server, and what somebody may send to be let in: right, almost right, and wrong."""

    def __init__(self, served: Served, tokens: list[str]) -> None:
        self.served = served
        self.tokens = tokens
        cookie = served.post("/v1/login", {"token": tokens[0]}).headers["set-cookie"] if tokens else ""
        self.cookie = cookie.partition(";")[0]

    def credentials(self, chance: random.Random) -> dict[str, str]:
        """The headers of somebody, who mostly is the owner."""
        if not self.tokens:
            return {}
        owner, other = self.tokens
        own_page = {"Cookie": self.cookie, "Origin": f"http://127.0.0.1:{self.served.port}"}
        tokens = [owner] * 4 + [other, owner[:-1], "", "\x7f", "x" * 9000]
        given = [{"Authorization": f"Bearer {token}"} for token in tokens]
        cookies = [own_page, {"Cookie": f"{self.cookie}x"}, {"Cookie": "=;" * 50}]
        return chance.choice([*given, *cookies, {"Authorization": f"Basic {owner}"}, {}])


@pytest.fixture(params=["of this machine", "with users"], scope="module")
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("fuzz")
    wh = tidemill.open(folder / "shop", runtime="native")
    wh.sql(SHOP + "CREATE TABLE hidden AS SELECT 'xyzzy' AS secret; GRANT SELECT ON spend TO eu WHERE customer = 'ann'")
    users, tokens = Users.load(folder / "users.json"), list[str]()
    if request.param == "with users":
        for name, role in (("olga", "owner"), ("eve", "eu")):
            users.add(name, [role])
            tokens.append(users.add_token(name))
    for served in serve(wh, users=users or None, body_bytes=BODY, failure_seconds=0.0, body_seconds=0.5):
        yield Target(served, tokens)


@pytest.fixture(autouse=True)
def no_faults(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Whatever is sent, nothing of it is a fault of the server."""
    yield
    faults = ("tidemill.server", "uvicorn.error", "asyncio")
    assert not [one.getMessage() for one in caplog.records if one.name in faults and one.levelname == "ERROR"]


def sent(target: Target, data: bytes) -> bytes:
    """What comes back for these bytes, until the server closes or has nothing to say."""
    found = b""
    with socket.create_connection(("127.0.0.1", target.served.port), timeout=0.3) as one:
        try:
            one.sendall(data)
            if b"Upgrade" in data or not data.startswith((b"GET /v1", b"POST /v1")):
                one.shutdown(socket.SHUT_WR)
            while part := one.recv(65536):
                found += part
        except OSError:
            pass
    return found


def raw(chance: random.Random, target: Target) -> bytes:
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


def request(chance: random.Random, target: Target) -> bytes:
    """A request to some endpoint with parameters, headers and a body that may be anything, of anybody."""
    endpoint = chance.choice([one for one in ENDPOINTS if one.path != "/v1/status/stream"])
    path = re.sub(r"{\w+}", lambda _: chance.choice(WORDS).replace(" ", "%20"), endpoint.path)
    query = "&".join(f"{one.name}={chance.choice(WORDS)}" for one in endpoint.query if chance.random() < 0.6)
    record = {chance.choice(["id", "customer", "amount", "sql", "row", "_weight", "limit"]): chance.choice(VALUES)}
    bodies = [json.dumps(record), json.dumps([record]), json.dumps(chance.choice(VALUES)), "{" * 5000, "[" * 100_000]
    body = chance.choice([*map(str.encode, bodies), chance.randbytes(300), b""])
    headers = {
        "Host": f"127.0.0.1:{target.served.port}",
        "Connection": "close",
        "Content-Type": chance.choice(TYPES),
        "Content-Length": str(len(body)),
        **target.credentials(chance),
    }
    if chance.random() < 0.3:
        headers[chance.choice(["Accept", "Idempotency-Key", "Last-Event-ID", "Origin"])] = chance.choice(WORDS)
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    query += "&timeout=0" if path.endswith("/wait") else ""
    start = f"{endpoint.method} {path}?{query} HTTP/1.1\r\n"
    return (start + lines + "\r\n").encode("utf-8", "replace") + body


def frames(chance: random.Random, target: Target) -> bytes:
    """A web socket, whose client says something, though nobody listens."""
    key = base64.b64encode(chance.randbytes(16)).decode()
    headers = {
        "Host": f"127.0.0.1:{target.served.port}",
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Key": key if chance.random() < 0.9 else chance.choice(WORDS),
        "Sec-WebSocket-Version": chance.choice(["13"] * 9 + ["12", ""]),
        **target.credentials(chance),
    }
    query = chance.choice(["", "?since=0", "?since=x", "?where=customer:ann", f"?where={chance.choice(WORDS)}"])
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    path = f"/v1/views/{chance.choice(['spend', 'spend', 'hidden', 'x'])}/changes{query.replace(' ', '%20')}"
    said = b"".join(frame(chance) for _ in range(chance.randrange(6)))
    return f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode("utf-8", "replace") + said


def frame(chance: random.Random) -> bytes:
    """A frame that is almost right."""
    content = chance.choice([b"", b"hello", b"\xff\xfe", chance.randbytes(200), b"x" * 20_000, struct.pack("!H", 999)])
    first = chance.choice([0x81, 0x82, 0x01, 0x00, 0x88, 0x89, 0x8A, 0x8B, 0xF1, chance.randrange(256)])
    mask = 0x80 if chance.random() < 0.9 else 0
    size = len(content) if chance.random() < 0.9 else chance.choice([0, 125, 1 << 20, 1 << 40])
    length = bytes([mask | size]) if size < 126 else bytes([mask | 127]) + struct.pack("!Q", size)
    return bytes([first]) + length + (bytes(4) if mask else b"") + content


def oversized(chance: random.Random, target: Target) -> bytes:
    """Far too much of something, which is really sent."""
    headers = {"Host": f"127.0.0.1:{target.served.port}", **target.credentials(chance)}
    host = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    post = f"POST {chance.choice(['/v1/sql', '/v1/tables/orders', '/v1/changes', '/v1/login'])} HTTP/1.1\r\n{host}"
    post += f"Content-Type: {chance.choice(TYPES)}\r\n"
    much = 5 * BODY
    match chance.randrange(5):
        case 0:
            return f"{post}Content-Length: {much}\r\n\r\n".encode() + b" " * much
        case 1:
            chunk = b"4000\r\n" + b"[" * 0x4000 + b"\r\n"
            return f"{post}Transfer-Encoding: chunked\r\n\r\n".encode() + chunk * (much // 0x4000) + b"0\r\n\r\n"
        case 2:
            return f"{post}Content-Length: {chance.choice([10**12, much])}\r\n\r\n".encode() + b"{" * 1000
        case 3:
            return f"GET /v1/status HTTP/1.1\r\n{host}".encode() + b"X: " + b"y" * much + b"\r\n\r\n"
    return f"GET /v1/status HTTP/1.1\r\n{host}".encode() + b"X: y\r\n" * 5000 + b"\r\n"


PLAYS: tuple[Callable[[random.Random, Target], bytes], ...] = (raw, request, request, request, frames, oversized)


def attack(target: Target, dice: Iterable[random.Random]) -> None:
    service, before = target.served.server._service, None
    for number, chance in enumerate(dice):
        data = PLAYS[number % len(PLAYS)](chance, target)
        found = sent(target, data)
        assert not LEAKS.search(found), (data[:300], found[:2000])
        if number % 500 == 20:
            until(lambda: service.changes.readers == 0 and service.statements.pending == 0)
            before = before or Resources()
            before.require_no_more()
    assert before is not None
    until(lambda: service.changes.readers == 0 and service.statements.pending == 0 and service.posts.waiting == 0)
    before.require_no_more()
    headers = {"authorization": f"Bearer {target.tokens[0]}"} if target.tokens else {}
    assert target.served.get("/readyz", **headers).json["ready"]
    assert target.served.get("/v1/views/spend", **headers).json["columns"]


def test_whatever_is_sent_is_answered_or_cut_off(target: Target) -> None:
    attack(target, few(90))


@pytest.mark.long
def test_whatever_is_sent_for_long(target: Target) -> None:
    attack(target, many())
