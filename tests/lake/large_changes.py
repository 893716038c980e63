"""A large change of a Delta table, made by one process and taken by another, which says how much memory it took.

Run as ``python -m tests.lake.large_changes append | take FOLDER ROWS``.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake

import tidemill

PART_ROWS = 1 << 20

TEXTS = pa.array([f"text {number}" for number in range(1000)])


def rows_from(first: int, count: int) -> pa.Table:
    """Rows with these numbers."""
    ids = np.arange(first, first + count)
    return pa.table({"id": ids, "a": ids * 7919, "b": ids / 3, "s": TEXTS.take(pa.array(ids % 1000))})


def begin(folder: Path) -> None:
    """A table of a few rows, taken by a warehouse."""
    write_deltalake(str(folder / "t"), rows_from(0, 10))
    with tidemill.open(folder / "w", runtime="native") as wh:
        wh.sql(f"CREATE TABLE t USING delta LOCATION '{folder / 't'}'")


def append(folder: Path, rows: int) -> None:
    """Add rows, in several commits."""
    for first in range(0, rows, PART_ROWS):
        write_deltalake(str(folder / "t"), rows_from(10 + first, min(PART_ROWS, rows - first)), mode="append")


def take(folder: Path, rows: int) -> None:
    """Take what there is, and print the bytes of memory that the process has had at most."""
    with tidemill.open(folder / "w", runtime="native") as wh:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        counts = wh.sync().counts
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(counts.rows, (most - before) << 10)


if __name__ == "__main__":
    {"append": append, "take": take}[sys.argv[1]](Path(sys.argv[2]), int(sys.argv[3]))
