"""A process that builds views in the background while it writes, and goes on where it was after it was killed."""

from __future__ import annotations

import sys
from pathlib import Path

import tidemill
from tests.builds.stepping import IdleWorker, step, step_to_end
from tidemill.engine.builds import build, builds, handover

VIEWS = {
    "v": "SELECT b, COUNT(*) AS n, SUM(a) AS s, MAX(id) AS m FROM t GROUP BY b",
    "w": "SELECT t.id, u.name FROM t LEFT JOIN u ON t.b = u.b",
}
FIRST, LAST = 20, 32


def row_of(number: int) -> tuple[int, str, int]:
    """The row of an id."""
    return (number, "xyz"[number % 3], 10 * number)


def live(path: Path) -> None:
    """Load two tables, begin to build the views, and write until they are built; whatever is done already stays."""
    builds.Worker = IdleWorker  # type: ignore[misc, assignment]
    build.FIRST_SLICE = build.SLICE_ROWS = 4
    handover.FILE_ROWS = 5
    with tidemill.open(path, runtime="native", backend="python") as wh:
        wh.sql("CREATE TABLE IF NOT EXISTS t (id INT PRIMARY KEY, b STRING, a INT)")
        wh.sql("CREATE TABLE IF NOT EXISTS u (b STRING PRIMARY KEY, name STRING)")
        if not wh.table("t").rows():
            wh.apply(
                {"t": [(1, row_of(number)) for number in range(FIRST)], "u": [(1, ("x", "ex")), (1, ("y", "why"))]}
            )
        for name, query in VIEWS.items():
            wh.sql(f"CREATE MATERIALIZED VIEW IF NOT EXISTS {name} WITH (build = 'background') AS {query}")
        while (number := 1 + max(row[0] for row in wh.table("t").rows())) < LAST:
            wh.apply({"t": [(1, row_of(number)), (-1, row_of(number - FIRST))]})
            step(wh, 2)
        step_to_end(wh)


if __name__ == "__main__":
    live(Path(sys.argv[1]))
