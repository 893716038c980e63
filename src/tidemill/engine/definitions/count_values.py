"""Statistics of a column, or of several together, counted from stored values in one pass: exact, by a hash table.

Rows of the store are not summed: a row that was deleted is there twice, with opposite weights. So the weights of each
value are summed, and all figures follow from these sums.
"""

from __future__ import annotations

from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.compiler.statistics.column_values import ColumnStatistics
from tidemill.model.schema import WEIGHT

__all__ = ["count_values"]

FREQUENT_VALUES = 10
"""Number of the most frequent values that are kept."""

MAX_TEXT = 64
"""Longest text of a value that is kept among the frequent ones, and of bounds, which are cut."""

SUM = f"{WEIGHT}_sum"


def count_values(rows: pa.Table) -> ColumnStatistics:
    """The statistics of weighted values: of one column, or of the combinations of several, without bounds.

    >>> count_values(pa.table({"a": ["b", "a", None, "b", "a"], WEIGHT: [2, 1, 1, 1, -1]}))
    ColumnStatistics(rows=4, distinct=1, nulls=1, matches=3.0, least='b', greatest='b', frequent=(('b', 3),))
    >>> count_values(pa.table({"a": [1, 1, 2], "b": [1, 1, None], WEIGHT: [1, 1, 1]}))
    ColumnStatistics(rows=3, distinct=1, nulls=1, matches=2.0, least=None, greatest=None, frequent=(('1, 1', 2),))
    """
    names = [name for name in rows.column_names if name != WEIGHT]
    groups = rows.group_by(names).aggregate([(WEIGHT, "sum")])
    groups = groups.filter(pc.greater(groups.column(SUM), 0))
    known = groups.filter(reduce(pc.and_, [pc.is_valid(groups.column(name)) for name in names]))
    there, total = (pc.sum(one.column(SUM)).as_py() or 0 for one in (known, groups))
    squares = pc.sum(pc.power(pc.cast(known.column(SUM), pa.float64()), 2.0)).as_py() or 0.0
    bounds = pc.min_max(known.column(names[0])).as_py() if there and len(names) == 1 else {"min": None, "max": None}
    return ColumnStatistics(
        rows=total,
        distinct=known.num_rows,
        nulls=total - there,
        matches=squares / there if there else 1.0,
        least=None if bounds["min"] is None else str(bounds["min"])[:MAX_TEXT],
        greatest=None if bounds["max"] is None else str(bounds["max"])[:MAX_TEXT],
        frequent=_frequent(known, names),
    )


def _frequent(groups: pa.Table, names: list[str]) -> tuple[tuple[str, int], ...]:
    """The most frequent values, of those that occur more than once."""
    repeated = groups.filter(pc.greater(groups.column(SUM), 1))
    places = pc.select_k_unstable(repeated, FREQUENT_VALUES, sort_keys=[(SUM, "descending")])
    found = repeated.take(places).to_pylist()
    pairs = [(", ".join(str(one[name]) for name in names), one[SUM]) for one in found]
    return tuple(sorted(((v, n) for v, n in pairs if len(v) <= MAX_TEXT), key=lambda pair: (-pair[1], pair[0])))
