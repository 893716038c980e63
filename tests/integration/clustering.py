"""A driver on a cluster whose workers share some folders with it and others not; says what came of each as JSON.

Run as ``python -m tests.integration.clustering MASTER FOLDER``. Below the folder, ``shared`` is one place for all,
``split`` another place for one of two workers, and ``apart`` another place for both.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyspark.sql import DataFrame, SparkSession

import tidemill
from tidemill.engine.epochs import placement
from tidemill.model.errors import TidemillError
from tidemill.runtimes.spark.execution import ingest, results
from tidemill.runtimes.spark.execution.java import java_home

ROWS = 20_000
"""More than the driver collects here, so Spark writes the files."""

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
"""Options of Java for processes that live for seconds."""

DDL = """CREATE TABLE t (id BIGINT PRIMARY KEY, k INT); CREATE TABLE u (k INT PRIMARY KEY, name STRING);
CREATE MATERIALIZED VIEW doubled AS SELECT id, 2 * k AS k FROM t WHERE id >= 0;
CREATE MATERIALIZED VIEW named AS SELECT name, COUNT(*) AS n, SUM(id) AS total FROM t JOIN u ON t.k = u.k GROUP BY name;
"""


def session(master: str) -> SparkSession:
    """A user's own session, on two executors of one core each."""
    os.environ["JAVA_HOME"] = str(java_home())
    builder = SparkSession.builder.master(master).appName("clustering")
    settings = {
        "spark.driver.extraJavaOptions": QUICK,
        "spark.executor.extraJavaOptions": QUICK,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.cores.max": "2",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
        "spark.locality.wait": "0s",
        "spark.sql.shuffle.partitions": "2",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def numbers(spark: SparkSession, start: int) -> DataFrame:
    """So many rows that each of two tasks writes some."""
    return spark.range(start, start + ROWS, 1, 2).selectExpr("id", "CAST(id % 5 AS INT) AS k")


def refusal(do: Callable[[], object]) -> dict[str, str | None] | None:
    """The error with which something is refused; None where it is not."""
    try:
        do()
    except TidemillError as refused:
        return {"kind": type(refused).__name__, "what": str(refused), "hint": refused.hint}
    return None


def bulk(spark: SparkSession, folder: Path, epochs: int) -> dict[str, Any]:
    """Bulk epochs until one is refused, then a small one; the warehouse as it is after that."""
    with tidemill.open(folder, runtime="spark", spark=spark) as wh:
        wh.sql(DDL)
        wh.apply({"u": [(+1, (k, f"name {k}")) for k in range(4)]})
        error = refusal(lambda: [wh.apply({"t": numbers(spark, number * ROWS)}) for number in range(epochs)])
        wh.apply({"t": [(+1, (-1, 3))], "u": [(+1, (4, "name 4"))]})
        unread = None
        if folder.parent.name == "apart":
            # Work that the driver would do by itself, given to tasks: they look for files that it wrote.
            with patch.object(placement, "DRIVER_WORK", -1):
                unread = refusal(lambda: wh.apply({"u": [(+1, (5, "name 5"))]}))
        return {
            "error": error,
            "unread": unread,
            "epoch": wh.epoch,
            "rows": wh.sql("SELECT COUNT(*) FROM t")[0][0],
            "doubled": wh.sql("SELECT COUNT(*), SUM(k) FROM doubled")[0],
            "named": sorted(wh.view("named").rows()),
        }


if __name__ == "__main__":
    ingest.COLLECT_ROWS = results.COLLECT_ROWS = placement.DRIVER_WORK = ROWS // 2
    placement.MOST_TASK_WORK = -1
    spark = session(sys.argv[1])
    root = Path(sys.argv[2])
    outcome = {name: bulk(spark, root / name / "w", 2 if name == "shared" else 1) for name in sys.argv[3:]}
    executors = spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
    outcome["executors"] = len(executors) - 1
    spark.stop()
    print(json.dumps(outcome))
