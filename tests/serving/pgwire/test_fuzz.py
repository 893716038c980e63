"""Bytes that are no protocol: no crash, no hang, nothing left behind, and the next client is served."""

from __future__ import annotations

import itertools
import random
import socket
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from scramp import ScramClient

import tidemill
from tests.fuzz.campaign import few, many
from tests.serving.pgwire import raw
from tests.serving.pgwire.door import SHOP, Door
from tests.serving.pgwire.guarded import PASSWORD, GuardedDoor, eventually, guarded_door
from tests.serving.resources import Resources
from tidemill.serving.access.failed_logins import FailedLogins

HELLO = raw.startup()
TEXTS = [
    b"SELECT 1",
    b"SELECT * FROM orders WHERE id = $1",
    b"BEGIN",
    b"COPY orders FROM STDIN",
    b"SELECT '\xff",
    b"\0",
]
TEXTS += [
    b"COPY spend TO STDOUT",
    b"SUBSCRIBE TO spend SINCE 0 UNTIL 1",
    b"ROLLBACK",
    b"SELECT relname FROM pg_class",
    b"(",
]


def drawn(rng: random.Random) -> bytes:
    """A message that is almost right."""
    text = rng.choice(TEXTS)
    kinds = {
        b"Q": text + b"\0",
        b"P": rng.choice([b"", b"s"]) + b"\0" + text + b"\0" + struct.pack("!H", 0),
        b"B": b"\0" + rng.choice([b"", b"s"]) + b"\0" + struct.pack("!HHiH", 0, 1, rng.choice([-1, 0]), 0),
        b"D": rng.choice([b"S", b"P", b"X"]) + b"\0",
        b"E": b"\0" + struct.pack("!i", rng.choice([0, 1, -5])),
        b"C": rng.choice([b"S", b"P"]) + b"s\0",
        b"S": b"", b"H": b"", b"c": b"", b"f": b"no\0", b"d": rng.randbytes(rng.randrange(40)),
        b"F": rng.randbytes(8), b"p": rng.randbytes(9), b"?": b"",
    }  # fmt: skip
    kind = rng.choice(list(kinds))
    found = bytearray(raw.message(kind, kinds[kind]))
    match rng.randrange(8):
        case 0 if found:
            found[rng.randrange(len(found))] = rng.randrange(256)
        case 1:
            found = found[: rng.randrange(len(found) + 1)]
        case 2:
            found[1:5] = struct.pack("!I", rng.choice([0, 3, 1 << 31, 0xFFFF_FFFF, 70 << 20]))
    return bytes(found)


def conversation(rng: random.Random, port: int) -> None:
    first = HELLO if rng.random() < 0.8 else rng.randbytes(rng.randrange(1, 60))
    said_in_pieces(rng, port, first + b"".join(drawn(rng) for _ in range(rng.randrange(12))))


def login(rng: random.Random, port: int) -> None:
    """Somebody who proves who it is, almost: messages are left out, doubled, spoilt, or come in another order."""
    side = ScramClient(["SCRAM-SHA-256"], "ann", PASSWORD)
    steps = [HELLO, raw.sasl_start(side.get_client_first())]
    with raw.dialled(port) as client, suppress(OSError):
        if rng.random() < 0.5:
            client.sendall(b"".join(steps))
            raw.next_message(client)
            side.set_server_first(raw.next_message(client)[1][4:].decode())
            steps = [raw.message(b"p", side.get_client_final().encode())]
        odd = [
            drawn(rng),
            raw.message(b"p", rng.randbytes(rng.randrange(60))),
            raw.SSL_REQUEST,
            *(drawn_scram(rng) for _ in "ab"),
        ]
        for _ in range(rng.randrange(4)):
            steps.insert(rng.randrange(len(steps) + 1), rng.choice([*odd, *steps]))
        if rng.random() < 0.3:
            steps.pop(rng.randrange(len(steps)))
        send_in_pieces(rng, client, b"".join(steps) + (drawn(rng) if rng.random() < 0.5 else b""))


def drawn_scram(rng: random.Random) -> bytes:
    """A message of SCRAM that is almost right."""
    first = rng.choice(
        ["n,,n=,r=abc", "y,,n=ann,r=" + "x" * rng.randrange(300), "p=tls-unique,,n=,r=a", "n,a=x,n=,r=", ",", ""]
    )
    final = rng.choice(["c=biws,r=abc,p=AAAA", "c=,r=,p=", "c=biws,r=abc", "p=" + "A" * 5000, "\0", "c=biws,r=ü,p=ü"])
    mechanism = rng.choice(["SCRAM-SHA-256", "SCRAM-SHA-256-PLUS", "PLAIN", ""])
    return rng.choice([raw.sasl_start(first, mechanism), raw.message(b"p", final.encode())])


def said_in_pieces(rng: random.Random, port: int, data: bytes) -> None:
    with raw.dialled(port) as client, suppress(OSError):  # the server may end it before everything was sent
        send_in_pieces(rng, client, data)


def send_in_pieces(rng: random.Random, client: socket.socket, data: bytes) -> None:
    """Send data, and read what is said until the server ends the connection."""
    try:
        while data:
            cut = rng.randrange(1, len(data) + 1)
            client.sendall(data[:cut])
            data = data[cut:]
        client.shutdown(socket.SHUT_WR)
        while client.recv(65536):
            pass
    except TimeoutError:
        pytest.fail("the server hangs")


def campaign(door: Door, dice: Iterable[random.Random], play: Callable[[random.Random, int], None]) -> None:
    epoch, before = door.warehouse.epoch, None
    for number, rng in enumerate(dice):
        play(rng, door.port)
        if number % 500 == 20:
            eventually(lambda: len(door.server.clients) == 0)
            before = before or Resources()
            before.require_no_more()
    assert before is not None
    eventually(lambda: len(door.server.clients) == 0)
    before.require_no_more()
    assert door.warehouse.epoch == epoch
    with door.connect() as client:
        assert client.execute("SELECT count(*) FROM orders").fetchone() == (3,)


@pytest.fixture
def own_door() -> Iterator[Door]:
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql(SHOP)
        with closing(Door(wh)) as found:
            yield found


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[GuardedDoor]:
    """A door with users, at which any number of logins may fail."""
    clock = itertools.count(step=1000)
    with guarded_door(tmp_path) as found:
        found.server.failed_logins = FailedLogins(clock=lambda: float(next(clock)))
        yield found


@pytest.fixture(autouse=True)
def no_faults(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Whatever is said, nothing of it is a fault of the server."""
    yield
    assert not [
        one for one in caplog.records if one.name in ("tidemill.pgwire", "asyncio") and one.levelname == "ERROR"
    ]


def test_random_bytes_do_no_harm(own_door: Door) -> None:
    campaign(own_door, few(60), conversation)


def test_random_logins_do_no_harm(guarded: GuardedDoor) -> None:
    campaign(guarded, few(60), login)
    outcomes = {entry["outcome"] for entry in guarded.noted(event="login")}
    assert outcomes == {"ok", "28P01"}


@pytest.mark.long
def test_random_bytes_do_no_harm_for_long(own_door: Door) -> None:
    campaign(own_door, many(), conversation)


@pytest.mark.long
def test_random_logins_do_no_harm_for_long(guarded: GuardedDoor) -> None:
    campaign(guarded, many(), login)


@pytest.mark.parametrize(
    "data",
    [
        struct.pack("!II", 0xFFFF_FFFF, 196608),
        struct.pack("!II", 4, 196608),
        struct.pack("!II", 8, 0x00020000),
        b"GET / HTTP/1.1\r\n\r\n",
        HELLO + raw.message(b"B", b"\0\0" + struct.pack("!HHi", 0, 1, 500) + b"ab"),
        HELLO + raw.message(b"Q", b"no end"),
    ],
)
def test_what_is_no_protocol_ends_the_connection(door, data):
    with socket.create_connection(("127.0.0.1", door.port), timeout=10) as client:
        client.sendall(data)
        said = b""
        while piece := client.recv(65536):
            said += piece
    assert b"FATAL" in said


def test_newer_protocols_are_told_what_is_spoken(door):
    startup = struct.pack("!I", 0x0003_0063) + b"user\0ann\0_pq_.wish\0on\0\0"
    with socket.create_connection(("127.0.0.1", door.port), timeout=10) as client:
        client.sendall(struct.pack("!I", len(startup) + 4) + startup)
        said = client.recv(65536)
    assert said[:1] == b"v" and b"_pq_.wish\0" in said
