"""A driver on a cluster that does not share its disk, over a warehouse in an object store; says what came of it.

Run as ``python -m tests.integration.object_clustering MASTER FOLDER LACKING FAULTS``. The environment names the store,
and the folder of the driver's copies, which workers do not see. ``LACKING`` is a Python without obstore. Faults are
separated by commas.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyspark import cloudpickle
from pyspark.sql import SparkSession

import tidemill
from tests.integration import clustering
from tests.integration.clustering import CHANGED, DDL, ROWS, failing, numbers, refusal, replaced, session
from tests.ways import tasks_if_possible
from tidemill.compiler import choose_recomputation
from tidemill.engine.epochs import placement
from tidemill.runtimes.spark import task_runtime
from tidemill.runtimes.spark.execution import ingest, remote_files, results
from tidemill.runtimes.spark.lookup import lookup_task
from tidemill.runtimes.spark.sessions import worker_packages
from tidemill.storage.filesystem.durable_files import OutcomeUnknown

ADDRESS = "s3://bucket/shop"

PAIRS = "CREATE MATERIALIZED VIEW pairs AS SELECT t.id, t.k, name FROM t JOIN u ON t.k = u.k"
"""A view that is filled from stored rows, with more rows than the driver collects."""


def changed(number: int) -> list[tuple[int, tuple[int, int]]]:
    """The rows of an epoch in bulk."""
    return replaced(number * CHANGED // 2)


def shown(wh: tidemill.Warehouse) -> dict[str, Any]:
    """The views, Spark's own answers to them, and by which way the last epoch went."""
    runtimes = sorted({row[2] for row in wh.sql("SHOW VIEWS")})
    pairs = wh.sql("SELECT COUNT(*), SUM(id), SUM(k) FROM pairs")[0] if "pairs" in wh.views() else None
    return {"epoch": wh.epoch, "named": sorted(wh.view("named").rows()), "pairs": pairs, "runtimes": runtimes}


def life(spark: SparkSession) -> Iterator[tuple[str, dict[str, Any]]]:
    """Epochs of all kinds, each followed by what the warehouse shows."""
    with tidemill.open(ADDRESS, runtime="spark", spark=spark) as wh:
        wh.sql(DDL)
        wh.apply({"u": [(+1, (k, f"name {k}")) for k in range(5)]})
        with patch.object(placement, "MOST_TASK_WORK", -1):
            wh.apply({"t": numbers(spark, 0)})
        yield "load", shown(wh)
        wh.sql(PAIRS)
        yield "fill", shown(wh)
        wh.apply({"t": [(+1, (-1, 3))]})
        yield "one row", shown(wh)
        wh.apply({"t": changed(0)})
        yield "tasks", shown(wh)
        with patch.object(task_runtime, "CHECK_ROWS", 1):
            wh.apply({"t": changed(1)})
            yield "checked by tasks", shown(wh)
            doubled = refusal(lambda: wh.apply({"t": [(+1, (id_, 0)) for id_ in range(-5_000, 0)]}))
        yield "verify", {"verified": [one.ok for one in wh.verify()], "doubled": doubled}


# -- faults of the store, met by the first attempt of the first task --------------------------------------------------


def lose(answers: int) -> None:
    """Lose so many answers of the store in this worker, which has no copies any more, and asks three times."""
    from tidemill.storage.filesystem.objects import bucket, requests

    shutil.rmtree(os.environ["TIDEMILL_CACHE"], ignore_errors=True)
    requests.PAUSES = (0.01, 0.01)
    usual, lost = bucket.BucketObjects.fetch, iter(range(answers))

    def fetch(objects: bucket.BucketObjects, name: str, file: Path) -> None:
        if next(lost, None) is not None:
            raise OutcomeUnknown(errno.EIO, "the request got no answer", name)
        bucket.BucketObjects.fetch = usual
        usual(objects, name, file)

    bucket.BucketObjects.fetch = fetch


def raise_in_task() -> None:
    raise OSError("a task that fails")


FAULTS: dict[str, tuple[Callable[[], None], Any, str]] = {
    "answers are lost": (partial(lose, 2), task_runtime, "_map_side"),
    "the store is silent": (partial(lose, 3), task_runtime, "_map_side"),
    "a reading task fails": (raise_in_task, remote_files, "_rows_numbered"),
    "a writing task fails": (raise_in_task, remote_files, "_write_rows"),
}


def meet_faults(spark: SparkSession, folder: Path, names: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """An epoch for each fault, in tasks or as DataFrames."""
    with tidemill.open(ADDRESS, runtime="spark", spark=spark) as wh:
        for number, name in enumerate(names, start=2):
            fail, module, side = FAULTS[name]
            failed = partial(failing, fail, folder / name, (module.__name__, side))
            in_tasks = module is task_runtime
            most = placement.MOST_TASK_WORK if in_tasks else -1
            with patch.object(module, side, failed), patch.object(placement, "MOST_TASK_WORK", most):
                rows = changed(number) if in_tasks else numbers(spark, 10**7 * number)
                refused = refusal(lambda: wh.apply({"t": rows}))  # noqa: B023 (called at once)
            yield name, {**shown(wh), "refused": refused}


def lacking(spark: SparkSession, python: str) -> dict[str, Any] | None:
    """How workers without obstore are refused."""
    with patch.object(spark.sparkContext, "pythonExec", python):
        worker_packages.equip_workers(spark)
        return refusal(lambda: worker_packages.require_packages(spark, ["obstore"]))


if __name__ == "__main__":
    choose_recomputation.cheapest = tasks_if_possible
    cloudpickle.register_pickle_by_value(clustering)  # workers have no tests
    ingest.COLLECT_ROWS = results.COLLECT_ROWS = placement.DRIVER_WORK = ROWS // 2
    lookup_task.MAPPED_ROWS = 1_000
    master, folder, python, faults = sys.argv[1:]
    recorded = {"enabled": "true", "compress": "false", "dir": (Path(folder) / "events").as_uri()}
    spark = session(master, Path(folder), **{f"spark.eventLog.{name}": value for name, value in recorded.items()})
    outcome = dict(life(spark))
    outcome |= meet_faults(spark, Path(folder), [name for name in faults.split(",") if name])
    outcome["lacking"] = lacking(spark, python) or {}
    print(json.dumps(outcome), flush=True)
    spark.stop()
