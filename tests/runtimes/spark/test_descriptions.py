"""Spark's own pages show for every job which epoch, view and purpose it is for."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tidemill
from tests import ways
from tidemill.engine.epochs import placement
from tidemill.runtimes.spark.lookup import lookup_task

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DDL = """
CREATE TABLE customers (id INT PRIMARY KEY, city STRING);
CREATE TABLE orders (id INT PRIMARY KEY, customer INT REFERENCES customers (id), amount INT);
CREATE MATERIALIZED VIEW by_city AS
  SELECT c.city, SUM(o.amount) AS total FROM orders o JOIN customers c ON o.customer = c.id GROUP BY c.city;
"""


class Jobs:
    """The jobs that Spark has run since the last look, by their descriptions."""

    def __init__(self, spark: SparkSession) -> None:
        self._java: Any = spark.sparkContext._jsc.sc()
        self._seen = -1
        self.descriptions()

    def descriptions(self) -> list[str]:
        """The descriptions of new jobs; an empty text for a job that has none."""
        self._java.listenerBus().waitUntilEmpty()
        found = self._java.statusStore().jobsList(None)
        jobs = [found.apply(at) for at in range(found.length())]
        fresh = sorted((job.jobId(), job) for job in jobs if job.jobId() > self._seen)
        self._seen = max([self._seen, *(number for number, _ in fresh)])
        return [told.get() if (told := job.description()).isDefined() else "" for _, job in fresh]


def change(start: int) -> dict[str, list[tuple[int, tuple[object, ...]]]]:
    ids = range(start, start + 6)
    return {"customers": [(+1, (i, f"city {i % 2}")) for i in ids], "orders": [(+1, (i, i, 5)) for i in ids]}


@pytest.mark.parametrize("way", ["frames", "tasks", "driver"])
def test_jobs_of_epochs(spark: SparkSession, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup_task, "MAPPED_ROWS", 0)  # jobs make files of the smallest runs, too
    jobs = Jobs(spark)
    with ways.opened(way, spark) as wh:
        wh.sql(DDL)
        wh.apply(change(0))
        wh.apply(change(10))
        wh.vacuum()  # what the driver has taken in so far is in files since
        wh.apply({"orders": [(-1, (1, 1, 5)), (+1, (1, 2, 7))]})
        found = jobs.descriptions()
        assert all(
            re.fullmatch(
                r"tidemill epoch [123]: (keys|constraints|changes) of \w.*|tidemill epoch [123]: \d+ lookups in \w.*",
                one,
            )
            for one in found
        )
        assert any(re.search("lookups in .*" if way == "driver" else "changes of by_city$", one) for one in found)
        assert re.search(r"on Spark +\d+ jobs, \d+ tasks for [\d.]+ s", wh.view("by_city").explain())
        with monkeypatch.context() as patched:
            patched.setattr(placement, "DRIVER_WORK", -1)
            wh.sql("CREATE MATERIALIZED VIEW large AS SELECT id FROM orders WHERE amount > 6")
            assert wh.sql("SELECT COUNT(*) AS n FROM orders WHERE amount < 100") == [(12,)]
        assert all(wh.verify())
        later = jobs.descriptions()
        assert all(re.fullmatch(r"tidemill epoch 3: (filling|query|recomputing from) \w.*", one) for one in later)
        assert {one.split()[3] for one in later} == {"filling", "query", "recomputing"}


def test_jobs_of_frames_and_streams(spark: SparkSession, tmp_path: Path) -> None:
    jobs = Jobs(spark)
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    (inbox / "1.json").write_text("\n".join(json.dumps({"id": n, "city": "x"}) for n in range(10)))
    with tidemill.open(tmp_path / "w", runtime="spark", spark=spark) as wh:
        wh.sql(DDL)
        wh.apply({"customers": spark.createDataFrame([(100, "a")], "id INT, city STRING")})
        source = spark.readStream.schema("id INT, city STRING").json(inbox.as_uri())
        parts = {
            "customers": lambda batch: batch,
            "orders": lambda batch: batch.selectExpr("id", "id AS customer", "7 AS amount"),
        }
        wh.stream(parts, source, availableNow=True).awaitTermination()
        assert (wh.epoch, wh.view("by_city").rows()) == (2, [("x", 70)])
        assert list(wh.positions) == ["stream:customers, orders"]
    found = jobs.descriptions()
    assert set(found) == {
        "tidemill epoch 1: rows for customers",
        "tidemill epoch 2: rows for customers",
        "tidemill epoch 2: rows for orders",
    }
