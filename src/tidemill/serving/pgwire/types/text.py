"""Values as PostgreSQL prints them. An encoder takes a value that is not NULL, as ``rows()`` returns it."""

from __future__ import annotations

import datetime
import decimal
import math
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from tidemill.model import types as t
from tidemill.model.types import Type
from tidemill.serving.pgwire.types.documents import document
from tidemill.serving.pgwire.types.intervals import interval_parts, interval_text
from tidemill.serving.pgwire.types.oids import JSONB, pg_type

__all__ = ["Encoder", "array_text", "float_text", "text_encoder"]

Encoder = Callable[[Any], bytes]

_QUOTED = re.compile(r'[{}",\\\s]')


def float_text(value: float, digits: int = 15) -> str:
    """The shortest text that is read as the same number; beyond ``digits`` digits with an exponent.

    >>> float_text(0.1), float_text(1e15), float_text(1.5e-7), float_text(-0.0), float_text(math.inf)
    ('0.1', '1e+15', '1.5e-07', '-0', 'Infinity')
    """
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return _short(repr(value), digits)


def _single_text(value: float) -> str:
    if not math.isfinite(value):
        return float_text(value)
    return _short(np.format_float_scientific(np.float32(value), unique=True), 6)


def _short(written: str, digits: int) -> str:
    sign, figures, exponent = decimal.Decimal(written).as_tuple()
    text = "".join(map(str, figures)).rstrip("0") or "0"
    power = len(figures) + int(exponent) - 1 if any(figures) else 0
    minus = "-" if sign else ""
    if -5 < power < digits:
        if power < 0:
            return f"{minus}0.{'0' * (-power - 1)}{text}"
        whole, rest = text[: power + 1].ljust(power + 1, "0"), text[power + 1 :]
        return f"{minus}{whole}.{rest}" if rest else f"{minus}{whole}"
    fraction = f".{text[1:]}" if len(text) > 1 else ""
    return f"{minus}{text[0]}{fraction}e{'-' if power < 0 else '+'}{abs(power):02}"


def _boolean(value: bool) -> bytes:
    return b"t" if value else b"f"


def _integer(value: int) -> bytes:
    return b"%d" % value


def _decimal(value: decimal.Decimal) -> bytes:
    return format(value, "f").encode()


def _string(value: str) -> bytes:
    return (value.replace("\0", "") if "\0" in value else value).encode("utf-8", "replace")


def _bytes(value: bytes) -> bytes:
    return b"\\x" + value.hex().encode()


def _date(value: datetime.date) -> bytes:
    return value.isoformat().encode()


def _clock(value: datetime.datetime | datetime.time) -> str:
    tail = f".{value.microsecond:06}".rstrip("0") if value.microsecond else ""
    return f"{value.hour:02}:{value.minute:02}:{value.second:02}{tail}"


def _time(value: datetime.time) -> bytes:
    return _clock(value).encode()


def _local(value: datetime.datetime) -> bytes:
    return f"{value.year:04}-{value.month:02}-{value.day:02} {_clock(value)}".encode()


def _instant(value: datetime.datetime) -> bytes:
    return _local(value) + b"+00"


def _interval(of: Type) -> Encoder:
    return lambda value: interval_text(*interval_parts(value, of)).encode()


def _document(value: Any) -> bytes:
    return document(value).encode("utf-8", "replace")


def array_text(elements: list[str | None]) -> str:
    """The text of an array of texts.

    >>> array_text(["a", None, "", "x y", 'q"'])
    '{a,NULL,"","x y","q\\\\""}'
    """
    return "{" + ",".join("NULL" if one is None else _quoted(one) for one in elements) + "}"


def _quoted(text: str) -> str:
    if text and text.upper() != "NULL" and not _QUOTED.search(text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _array(element: Encoder) -> Encoder:
    def encode(value: list[Any]) -> bytes:
        return array_text([None if one is None else element(one).decode() for one in value]).encode()

    return encode


_ENCODERS: dict[type[Type], Encoder] = {
    t.Void: _string,
    t.Boolean: _boolean,
    t.TinyInt: _integer,
    t.SmallInt: _integer,
    t.Int: _integer,
    t.BigInt: _integer,
    t.Decimal: _decimal,
    t.Float: lambda value: _single_text(value).encode(),
    t.Double: lambda value: float_text(value).encode(),
    t.String: _string,
    t.Collated: _string,
    t.Binary: _bytes,
    t.Date: _date,
    t.Time: _time,
    t.Timestamp: _instant,
    t.TimestampNtz: _local,
}


@lru_cache(maxsize=1024)
def text_encoder(of: Type) -> Encoder:
    """The encoder of values of a type of ours.

    >>> text_encoder(t.BOOLEAN)(True), text_encoder(t.Array(t.INT))([1, None])
    (b't', b'{1,NULL}')
    """
    if pg_type(of) == JSONB:
        return _document
    if isinstance(of, t.Array):
        return _array(text_encoder(of.element))
    if isinstance(of, t.AnsiInterval | t.CalendarInterval):
        return _interval(of)
    return _ENCODERS[type(of)]
