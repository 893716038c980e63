"""Scheduled views, and views that share what they keep, on Spark: as in this process."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tidemill
from tests.scheduling.test_sharing import Feeder, define, shares

pytestmark = pytest.mark.spark

LATE = {
    "sums": "SELECT k, SUM(n) AS n FROM s GROUP BY k",
    "counts": "SELECT n, COUNT(*) AS c FROM s GROUP BY n",
    "top": "SELECT MAX(n) AS n FROM sums",
}


def test_as_in_this_process(spark: SparkSession, tmp_path: Path) -> None:
    with (
        tidemill.open(tmp_path, spark=spark, runtime="spark") as on_spark,
        tidemill.open(":memory:", runtime="native", backend="python") as native,
    ):
        for wh in (on_spark, native):
            define(wh, "STREAM", "a", "b")
            for name, query in LATE.items():
                wh.sql(f"CREATE MATERIALIZED VIEW {name} WITH (refresh = 'scheduled') AS {query}")
        assert shares(on_spark) == {"b": {"a"}}
        feeder = Feeder(5)
        for number in range(3):
            changes = {"s": feeder.changes()}
            for wh in (on_spark, native):
                wh.apply(changes)
                if number != 1:
                    assert sorted(wh.schedule()) == ["counts", "sums", "top"]
                if number == 1:
                    assert wh.view("top").staleness().epochs == 1
            for name in native.views():
                assert Counter(on_spark.view(name).rows()) == Counter(native.view(name).rows())
        assert on_spark.epoch == native.epoch
        on_spark.sql("DROP VIEW a")
        native.sql("DROP VIEW a")
        changes = {"s": feeder.changes()}
        for wh in (on_spark, native):
            wh.apply(changes)
        assert Counter(on_spark.view("b").rows()) == Counter(native.view("b").rows())
