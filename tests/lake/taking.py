"""A process that takes version after version of a Delta table, for crash tests to cut short.

Run as ``python -m tests.lake.taking FOLDER``: goes on until the warehouse shows the last version.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

import tidemill

VERSIONS = 4


def advance(lake: str, version: int) -> None:
    """Write a version of the Delta table, unless it is there."""
    if version and DeltaTable(lake).version() >= version:
        return
    if version == 0:
        if not DeltaTable.is_deltatable(lake):
            write_deltalake(lake, pa.table({"id": range(10), "n": [0] * 10}))
    elif version % 2:
        DeltaTable(lake).update(updates={"n": "n + 1"}, predicate=f"id >= {version}")
    else:
        write_deltalake(lake, pa.table({"id": [version], "n": [version]}), mode="append")


def live(folder: Path) -> None:
    """Write all versions, and take each in."""
    lake = str(folder / "lake")
    advance(lake, 0)
    with tidemill.open(folder / "w", runtime="native", backend="python") as wh:
        wh.sql(f"CREATE TABLE IF NOT EXISTS orders USING delta LOCATION '{lake}'")
        query = "SELECT n, COUNT(*) AS c, SUM(id) AS s FROM orders GROUP BY n"
        wh.sql(f"CREATE MATERIALIZED VIEW IF NOT EXISTS v AS {query}")
        for version in range(1, VERSIONS + 1):
            advance(lake, version)
            wh.sync()


if __name__ == "__main__":
    live(Path(sys.argv[1]))
