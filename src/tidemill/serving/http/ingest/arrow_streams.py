"""Streams of Arrow, measured before they are decoded: a thousand bytes of a compressed one may stand for gigabytes.

What a batch takes is in its metadata, a flatbuffer of two tables, and before each compressed buffer. Arrow's own reader
in Python has no limit, and does not tell before it decodes.
"""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.model.errors import BadValue
from tidemill.serving.http.ingest.decoded_bytes import DecodedBytes

__all__ = ["read_stream"]

DICTIONARY, BATCH = 2, 3
"""Kinds of messages with buffers."""

BYTES_OF_VALUE = 8
"""Bytes of a value that is in no buffer, such as those of a column of NULLs."""


def read_stream(source: pa.BufferReader, limit: DecodedBytes, where: str) -> pa.Table:
    """The table of the next stream, if all that it stands for is within a limit."""
    try:
        begin = source.tell()
        _measure(source, limit)
        source.seek(begin)
        with pa.ipc.open_stream(source) as reader:
            found = reader.read_all()
        found.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, struct.error) as error:
        detail = str(error).partition("\n")[0][:200]
        raise BadValue("the body is not a stream of Arrow", where=where, detail=detail) from None
    for name in found.column_names:
        limit.take(_shared_bytes(found.column(name), name))
    return found


def _measure(source: pa.BufferReader, limit: DecodedBytes) -> None:
    """Go to the end of a stream, and count what its messages are when they are decoded."""
    while True:
        try:
            message = pa.ipc.read_message(source)
        except EOFError:
            return
        data = memoryview(message.metadata)
        (root,) = struct.unpack_from("<I", data)
        kind, header = _place(data, root, 1), _place(data, root, 2)
        if kind is None or header is None or data[kind] not in (DICTIONARY, BATCH):
            continue
        batch = _target(data, header)
        if data[kind] == DICTIONARY:
            inner = _place(data, batch, 1)
            if inner is None:
                continue
            batch = _target(data, inner)
        limit.take(_decoded(data, batch, message.body))


def _decoded(data: memoryview, batch: int, body: pa.Buffer | None) -> int:
    """The bytes of a batch once it is decoded; at least some for each value."""
    values = sum(length for length, _ in _pairs(data, batch, 1))
    buffers = [(offset, length) for offset, length in _pairs(data, batch, 2) if length]
    if _place(data, batch, 3) is None or body is None:
        return max(BYTES_OF_VALUE * values, sum(length for _, length in buffers))
    content, size = memoryview(body), 0
    for offset, length in buffers:
        expanded = int(struct.unpack_from("<q", content, offset)[0])
        size += length if expanded < 0 else expanded  # -1: it was not worth it to compress this one
    return max(BYTES_OF_VALUE * values, size)


def _place(data: memoryview, table: int, field: int) -> int | None:
    """Where a field of a table is; None if it has its default."""
    fields = table - int(struct.unpack_from("<i", data, table)[0])
    entry = 4 + 2 * field
    if entry >= struct.unpack_from("<H", data, fields)[0]:
        return None
    offset = int(struct.unpack_from("<H", data, fields + entry)[0])
    return table + offset if offset else None


def _target(data: memoryview, at: int) -> int:
    """Where something is that is referred to."""
    return at + int(struct.unpack_from("<I", data, at)[0])


def _pairs(data: memoryview, table: int, field: int) -> list[tuple[int, int]]:
    """A vector of pairs of numbers: nodes with their values and NULLs, buffers with their offsets and lengths."""
    at = _place(data, table, field)
    if at is None:
        return []
    vector = _target(data, at)
    count = int(struct.unpack_from("<I", data, vector)[0])
    numbers = np.frombuffer(data, "<i8", 2 * count, vector + 4).tolist()
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def _shared_bytes(column: pa.ChunkedArray, name: str) -> int:
    """The bytes of the texts that a column refers to, each as often as it does; 0 if it has all that it stands for."""
    of = column.type
    if pa.types.is_dictionary(of) and not pa.types.is_nested(of.value_type) and not _shares(of.value_type):
        return sum(_dictionary_bytes(chunk) for chunk in column.chunks)
    if pa.types.is_string_view(of) or pa.types.is_binary_view(of):
        return sum(_view_bytes(chunk) for chunk in column.chunks)
    if _shares(of):
        raise BadValue(f"a column of type {str(of)[:60]} cannot be sent", where=name, hint="Send plain columns.")
    return 0


def _shares(of: pa.DataType) -> bool:
    """True if a type refers to values, which may be referred to many times, or has a part that does."""
    tests = (pa.types.is_dictionary, pa.types.is_string_view, pa.types.is_binary_view, pa.types.is_run_end_encoded)
    more = (pa.types.is_list_view, pa.types.is_large_list_view, pa.types.is_union)
    return any(test(of) for test in (*tests, *more)) or any(_shares(of.field(i).type) for i in range(of.num_fields))


def _dictionary_bytes(chunk: pa.DictionaryArray) -> int:
    if not (pa.types.is_string(chunk.type.value_type) or pa.types.is_large_string(chunk.type.value_type)):
        return BYTES_OF_VALUE * len(chunk)
    return int(pc.sum(pc.binary_length(chunk.dictionary).take(chunk.indices).cast(pa.int64())).as_py() or 0)


def _view_bytes(chunk: pa.Array) -> int:
    """The lengths of views: each is the first of four numbers."""
    lengths = np.frombuffer(chunk.buffers()[1], "<i4")[4 * chunk.offset :: 4][: len(chunk)]
    return int(lengths[chunk.is_valid().to_numpy(zero_copy_only=False)].sum(dtype=np.int64))
