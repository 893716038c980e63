"""A process that changes a table and publishes views of it, for crash tests to cut short.

Run as ``python -m tests.lake.publishing FOLDER``: goes on until all changes are made and published.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

import tidemill

EPOCHS = 5
MODES = ("merge", "snapshot", "changes")


def change(number: int) -> list[tuple[int, tuple[Any, ...]]]:
    """The change of an epoch: two groups grow, and one of before is gone."""
    rows: list[tuple[int, tuple[Any, ...]]] = [
        (1, (10 * number, None, number)),
        (1, (10 * number + 1, f"g{number}", 1)),
    ]
    return rows + ([(-1, (10 * (number - 1) + 1, f"g{number - 1}", 1))] if number > 1 else [])


def live(folder: Path) -> None:
    """Make all changes, and publish after each."""
    with tidemill.open(folder / "w", runtime="native", backend="python") as wh:
        wh.sql("CREATE TABLE IF NOT EXISTS t (id INT PRIMARY KEY, g STRING, n INT)")
        for mode in MODES:
            options = f"publish = 'delta', location = '{folder / mode}', mode = '{mode}'"
            query = "SELECT g, SUM(n) AS total, COUNT(*) AS c FROM t GROUP BY g"
            wh.sql(f"CREATE MATERIALIZED VIEW IF NOT EXISTS {mode} WITH ({options}) AS {query}")
        for number in range(wh.epoch + 1, EPOCHS + 1):
            wh.apply({"t": change(number)})
            wh.publish()
        wh.publish()


def published(folder: Path) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of the published tables: of changes, the sum of their weights."""
    found = {mode: pa.table(DeltaTable(str(folder / mode)).scan()) for mode in MODES}
    changes: dict[tuple[Any, ...], int] = {}
    for row in found["changes"].to_pylist():
        place = tuple(row[name] for name in ("g", "total", "c"))
        changes[place] = changes.get(place, 0) + row["_weight"]
    rows = {mode: [tuple(row.values()) for row in found[mode].to_pylist()] for mode in ("merge", "snapshot")}
    return rows | {"changes": [row for row, weight in changes.items() for _ in range(weight)]}


if __name__ == "__main__":
    live(Path(sys.argv[1]))
