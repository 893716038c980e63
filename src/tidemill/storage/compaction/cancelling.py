"""Pairs of equal rows with opposite weights, taken out before rows are summed.

Files of a lake that were rewritten for a few rows bring all others twice, with both signs. Summing millions of rows
only to find zeros is slow. Rows are paired by hashes of some columns instead, and the columns of the pairs are
compared, all of them: a hash decides what is compared, never what is equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.changes.hashing import Hashes, hash_columns
from tidemill.changes.sorted_hashes import Positions, group_positions, position_bits, sort_hashes
from tidemill.model.schema import WEIGHT

__all__ = ["MANY_ROWS", "HashedRows", "cancel", "decoded", "pairing_columns", "without_pairs"]

MANY_ROWS = 200_000
"""Number of rows from which pairs are looked for: fewer are summed at once."""

SAMPLE_ROWS = 1 << 17
"""Number of rows by which the columns that are hashed are chosen."""

DISTINCT_ENOUGH = 0.98
"""Share of the different rows that the hashed columns must tell apart."""

NESTED_ROWS = 64
"""Number of neighbours that are taken for different if one of them has another value in a nested column."""

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class HashedRows:
    """Rows, with a hash of some columns for each."""

    rows: pa.Table
    hashes: Hashes

    @classmethod
    def of(cls, rows: pa.Table, columns: Sequence[str]) -> HashedRows:
        """Rows with the hashes of ``columns``."""
        return cls(rows, hash_columns([decoded(rows.column(name)) for name in columns]))

    def __len__(self) -> int:
        return len(self.hashes)

    def __add__(self, other: HashedRows) -> HashedRows:
        return HashedRows(pa.concat_tables([self.rows, other.rows]), np.concatenate((self.hashes, other.hashes)))

    def filter(self, wanted: Mask) -> HashedRows:
        """The rows that are wanted."""
        return HashedRows(self.rows.filter(pa.array(wanted)), self.hashes[wanted])


def decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column with its values in place of numbers of a dictionary."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def without_pairs(rows: pa.Table) -> pa.Table:
    """The rows without most pairs of equal ones whose weights are 1 and -1; those that are left have the same sums.

    >>> rows = pa.table({"k": [1, 2, 1, 2], "v": ["a", "b", "a", "c"], "_weight": [1, 1, -1, -1]})
    >>> without_pairs(rows).to_pylist()
    [{'k': 2, 'v': 'c', '_weight': -1}, {'k': 2, 'v': 'b', '_weight': 1}]
    """
    plain, weights = rows.drop_columns([WEIGHT]), rows.column(WEIGHT).to_numpy()
    columns = pairing_columns(plain)
    signed = [HashedRows.of(plain.filter(pa.array(weights == sign)), columns) for sign in (-1, 1)]
    left = [_weighted(one.rows, sign) for one, sign in zip(cancel(*signed), (-1, 1), strict=True)]
    return pa.concat_tables([*left, rows.filter(pa.array(abs(weights) != 1))]).combine_chunks()


def _weighted(rows: pa.Table, weight: int) -> pa.Table:
    return rows.append_column(WEIGHT, pa.repeat(pa.scalar(weight, pa.int64()), rows.num_rows))


def pairing_columns(rows: pa.Table, key: Sequence[str] = ()) -> Sequence[str]:
    """The columns by which equal rows are paired: those of a key, or as few as tell most of these rows apart.

    Columns of a fixed width come first, since texts take longer.

    >>> pairing_columns(pa.table({"text": ["a", "b", "c"], "flag": [1, 1, 1], "id": [1, 2, 3], "n": [4, 5, 6]}))
    ['flag', 'id']
    """
    if key:
        return key
    sample = rows.slice(0, SAMPLE_ROWS)
    names = sorted(rows.column_names, key=lambda name: _weight_of(rows.schema.field(name).type))
    different = _distinct(sample, names)
    chosen = 1
    while chosen < len(names) and _distinct(sample, names[:chosen]) < DISTINCT_ENOUGH * different:
        chosen += 1
    return names[:chosen]


def _weight_of(type_: pa.DataType) -> int:
    """Cost class of hashing a value."""
    if pa.types.is_nested(type_):
        return 2
    return 0 if pa.types.is_primitive(type_) else 1


def _distinct(rows: pa.Table, names: Sequence[str]) -> int:
    hashes = np.sort(HashedRows.of(rows, names).hashes)
    return int(np.count_nonzero(hashes[1:] != hashes[:-1]))


def cancel(old: HashedRows, new: HashedRows) -> tuple[HashedRows, HashedRows]:
    """The rows of both sides without pairs of equal ones, NULL with NULL, and a FLOAT or DOUBLE bit by bit.

    Of rows with the same hash the first is paired with the first, and so on. A pair that is not equal stays, though
    there may be another partner for either of them.
    """
    if not len(old) or not len(new):
        return old, new
    in_old, in_new = _pairs(old.hashes, new.hashes)
    same = _same_rows(old.rows, new.rows, in_old, in_new)
    return old.filter(_without(len(old), in_old[same])), new.filter(_without(len(new), in_new[same]))


def _without(rows: int, places: Positions) -> Mask:
    left = np.ones(rows, dtype=bool)
    left[places] = False
    return left


def _pairs(old: Hashes, new: Hashes) -> tuple[Positions, Positions]:
    """The places of pairs in both, in the order of ``new``; the n-th of some hash is paired with the n-th."""
    hashes = np.concatenate((old, new))
    found = _single_pairs(hashes, len(old))
    first, second = _repeated_pairs(hashes, len(old)) if found is None else found
    partner_of = np.full(len(new), -1)
    partner_of[second - len(old)] = first
    in_new = np.flatnonzero(partner_of >= 0)
    return partner_of[in_new], in_new


def _single_pairs(hashes: Hashes, old: int) -> tuple[Positions, Positions] | None:
    """The places of two rows of each hash, one among the first ``old``; None if a side has a hash several times."""
    low = position_bits(len(hashes))
    entries = sort_hashes(hashes, len(hashes))
    places = (entries & low).view(np.int64)
    entries &= ~low
    alike = np.flatnonzero(entries[1:] == entries[:-1])
    first, second = places[alike], places[alike + 1]
    return None if (first >= old).any() or (second < old).any() else (first, second)


def _repeated_pairs(hashes: Hashes, old: int) -> tuple[Positions, Positions]:
    """The places of pairs, where rows of both sides may have one hash."""
    places, groups = group_positions(hashes)
    is_old = places < old
    sizes, olds = np.bincount(groups), np.bincount(groups, weights=is_old).astype(np.int64)
    starts = np.cumsum(sizes) - sizes
    # In a group those of ``old`` come first: the n-th of ``new`` is as many places behind the n-th of ``old``.
    later = np.flatnonzero(~is_old)
    partners = later - olds[groups[later]]
    paired = partners < (starts + olds)[groups[later]]
    return places[partners[paired]], places[later[paired]]


def _same_rows(old: pa.Table, new: pa.Table, in_old: Positions, in_new: Positions) -> Mask:
    """For each pair if all columns agree."""
    same = np.ones(len(in_old), dtype=bool)
    from_old, from_new = _selection(in_old, old.num_rows), _selection(in_new, new.num_rows)
    for one, other in zip(old.columns, new.columns, strict=True):
        same &= _same(_picked(one, from_old), _picked(other, from_new))
    return same


def _selection(places: Positions, rows: int) -> pa.Array | None:
    """Some of so many rows, as a mask if they are in order and most of them, which is faster; None if they are all."""
    in_order = bool((places[1:] > places[:-1]).all())
    if in_order and len(places) == rows:
        return None
    return pa.array(~_without(rows, places)) if in_order and 2 * len(places) > rows else pa.array(places)


def _picked(column: pa.ChunkedArray, selection: pa.Array | None) -> pa.Array:
    values = (column.cast(_LARGE[column.type]) if _is_huge(column) else column).combine_chunks()
    if selection is None:
        return values
    return values.filter(selection) if pa.types.is_boolean(selection.type) else values.take(selection)


_LARGE = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}


def _is_huge(column: pa.ChunkedArray) -> bool:
    """True if a column of texts is too long for one array."""
    return column.type in _LARGE and column.nbytes >= 1 << 31


def _same(one: pa.Array, other: pa.Array) -> Mask | bool:
    """For each place if both have the same value, or neither has one; one answer if it is that of all."""
    if pa.types.is_dictionary(one.type):
        both = pa.chunked_array([one, other]).unify_dictionaries()
        one, other = (chunk.indices for chunk in both.chunks)
    if pa.types.is_floating(one.type):
        bits = pa.int64() if one.type == pa.float64() else pa.int32()
        one, other = one.view(bits), other.view(bits)
    if one.equals(other):
        return True
    if pa.types.is_nested(one.type):
        return _same_nested(one, other)
    equal = pc.equal(one, other)
    if equal.null_count:
        equal = pc.or_(pc.fill_null(equal, False), pc.and_(pc.is_null(one), pc.is_null(other)))
    return np.asarray(equal.to_numpy(zero_copy_only=False), dtype=bool)


def _same_nested(one: pa.Array, other: pa.Array) -> Mask:
    """The same of nested values, which Arrow only compares as a whole: by blocks, all of which differ if one does."""
    same = np.ones(len(one), dtype=bool)
    for first in range(0, len(one), NESTED_ROWS):
        block = slice(first, first + NESTED_ROWS)
        same[block] = one.slice(first, NESTED_ROWS).equals(other.slice(first, NESTED_ROWS))
    return same
