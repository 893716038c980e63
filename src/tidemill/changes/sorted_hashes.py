"""Sorted hashes: an index by which rows that are columns are found, as one array of 64-bit numbers.

Each number is the hash of a row's key with the row's position in place of its low bits, so one sort gives the order and
the positions: half the time and memory of sorting hashes and positions beside each other. What is found has the high
bits of a sought hash, so keys must be compared afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.changes.hashing import Hashes, hash_columns

Positions = npt.NDArray[np.int64]


def index_rows(columns: Sequence[pa.ChunkedArray]) -> Hashes:
    """The index of rows by the values of all ``columns``."""
    return sort_hashes(hash_columns(columns), len(columns[0]))


def index_elements(column: pa.ChunkedArray) -> Hashes:
    """The index of rows by the elements of their arrays, of which a row may have any number."""
    arrays = column.combine_chunks()
    hashes = hash_columns([pa.chunked_array([pc.list_flatten(arrays)])])
    return sort_hashes(hashes, len(arrays), pc.list_parent_indices(arrays).to_numpy())


def sort_hashes(hashes: Hashes, rows: int, positions: Positions | None = None) -> Hashes:
    """The index of ``rows`` rows, by the hash of each; or by several for a row, which stands at ``positions`` of them.

    >>> entries = sort_hashes(np.array([7 << 60, 3 << 60, 7 << 60], np.uint64), 3)
    >>> find_positions(entries, 3, np.array([7 << 60], np.uint64)).tolist()
    [0, 2]
    """
    if positions is None:
        positions = np.arange(rows)
    entries = (hashes & ~_position_bits(rows)) | positions.view(np.uint64)
    entries.sort()
    return entries


def find_positions(entries: Hashes, rows: int, wanted: Hashes) -> Positions:
    """The positions of the rows, of ``rows`` in all, that have one of the hashes; and rarely of others."""
    low = _position_bits(rows)
    sought = _distinct(wanted & ~low)
    first = np.searchsorted(entries, sought, side="left")
    last = np.searchsorted(entries, sought | low, side="right")
    return _distinct(entries[_ranges(first, last)] & low).view(np.int64)


def group_positions(hashes: Hashes) -> tuple[Positions, Positions]:
    """The positions of rows in an order in which those of one hash are neighbours, in ascending order, and the number
    of the group that each is in. Rows of different hashes are rarely in one group.

    >>> order, numbers = group_positions(np.array([7 << 60, 3 << 60, 7 << 60], np.uint64))
    >>> order.tolist(), numbers.tolist()
    ([1, 0, 2], [0, 1, 1])
    """
    low = _position_bits(len(hashes))
    entries = sort_hashes(hashes, len(hashes))
    keys = entries & ~low
    return (entries & low).view(np.int64), np.cumsum(np.diff(keys, prepend=keys[:1]) != 0)


def _distinct(numbers: Hashes) -> Hashes:
    """The numbers in ascending order, each once. ``np.unique``, which hashes them, took three to seven times as long.

    >>> _distinct(np.array([7, 3, 7], np.uint64)).tolist()
    [3, 7]
    """
    ordered = np.sort(numbers)
    is_first = np.concatenate((np.ones(min(len(ordered), 1), dtype=bool), ordered[1:] != ordered[:-1]))
    distinct: Hashes = ordered[is_first]
    return distinct


def _position_bits(rows: int) -> np.uint64:
    """The low bits that the positions of so many rows need.

    >>> [int(_position_bits(rows)) for rows in (1, 2, 4, 5)]
    [0, 1, 3, 7]
    """
    return np.uint64((1 << max(rows - 1, 0).bit_length()) - 1)


def _ranges(first: npt.NDArray[np.intp], last: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """All integers of the ranges ``first[i]`` to ``last[i]``, end to end.

    >>> _ranges(np.array([2, 5]), np.array([4, 6])).tolist()
    [2, 3, 5]
    """
    lengths = last - first
    ends = np.cumsum(lengths)
    offsets = np.arange(ends[-1] if len(ends) else 0)
    places: npt.NDArray[np.intp] = offsets + np.repeat(first - (ends - lengths), lengths)
    return places
