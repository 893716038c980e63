"""Values in PostgreSQL's binary format."""

from __future__ import annotations

import datetime
import decimal
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from tidemill.model import types as t
from tidemill.model.types import Type
from tidemill.serving.pgwire.types.documents import document
from tidemill.serving.pgwire.types.intervals import interval_parts
from tidemill.serving.pgwire.types.oids import JSONB, pg_type
from tidemill.serving.pgwire.types.text import Encoder, text_encoder

__all__ = ["EPOCH_DAY", "array_bytes", "binary_encoder", "numeric_bytes"]

EPOCH_DAY = datetime.date(2000, 1, 1)
EPOCH_INSTANT = datetime.datetime(2000, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)
_SIZE = struct.Struct("!i")


def _packed(form: str) -> Encoder:
    return struct.Struct(form).pack


def numeric_bytes(value: decimal.Decimal) -> bytes:
    """A number as groups of four decimal digits.

    >>> numeric_bytes(decimal.Decimal("-12345.6")).hex()
    '0003000140000001000109291770'
    """
    sign, digits, exponent = value.as_tuple()
    scale = max(-int(exponent), 0)
    whole = "".join(map(str, digits)) + "0" * max(int(exponent), 0)
    whole, fraction = (whole[:-scale].lstrip("0"), whole[-scale:].rjust(scale, "0")) if scale else (whole, "")
    whole = whole.lstrip("0")
    whole = whole.rjust(-(-len(whole) // 4) * 4, "0")
    fraction = fraction.ljust(-(-len(fraction) // 4) * 4, "0")
    groups = [int((whole + fraction)[at : at + 4]) for at in range(0, len(whole) + len(fraction), 4)]
    weight = len(whole) // 4 - 1
    while groups and groups[0] == 0:
        groups, weight = groups[1:], weight - 1
    while groups and groups[-1] == 0:
        groups.pop()
    if not groups:
        weight, sign = 0, 0
    return struct.pack(f"!hhHh{len(groups)}h", len(groups), weight, 0x4000 if sign else 0, scale, *groups)


def _date(value: datetime.date) -> bytes:
    return _SIZE.pack((value - EPOCH_DAY).days)


def _instant(value: datetime.datetime) -> bytes:
    return struct.pack("!q", (value - EPOCH_INSTANT) // _MICROSECOND)


def _time(value: datetime.time) -> bytes:
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return struct.pack("!q", seconds * 1_000_000 + value.microsecond)


def _interval(of: Type) -> Encoder:
    def encode(value: Any) -> bytes:
        months, days, micros = interval_parts(value, of)
        return struct.pack("!qii", micros, days, months)

    return encode


def _document(value: Any) -> bytes:
    return b"\x01" + document(value).encode("utf-8", "replace")


def array_bytes(cells: Sequence[bytes | None], element: int) -> bytes:
    """An array of one dimension, of values of the type with the number ``element``.

    >>> array_bytes([], 23).hex()
    '000000000000000000000017'
    """
    head = struct.pack("!iiI", 1 if cells else 0, int(None in cells), element)
    if not cells:
        return head
    body = b"".join(_SIZE.pack(-1) if cell is None else _SIZE.pack(len(cell)) + cell for cell in cells)
    return head + struct.pack("!ii", len(cells), 1) + body


def _array(of: Type) -> Encoder:
    element, oid = binary_encoder(of), pg_type(of)
    return lambda value: array_bytes([None if one is None else element(one) for one in value], oid)


_ENCODERS: dict[type[Type], Encoder] = {
    t.Boolean: lambda value: b"\1" if value else b"\0",
    t.TinyInt: _packed("!h"),
    t.SmallInt: _packed("!h"),
    t.Int: _packed("!i"),
    t.BigInt: _packed("!q"),
    t.Decimal: numeric_bytes,
    t.Float: _packed("!f"),
    t.Double: _packed("!d"),
    t.Binary: bytes,
    t.Date: _date,
    t.Time: _time,
    t.Timestamp: _instant,
    t.TimestampNtz: _instant,
}


@lru_cache(maxsize=1024)
def binary_encoder(of: Type) -> Encoder:
    """The encoder of values of a type of ours; texts are the same in both formats.

    >>> binary_encoder(t.INT)(7), binary_encoder(t.STRING)("a")
    (b'\\x00\\x00\\x00\\x07', b'a')
    """
    if pg_type(of) == JSONB:
        return _document
    if isinstance(of, t.Array):
        return _array(of.element)
    if isinstance(of, t.AnsiInterval | t.CalendarInterval):
        return _interval(of)
    return _ENCODERS.get(type(of)) or text_encoder(of)
