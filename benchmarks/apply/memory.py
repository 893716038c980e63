"""Bytes an entry of each kind of map: as compiled maps tell, and what the process takes for each row in all.

Each kind is measured in a process of its own, so that memory which others gave back does not count.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing import get_context

import numpy as np
import pyarrow as pa

import tidemill
from benchmarks.choices import chosen
from benchmarks.dbtoaster.subject import anonymous_bytes
from tidemill.engine.results import MapSize
from tidemill.serving.cli.bench_runner import BenchmarkOptions, Figure

ROWS, QUICK_ROWS = 200_000, 40_000
"""More than those after which a stage is compiled."""

EPOCHS = 10
GROUPS = 1_000
BACKENDS = ("llvm", "python")

STREAM = "CREATE STREAM t (k BIGINT, g BIGINT, s STRING, v BIGINT); CREATE STREAM u (g BIGINT, w BIGINT)"
KINDS = {
    "contents of a table": "",
    "groups": "SELECT k, COUNT(*) AS n, SUM(v) AS v FROM t GROUP BY k",
    "groups by text": "SELECT s, COUNT(*) AS n, SUM(v) AS v FROM t GROUP BY s",
    "distinct": "SELECT DISTINCT k FROM t",
    "min and max": "SELECT g, MIN(v) AS least, MAX(v) AS most FROM t GROUP BY g",
    "top 3": """SELECT g, k FROM (SELECT g, k, ROW_NUMBER() OVER (PARTITION BY g ORDER BY v, k) AS n FROM t) x
        WHERE n <= 3""",
    "window": "SELECT k, LAG(v) OVER (PARTITION BY g ORDER BY k) AS before FROM t",
    "joined": "SELECT t.k, t.v, u.w FROM t JOIN u ON t.g = u.g",
    "range sums": """SELECT SUM(a.v) AS v FROM t a
        WHERE (SELECT SUM(x.v) FROM t x) > 2 * (SELECT COALESCE(SUM(b.v), 0) FROM t b WHERE b.k > a.k)""",
    "join graph": "SELECT t.k, t.v, u.w FROM t JOIN u ON t.g = u.g",
}
"""Views, each over a stream, that keep one map of the kind; the table has no view."""

SAMPLES = ("contents of a table", "groups", "min and max")
"""The kinds of a quick look."""

OPTIONS = {"range sums": "WITH (strategy = 'viewlet')", "join graph": "WITH (strategy = 'joingraph')"}


@dataclass(frozen=True)
class Held:
    """What a kind takes: its maps, and bytes of the process for all rows."""

    maps: tuple[MapSize, ...]
    process: int


def memory(options: BenchmarkOptions) -> Iterator[Figure]:
    """Every kind on both back ends."""
    rows = QUICK_ROWS if options.quick else ROWS
    kinds = SAMPLES if options.quick else tuple(KINDS)
    backends = chosen("back end", options.backends, BACKENDS[: 1 if options.quick else 2])
    cases = [(kind, backend) for kind in kinds for backend in backends]
    with get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for place, (kind, backend) in enumerate(cases):
            options.progress(place / len(cases), f"memory of {kind}")
            yield from figures(kind, backend, rows, pool.apply(held, (kind, backend, rows)))


def figures(kind: str, backend: str, rows: int, held: Held) -> Iterator[Figure]:
    """Of each map that tells its memory, and of the process."""
    name = f"memory/{kind}/{backend}"
    for map_ in held.maps:
        if map_.bytes is not None and map_.entries >= rows // 2:
            about = f"{map_.map}, {map_.entries:,} entries"
            yield Figure("apply", name, "bytes/entry", map_.bytes / map_.entries, "B", about)
    compiled = any(map_.bytes is not None for map_ in held.maps)
    about = f"{rows:,} rows with all that is kept for them" + ("" if compiled else "; generated Python")
    yield Figure("apply", name, "process_bytes/row", held.process / rows, "B", about)


def held(kind: str, backend: str, rows: int) -> Held:
    """Take rows in, each with a key of its own, and look what they take."""
    with tidemill.open(":memory:", runtime="native", backend=backend) as warehouse:
        if KINDS[kind]:
            warehouse.sql(STREAM)
            warehouse.sql(f"CREATE MATERIALIZED VIEW answer {OPTIONS.get(kind, '')} AS {KINDS[kind]}")
        else:
            warehouse.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, g BIGINT, s STRING, v BIGINT)")
        # The first rows are there before the count begins: what is loaded and compiled once is not theirs.
        warehouse.apply({"t": _rows(0, 1)})
        gc.collect()
        before = anonymous_bytes()
        for epoch in range(EPOCHS):
            warehouse.apply({"t": _rows(1 + epoch * rows // EPOCHS, 1 + (epoch + 1) * rows // EPOCHS)})
        warehouse.vacuum(keep=1)
        gc.collect()
        pa.default_memory_pool().release_unused()
        maps = warehouse.view("answer").sizes() if KINDS[kind] else []
        return Held(tuple(maps), max(anonymous_bytes() - before, 0))


def _rows(start: int, stop: int) -> pa.Table:
    keys = np.arange(start, stop) * 7919 % (1 << 40)
    texts = pa.array([f"key number {key}" for key in keys.tolist()])
    return pa.table({"k": keys, "g": keys % GROUPS, "s": texts, "v": keys % 10_007})
