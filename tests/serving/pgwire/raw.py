"""Messages of the protocol as bytes, for tests that say what no driver would."""

from __future__ import annotations

import socket
import struct
from typing import Any

from scramp import ScramClient


def startup(user: str = "ann", **settings: str) -> bytes:
    """The packet with which a session begins."""
    given = {"user": user, "database": "shop", **settings}
    text = "".join(f"{name}\0{value}\0" for name, value in given.items()) + "\0"
    return packet(struct.pack("!I", 196608) + text.encode())


def packet(payload: bytes) -> bytes:
    """A packet without a type."""
    return struct.pack("!I", len(payload) + 4) + payload


def message(kind: bytes, payload: bytes) -> bytes:
    """A message with its type."""
    return kind + packet(payload)


SSL_REQUEST = packet(struct.pack("!I", 80877103))


def query(text: str) -> bytes:
    """A simple query."""
    return message(b"Q", text.encode() + b"\0")


def sasl_start(first: str, mechanism: str = "SCRAM-SHA-256") -> bytes:
    """The first thing that a client says to prove who it is."""
    return message(b"p", mechanism.encode() + b"\0" + struct.pack("!i", len(first)) + first.encode())


def dialled(port: int, *sent: bytes, timeout: float = 30) -> socket.socket:
    """A connection on which something was sent."""
    client = socket.create_connection(("127.0.0.1", port), timeout=timeout)
    for data in sent:
        client.sendall(data)
    return client


def said(client: socket.socket) -> bytes:
    """All that the server still says before it closes the connection."""
    parts = []
    try:
        while part := client.recv(65536):
            parts.append(part)
    except ConnectionError:  # it was cut off
        pass
    return b"".join(parts)


def next_message(client: socket.socket) -> tuple[bytes, bytes]:
    """The type of the next message, and what it carries."""
    head = exactly(client, 5)
    return head[:1], exactly(client, struct.unpack("!I", head[1:])[0] - 4)


def exactly(client: socket.socket, size: int) -> bytes:
    """So many bytes."""
    found = b""
    while len(found) < size:
        part = client.recv(size - len(found))
        if not part:
            raise ConnectionError("it was closed")
        found += part
    return found


def scram(client: socket.socket, password: str) -> Any:
    """The client's side of SCRAM, up to what it would say at last."""
    next_message(client)
    side = ScramClient(["SCRAM-SHA-256"], "user", password)
    client.sendall(sasl_start(side.get_client_first()))
    _, said = next_message(client)
    side.set_server_first(said[4:].decode())
    return side


def log_in(client: socket.socket, user: str, password: str) -> None:
    """Prove who it is, and read up to the point at which queries may come."""
    client.sendall(startup(user))
    side = scram(client, password)
    client.sendall(message(b"p", side.get_client_final().encode()))
    while next_message(client)[0] != b"Z":
        pass
