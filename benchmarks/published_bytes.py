"""Bytes that publishing a view writes, in multiples of its change: ``python -m benchmarks.published_bytes [ROWS]``.

A view of a million rows is published, rows at random are updated, and all files that a commit adds or changes are
counted; marks are deletion vectors and position deletes. The size of a change is that of its weighted rows, old and
new, as one Parquet file. The last cases update 1,000 rows of views of several sizes: their seconds are those of the
first commit, and the median of the others.
"""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import tidemill

ROWS = 1_000_000
CHANGED = 1_000


@dataclass(frozen=True)
class Case:
    """How a view is published, the share of its rows that a commit changes, and the number of commits.

    ``rows`` is the size of the view, if it is fixed.
    """

    format: str
    mode: str
    share: float
    write: str = "merge-on-read"
    commits: int = 3
    rows: int = 0


CASES = (
    *(Case(f, m, share) for f in ("delta", "iceberg") for m in ("merge", "changes") for share in (0.001, 0.01)),
    *(Case(f, "merge", share, "copy-on-write", 1) for f in ("delta", "iceberg") for share in (0.001, 0.01)),
    *(Case(f, "snapshot", 0.001, commits=1) for f in ("delta", "iceberg")),
    *(Case(f, "merge", share, commits=40) for f in ("delta", "iceberg") for share in (0.001, 0.01)),
    *(Case(f, "merge", 0.001, commits=200) for f in ("delta", "iceberg")),
    *(
        Case(f, "merge", CHANGED / rows, commits=8, rows=rows)
        for f in ("delta", "iceberg")
        for rows in (100_000, 1_000_000, 5_000_000)
    ),
)


def rows(ids: Any, seed: int) -> pa.Table:
    """Rows with these keys."""
    rng = np.random.default_rng(seed)
    notes = np.char.add("n", rng.integers(0, 1_000, len(ids)).astype(str))
    customers, amounts = rng.integers(0, 50_000, len(ids)), rng.integers(0, 10_000_000, len(ids))
    return pa.table({"id": pa.array(ids, pa.int64()), "customer": customers, "amount": amounts, "note": notes.tolist()})


def weighted(table: pa.Table, weight: int) -> pa.Table:
    """Rows with a weight."""
    return table.append_column("_weight", pa.repeat(pa.scalar(weight, pa.int64()), table.num_rows))


def parquet_size(table: pa.Table) -> int:
    """The size of a table as a Parquet file."""
    out = BytesIO()
    pq.write_table(table, out, compression="zstd")
    return len(out.getvalue())


def sizes(folder: Path) -> dict[Path, int]:
    """The sizes of all files but the catalog, which is a database."""
    return {file: file.stat().st_size for file in folder.rglob("*") if file.is_file() and file.suffix != ".db"}


def is_marks(file: Path) -> bool:
    """True for a file of deletion vectors or of position deletes."""
    return file.suffix == ".bin" or file.name.endswith("-deletes.parquet")


def measure(case: Case, count: int, folder: Path) -> str:
    """Run a case; returns its figures."""
    place = f"'sales.v', catalog = '{folder}/catalog.db'" if case.format == "iceberg" else f"'{folder}/v'"
    options = f"publish = '{case.format}', location = {place}, mode = '{case.mode}', write = '{case.write}'"
    rng, now = np.random.default_rng(5), rows(np.arange(count), 0)
    change = written = marks = 0
    spent: list[float] = []
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, customer BIGINT, amount BIGINT, note STRING)")
        wh.sql(f"CREATE MATERIALIZED VIEW v WITH ({options}) AS SELECT * FROM t")
        wh.apply({"t": weighted(now, 1)})
        wh.publish()
        for number in range(case.commits):
            ids = np.sort(rng.choice(count, round(count * case.share), replace=False))
            new = rows(ids, number + 1)
            both = pa.concat_tables([weighted(now.take(pa.array(ids)), -1), weighted(new, 1)])
            wh.apply({"t": both})
            before, begun = sizes(folder), time.perf_counter()
            wh.publish()
            spent.append(time.perf_counter() - begun)
            new_files = {file: size for file, size in sizes(folder).items() if before.get(file) != size}
            written += sum(new_files.values())
            marks += sum(size for file, size in new_files.items() if is_marks(file))
            change += parquet_size(both)
            places = np.arange(count)
            places[ids] = count + np.arange(len(ids))
            now = pa.concat_tables([now, new]).take(pa.array(places))
    told = f"{change // case.commits:>9,} {written // case.commits:>12,} {written / change:8.2f} {marks / change:6.2f}"
    what = f"{case.format:8}{case.mode:10}{case.write:15}{count:>9,} {case.share:6.2%} {case.commits:>3}"
    return f"{what} {told} {spent[0]:6.2f} {median(spent[1:] or spent):6.2f}"


def main() -> None:
    """Run all cases."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    print("format  mode      write               rows  share   n    change      written    ratio  marks  first others")
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            print(measure(case, case.rows or count, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
