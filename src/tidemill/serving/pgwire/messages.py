"""The messages of the protocol: what clients send, as data, and what the server says, as bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tidemill.serving.pgwire.codec import MalformedMessage, PayloadReader

__all__ = [
    "Bind",
    "Cancel",
    "ColumnDescription",
    "Execute",
    "Parse",
    "Startup",
    "Target",
]

CANCEL_REQUEST, SSL_REQUEST, GSSENC_REQUEST = 80877102, 80877103, 80877104
PROTOCOL_3_0, PROTOCOL_3_2 = 0x0003_0000, 0x0003_0002

TEXT, BINARY = 0, 1
"""The formats of values."""


# ------------------------------------------------------------------------------------------------------ from clients


class Startup(NamedTuple):
    """The beginning of a session: the protocol's version, and parameters by name."""

    version: int
    parameters: Mapping[str, str]

    @property
    def options(self) -> list[str]:
        """Options of the protocol that have to be known, or be refused."""
        return [name for name in self.parameters if name.startswith("_pq_.")]


class Cancel(NamedTuple):
    """A request to cancel what another connection runs, with the key that it was given."""

    process: int
    key: bytes


class Parse(NamedTuple):
    """A statement to prepare, with the types of its parameters as far as the client knows them."""

    name: str
    text: str
    types: tuple[int, ...]


class Bind(NamedTuple):
    """Values for the parameters of a prepared statement."""

    portal: str
    statement: str
    formats: tuple[int, ...]
    values: tuple[bytes | None, ...]
    results: tuple[int, ...]


class Execute(NamedTuple):
    """Rows of a portal to send: at most ``limit``, or all if it is 0."""

    portal: str
    limit: int


class Target(NamedTuple):
    """Target of Describe and Close: a prepared statement, or a portal."""

    is_portal: bool
    name: str


def read_startup(payload: bytes) -> int | Startup | Cancel:
    """The first packet of a connection; a bare number asks for encryption."""
    reader = PayloadReader(payload)
    code = reader.oid()
    if code in (SSL_REQUEST, GSSENC_REQUEST):
        reader.end()
        return code
    if code == CANCEL_REQUEST:
        return Cancel(reader.oid(), reader.rest())
    parameters: dict[str, str] = {}
    if code >> 16 == 3:
        while name := reader.text():
            parameters[name] = reader.text()
        reader.end()
    return Startup(code, parameters)


def read_text(payload: bytes) -> str:
    """The text of a simple query, and of other messages that carry just one."""
    reader = PayloadReader(payload)
    text = reader.text()
    reader.end()
    return text


def read_parse(payload: bytes) -> Parse:
    """The parts of Parse."""
    reader = PayloadReader(payload)
    name, text = reader.text(), reader.text()
    types = tuple([reader.oid() for _ in range(reader.count())])
    reader.end()
    return Parse(name, text, types)


def read_bind(payload: bytes) -> Bind:
    """The parts of Bind."""
    reader = PayloadReader(payload)
    portal, statement = reader.text(), reader.text()
    formats = _formats(reader)
    values = tuple([reader.value() for _ in range(reader.count())])
    results = _formats(reader)
    reader.end()
    return Bind(portal, statement, formats, values, results)


def _formats(reader: PayloadReader) -> tuple[int, ...]:
    formats = tuple([reader.int16() for _ in range(reader.count())])
    if any(one not in (TEXT, BINARY) for one in formats):
        raise MalformedMessage("a format that is neither text nor binary")
    return formats


def read_execute(payload: bytes) -> Execute:
    """The parts of Execute."""
    reader = PayloadReader(payload)
    found = Execute(reader.text(), max(reader.int32(), 0))
    reader.end()
    return found


def read_target(payload: bytes) -> Target:
    """The parts of Describe and Close."""
    reader = PayloadReader(payload)
    kind, name = reader.take(1), reader.text()
    reader.end()
    if kind not in (b"S", b"P"):
        raise MalformedMessage(f"neither a statement nor a portal: {kind!r}")
    return Target(kind == b"P", name)


def read_sasl_start(payload: bytes) -> tuple[str, bytes]:
    """The mechanism that a client has chosen, and what it says first."""
    reader = PayloadReader(payload)
    mechanism, first = reader.text(), reader.value()
    reader.end()
    return mechanism, first or b""


def spread(formats: Sequence[int], count: int) -> Sequence[int]:
    """A format for each of ``count`` values: none given means text, one given is that of all."""
    if len(formats) == count:
        return formats
    if len(formats) > 1:
        raise MalformedMessage(f"{len(formats)} formats for {count} values")
    return (formats[0] if formats else TEXT,) * count


# --------------------------------------------------------------------------------------------------------- to clients

_HEAD = struct.Struct("!cI")
_COLUMN = struct.Struct("!IhIhih")
_ROW = struct.Struct("!cIH")
_SIZE = struct.Struct("!I")
_NULL = b"\xff\xff\xff\xff"

PARSE_COMPLETE, BIND_COMPLETE, CLOSE_COMPLETE = b"1\0\0\0\4", b"2\0\0\0\4", b"3\0\0\0\4"
NO_DATA, EMPTY_QUERY, PORTAL_SUSPENDED = b"n\0\0\0\4", b"I\0\0\0\4", b"s\0\0\0\4"
COPY_DONE = b"c\0\0\0\4"
READY = {status: b"Z\0\0\0\5" + status.encode() for status in "ITE"}
AUTHENTICATED = b"R\0\0\0\x08\0\0\0\0"


class ColumnDescription(NamedTuple):
    """Announcement of a column of a result."""

    name: str
    oid: int
    size: int
    modifier: int
    table: int = 0
    place: int = 0


def message(kind: bytes, payload: bytes) -> bytes:
    """A message with its type and length.

    >>> message(b"Z", b"I")
    b'Z\\x00\\x00\\x00\\x05I'
    """
    return _HEAD.pack(kind, len(payload) + 4) + payload


def text_bytes(text: str) -> bytes:
    """A text as it ends with a zero byte; one within it would end it early, and is left out."""
    return text.replace("\0", "").encode("utf-8", "replace") + b"\0"


def authentication(code: int, payload: bytes = b"") -> bytes:
    """A step of authentication."""
    return message(b"R", _SIZE.pack(code) + payload)


def negotiate_version(minor: int, unknown: Sequence[str]) -> bytes:
    """The newest version of the protocol that is spoken here, and options that are not known."""
    return message(b"v", struct.pack("!II", minor, len(unknown)) + b"".join(map(text_bytes, unknown)))


def backend_key(process: int, key: bytes) -> bytes:
    """Process and key by which a client cancels."""
    return message(b"K", _SIZE.pack(process) + key)


def parameter_status(name: str, value: str) -> bytes:
    """The value of a parameter that clients want to know."""
    return message(b"S", text_bytes(name) + text_bytes(value))


def fields_message(kind: bytes, fields: Mapping[str, str]) -> bytes:
    """An error (``E``) or a notice (``N``), by the letters of its fields."""
    return message(kind, b"".join(letter.encode() + text_bytes(text) for letter, text in fields.items()) + b"\0")


def row_description(columns: Sequence[ColumnDescription], formats: Sequence[int]) -> bytes:
    """The columns of the rows that follow."""
    parts = [
        text_bytes(one.name) + _COLUMN.pack(one.table, one.place, one.oid, one.size, one.modifier, form)
        for one, form in zip(columns, formats, strict=True)
    ]
    return message(b"T", struct.pack("!H", len(columns)) + b"".join(parts))


def parameter_description(oids: Sequence[int]) -> bytes:
    """The types of the parameters of a prepared statement."""
    return message(b"t", struct.pack(f"!H{len(oids)}I", len(oids), *oids))


def data_row(cells: Sequence[bytes | None]) -> bytes:
    """A row.

    >>> data_row([b"7", None])
    b'D\\x00\\x00\\x00\\x0f\\x00\\x02\\x00\\x00\\x00\\x017\\xff\\xff\\xff\\xff'
    """
    body = b"".join([_NULL if cell is None else _SIZE.pack(len(cell)) + cell for cell in cells])
    return _ROW.pack(b"D", len(body) + 6, len(cells)) + body


def command_complete(tag: str) -> bytes:
    """The end of a statement."""
    return message(b"C", text_bytes(tag))


def copy_response(kind: bytes, form: int, columns: int) -> bytes:
    """The beginning of COPY: ``G`` from the client, ``H`` to it."""
    return message(kind, struct.pack(f"!bH{columns}h", form, columns, *[form] * columns))


def copy_data(pieces: Iterable[bytes]) -> bytes:
    """A message of COPY for each piece."""
    return b"".join(message(b"d", piece) for piece in pieces)
