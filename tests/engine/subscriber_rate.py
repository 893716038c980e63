"""What subscribers cost: ``python -m tests.engine.subscriber_rate [ROWS] [EPOCHS]``.

A view publishes epochs of ROWS rows over 100,000 keys, as columns like machine code does, and each subscriber wants one
key. What is measured is commit, publishing and handing over, all in one thread.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import pyarrow as pa

import tidemill
from tidemill.changes.changeset import ChangeSet, Epoch

KEYS = 100_000


def measure(subscribers: int, filtered: bool, tables: list[pa.Table]) -> tuple[float, int]:
    """Seconds for all epochs, and the rows that were handed over."""
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql("CREATE STREAM posts (follower BIGINT, post BIGINT)")
        options = "strategy = 'joingraph', serve = 'subscribe', keep = 1"
        wh.sql(f"CREATE MATERIALIZED VIEW timeline WITH ({options}) AS SELECT follower, post FROM posts")
        wheres = [{"follower": key} if filtered else None for key in range(subscribers)]
        feeds = [wh.subscribe("timeline", where=where, timeout=0, form="arrow") for where in wheres]
        engine, rows = wh._engine, 0
        fields = engine.catalog.view("timeline").fields
        begin = time.perf_counter()
        for table in tables:
            engine.epochs.commit(Epoch(engine.store.epoch + 1, {"timeline": ChangeSet.of_arrow(table, fields)}))()
            engine.tend()
            rows += sum(batch.rows for feed in feeds for batch in feed)
        return time.perf_counter() - begin, rows


def main(rows: int = 1_000_000, epochs: int = 10) -> None:
    """Print the cost of growing numbers of subscribers beside that of one."""
    rng = np.random.default_rng(1)
    tables = [
        pa.table(
            {
                "follower": rng.integers(0, KEYS, rows),
                "post": rng.integers(0, 1 << 40, rows),
                "_weight": np.ones(rows, dtype=np.int64),
            }
        )
        for _ in range(epochs)
    ]
    cases = [(0, True), (1, False), (1, True), (10, True), (100, True), (1_000, True), (10_000, True)]
    for subscribers, filtered in cases:
        seconds, handed = min(measure(subscribers, filtered, tables) for _ in range(3))
        kind = "by key" if filtered else "of everything"
        print(
            f"{subscribers:>6} subscribers {kind:<14} {1e3 * seconds / epochs:8.2f} ms per epoch, "
            f"{rows * epochs / seconds / 1e6:8.1f} million rows per second, {handed:>10,} rows handed over"
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
