"""Bytes that are no protocol: no crash, no hang, nothing left behind, and the next client is served."""

from __future__ import annotations

import random
import socket
import struct
import time

import pytest

STARTUP = struct.pack("!I", 196608) + b"user\0ann\0database\0shop\0\0"
HELLO = struct.pack("!I", len(STARTUP) + 4) + STARTUP
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


def message(kind: bytes, payload: bytes) -> bytes:
    return kind + struct.pack("!I", len(payload) + 4) + payload


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
    found = bytearray(message(kind, kinds[kind]))
    match rng.randrange(8):
        case 0 if found:
            found[rng.randrange(len(found))] = rng.randrange(256)
        case 1:
            found = found[: rng.randrange(len(found) + 1)]
        case 2:
            found[1:5] = struct.pack("!I", rng.choice([0, 3, 1 << 31, 0xFFFF_FFFF, 70 << 20]))
    return bytes(found)


def conversation(rng: random.Random, port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        first = HELLO if rng.random() < 0.8 else rng.randbytes(rng.randrange(1, 60))
        data = first + b"".join(drawn(rng) for _ in range(rng.randrange(12)))
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
        except OSError:  # the server has ended it before everything was sent
            return


def campaign(door, seed: int, rounds: int) -> None:
    rng = random.Random(seed)
    epoch, before = door.warehouse.epoch, len(door.server._connections)
    for _ in range(rounds):
        conversation(rng, door.port)
    for _ in range(200):
        if len(door.server._connections) <= before:
            break
        time.sleep(0.02)
    assert len(door.server._connections) <= before, "connections are left"
    assert door.warehouse.epoch == epoch
    with door.connect() as client:
        assert client.execute("SELECT count(*) FROM orders").fetchone() == (3,)


def test_random_bytes_do_no_harm(door, caplog):
    campaign(door, 20, 60)
    assert not [record for record in caplog.records if record.name == "tidemill.pgwire" and record.levelname == "ERROR"]


@pytest.mark.long
def test_random_bytes_do_no_harm_for_long(door):
    for seed in range(50):
        campaign(door, seed, 200)


@pytest.mark.parametrize(
    "data",
    [
        struct.pack("!II", 0xFFFF_FFFF, 196608),
        struct.pack("!II", 4, 196608),
        struct.pack("!II", 8, 0x00020000),
        b"GET / HTTP/1.1\r\n\r\n",
        HELLO + message(b"B", b"\0\0" + struct.pack("!HHi", 0, 1, 500) + b"ab"),
        HELLO + message(b"Q", b"no end"),
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
