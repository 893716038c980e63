"""Values from clients, in text or binary, as Python has them."""

from __future__ import annotations

import datetime
import decimal
import struct
import uuid
from collections.abc import Callable
from typing import Any

from tidemill.serving.pgwire import messages
from tidemill.serving.pgwire.codec import MalformedMessage, PayloadReader
from tidemill.serving.pgwire.errors import PgError
from tidemill.serving.pgwire.types import oids
from tidemill.serving.pgwire.types.binary import EPOCH_DAY, EPOCH_INSTANT
from tidemill.serving.pgwire.types.intervals import read_interval

__all__ = ["read_array", "value_of"]

Decoder = Callable[[bytes], Any]

_TRUE = {"t", "tr", "tru", "true", "y", "ye", "yes", "on", "1"}
_FALSE = {"f", "fa", "fal", "fals", "false", "n", "no", "of", "off", "0"}
_UTC = datetime.UTC


def value_of(raw: bytes | None, oid: int, form: int, which: str) -> Any:
    """The value of a parameter of the type ``oid``; errors call it ``which``.

    >>> value_of(b"7", oids.INT4, messages.TEXT, "$1"), value_of(b"{1,NULL}", 1007, messages.TEXT, "$1")
    (7, [1, None])
    """
    if raw is None:
        return None
    try:
        return _binary(raw, oid) if form == messages.BINARY else _text(raw, oid)
    except (ValueError, ArithmeticError, struct.error, OverflowError, MalformedMessage) as error:
        kind = oids.BY_OID.get(oid)
        name = f"type {oid}" if kind is None else kind.title
        state = "22P03" if form == messages.BINARY else "22P02"
        raise PgError(state, f"{which} is not a value of type {name}", detail=_reason(error)) from None


def _reason(error: Exception) -> str | None:
    return str(error) if isinstance(error, MalformedMessage) else None


# --------------------------------------------------------------------------------------------------------------- text


def _text(raw: bytes, oid: int) -> Any:
    text = raw.decode()
    element = oids.ELEMENT_OF.get(oid)
    if element is not None:
        return read_array(text, lambda one: _text(one.encode(), element))
    return _TEXTS.get(oid, str)(text)


def _boolean(text: str) -> bool:
    word = text.strip().lower()
    if word not in _TRUE and word not in _FALSE:
        raise ValueError(text)
    return word in _TRUE


def _bytea(text: str) -> bytes:
    if text.startswith("\\x"):
        return bytes.fromhex(text[2:])
    out, at = bytearray(), 0
    while at < len(text):
        if text[at] != "\\":
            out += text[at].encode()
            at += 1
        elif text[at + 1 : at + 2] == "\\":
            out.append(92)
            at += 2
        else:
            out.append(int(text[at + 1 : at + 4], 8))
            at += 4
    return bytes(out)


def _timestamp(text: str) -> datetime.datetime:
    found = datetime.datetime.fromisoformat(text.strip())
    return found.astimezone(_UTC).replace(tzinfo=None) if found.tzinfo else found


def _local(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text.strip()).replace(tzinfo=None)


def _number(text: str) -> decimal.Decimal:
    found = decimal.Decimal(text.strip())
    if not found.is_finite():
        raise ValueError(text)
    return found


def _duration(parts: tuple[int, int, int] | None) -> datetime.timedelta:
    if parts is None:
        raise ValueError("interval")
    months, days, micros = parts
    if months:
        raise MalformedMessage("An interval with months cannot be the value of a parameter: their length varies.")
    return datetime.timedelta(days=days, microseconds=micros)


_TEXTS: dict[int, Callable[[str], Any]] = {
    oids.BOOL: _boolean,
    oids.BYTEA: _bytea,
    oids.INT2: int,
    oids.INT4: int,
    oids.INT8: int,
    oids.OID: int,
    oids.FLOAT4: float,
    oids.FLOAT8: float,
    oids.NUMERIC: _number,
    oids.DATE: lambda text: datetime.date.fromisoformat(text.strip()),
    oids.TIME: lambda text: datetime.time.fromisoformat(text.strip()),
    oids.TIMESTAMP: _local,
    oids.TIMESTAMPTZ: _timestamp,
    oids.INTERVAL: lambda text: _duration(read_interval(text)),
}


def read_array(text: str, element: Callable[[str], Any]) -> list[Any]:
    """The elements of an array in PostgreSQL's text format.

    >>> read_array('{a,"b \\\\"c\\\\"",NULL,"NULL"}', str)
    ['a', 'b "c"', None, 'NULL']
    """
    text = text.strip()
    if not (text.startswith("{") and text.endswith("}")):
        raise ValueError(text)
    found: list[Any] = []
    at, end = 1, len(text) - 1
    while at < end:
        word, quoted, at = _element(text, at, end)
        found.append(None if not quoted and word.upper() == "NULL" else element(word))
        if at < end and text[at] != ",":
            raise ValueError(text)
        at += 1
    if text[end - 1] == "," and end > 1:
        raise ValueError(text)
    return found


def _element(text: str, at: int, end: int) -> tuple[str, bool, int]:
    """The next element, true if it was in quotes, and where it ends."""
    while at < end and text[at].isspace():
        at += 1
    out: list[str] = []
    if at < end and text[at] == '"':
        at += 1
        while text[at] != '"' or at >= end:
            if at >= end:
                raise ValueError(text)
            at += text[at] == "\\"
            out.append(text[at])
            at += 1
        at += 1
        while at < end and text[at].isspace():
            at += 1
        return "".join(out), True, at
    while at < end and text[at] != ",":
        if text[at] in '{}"':
            raise ValueError(text)
        at += text[at] == "\\"
        out.append(text[at])
        at += 1
    word = "".join(out).rstrip()
    if not word:
        raise ValueError(text)
    return word, False, at


# ------------------------------------------------------------------------------------------------------------- binary


def _binary(raw: bytes, oid: int) -> Any:
    element = oids.ELEMENT_OF.get(oid)
    if element is not None:
        return _binary_array(raw)
    decode = _BINARIES.get(oid)
    return raw.decode() if decode is None else decode(raw)


def _packed(form: str) -> Decoder:
    packed = struct.Struct(form)
    return lambda raw: packed.unpack(raw)[0]


def _binary_array(raw: bytes) -> list[Any]:
    reader = PayloadReader(raw)
    dimensions, _, element = reader.int32(), reader.int32(), reader.oid()
    if dimensions == 0:
        return []
    if dimensions != 1:
        raise MalformedMessage("An array of several dimensions cannot be the value of a parameter.")
    count, _ = reader.int32(), reader.int32()
    cells = [reader.value() for _ in range(min(count, len(raw)))]
    reader.end()
    return [None if cell is None else _binary(cell, element) for cell in cells]


def _binary_numeric(raw: bytes) -> decimal.Decimal:
    count, weight, sign, scale = struct.unpack_from("!HhHH", raw)
    groups = struct.unpack(f"!8x{count}H", raw)
    if sign not in (0, 0x4000):
        raise ValueError("not a number")
    number = 0
    for group in groups:
        number = number * 10_000 + group
    with decimal.localcontext(prec=max(1, 4 * (count + abs(weight)) + scale + 8)):
        found = decimal.Decimal(number).scaleb(4 * (weight - count + 1)) if groups else decimal.Decimal(0)
        found = found.quantize(decimal.Decimal(1).scaleb(-scale))
    return -found if sign else found


def _binary_date(raw: bytes) -> datetime.date:
    return EPOCH_DAY + datetime.timedelta(days=struct.unpack("!i", raw)[0])


def _binary_timestamp(raw: bytes) -> datetime.datetime:
    return EPOCH_INSTANT + datetime.timedelta(microseconds=struct.unpack("!q", raw)[0])


def _binary_time(raw: bytes) -> datetime.time:
    return (EPOCH_INSTANT + datetime.timedelta(microseconds=struct.unpack("!q", raw)[0])).time()


def _binary_interval(raw: bytes) -> datetime.timedelta:
    micros, days, months = struct.unpack("!qii", raw)
    return _duration((months, days, micros))


def _binary_jsonb(raw: bytes) -> str:
    if raw[:1] != b"\1":
        raise ValueError("version")
    return raw[1:].decode()


_BINARIES: dict[int, Decoder] = {
    oids.BOOL: _packed("!?"),
    oids.BYTEA: bytes,
    oids.INT2: _packed("!h"),
    oids.INT4: _packed("!i"),
    oids.INT8: _packed("!q"),
    oids.OID: _packed("!I"),
    oids.FLOAT4: _packed("!f"),
    oids.FLOAT8: _packed("!d"),
    oids.NUMERIC: _binary_numeric,
    oids.DATE: _binary_date,
    oids.TIME: _binary_time,
    oids.TIMESTAMP: _binary_timestamp,
    oids.TIMESTAMPTZ: _binary_timestamp,
    oids.INTERVAL: _binary_interval,
    oids.JSONB: _binary_jsonb,
    oids.UUID: lambda raw: str(uuid.UUID(bytes=raw)),
}
