"""Five windows over one feed: each in a warehouse of its own, and all in one; views that follow at once, and late ones.

Run as ``python -m benchmarks.viewdf.sharing [ROWS] [GROUPS]``; prints the milliseconds of a slide, all views included.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import numpy as np
import pyarrow as pa

import tidemill
from benchmarks.viewdf.data import FIRST, MINUTE

SCHEMA = "CREATE STREAM s (ts TIMESTAMP, k INT, n INT) PARTITION BY ts EVERY 1 MINUTE"

WINDOWS = {
    "hour": "SELECT k, SUM(n) AS n FROM s[i-59 .. i] GROUP BY k",
    "half": "SELECT k, SUM(n) AS n, COUNT(*) AS c FROM s[i-29 .. i] GROUP BY k",
    "quarter": "SELECT k, AVG(n) AS n FROM s[i-14 .. i] GROUP BY k",
    "ten": "SELECT k, SUM(n) AS n FROM s[i-9 .. i] GROUP BY k HAVING SUM(n) > 0",
    "four": "SELECT k, SUM(n) AS n FROM s[i-3 .. i] GROUP BY k",
}

Answers = dict[str, list[tuple[object, ...]]]
"""The rows of each view."""

SLIDES, WARM = 9, 3
"""So many are made, of which so many compile as well."""


def partitions(rows: int, groups: int) -> Iterator[pa.Table]:
    """The minutes of the feed, the same each time."""
    random = np.random.default_rng(7)
    for number in range(SLIDES):
        instants = FIRST + number * MINUTE + random.integers(0, MINUTE, rows)
        yield pa.table(
            {
                "ts": pa.array(instants, pa.timestamp("us")),
                "k": pa.array(random.integers(0, groups, rows), pa.int32()),
                "n": pa.array(random.integers(0, 100, rows), pa.int32()),
            }
        )


def warehouse(names: list[str], refresh: str) -> tidemill.Warehouse:
    """One with these windows."""
    wh = tidemill.open(":memory:", runtime="native")
    wh.sql(SCHEMA)
    for name in names:
        wh.sql(f"CREATE MATERIALIZED VIEW {name} WITH (refresh = '{refresh}') AS UPDATE {name}[i] AS {WINDOWS[name]}")
    return wh


def measure(rows: int, groups: int, houses: list[list[str]], refresh: str = "immediate") -> tuple[float, Answers]:
    """The median seconds of a slide in all ``houses``, and the rows of all views at the end."""
    with ExitStack() as stack:
        opened = [stack.enter_context(warehouse(names, refresh)) for names in houses]
        seconds = []
        for partition in partitions(rows, groups):
            begin = time.perf_counter()
            for wh in opened:
                wh.apply({"s": partition})
                wh.schedule()
            seconds.append(time.perf_counter() - begin)
        answers = {name: sorted(wh.view(name).rows()) for wh in opened for name in wh.views()}
    return statistics.median(seconds[WARM:]), answers


def main(rows: int = 1_000_000, groups: int = 1_000) -> None:
    """Measure each way, compare the answers, and print the times."""
    apart, together = [[name] for name in WINDOWS], [list(WINDOWS)]
    ways: dict[str, Callable[[], tuple[float, Answers]]] = {
        "one view": lambda: measure(rows, groups, apart[:1]),
        "five, each in a warehouse of its own": lambda: measure(rows, groups, apart),
        "five in one warehouse": lambda: measure(rows, groups, together),
        "five scheduled, each in a warehouse of its own": lambda: measure(rows, groups, apart, "scheduled"),
        "five scheduled in one warehouse": lambda: measure(rows, groups, together, "scheduled"),
    }
    known: Answers = {}
    for way, run in ways.items():
        seconds, answers = run()
        assert all(known.setdefault(name, shown) == shown for name, shown in answers.items()), way
        print(f"{way}: {seconds * 1e3:,.0f} ms", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
