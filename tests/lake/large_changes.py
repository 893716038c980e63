"""Large changes of a Delta table, made by one process and taken by another, which says how much memory it took.

``python -m tests.lake.large_changes [ROWS]``: 50 million rows that are appended, and 5 million that are replaced.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake

import tidemill

ROWS = 50_000_000
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


def replace(folder: Path, rows: int) -> None:
    """Replace all rows by others."""
    write_deltalake(str(folder / "t"), rows_from(rows * 100, rows), mode="overwrite")


def in_process(what: str, folder: Path, rows: int) -> str:
    """Do one of these steps in a process of its own; returns what it prints."""
    command = [sys.executable, "-m", "tests.lake.large_changes", what, str(folder), str(rows)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def taken(change: str, folder: Path, rows: int) -> tuple[int, int]:
    """The rows of a change that one process makes and another takes, and the bytes by which the latter has grown."""
    in_process(change, folder, rows)
    counted, grown = map(int, in_process("take", folder, rows).split())
    return counted, grown


def measure(rows: int) -> None:
    """Take rows that were appended, and a tenth as many that were replaced, each in a new warehouse."""
    for changes in (("append",), ("append", "replace")):
        with tempfile.TemporaryDirectory() as name:
            folder, count = Path(name), rows if len(changes) == 1 else rows // 10
            begin(folder)
            for change in changes:
                counted, grown = taken(change, folder, count)
            print(f"{changes[-1]}: {counted:,} rows taken, {grown >> 20:,} MB more memory", flush=True)


STEPS = {"append": append, "replace": replace, "take": take}

if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in STEPS:
        STEPS[sys.argv[1]](Path(sys.argv[2]), int(sys.argv[3]))
    else:
        measure(int(sys.argv[1]) if sys.argv[1:] else ROWS)
