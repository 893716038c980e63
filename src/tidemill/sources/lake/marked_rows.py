"""Rows of a data file that one of two versions marks as deleted: only the row groups that hold them are read.

A file whose marks have changed is the same file, so its rows need not be compared: a position that only the new version
marks is a row that has gone, and one that only the old version marks is a row that has come back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from tidemill.sources.lake.columns import without_views

__all__ = ["PART_ROWS", "ChangedMarks", "Positions", "positions_of", "rows_at"]

Positions = npt.NDArray[np.int64]
"""Positions of rows in a file, in order."""

PART_ROWS = 64 * 1024
"""Rows of a data file that are read at a time."""


@dataclass(frozen=True)
class ChangedMarks:
    """Positions that one of two versions marks as deleted, and the weights that their rows have in the change."""

    positions: Positions
    weights: Positions

    @classmethod
    def between(cls, old: Positions, new: Positions) -> ChangedMarks:
        """The change from one set of marked positions to another.

        >>> ChangedMarks.between(np.array([1, 4]), np.array([4, 7]))
        ChangedMarks(positions=array([1, 7]), weights=array([ 1, -1]))
        """
        changed = np.setxor1d(old, new, assume_unique=True)
        return cls(changed, np.where(np.isin(changed, new, assume_unique=True), -1, 1))

    def weights_of(self, parts: Iterator[Any]) -> Iterator[tuple[Any, pa.ChunkedArray]]:
        """The rows at these positions, which come in parts and in order, each part with its weights."""
        first = 0
        for part in parts:
            yield part, pa.chunked_array([self.weights[first : first + part.num_rows]], pa.int64())
            first += part.num_rows


def positions_of(kept: pa.BooleanArray | None) -> Positions:
    """The positions that a selection leaves out."""
    if kept is None:
        return np.zeros(0, np.int64)
    return np.flatnonzero(~kept.to_numpy(zero_copy_only=False)).astype(np.int64)


def rows_at(file: pq.ParquetFile, positions: Positions, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
    """The rows at some positions of a file, in order; positions beyond its end have none."""
    groups, places = _in_row_groups(file.metadata, positions)
    first = 0
    for batch in file.iter_batches(PART_ROWS, row_groups=groups, columns=columns) if groups else ():
        low, high = np.searchsorted(places, (first, first + batch.num_rows))
        if low < high:
            yield without_views(pa.Table.from_batches([batch])).take(pa.array(places[low:high] - first))
        first += batch.num_rows


def _in_row_groups(metadata: pq.FileMetaData, positions: Positions) -> tuple[list[int], Positions]:
    """The row groups that hold rows at some positions, and the positions among the rows of these groups alone."""
    sizes = np.array([metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)], np.int64)
    ends = np.cumsum(sizes)
    inside = positions[positions < metadata.num_rows]
    groups = np.searchsorted(ends, inside, side="right")
    read = np.unique(groups)
    skipped = (ends - sizes)[read] - (np.cumsum(sizes[read]) - sizes[read])
    return read.tolist(), inside - skipped[np.searchsorted(read, groups)]
