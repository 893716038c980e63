"""Whole rows on the wire."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tidemill.model.types import Type
from tidemill.serving.pgwire.messages import BINARY
from tidemill.serving.pgwire.types.binary import binary_encoder
from tidemill.serving.pgwire.types.text import Encoder, text_encoder

__all__ = ["RowEncoder", "encoder_of", "row_encoder"]

RowEncoder = Callable[[Iterable[tuple[Any, ...]]], bytes]

_SIZE = struct.Struct("!I")
_HEAD = struct.Struct("!cIH")
_NULL = b"\xff\xff\xff\xff"


def encoder_of(of: Type, form: int) -> Encoder:
    """The encoder of values of a type, in one of the two formats."""
    return binary_encoder(of) if form == BINARY else text_encoder(of)


def row_encoder(encoders: Sequence[Encoder]) -> RowEncoder:
    """Encodes rows as the messages that carry them.

    >>> from tidemill.model.types import INT
    >>> row_encoder([text_encoder(INT)])([(7,), (None,)])
    b'D\\x00\\x00\\x00\\x0b\\x00\\x01\\x00\\x00\\x00\\x017D\\x00\\x00\\x00\\n\\x00\\x01\\xff\\xff\\xff\\xff'
    """
    width, size, head = len(encoders), _SIZE.pack, _HEAD.pack

    def encode(rows: Iterable[tuple[Any, ...]]) -> bytes:
        out = []
        for row in rows:
            parts = []
            for value, cell in zip(row, encoders, strict=True):
                if value is None:
                    parts.append(_NULL)
                else:
                    encoded = cell(value)
                    parts.append(size(len(encoded)))
                    parts.append(encoded)
            body = b"".join(parts)
            out.append(head(b"D", len(body) + 6, width))
            out.append(body)
        return b"".join(out)

    return encode
