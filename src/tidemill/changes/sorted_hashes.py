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

MARKED_ROWS = 64
"""Rows among which there must be one that is found for marking the found ones to be faster than sorting them."""


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
    entries = (hashes & ~position_bits(rows)) | positions.view(np.uint64)
    entries.sort()
    return entries


def sought_hashes(columns: Sequence[pa.ChunkedArray]) -> Hashes:
    """The hashes of keys that are columns, as ``find_positions`` takes them: in ascending order, each once."""
    return _distinct(hash_columns(columns))


def find_positions(entries: Hashes, rows: int, sought: Hashes) -> Positions:
    """The positions of the rows, of ``rows`` in all, that have one of the ``sought_hashes``; and rarely of others."""
    low = position_bits(rows)
    keys = _once(sought & ~low)
    first = np.searchsorted(entries, keys, side="left")
    last = np.searchsorted(entries, keys | low, side="right")
    found = entries[_ranges(first, last)] & low
    if len(found) * MARKED_ROWS < rows:
        return _distinct(found).view(np.int64)
    marked = np.zeros(rows, dtype=bool)
    marked[found.view(np.int64)] = True
    return np.flatnonzero(marked)


def group_positions(hashes: Hashes) -> tuple[Positions, Positions]:
    """The positions of rows in an order in which those of one hash are neighbours, in ascending order, and the number
    of the group that each is in.

    >>> order, numbers = group_positions(np.array([7 << 60, 3 << 60, 1, 7 << 60, 2, 1], np.uint64))
    >>> order.tolist(), numbers.tolist()
    ([2, 5, 4, 1, 0, 3], [0, 0, 1, 2, 3, 3])
    """
    low = position_bits(len(hashes))
    entries = sort_hashes(hashes, len(hashes))
    order = (entries & low).view(np.int64)
    found = hashes[order]
    differs = found[1:] != found[:-1]
    # Hashes that differ in their low bits alone are in the order of positions so far.
    for place in np.flatnonzero(differs & (((found[1:] ^ found[:-1]) & ~low) == 0)):
        first = np.searchsorted(entries, entries[place] & ~low, side="left")
        last = np.searchsorted(entries, entries[place] | low, side="right")
        mixed = order[first:last]
        order[first:last] = mixed[np.argsort(hashes[mixed], kind="stable")]
    found = hashes[order]
    return order, np.cumsum(np.diff(found, prepend=found[:1]) != 0)


def _distinct(numbers: Hashes) -> Hashes:
    """The numbers in ascending order, each once. ``np.unique``, which hashes them, took three to seven times as long.

    >>> _distinct(np.array([7, 3, 7], np.uint64)).tolist()
    [3, 7]
    """
    return _once(np.sort(numbers))


def _once(ordered: Hashes) -> Hashes:
    """Numbers in ascending order, each once."""
    is_first = np.concatenate((np.ones(min(len(ordered), 1), dtype=bool), ordered[1:] != ordered[:-1]))
    distinct: Hashes = ordered[is_first]
    return distinct


def position_bits(rows: int) -> np.uint64:
    """The low bits that the positions of so many rows need.

    >>> [int(position_bits(rows)) for rows in (1, 2, 4, 5)]
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
