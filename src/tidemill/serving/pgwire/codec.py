"""Frames of PostgreSQL's protocol, strictly: a length that lies, or bytes that are left over, end the connection."""

from __future__ import annotations

import struct
from typing import Final

__all__ = ["FrameReader", "MalformedMessage", "PayloadReader"]

LARGEST_STARTUP: Final = 10_000
"""Bytes of a startup packet at most: nobody is known yet who could ask for more."""

LARGEST_MESSAGE: Final = 64 << 20
"""Bytes of any other message at most."""

_LENGTH = struct.Struct("!I")
_INT16 = struct.Struct("!h")
_INT32 = struct.Struct("!i")
_UNSIGNED = struct.Struct("!I")


class MalformedMessage(Exception):
    """Bytes that are no message of the protocol."""


class FrameReader:
    """Cuts the bytes of a client into messages.

    >>> frames = FrameReader()
    >>> frames.feed(b"Q\\0\\0\\0\\x0dSELECT 1\\0S\\0")
    >>> frames.message(), frames.message()
    ((81, b'SELECT 1\\x00'), None)
    """

    def __init__(self, largest: int = LARGEST_MESSAGE) -> None:
        self._bytes = bytearray()
        self._start = 0
        self.largest = largest

    @property
    def waiting(self) -> int:
        """Number of bytes received of which no message was made yet."""
        return len(self._bytes) - self._start

    def feed(self, data: bytes) -> None:
        """Add bytes that have come."""
        if self._start:
            del self._bytes[: self._start]
            self._start = 0
        self._bytes += data

    def startup(self) -> bytes | None:
        """The next packet without a type, as a connection begins with; None until it is complete."""
        if self.waiting < 4:
            return None
        (length,) = _LENGTH.unpack_from(self._bytes, self._start)
        if not 8 <= length <= LARGEST_STARTUP:
            raise MalformedMessage(f"a startup packet of {length} bytes")
        return self._cut(4, length)

    def message(self) -> tuple[int, bytes] | None:
        """The type of the next message, and what it carries; None until it is complete."""
        if self.waiting < 5:
            return None
        kind = self._bytes[self._start]
        (length,) = _LENGTH.unpack_from(self._bytes, self._start + 1)
        if not 4 <= length <= self.largest:
            raise MalformedMessage(f"a message of {length} bytes")
        payload = self._cut(5, length + 1)
        return None if payload is None else (kind, payload)

    def _cut(self, head: int, total: int) -> bytes | None:
        if self.waiting < total:
            return None
        start, self._start = self._start, self._start + total
        with memoryview(self._bytes) as view:
            return bytes(view[start + head : start + total])


class PayloadReader:
    """Reads what a message carries from left to right; ``end`` makes sure that nothing is left.

    >>> reader = PayloadReader(b"a\\0\\0\\x02")
    >>> reader.text(), reader.int16(), reader.end()
    ('a', 2, None)
    """

    def __init__(self, payload: bytes) -> None:
        self._payload = payload
        self._at = 0

    def text(self) -> str:
        """A text that ends with a zero byte."""
        end = self._payload.find(0, self._at)
        if end < 0:
            raise MalformedMessage("a text without an end")
        raw, self._at = self._payload[self._at : end], end + 1
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise MalformedMessage("a text that is not UTF-8") from None

    def int16(self) -> int:
        """A signed number of 16 bits."""
        return self._number(_INT16)

    def int32(self) -> int:
        """A signed number of 32 bits."""
        return self._number(_INT32)

    def oid(self) -> int:
        """An unsigned number of 32 bits."""
        return self._number(_UNSIGNED)

    def count(self) -> int:
        """Number of items that follow, as 16 bits without a sign."""
        return self.int16() & 0xFFFF

    def value(self) -> bytes | None:
        """A length and so many bytes; None for -1."""
        length = self.int32()
        if length == -1:
            return None
        if length < 0:
            raise MalformedMessage(f"a value of {length} bytes")
        return self.take(length)

    def take(self, length: int) -> bytes:
        """The next ``length`` bytes."""
        end = self._at + length
        if end > len(self._payload):
            raise MalformedMessage("a message that ends too early")
        taken, self._at = self._payload[self._at : end], end
        return taken

    def rest(self) -> bytes:
        """All that is left."""
        return self.take(len(self._payload) - self._at)

    def at_end(self) -> bool:
        """True once everything has been read."""
        return self._at == len(self._payload)

    def end(self) -> None:
        """Refuse bytes that are left."""
        if not self.at_end():
            raise MalformedMessage("a message that is longer than what it says")

    def _number(self, form: struct.Struct) -> int:
        end = self._at + form.size
        if end > len(self._payload):
            raise MalformedMessage("a message that ends too early")
        (found,) = form.unpack_from(self._payload, self._at)
        self._at = end
        return int(found)
