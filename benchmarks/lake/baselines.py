"""Spark recomputing the eight views in a session that is open.

This Spark has no jar of Delta or Iceberg. It reads Parquet files that together are the newest version, and it writes
Parquet. With the jars it would do the same, and read and write logs besides.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from benchmarks.lake.lakes import Lake
from benchmarks.tpch.data import TABLES
from benchmarks.tpch.views import VIEWS


def overwrite_by_spark(session: Any, lake: Lake, folder: Path) -> float:
    """Seconds in which Spark reads the lake and overwrites eight tables in ``folder``."""
    files = {name: lake.files(name) for name in TABLES}
    start = time.perf_counter()
    for name in TABLES:
        session.read.parquet(*files[name]).createOrReplaceTempView(name)
    for name, query in VIEWS.items():
        session.sql(query).write.mode("overwrite").parquet(str(folder / name))
    return time.perf_counter() - start
