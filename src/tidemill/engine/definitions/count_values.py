"""Statistics of a column, counted from its stored values in one pass: exact, by a hash table in columns.

Rows of the store are not summed: a row that was deleted is there twice, with opposite weights. So the weights of each
value are summed, and all figures follow from these sums.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.compiler.statistics.column_values import ColumnStatistics
from tidemill.model.schema import WEIGHT

__all__ = ["count_values"]

FREQUENT_VALUES = 10
"""Number of the most frequent values that are kept."""

MAX_TEXT = 64
"""Longest text of a value that is kept among the frequent ones, and of bounds, which are cut."""


def count_values(values: pa.ChunkedArray, weights: pa.ChunkedArray) -> ColumnStatistics:
    """The statistics of weighted values.

    >>> count_values(pa.chunked_array([["b", "a", None, "b", "a"]]), pa.chunked_array([[2, 1, 1, 1, -1]]))
    ColumnStatistics(rows=4, distinct=1, nulls=1, matches=3.0, least='b', greatest='b', frequent=(('b', 3),))
    """
    table = pa.table({"value": values, WEIGHT: weights})
    groups = table.group_by("value").aggregate([(WEIGHT, "sum")])
    groups = groups.filter(pc.greater(groups.column(f"{WEIGHT}_sum"), 0))
    known = groups.filter(pc.is_valid(groups.column("value")))
    counts = known.column(f"{WEIGHT}_sum")
    rows, total = (pc.sum(one.column(f"{WEIGHT}_sum")).as_py() or 0 for one in (known, groups))
    squares = pc.sum(pc.power(pc.cast(counts, pa.float64()), 2.0)).as_py() or 0.0
    bounds = pc.min_max(known.column("value")).as_py() if rows else {"min": None, "max": None}
    return ColumnStatistics(
        rows=total,
        distinct=known.num_rows,
        nulls=total - rows,
        matches=squares / rows if rows else 1.0,
        least=None if bounds["min"] is None else str(bounds["min"])[:MAX_TEXT],
        greatest=None if bounds["max"] is None else str(bounds["max"])[:MAX_TEXT],
        frequent=_frequent(known),
    )


def _frequent(groups: pa.Table) -> tuple[tuple[str, int], ...]:
    """The most frequent values, of those that occur more than once."""
    repeated = groups.filter(pc.greater(groups.column(f"{WEIGHT}_sum"), 1))
    places = pc.select_k_unstable(repeated, FREQUENT_VALUES, sort_keys=[(f"{WEIGHT}_sum", "descending")])
    found = repeated.take(places).to_pydict()
    pairs = [(str(value), count) for value, count in zip(found["value"], found[f"{WEIGHT}_sum"], strict=True)]
    return tuple(sorted(((v, n) for v, n in pairs if len(v) <= MAX_TEXT), key=lambda pair: (-pair[1], pair[0])))
