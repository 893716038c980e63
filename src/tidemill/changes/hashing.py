"""Hashes of rows that are columns."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Hashes = npt.NDArray[np.uint64]

LONG_TEXT = 512
"""Bytes above which a text is hashed by itself: the others are hashed together, eight bytes at a time."""


def hash_columns(columns: Sequence[pa.ChunkedArray]) -> Hashes:
    """One hash for each row over all columns; equal values of one type have equal hashes, NULLs included."""
    total = np.zeros(len(columns[0]) if columns else 0, dtype=np.uint64)
    for column in columns:
        total = _mixed(total * np.uint64(31) + _hash_column(column))
    return total


def hash_rows(columns: Sequence[pa.ChunkedArray]) -> Hashes:
    """The hashes of ``hash_columns``, but of rows that differ in NULLs alone, too.

    >>> rows = [pa.chunked_array([[1, 1, 1]]), pa.chunked_array([[0, None, 0]])]
    >>> len(set(hash_columns(rows).tolist())), len(set(hash_rows(rows).tolist()))
    (1, 2)
    """
    hashes = hash_columns(columns)
    for place, column in enumerate(columns):
        if column.null_count:
            nulls = column.is_null().to_numpy().astype(np.uint64)
            hashes ^= _mixed(nulls * np.uint64(place + 1))
    return hashes


def _hash_column(column: pa.ChunkedArray) -> Hashes:
    kind = column.type
    if pa.types.is_decimal(kind):
        words = [_words(chunk) for chunk in column.chunks]
        return np.concatenate(words) if words else np.zeros(0, dtype=np.uint64)
    if pa.types.is_nested(kind):
        column = pa.chunked_array([pa.array([repr(value) for value in column.to_pylist()], pa.large_string())])
    if pa.types.is_binary(kind):
        column = pa.chunked_array([chunk.view(pa.string()) for chunk in column.chunks], pa.string())
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        texts = [_hash_texts(chunk) for chunk in column.chunks]
        return np.concatenate(texts) if texts else np.zeros(0, dtype=np.uint64)
    if pa.types.is_floating(kind):
        floats = (
            _filled(column, 0.0).astype(np.float64) + 0.0
        )  # one zero, and below one NaN: files may hold others of either
        return np.where(np.isnan(floats), np.nan, floats).view(np.uint64)
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
        column = column.cast(pa.int64())
    elif pa.types.is_date(kind):
        column = column.cast(pa.int32())
    return _filled(column, 0).astype(np.int64).view(np.uint64)


def _filled(column: pa.ChunkedArray, value: float) -> npt.NDArray[Any]:
    """The values with a filler for NULL; any value does, since a fetch compares the rows themselves."""
    return np.ascontiguousarray(pc.fill_null(column, value).to_numpy())


def _hash_texts(chunk: pa.Array) -> Hashes:
    """Hashes of texts by their bytes; NULL has that of the empty text.

    >>> texts = ["a", None, "a longer text", ""]
    >>> one, two = (_hash_texts(pa.array(texts, kind)) for kind in ("string", "large_string"))
    >>> (one == two).all(), one[1] == one[3], len(set(one.tolist()))
    (np.True_, np.True_, 3)
    """
    kind = np.int64 if pa.types.is_large_string(chunk.type) else np.int32
    _, offsets, content = chunk.buffers()
    if not len(chunk):
        return np.zeros(0, dtype=np.uint64)
    bounds = np.frombuffer(offsets, dtype=kind)[chunk.offset : chunk.offset + len(chunk) + 1].astype(np.int64)
    places, left = bounds[:-1], np.diff(bounds)
    if chunk.null_count:
        left[chunk.is_null().to_numpy(zero_copy_only=False)] = 0
    hashes = left.astype(np.uint64)
    data = np.frombuffer(content or b"", dtype=np.uint8)
    _hash_words(hashes, data, places, np.where(left > LONG_TEXT, 0, left))
    for row in np.flatnonzero(left > LONG_TEXT):
        text = data[places[row] : places[row] + left[row]].tobytes()
        hashes[row] = int.from_bytes(blake2b(text, digest_size=8).digest(), "little")
    return hashes


def _hash_words(
    hashes: Hashes, data: npt.NDArray[np.uint8], places: npt.NDArray[np.int64], left: npt.NDArray[np.int64]
) -> None:
    """Mix the ``left`` bytes of ``data`` from ``places`` on into ``hashes``, a word of each at a time."""
    if not left.any():
        return
    start = places.min()
    padded = np.append(data[start : (places + left).max()], np.zeros(8, dtype=np.uint8))
    words = np.ndarray(len(padded) - 7, dtype="<u8", buffer=padded, strides=(1,))
    open_ = np.flatnonzero(left)
    places, left = places[open_] - start, left[open_]
    while len(open_):
        unused = (8 * (8 - np.minimum(left, 8))).astype(np.uint64)
        hashes[open_] = _mixed(hashes[open_] * np.uint64(31) + (words[places] << unused))
        longer = left > 8
        open_, places, left = open_[longer], places[longer] + 8, left[longer] - 8


def _words(chunk: pa.Array) -> Hashes:
    """A decimal's 128 bits folded to 64."""
    filled = pc.fill_null(chunk, 0) if chunk.null_count else chunk
    words = np.frombuffer(filled.buffers()[1], dtype=np.uint64)
    words = words[2 * filled.offset : 2 * (filled.offset + len(filled))]
    folded: Hashes = words[0::2] ^ _mixed(words[1::2])
    return folded


def _mixed(values: Hashes) -> Hashes:
    """Mix the bits (the finalizer of SplitMix64), so that adjacent keys have distant hashes."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
