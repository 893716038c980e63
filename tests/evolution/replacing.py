"""A process that replaces a view that others read, again and again, for crash tests to cut short.

Run as ``python -m tests.evolution.replacing FOLDER``: goes on with the next query.
"""

from __future__ import annotations

import sys
from pathlib import Path

import tidemill

QUERIES = (
    "SELECT k, n FROM t WHERE n > 10",
    "SELECT k, n FROM t WHERE n > 20",
    "SELECT k, n, z FROM t WHERE n > 5",
    "SELECT k, MAX(n) AS n FROM t GROUP BY k",
    "SELECT k, n FROM t WHERE n < 25",
)


def live(folder: Path) -> None:
    """Replace the view by each of the queries that follow the one that it has."""
    with tidemill.open(folder, runtime="native", backend="python") as wh:
        if "best" not in wh.views():
            wh.sql("CREATE TABLE IF NOT EXISTS t (k INT, n INT, z STRING)")
            if not wh.table("t").rows():
                wh.apply({"t": [(1, (i % 3, i, "z")) for i in range(30)]})
            wh.sql(f"CREATE MATERIALIZED VIEW IF NOT EXISTS v AS {QUERIES[0]}")
            wh.sql("CREATE MATERIALIZED VIEW IF NOT EXISTS sums AS SELECT k, SUM(n) AS n FROM v GROUP BY k")
            wh.sql("CREATE MATERIALIZED VIEW best AS SELECT MAX(n) AS n FROM sums")
        for query in QUERIES[query_of(wh) + 1 :]:
            wh.sql(f"ALTER VIEW v AS {query}")
            wh.apply({"t": [(1, (1, 15, "new"))]})


def query_of(wh: tidemill.Warehouse) -> int:
    """Which of the queries the view has."""
    return next(place for place, query in enumerate(QUERIES) if wh.view("v").definition.endswith(query))


if __name__ == "__main__":
    live(Path(sys.argv[1]))
