"""The rows of a large change that need a closer check before a table takes them. Most do not, which columns show.

A deleted row is fine if its table holds exactly that row under its primary key. An inserted row is fine if its key is
unused, or is freed in this change. Both are tested for all rows at once: one sort of the hashes of all keys puts the
rows beside each other that must be seen together. Rows of unusual groups, as those whose hashes collide, are left to
``runtimes.integrity.check_change``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.changes.arrow import integer_array
from tidemill.changes.hashing import Hashes, hash_columns
from tidemill.changes.sorted_hashes import Positions, group_positions
from tidemill.model.schema import WEIGHT, Table

Mask = npt.NDArray[np.bool_]

Kinds = npt.NDArray[np.int64]

_DELETED, _INSERTED, _STORED, _OTHER = 1, 8, 64, 512
"""Numbers that rows are counted by in a group: of up to seven rows the sum tells how many there are of each kind."""


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
    kinds = np.concatenate((_kinds(change), _stored_kinds(held, theirs, [f.name for f in table.fields])))
    order, numbers = group_positions(np.concatenate((ours, theirs)))
    suspect = np.zeros(len(order), dtype=bool)
    there = kinds[order] != 0
    suspect[_suspect_groups(table, change, held, kinds, order[there], numbers[there])] = True
    unsure = np.zeros(len(order), dtype=bool)
    unsure[order] = suspect[numbers]
    return unsure[: len(change)], unsure[len(change) :]


def _suspect_groups(
    table: Table, change: pa.Table, held: pa.Table, kinds: Kinds, order: Positions, numbers: Positions
) -> Positions:
    """The numbers of groups that are not one of: an unused key, a stored row that goes, one that gives way to another.

    ``order`` has the rows of the change and then the stored ones of each group, ``numbers`` that of its group.
    """
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    sizes = np.diff(starts, append=len(order))
    counts = np.add.reduceat(kinds[order], starts) if len(order) else sizes
    gone = starts[_are(counts, sizes, _DELETED, _STORED)]
    first, second, third = (order[starts[_are(counts, sizes, _DELETED, _INSERTED, _STORED)] + n] for n in range(3))
    # Of the two rows of an update either may be the first.
    old, new = (np.where(kinds[first] == kind, first, second) for kind in (_DELETED, _INSERTED))
    compare = partial(_equal, change, held, [f.name for f in table.fields])
    is_held = compare(np.concatenate((order[gone], old)), np.concatenate((order[gone + 1], third)) - len(change))
    is_updated = is_held[len(gone) :] & ~compare(new, third - len(change))
    fine = np.zeros(len(kinds), dtype=bool)
    fine[order[starts[_are(counts, sizes, _INSERTED)]]] = True
    fine[order[gone]] = is_held[: len(gone)]
    fine[old] = fine[new] = is_updated
    suspect: Positions = numbers[~fine[order] & (order < len(change))]
    return suspect


def _kinds(change: pa.Table) -> Kinds:
    """The kind of each row of a change."""
    weights = change.column(WEIGHT).to_numpy()
    return np.select([weights == -1, weights == 1], [_DELETED, _INSERTED], _OTHER)


def _stored_kinds(held: pa.Table, hashes: Hashes, names: Sequence[str]) -> Kinds:
    """The kind of each stored row, 0 for those that others cancel: earlier epochs may have replaced a row."""
    weights = held.column(WEIGHT).to_numpy()
    order, numbers = group_positions(hashes)
    several = order[np.bincount(numbers, minlength=1)[numbers] > 1]
    if len(several) and not _has_nested(held, names):
        columns = [held.column(name).take(integer_array(several)) for name in names]
        # By numbers, since users may have given their columns any names.
        by = [str(number) for number in range(len(columns))]
        rows = pa.table([*columns, weights[several], several], names=[*by, "weight", "place"])
        sums = rows.group_by(by).aggregate([("weight", "sum"), ("place", "min")])
        weights = weights.copy()
        weights[several] = 0
        weights[sums.column("place_min").to_numpy()] = sums.column("weight_sum").to_numpy()
    return np.select([weights == 0, weights == 1], [0, _STORED], _OTHER)


def _are(counts: Kinds, sizes: Positions, *kinds: int) -> Mask:
    """Mask of the groups that have just one row of each of these kinds."""
    found: Mask = (sizes == len(kinds)) & (counts == sum(kinds))
    return found


def _equal(left: pa.Table, right: pa.Table, names: Sequence[str], places: Positions, others: Positions) -> Mask:
    """Mask of the pairs of rows that are certainly equal, with NULLs equal to each other. Nested values never are.

    Rows that differ are not compared any further, and rows are read in their order, as they lie in memory.
    """
    equal = np.zeros(len(places), dtype=bool)
    if _has_nested(left, names):
        return equal
    same = np.argsort(places, kind="stable")
    for name in names:
        at = (integer_array(places[same]), integer_array(others[same]))
        ours, theirs = left.column(name).take(at[0]), right.column(name).take(at[1])
        nulls = pc.and_(pc.is_null(ours), pc.is_null(theirs))
        same = same[pc.or_(pc.fill_null(pc.equal(ours, theirs), False), nulls).to_numpy()]
    equal[same] = True
    return equal


def _has_nested(rows: pa.Table, names: Sequence[str]) -> bool:
    return any(pa.types.is_nested(rows.schema.field(name).type) for name in names)
