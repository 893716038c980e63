"""Statistics of the row groups of a Parquet file: which may have some values, and which have but one."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidemill.storage.store import ColumnValues

__all__ = ["possible_groups", "same_values"]

MOST_SORTED = 10_000
"""Number of values that are looked for one by one in the statistics of a run; of more only the ends are."""


def possible_groups(parquet: pq.ParquetFile, where: ColumnValues) -> list[int]:
    """The row groups that may have one of the values in each column of ``where``."""
    columns = {parquet.schema.column(i).path: i for i in range(len(parquet.schema))}
    bounds = {columns[name]: _Sought.of(values) for name, values in where.items()}
    groups = range(parquet.num_row_groups)
    return [g for g in groups if all(_may_have(parquet, g, column, values) for column, values in bounds.items())]


@dataclass(frozen=True, slots=True)
class _Sought:
    """The values that are looked for in a column, in ascending order, and whether NULL is one of them.

    Of very many only the ends are kept: between them there may be any value.
    """

    values: list[Any]
    null: bool
    all_between: bool

    @classmethod
    def of(cls, values: pa.Array) -> _Sought:
        present, null = values.drop_null(), bool(values.null_count)
        if len(present) <= MOST_SORTED:
            return cls(sorted(present.to_pylist()), null, False)
        return cls(list(pc.min_max(present).as_py().values()), null, True)

    def lie_within(self, least: Any, greatest: Any) -> bool:
        """True if one of the values may be between these, or be one of these."""
        if self.all_between:
            return bool(self.values[0] <= greatest and least <= self.values[-1])
        place = bisect_left(self.values, least)
        return place < len(self.values) and bool(self.values[place] <= greatest)


def _may_have(parquet: pq.ParquetFile, group: int, column: int, sought: _Sought) -> bool:
    statistics = parquet.metadata.row_group(group).column(column).statistics
    if statistics is None or (sought.null and not (statistics.has_null_count and statistics.null_count == 0)):
        return True
    there = sought.values
    if there and (not statistics.has_min_max or type(statistics.min) is not type(there[0])):
        return True
    return bool(there) and sought.lie_within(statistics.min, statistics.max)


def same_values(parquet: pq.ParquetFile, groups: Sequence[int], names: Sequence[str]) -> dict[str, int]:
    """The columns, of whole numbers, that have one value in all of some row groups, with that value."""
    places = {parquet.schema.column(place).path: place for place in range(len(parquet.schema))}
    found = {}
    for name in names:
        known = [parquet.metadata.row_group(group).column(places[name]).statistics for group in groups]
        bounds = [_bounds(one) for one in known if one is not None]
        if len(bounds) == len(known) and len(values := set().union(*bounds)) == 1:
            found[name] = values.pop()
    return found


def _bounds(statistics: pq.Statistics) -> set[int]:
    """The least and the greatest value of a column, and nothing else; both unknown if it may have NULL."""
    known = statistics.has_min_max and statistics.has_null_count and not statistics.null_count
    return {statistics.min, statistics.max} if known else {0, 1}
