"""A driver on a cluster that meets faults; says what came of each as JSON, and is killed at its end.

Run as ``python -m tests.integration.clustering MASTER FOLDER LACKING NAMES FAULTS``. Below the folder ``shared`` is one
place for all, ``split`` another place for one of two workers, and ``apart`` another place for both. ``LACKING`` is a
Python without the packages that workers need. Names are separated by commas.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyspark.sql import DataFrame, SparkSession

import tidemill
from tests.ways import tasks_if_possible
from tidemill.compiler import choose_recomputation
from tidemill.engine.epochs import placement
from tidemill.model.errors import TidemillError
from tidemill.runtimes.spark import bulk_check, task_runtime
from tidemill.runtimes.spark.execution import ingest, results
from tidemill.runtimes.spark.sessions import worker_packages
from tidemill.runtimes.spark.sessions.java import java_home
from tidemill.storage.filesystem.durable_files import arm

ROWS = 20_000
"""More than the driver collects here, so Spark writes the files."""

CHANGED = 6_000
"""Rows of a change that tasks take in."""

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
"""Options of Java for processes that live for seconds."""

DDL = """CREATE TABLE t (id BIGINT PRIMARY KEY, k INT); CREATE TABLE u (k INT PRIMARY KEY, name STRING);
CREATE MATERIALIZED VIEW doubled AS SELECT id, 2 * k AS k FROM t WHERE id >= 0;
CREATE MATERIALIZED VIEW named AS SELECT name, COUNT(*) AS n, SUM(id) AS total FROM t JOIN u ON t.k = u.k GROUP BY name;
"""


def session(master: str, folder: Path, **more: str) -> SparkSession:
    """A user's own session, on two executors of one core each, with another default file system than this disk."""
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
        "spark.hadoop.fs.defaultFS": "hdfs://nowhere.invalid:9",
        "spark.sql.warehouse.dir": (folder / "spark-warehouse").as_uri(),
        "spark.speculation": "true",
        "spark.speculation.interval": "50ms",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.minTaskRuntime": "3s",
    }
    for key, value in {**settings, **more}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def numbers(spark: SparkSession, start: int) -> DataFrame:
    """So many rows that each of two tasks writes some."""
    return spark.range(start, start + ROWS, 1, 2).selectExpr("id", "CAST(id % 5 AS INT) AS k")


def replaced(start: int) -> list[tuple[int, tuple[int, int]]]:
    """A change of ``CHANGED`` rows: some of those in bulk leave, and as many others come, each under another name."""
    ids = range(start, start + CHANGED // 2)
    return [(-1, (id_, id_ % 5)) for id_ in ids] + [(+1, (id_ + 10**6, (id_ + 1) % 5)) for id_ in ids]


def refusal(do: Callable[[], object]) -> dict[str, str | None] | None:
    """The error with which something is refused; None where it is not."""
    try:
        do()
    except TidemillError as refused:
        parts = {"what": str(refused), "where": refused.where, "detail": refused.detail, "hint": refused.hint}
        return {"kind": type(refused).__name__, **parts}
    return None


def bulk(spark: SparkSession, folder: Path, epochs: int) -> dict[str, Any]:
    """Bulk epochs as DataFrames until one is refused, then a small one; the warehouse as it is after that."""
    with tidemill.open(folder, runtime="spark", spark=spark) as wh:
        wh.sql(DDL)
        wh.apply({"u": [(+1, (k, f"name {k}")) for k in range(4)]})
        with patch.object(placement, "MOST_TASK_WORK", -1):
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
            "in tasks": refusal(lambda: wh.apply({"t": [(+1, (id_, 0)) for id_ in range(-ROWS, -ROWS + CHANGED)]}))
            if epochs == 1
            else None,
            "rows": wh.sql("SELECT COUNT(*) FROM t")[0][0],
            "doubled": wh.sql("SELECT COUNT(*), SUM(k) FROM doubled")[0],
            **shown(wh),
        }


def shown(wh: tidemill.Warehouse) -> dict[str, Any]:
    return {"epoch": wh.epoch, "named": sorted(wh.view("named").rows())}


# -- faults of tasks: each is met by the first attempt of the first task ----------------------------------------------


def failing(fail: Callable[[], None], met: Path, side: tuple[str, str], *given: Any) -> Iterator[Any]:
    """The tasks of a job, a function in some module, of which one fails; a file says which attempts there were."""
    from importlib import import_module

    from pyspark import TaskContext

    context = TaskContext.get()
    Path(f"{met}.{context.partitionId()}.{context.attemptNumber()}").touch()
    if context.partitionId() == 0 and context.attemptNumber() == 0:
        fail()
    yield from getattr(import_module(side[0]), side[1])(*given)


def parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def end_executor() -> None:
    """End the executor of this task: the parent of the process that workers are forked from."""
    os.kill(parent(os.getppid()), signal.SIGKILL)
    time.sleep(60)


def end_worker() -> None:
    """End the worker that has started the executor of this task, and the executor."""
    executor = parent(os.getppid())
    worker = parent(executor)
    assert "deploy.worker.Worker" in Path(f"/proc/{worker}/cmdline").read_text()
    os.kill(worker, signal.SIGKILL)
    os.kill(executor, signal.SIGKILL)
    time.sleep(60)


FAULTS: dict[str, Callable[[], None]] = {
    "no fault": lambda: None,
    "a slow task": lambda: time.sleep(60),
    "an executor is killed": end_executor,
    "a worker is lost": end_worker,
    "an executor is killed that checks keys": end_executor,
}


def meet_faults(spark: SparkSession, folder: Path, names: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """An epoch in tasks for each fault; the last one is followed by the end of this process before its commit."""
    with tidemill.open(folder / "w", runtime="spark", spark=spark) as wh:
        for number, name in enumerate(names):
            module, side = (bulk_check, "_check_side") if "keys" in name else (task_runtime, "_map_side")
            failed = partial(failing, FAULTS[name], folder / name, (module.__name__, side))
            with patch.object(module, side, failed), patch.object(task_runtime, "CHECK_ROWS", 1):
                wh.apply({"t": replaced(number * CHANGED)})
            runtimes = {row[2] for row in wh.sql("SHOW VIEWS")}
            yield name, {**shown(wh), "runtimes": sorted(runtimes), "jobs": wh.costs().jobs}
        yield "end", {}
        arm("before-log")
        wh.apply({"t": replaced(len(names) * CHANGED)})


def lacking(spark: SparkSession, python: str) -> dict[str, Any]:
    """How workers are refused that are another Python than that of the session."""
    context, found = spark.sparkContext, {}
    with patch.object(context, "pythonExec", python):
        found["lacking"] = refusal(lambda: worker_packages.equip_workers(spark))
    with patch.object(context, "pythonExec", "/nowhere/python"):
        found["absent"] = refusal(lambda: worker_packages.equip_workers(spark))
    return found


if __name__ == "__main__":
    choose_recomputation.cheapest = tasks_if_possible
    ingest.COLLECT_ROWS = results.COLLECT_ROWS = placement.DRIVER_WORK = ROWS // 2
    master, folder, python, *lists = sys.argv[1:]
    root, (names, faults) = Path(folder), (given.split(",") for given in lists)
    spark = session(master, root)
    outcome: dict[str, Any] = {name: bulk(spark, root / name / "w", 2 if name == "shared" else 1) for name in names}
    outcome["executors"] = len(spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()) - 1
    outcome["packages"] = [[worker.python, worker.lacking()] for worker in worker_packages.workers_of(spark)]
    outcome |= lacking(spark, python)
    for name, found in meet_faults(spark, root / "shared", faults):
        outcome[name] = found
        if name == "end":
            print(json.dumps(outcome), flush=True)
