"""Spark frames as changes: handed to apply, and streamed in exactly once."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tidemill
from tidemill.engine.streams.intake import StreamIntake
from tidemill.engine.streams.stream import Stream
from tidemill.model import errors
from tidemill.runtimes.spark.execution import ingest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SCHEMA = "id BIGINT, customer STRING, amount DECIMAL(12,2)"
DDL = """CREATE TABLE orders (id BIGINT PRIMARY KEY, customer STRING, amount DECIMAL(12,2));
CREATE MATERIALIZED VIEW spend AS SELECT customer, SUM(amount) AS total, COUNT(*) AS n FROM orders GROUP BY customer"""


def _orders(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(count).selectExpr("id", "concat('c', id % 3) AS Customer", "CAST(id AS DECIMAL(12,2)) AS amount")


@pytest.mark.parametrize("limit", [1000, 10], ids=["collected", "staged"])
def test_a_frame_is_a_change(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    monkeypatch.setattr(ingest, "COLLECT_ROWS", limit)
    with tidemill.open(tmp_path / "w", spark=spark) as wh:
        wh.sql(DDL)
        wh.apply({"orders": _orders(spark, 100)})
        wh.apply({"orders": _orders(spark, 50).selectExpr("*", "-1L AS _weight")})
        assert len(wh.table("orders")) == 50
        assert sum(n for _, _, n in wh.view("spend").rows()) == 50
        assert wh.view("spend").verify()
        assert wh.view("spend").df().count() == 3


@pytest.mark.parametrize("limit", [1000, 1], ids=["collected", "staged"])
def test_a_bad_frame_changes_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(ingest, "COLLECT_ROWS", limit)
    with tidemill.open(tmp_path / "w", spark=spark) as wh:
        wh.sql(DDL)
        for frame, error in (
            (spark.createDataFrame([(None, "ann", None), (1, "bob", None)], SCHEMA), errors.DataError),
            (spark.range(5).selectExpr("id", "id AS colour"), errors.UnknownName),
            (spark.range(5).selectExpr("1L AS id", "'x' AS customer"), errors.DuplicateKey),
        ):
            with pytest.raises(error):
                wh.apply({"orders": frame})
        assert wh.epoch == 0
        assert wh.table("orders").rows() == []


def _drop(folder: Path, name: str, rows: list[tuple[int, str, str]]) -> None:
    lines = (json.dumps(dict(zip(("id", "customer", "amount"), row, strict=True))) for row in rows)
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("\n".join(lines))


def test_a_stream_is_taken_in_exactly_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process dies between our commit and Spark's: Spark repeats the batch, and the warehouse knows it."""
    inbox = tmp_path / "inbox"
    with tidemill.open(tmp_path / "w", spark=spark) as wh:
        wh.sql(DDL)

        def run() -> None:
            source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(inbox))
            wh.stream("orders", source, availableNow=True).awaitTermination()

        _drop(inbox, "a.json", [(1, "ann", "9.50"), (2, "bob", "3.00")])
        take = StreamIntake.take

        def die_after_commit(self: StreamIntake, *batch: Any) -> None:
            take(self, *batch)
            raise RuntimeError("killed between the two commits")

        with monkeypatch.context() as patch:
            patch.setattr(StreamIntake, "take", die_after_commit)
            with pytest.raises(RuntimeError, match="killed between"):
                run()
        assert wh.epoch == 1
        _drop(inbox, "b.json", [(3, "ann", "0.50")])
        run()
        run()
        assert wh.epoch == 2
        assert sorted(row[0] for row in wh.table("orders").rows()) == [1, 2, 3]
        assert wh.view("spend").verify()


def test_a_bad_batch_stops_the_stream_and_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    with tidemill.open(tmp_path / "w", spark=spark) as wh:
        wh.sql(DDL)
        _drop(tmp_path / "inbox", "a.json", [(1, "ann", "9.50"), (1, "bob", "3.00")])
        source = spark.readStream.schema(SCHEMA).json(str(tmp_path / "inbox"))
        stream = wh.stream("orders", source, availableNow=True)
        with pytest.raises(errors.DuplicateKey, match="primary key") as told:
            stream.awaitTermination()
        assert "Py4J" not in str(told.value) and stream.exception() is told.value and not stream.isActive
        assert wh.epoch == 0


def test_a_stream_of_upserts_sets_bad_rows_aside(spark: SparkSession, tmp_path: Path) -> None:
    with tidemill.open(tmp_path / "w", spark=spark) as wh:
        wh.sql(DDL)
        _drop(tmp_path / "inbox", "a.json", [(1, "ann", "9.50"), (2, "bob", "3.00"), (3, "gone", "1.00")])

        def run() -> Stream:
            source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(tmp_path / "inbox"))
            options = {"mode": "upsert", "on_error": "quarantine", "delete_where": "customer = 'gone'"}
            stream = wh.stream("orders", source, **options, availableNow=True)
            stream.awaitTermination()
            return stream

        assert str(run().figures).startswith("1 batch, 2 rows, ")
        lines = '{"id": 2, "customer": "gone"}\n{"customer": "nobody"}\n{"id": 1, "customer": "ann", "amount": 2}'
        (tmp_path / "inbox" / "b.json").write_text(lines)
        stream = run()
        assert sorted(wh.view("spend").rows()) == [("ann", Decimal("2.00"), 1)]
        ((name, batch, reason, row),) = wh.table("orders_errors").rows()
        assert (
            (name, batch) == ("orders", 1)
            and "NULL where a value is required" in reason
            and json.loads(row)["customer"] == "nobody"
        )
        assert (stream.tables, stream.figures.counts.rejected) == (("orders",), 1)
        assert "trigger availableNow=True" in repr(stream) and stream.lastProgress["batchId"] == 1


def test_what_spark_cannot_read_is_told_as_our_error(spark: SparkSession, tmp_path: Path) -> None:
    with tidemill.open(tmp_path / "w", spark=spark) as wh:
        wh.sql(DDL)
        _drop(tmp_path / "inbox", "a.json", [(1, "ann", "9.50")])
        source = spark.readStream.schema(SCHEMA).json(str(tmp_path / "inbox"))
        broken = source.selectExpr("id", "customer", "CAST(raise_error('no such rate') AS DECIMAL(12,2)) AS amount")
        with pytest.raises(errors.TidemillError, match="no such rate"):
            wh.stream("orders", broken, availableNow=True).awaitTermination()
        assert wh.epoch == 0
