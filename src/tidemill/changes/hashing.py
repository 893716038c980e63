"""Hashes of rows that are columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Hashes = npt.NDArray[np.uint64]


def hash_columns(columns: Sequence[pa.ChunkedArray]) -> Hashes:
    """One hash for each row over all columns; equal values of one type have equal hashes, NULLs included."""
    total = np.zeros(len(columns[0]) if columns else 0, dtype=np.uint64)
    for column in columns:
        total = _mixed(total * np.uint64(31) + _hash_column(column))
    return total


def _hash_column(column: pa.ChunkedArray) -> Hashes:
    kind = column.type
    if pa.types.is_decimal(kind):
        words = [_words(chunk) for chunk in column.chunks]
        return np.concatenate(words) if words else np.zeros(0, dtype=np.uint64)
    if pa.types.is_nested(kind) or pa.types.is_string(kind):
        import pandas as pd  # importing it takes 0.4 s, which most processes need not spend

        values = column.to_pandas().to_numpy(dtype=object)
        if pa.types.is_nested(kind):
            values = np.array([repr(value) for value in column.to_pylist()], dtype=object)
        texts: Hashes = pd.util.hash_array(np.where(pd.isna(values), "\0", values), categorize=False)
        return texts
    if pa.types.is_floating(kind):
        floats = _filled(column, 0.0) + 0.0  # one zero, and below one NaN: files may hold others of either
        return np.where(np.isnan(floats), np.nan, floats).view(np.uint64)
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif pa.types.is_timestamp(kind):
        column = column.cast(pa.int64())
    elif pa.types.is_date(kind):
        column = column.cast(pa.int32())
    return _filled(column, 0).astype(np.int64).view(np.uint64)


def _filled(column: pa.ChunkedArray, value: float) -> npt.NDArray[Any]:
    """The values with a filler for NULL; any value does, since a fetch compares the rows themselves."""
    return np.ascontiguousarray(pc.fill_null(column, value).to_numpy())


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
