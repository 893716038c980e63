"""A process that alters a table step by step, for crash tests to cut short.

Run as ``python -m tests.evolution.altering FOLDER``: goes on from where the warehouse stands. Each step is a change of
the schema, and the row that follows it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tidemill

Row = tuple[Any, ...]
Step = tuple[str, Row, Callable[[Row], Row]]
"""A statement, the row that is inserted next, and what the statement makes of the rows before."""

STEPS: tuple[Step, ...] = (
    ("ALTER TABLE t ADD COLUMN c INT DEFAULT 7", (3, "x", 5, 1), lambda row: (*row, 7)),
    ("ALTER TABLE t RENAME COLUMN b TO label", (4, "y", 6, 2), lambda row: row),
    ("ALTER TABLE t ALTER COLUMN a TYPE BIGINT", (5, "x", 1 << 40, 3), lambda row: row),
    ("ALTER TABLE t DROP COLUMN c", (6, "z", 9), lambda row: row[:3]),
    ("ALTER TABLE t ADD COLUMN c STRING", (7, "z", 9, "new"), lambda row: (*row, None)),
    ("ALTER VIEW sums RENAME TO totals", (8, "x", 1, None), lambda row: row),
)
FIRST: tuple[Row, ...] = ((1, "x", 10), (2, "y", 20))


def rows_after(steps: int) -> list[Row]:
    """The rows of the table after so many steps."""
    rows = list(FIRST)
    for _, new, change in STEPS[:steps]:
        rows = [*map(change, rows), new]
    return rows


def steps_done(wh: tidemill.Warehouse) -> int:
    """The number of steps whose statement has been done."""
    columns = [f.name for f in wh.table("t").fields]
    if "totals" in wh.views():
        return 6
    if "label" not in columns:
        return 1 if "c" in columns else 0
    if "c" in columns:
        kinds = {f.name: str(f.type) for f in wh.table("t").fields}
        return 5 if kinds["c"] == "STRING" else 3 if kinds["a"] == "BIGINT" else 2
    return 4


def live(folder: Path) -> None:
    """Do all steps that are not done."""
    with tidemill.open(folder, runtime="native", backend="python") as wh:
        if "every" not in wh.views():
            wh.sql("CREATE TABLE IF NOT EXISTS t (id BIGINT PRIMARY KEY, b STRING, a INT)")
            if not wh.table("t").rows():
                wh.apply({"t": [(1, row) for row in FIRST]})
            wh.sql("CREATE MATERIALIZED VIEW IF NOT EXISTS sums AS SELECT b, SUM(a) AS s FROM t GROUP BY b")
            wh.sql("CREATE MATERIALIZED VIEW IF NOT EXISTS big AS SELECT b FROM sums WHERE s > 15")
            wh.sql("CREATE MATERIALIZED VIEW every AS SELECT * FROM t")
        done = steps_done(wh)
        ids = {row[0] for row in wh.table("t").rows()}
        if done and STEPS[done - 1][1][0] not in ids:  # it died between a statement and its row
            wh.apply({"t": [(1, STEPS[done - 1][1])]})
        for statement, row, _ in STEPS[done:]:
            wh.sql(statement)
            wh.apply({"t": [(1, row)]})


if __name__ == "__main__":
    live(Path(sys.argv[1]))
