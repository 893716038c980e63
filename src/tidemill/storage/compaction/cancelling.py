"""Pairs of equal rows with opposite weights, taken out before rows are summed.

Files of a lake that were rewritten for a few rows bring all others twice, with both signs. Summing millions of rows
only to find zeros is slow; two rows with the same integers and dates are compared column by column instead.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.model.schema import WEIGHT

__all__ = ["MANY_ROWS", "without_pairs"]

MANY_ROWS = 200_000
"""Number of rows from which pairs are looked for: fewer are summed at once."""


def without_pairs(rows: pa.Table) -> pa.Table:
    """The rows without most pairs of equal ones whose weights cancel; those that are left have the same sums.

    A pair is found by its columns of integers and dates, and taken out if all others agree: NULL with NULL, and a
    FLOAT or DOUBLE bit by bit. Rows that agree in these columns with several others stay.

    >>> rows = pa.table({"k": [1, 2, 1, 2], "v": ["a", "b", "a", "c"], "_weight": [1, 1, -1, -1]})
    >>> without_pairs(rows).to_pylist()
    [{'k': 2, 'v': 'b', '_weight': 1}, {'k': 2, 'v': 'c', '_weight': -1}]
    """
    columns = [name for name in rows.column_names if name != WEIGHT]
    narrow = [name for name in columns if _is_narrow(rows.schema.field(name).type)]
    wide = [rows.column(name) for name in columns if name not in narrow]
    if not narrow or any(pa.types.is_nested(column.type) for column in wide):
        return rows
    first, second = _pairs(rows, narrow)
    for column in wide:
        same = _same(column.take(first), column.take(second))
        first, second = first.filter(same), second.filter(same)
    left = np.ones(rows.num_rows, dtype=bool)
    left[first.to_numpy()] = left[second.to_numpy()] = False
    return rows.filter(pa.array(left))


def _pairs(rows: pa.Table, names: Sequence[str]) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """The numbers of two rows for each pair that nobody else agrees with in these columns, with weights that cancel."""
    numbered = rows.select([*names, WEIGHT]).append_column("", pa.array(np.arange(rows.num_rows, dtype=np.int64)))
    plain = numbered.rename_columns([*(f"k{i}" for i in range(len(names))), "weight", "row"])
    sums = [("weight", "sum"), ("row", "count"), ("row", "min"), ("row", "max")]
    groups = plain.group_by([f"k{i}" for i in range(len(names))], use_threads=False).aggregate(sums)
    pairs = groups.filter((pc.field("weight_sum") == 0) & (pc.field("row_count") == 2))
    return pairs.column("row_min"), pairs.column("row_max")


def _is_narrow(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_date(type_) or pa.types.is_timestamp(type_))


def _same(one: pa.ChunkedArray, other: pa.ChunkedArray) -> pa.ChunkedArray:
    """For each place if both have the same value, or neither has one."""
    if pa.types.is_floating(one.type):
        bits = pa.int64() if one.type == pa.float64() else pa.int32()
        one, other = (column.combine_chunks().view(bits) for column in (one, other))
    neither = pc.and_(pc.is_null(one), pc.is_null(other))
    return pc.or_(pc.fill_null(pc.equal(one, other), False), neither)
