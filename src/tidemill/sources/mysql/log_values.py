"""Values of rows in the binary log of MariaDB and MySQL, as the text by which they are read elsewhere.

The log has values in the server's own binary form, which says neither if an integer has a sign, nor the character set
of a text, nor the names of an ENUM: these come from the catalog. A value is brought to the text that a query would
give, so that one function converts both; a text stays as its bytes. https://mariadb.com/kb/en/rows_event_v1v2-rows_compressed_event_v1/
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from tidemill.model.errors import Unsupported
from tidemill.sources.mysql.catalog import LoggedColumn

__all__ = ["ReadBytes", "read_value"]

ReadBytes = Callable[[int], bytes]
"""Reads the next bytes of the row."""

_INTEGERS = {1: 1, 2: 2, 9: 3, 3: 4, 8: 8}
_DIGIT_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
_START = datetime(1970, 1, 1, tzinfo=UTC)


def read_value(read: ReadBytes, here: Any, column: LoggedColumn) -> Any:
    """The next value of a row, which is not NULL. ``here`` is the column in the log, ``column`` in the catalog."""
    kind = here.type
    if kind in _INTEGERS:
        return _integer(read(_INTEGERS[kind]), column)
    if kind in _READERS:
        return _READERS[kind](read, here, column)
    raise Unsupported(
        f'column "{column.name}" is in the log in a form that cannot be read',
        detail=f"It is of type {column.kind}, in form {kind}.",
        hint="Leave out the table in the option tables of the source, or change the column's type or attributes.",
    )


def _integer(data: bytes, column: LoggedColumn) -> int:
    return int.from_bytes(data, "little", signed=not column.unsigned_bits)


def _text(data: bytes, column: LoggedColumn) -> bytes:
    """Bytes, which of a text are in the character set of the column (``log_texts``)."""
    return data if column.charset else data.ljust(column.length, b"\0")  # zeros at the end of BINARY(n) are not logged


def _short_text(read: ReadBytes, here: Any, column: LoggedColumn) -> Any:
    return _text(read(_number(read(1 if here.max_length <= 255 else 2))), column)


def _long_text(read: ReadBytes, here: Any, column: LoggedColumn) -> Any:
    return _text(read(_number(read(here.length_size))), column)


def _number(data: bytes) -> int:
    return int.from_bytes(data, "little")


def _double(read: ReadBytes, here: Any, column: LoggedColumn) -> float:
    return float(struct.unpack("<d", read(8))[0])


def _float(read: ReadBytes, here: Any, column: LoggedColumn) -> float:
    return float(struct.unpack("<f", read(4))[0])


def _year(read: ReadBytes, here: Any, column: LoggedColumn) -> int:
    number = read(1)[0]
    return number + 1900 if number else 0


def _date(read: ReadBytes, here: Any, column: LoggedColumn) -> str:
    packed = _number(read(3))
    return f"{packed >> 9:04}-{packed >> 5 & 15:02}-{packed & 31:02}"


def _timestamp(read: ReadBytes, here: Any, column: LoggedColumn) -> str:
    seconds = int.from_bytes(read(4), "big")
    microseconds = _fraction(read, here.fsp)
    if not seconds and not microseconds:
        return "0000-00-00 00:00:00"
    return f"{_START + timedelta(seconds=seconds, microseconds=microseconds):%Y-%m-%d %H:%M:%S.%f}"


def _datetime(read: ReadBytes, here: Any, column: LoggedColumn) -> str:
    packed = int.from_bytes(read(5), "big") & (1 << 39) - 1
    months, day = packed >> 22, packed >> 17 & 31
    hour, minute, second = packed >> 12 & 31, packed >> 6 & 63, packed & 63
    clock = f"{hour:02}:{minute:02}:{second:02}.{_fraction(read, here.fsp):06}"
    return f"{months // 13:04}-{months % 13:02}-{day:02} {clock}"


def _time(read: ReadBytes, here: Any, column: LoggedColumn) -> None:
    """A TIME, which no column of ours has: its bytes are skipped."""
    read(3 + (here.fsp + 1) // 2)


def _fraction(read: ReadBytes, digits: int) -> int:
    """Microseconds, of which the log has pairs of digits."""
    size = (digits + 1) // 2
    return int(int.from_bytes(read(size), "big") * 10 ** (6 - 2 * size)) if size else 0


def _bits(read: ReadBytes, here: Any, column: LoggedColumn) -> int:
    return int.from_bytes(read(here.bytes), "big")


def _enum(read: ReadBytes, here: Any, column: LoggedColumn) -> str:
    """A member by its number; zero is the empty text of a wrong value."""
    number = _number(read(here.size))
    return column.members[number - 1] if number else ""


def _set(read: ReadBytes, here: Any, column: LoggedColumn) -> str:
    bits = _number(read(here.size))
    return ",".join(member for place, member in enumerate(column.members) if bits >> place & 1)


def _decimal(read: ReadBytes, here: Any, column: LoggedColumn) -> str:
    """Digits in groups of nine, four bytes each, from the point outwards; negative ones have all bits flipped."""
    before, after = here.precision - here.decimals, here.decimals
    sizes = [_DIGIT_BYTES[before % 9], *[4] * (before // 9), *[4] * (after // 9), _DIGIT_BYTES[after % 9]]
    widths = [before % 9, *[9] * (before // 9), *[9] * (after // 9), after % 9]
    data = bytearray(read(sum(sizes)))
    negative = not data[0] & 0x80
    data[0] ^= 0x80
    if negative:
        data = bytearray(byte ^ 0xFF for byte in data)
    digits, at = "", 0
    for size, width in zip(sizes, widths, strict=True):
        if width:
            digits += f"{int.from_bytes(data[at : at + size], 'big'):0{width}}"
        at += size
    whole, part = digits[:before] or "0", digits[before:]
    return ("-" if negative else "") + whole + (f".{part}" if part else "")


_READERS: dict[int, Callable[[ReadBytes, Any, LoggedColumn], Any]] = {
    4: _float,
    5: _double,
    10: _date,
    13: _year,
    15: _short_text,
    16: _bits,
    17: _timestamp,
    18: _datetime,
    19: _time,
    245: _long_text,
    246: _decimal,
    247: _enum,
    248: _set,
    252: _long_text,
    253: _short_text,
    254: _short_text,
    255: _long_text,
}
"""Reader of the values of each form: the numbers are those of the protocol's column types."""
