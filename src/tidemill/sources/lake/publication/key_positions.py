"""The places of rows in data files, by their keys."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.sources.lake.marked_rows import Positions

__all__ = ["changed_keys", "key_positions", "live_positions", "without"]


def key_positions(rows: pa.Table, keys: pa.Table) -> Positions:
    """The places of the rows that have one of ``keys`` in its columns. NULL equals NULL, and NaN equals NaN.

    >>> rows = pa.table({"a": [1, 1, 2, None], "b": ["x", "y", "x", "x"], "n": [5, 6, 7, 8]})
    >>> key_positions(rows, pa.table({"a": [1, None], "b": ["y", "x"]}))
    array([1, 3])
    """
    rows = rows.select(keys.column_names).cast(keys.schema)
    places: Positions = np.arange(rows.num_rows)
    flat = [name for name in keys.column_names if not pa.types.is_nested(keys.schema.field(name).type)]
    for name in flat:
        if len(places):
            known = pc.is_in(_comparable(rows.column(name)), value_set=_comparable(keys.column(name)))
            found = np.flatnonzero(known.to_numpy(zero_copy_only=False))
            places, rows = places[found], rows.take(pa.array(found))
    if len(keys.column_names) == len(flat) == 1 or not len(places):
        return places
    codes = _codes(pa.concat_tables([keys, rows]))
    return places[np.isin(codes[keys.num_rows :], codes[: keys.num_rows])]


def live_positions(rows: pa.Table, keys: pa.Table, deleted: Positions | None) -> Positions:
    """The places of the rows with these keys, without those that are deleted already."""
    found = key_positions(rows, keys)
    return found if deleted is None else np.setdiff1d(found, deleted, assume_unique=True)


def without(rows: pa.Table, deleted: Positions | None) -> pa.Table:
    """The rows that are not at these places."""
    return rows if deleted is None else rows.take(pa.array(np.setdiff1d(np.arange(rows.num_rows), deleted)))


def changed_keys(gone: pa.Table, come: pa.Table) -> int:
    """The number of keys that go, come or change."""
    changed = len(key_positions(come, gone)) if gone.num_rows and come.num_rows else 0
    return int(come.num_rows + gone.num_rows - changed)


def _codes(table: pa.Table) -> Positions:
    """A number for each row, the same for equal ones."""
    codes: Positions = np.zeros(table.num_rows, np.int64)
    for column in table.columns:
        one = _column_codes(column)
        # Made dense again at each column, so that products stay small.
        codes = np.unique(codes * (one.max(initial=0) + 1) + one, return_inverse=True)[1].astype(np.int64)
    return codes


def _column_codes(column: pa.ChunkedArray) -> Positions:
    if not pa.types.is_nested(column.type):
        encoded = _comparable(column).dictionary_encode(null_encoding="encode")
        return np.asarray(encoded.indices.to_numpy(zero_copy_only=False), np.int64)
    known: dict[str, int] = {}
    return np.array([known.setdefault(repr(_plain(one)), len(known)) for one in column.to_pylist()], np.int64)


def _plain(value: Any) -> Any:
    """A nested value in which zero has one sign."""
    if isinstance(value, float):
        return value + 0.0
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


def _comparable(column: pa.ChunkedArray) -> pa.Array:
    """A column in one piece, in which zero has one sign."""
    whole = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):  # an empty one stays in chunks
        whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], whole.type)
    return pc.add(whole, pa.scalar(0.0, whole.type)) if pa.types.is_floating(whole.type) else whole
