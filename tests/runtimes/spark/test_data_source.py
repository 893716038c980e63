"""Warehouses as a data source of Spark: rows, changes, writes that count once, temporary views that stay fresh."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tidemill
import tidemill.spark
from tests.runtimes.spark.warehouses import bag, churn, make_warehouse, plain
from tidemill.model.errors import InvalidArgument

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Read = Callable[..., "DataFrame"]


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return make_warehouse(tmp_path / "shop")


def _reader(spark: SparkSession, folder: str) -> Read:
    tidemill.spark.register(spark)

    def read(relation: str, **options: Any) -> DataFrame:
        return spark.read.format("tidemill").options(warehouse=folder, **options).load(relation)

    return read


@pytest.mark.spark
def test_spark_reads_the_rows_of_relations_and_epochs(spark: SparkSession, folder: str) -> None:
    read, draw = _reader(spark, folder), random.Random(7)
    with tidemill.open(folder, runtime="native") as wh:
        churn(wh, draw, 5)
        middle = wh.epoch
        before = bag(wh.view("v").rows())
        wh.compact()
        churn(wh, draw, 3)
        assert bag(read("v").collect()) == bag(wh.view("v").rows())
        assert bag(read("made").collect()) == bag(wh.view("made").rows())
        assert bag(read("v", epoch=middle).collect()) == before
        wh.vacuum()
    with pytest.raises(Exception, match="EpochGone: epoch .* is no longer kept"):
        read("v", epoch=middle).collect()


@pytest.mark.spark
def test_a_frame_keeps_its_epoch_and_all_its_rows(spark: SparkSession, folder: str) -> None:
    """Also where Spark would hand conditions down: it keeps those of one query of a frame for the others."""
    session = spark.newSession()
    session.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    frame = _reader(session, folder)("k")
    with tidemill.open(folder, runtime="native") as wh:
        wh.apply({"k": [(1, (1, "x", None))]})
        assert frame.where("id = 1").collect() == [(1, "x", None)]
        wh.apply({"k": [(1, (2, "y", None))]})
        assert sorted(frame.collect()) == [(0, "k", 0), (1, "x", None)]


@pytest.mark.spark
def test_streams_sum_to_the_view(spark: SparkSession, folder: str, tmp_path: Path) -> None:
    tidemill.spark.register(spark)
    net: Counter[tuple[Any, ...]] = Counter()
    batches: list[int] = []

    def take(batch: DataFrame, number: int) -> None:
        rows = batch.collect()
        batches.append(len({row["_epoch"] for row in rows}))
        for row in rows:
            net[tuple(map(plain, row[:-2]))] += row["_weight"]

    def run(**options: Any) -> None:
        given = {"warehouse": folder, "changes": True, "maxEpochsPerBatch": 2, **options}
        changes = spark.readStream.format("tidemill").options(**given).load("g")
        started = changes.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "checkpoint"))
        started.trigger(availableNow=True).start().awaitTermination()

    with tidemill.open(folder, runtime="native") as wh:
        churn(wh, random.Random(1), 3)
        run()
        assert +net == bag(wh.view("g").rows())
        churn(wh, random.Random(2), 3)
        run()
        assert +net == bag(wh.view("g").rows()) and not -net
        assert max(batches) <= 2 < len(batches)
        wh.vacuum()
    shutil.rmtree(tmp_path / "checkpoint")
    with pytest.raises(Exception, match="FellBehind|is no longer kept"):
        run(since=1)
    with pytest.raises(Exception, match="option..changes., True"):
        spark.readStream.format("tidemill").option("warehouse", folder).load("g").writeStream.format("noop").option(
            "checkpointLocation", str(tmp_path / "other")
        ).start().awaitTermination()


@pytest.mark.spark
def test_batches_are_written_once(spark: SparkSession, folder: str, tmp_path: Path) -> None:
    tidemill.spark.register(spark)
    frame = spark.createDataFrame([(1, "a", 2), (2, "b", 1)], "n INT, s STRING, _weight BIGINT")

    def write(data: DataFrame, table: str, mode: str = "append", **options: Any) -> None:
        data.write.format("tidemill").options(warehouse=folder, **options).mode(mode).save(table)

    write(frame, "t")
    for _ in range(2):
        write(frame, "t", query="nightly", batch=3)
    write(spark.createDataFrame([(1, "a", -1)], "n INT, s STRING, _weight BIGINT"), "t")
    keyed = "id INT, v STRING, seq INT"
    write(
        spark.createDataFrame([(1, "old", 1), (1, "new", 2), (2, "x", 1)], keyed),
        "k",
        intake="upsert",
        sequenceBy="seq",
    )
    write(spark.createDataFrame([(2, "y", 2)], keyed), "k", intake="upsert")

    (tmp_path / "in").mkdir()
    spark.range(3).selectExpr("CAST(id AS INT) AS id", "'s' AS v").coalesce(1).write.mode("append").parquet(
        str(tmp_path / "in")
    )

    def stream() -> None:
        rows = spark.readStream.schema("id INT, v STRING").parquet(str(tmp_path / "in"))
        sink = rows.selectExpr("id + 10 AS id", "v").writeStream.format("tidemill").option("warehouse", folder)
        sink.option("checkpointLocation", str(tmp_path / "out")).trigger(availableNow=True).start(
            "k"
        ).awaitTermination()

    stream()
    shutil.rmtree(tmp_path / "out" / "commits")  # Spark repeats the batch, as after a crash before it noted the end
    stream()
    with tidemill.open(folder, runtime="native") as wh:
        assert sorted(row[:2] for row in wh.table("t").rows()) == [(1, "a")] * 3 + [(2, "b")] * 2
        written = [(10, "s", None), (11, "s", None), (12, "s", None)]
        assert sorted(wh.table("k").rows()) == [(0, "k", 0), (1, "new", 2), (2, "y", 2), *written]
        assert wh.epoch == 7
        assert wh.verify() and all(wh.verify())
        with pytest.raises(Exception, match="LockHeld"):
            write(frame, "t")
    for mode, table, what in (("overwrite", "t", "changed, not replaced"), ("append", "v", "v")):
        with pytest.raises(Exception, match=what):
            write(frame, table, mode)


@pytest.mark.spark
def test_attached_views_stay_fresh(spark: SparkSession, tmp_path: Path) -> None:
    session = spark.newSession()
    with tidemill.open(tmp_path / "shop", runtime="native") as wh:
        wh.sql("CREATE TABLE t (a INT); CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM t")
        assert wh.attach(session) == ("t", "v") == wh.attach(session)
        for number in range(1, 3):
            wh.apply({"t": [(1, (number,))]})
            assert session.sql("SELECT n FROM v").collect() == [(number,)]
        wh.detach(session)
        assert not session.catalog.listTables()
        session.range(1).createOrReplaceTempView("t")
        with pytest.raises(InvalidArgument, match="temporary view"):
            wh.attach(session)
        assert wh.attach(session, prefix="shop_") == ("shop_t", "shop_v")
