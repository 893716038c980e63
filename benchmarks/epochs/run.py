"""One-row epochs: bytes and files that reach the disk over large tables, and time beside many views."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

import pyarrow as pa

import tidemill
from benchmarks.choices import chosen
from benchmarks.epochs.shared_views import shared_views
from benchmarks.epochs.unrelated_views import unrelated_views
from tidemill.model.errors import SetupError
from tidemill.serving.cli.bench_runner import BenchmarkOptions, Figure

ROWS, QUICK_ROWS = 150_000, 110_000
"""Rows of the table: above the size from which maps are merged one at a time."""

EPOCHS, QUICK_EPOCHS = 100_000, 5_000
VIEWS = 9
SLICES = 10
"""Slices of equal length, each measured by itself: the last ones tell whether the cost is flat."""

IO = Path("/proc/self/io")


@dataclass(frozen=True)
class Written:
    """Bytes and files that this process has written by now. Nothing but logs is deleted without a vacuum."""

    bytes: int
    files: int

    @classmethod
    def now(cls, folder: Path) -> Written:
        """The kernel's count of bytes, and the files of runs and manifests in a warehouse."""
        (line,) = (line for line in IO.read_text().splitlines() if line.startswith("wchar"))
        kinds = ("maps/*/*.parquet", "manifests/*.json")
        return cls(int(line.split()[1]), sum(1 for kind in kinds for _ in folder.glob(kind)))


def run(options: BenchmarkOptions) -> Iterator[Figure]:
    """Costs of an epoch beside views that it does not reach, costs of views that share, and bytes over a life."""
    for part in chosen("part", options.queries, PARTS):
        yield from PARTS[part](options)


def _amplification(options: BenchmarkOptions) -> Iterator[Figure]:
    """Bytes and files a row over the whole life, and the second half over the first."""
    if not IO.exists():
        raise SetupError(
            "this benchmark counts bytes with Linux", detail=f"There is no {IO}.", hint="Run it on a Linux machine."
        )
    rows, epochs = (QUICK_ROWS, QUICK_EPOCHS) if options.quick else (ROWS, EPOCHS)
    options.folder.mkdir(parents=True, exist_ok=True)
    folder = Path(mkdtemp(prefix="epochs-", dir=options.folder))
    try:
        slices = _live(folder / "warehouse", rows, epochs, options)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    case = f"amplification/views{VIEWS}/rows{rows}"
    for metric in ("bytes", "files"):
        first, last = getattr(slices[0], metric), getattr(slices[-1], metric)
        yield Figure("epochs", case, f"{metric}/row", (last - first) / epochs, metric)
    middle, last = slices[SLICES // 2], slices[-1]
    growth = (last.bytes - middle.bytes) / (middle.bytes - slices[0].bytes)
    yield Figure("epochs", case, "growth_ratio", growth, "x", "bytes of the second half over the first; flat is 1")


def _live(folder: Path, rows: int, epochs: int, options: BenchmarkOptions) -> list[Written]:
    """Bytes and files written before the first epoch and after each slice; the views are verified at the end."""
    chance = random.Random(1)
    with tidemill.open(folder, runtime="native") as warehouse:
        warehouse.sql("CREATE TABLE sales (id BIGINT PRIMARY KEY, shop INT, amount BIGINT)")
        ids = range(rows)
        shops = pa.array([number % (rows // 2) for number in ids], pa.int32())
        warehouse.apply({"sales": pa.table({"id": ids, "shop": shops, "amount": ids})})
        for number in range(VIEWS):
            warehouse.sql(f"""CREATE MATERIALIZED VIEW by_shop_{number} AS
                SELECT shop + {number} AS shop, SUM(amount) AS total, COUNT(*) AS n
                FROM sales GROUP BY shop + {number}""")
        written = [Written.now(folder)]
        for epoch in range(epochs):
            warehouse.apply({"sales": [(+1, (rows + epoch, chance.randrange(rows // 2), epoch))]})
            if (epoch + 1) % (epochs // SLICES) == 0:
                written.append(Written.now(folder))
                options.progress((epoch + 1) / epochs, f"{epoch + 1:,} epochs")
        wrong = [name for name in warehouse.views() if not warehouse.view(name).verify()]
        if wrong:
            raise AssertionError(f"wrong after {epochs:,} epochs: {', '.join(wrong)}")
    return written


PARTS = {"unrelated": unrelated_views, "shared": shared_views, "amplification": _amplification}
"""The parts of the benchmark, by the names that ``--queries`` takes."""
