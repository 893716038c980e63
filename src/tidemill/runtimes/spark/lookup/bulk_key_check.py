"""The rows of a large change that need a closer check before a table takes them. Most do not, which columns show.

A deleted row is fine if its table holds exactly that row under its primary key. An inserted row is fine if its key is
unused, or is freed in this change. Both are tested for all rows at once, by hashes of the keys; rows whose hashes
collide or that are otherwise unusual are left to ``runtimes.integrity.check_change``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.changes.hashing import Hashes, hash_columns
from tidemill.model.schema import WEIGHT, Table

Mask = npt.NDArray[np.bool_]


def rows_to_check(table: Table, change: pa.Table, held: pa.Table) -> tuple[Mask, Mask]:
    """Masks of the rows of ``change``, and of the stored rows that belong to them, that need a closer check.

    ``held`` are the stored weighted rows under all keys of the change; it may contain others.

    >>> from tidemill.model.types import BIGINT, Field
    >>> table = Table("t", (Field("id", BIGINT),), primary_key=("id",))
    >>> held = pa.table({"id": [1, 2], "_weight": [1, 1]})
    >>> change = pa.table({"id": [1, 2, 3], "_weight": [-1, 1, 1]})
    >>> [mask.tolist() for mask in rows_to_check(table, change, held)]
    [[False, True, False], [False, True]]
    """
    ours, theirs = (hash_columns([rows.column(name) for name in table.primary_key]) for rows in (change, held))
    weights = change.column(WEIGHT).to_numpy()
    leaving, arriving = np.flatnonzero(weights == -1), np.flatnonzero(weights == 1)
    at = _only_row(ours, theirs, held.column(WEIGHT).to_numpy())
    same = np.zeros(len(ours), dtype=bool)
    known = np.flatnonzero(at >= 0)
    same[known] = _equal(change, known, held, at[known], [f.name for f in table.fields])
    fine = np.zeros(len(ours), dtype=bool)
    fine[leaving] = same[leaving] & _alone(ours[leaving])
    freed = ours[leaving][fine[leaving]]
    free = ~np.isin(ours, theirs) & ~np.isin(ours, ours[leaving])
    fine[arriving] = (free | (np.isin(ours, freed) & ~same))[arriving] & _alone(ours[arriving])
    suspect = np.unique(ours[~fine])
    return np.isin(ours, suspect), np.isin(theirs, suspect)


def _only_row(ours: Hashes, theirs: Hashes, weights: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
    """For each of our rows the one stored row with its hash; -1 for none, for several, and for a weight other than
    1."""
    hashes, first, count = np.unique(theirs, return_index=True, return_counts=True)
    if not len(hashes):
        return np.full(len(ours), -1)
    place = np.minimum(np.searchsorted(hashes, ours), len(hashes) - 1)
    found = (hashes[place] == ours) & (count[place] == 1) & (weights[first[place]] == 1)
    return np.where(found, first[place], -1)


def _alone(hashes: Hashes) -> Mask:
    """Mask of the hashes that occur once."""
    _, place, count = np.unique(hashes, return_inverse=True, return_counts=True)
    once: Mask = count[place] == 1
    return once


def _equal(
    left: pa.Table, places: npt.NDArray[np.intp], right: pa.Table, others: npt.NDArray[np.intp], names: Sequence[str]
) -> Mask:
    """Mask of the pairs of rows that are certainly equal, with NULLs equal to each other. Nested values never are."""
    equal = np.ones(len(places), dtype=bool)
    for name in names:
        if pa.types.is_nested(left.schema.field(name).type):
            return np.zeros(len(places), dtype=bool)
        ours, theirs = left.column(name).take(pa.array(places)), right.column(name).take(pa.array(others))
        nulls = pc.and_(pc.is_null(ours), pc.is_null(theirs))
        equal &= pc.or_(pc.fill_null(pc.equal(ours, theirs), False), nulls).to_numpy()
    return equal
