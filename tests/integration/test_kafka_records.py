"""Records of Kafka's topics that were kept in files, followed by Structured Streaming as its Kafka source would be."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

import tidemill
from tests.engine.test_debezium_intake import TABLES, Topics, order
from tidemill.model.errors import InvalidArgument

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
SCHEMA = "key BINARY, value BINARY, topic STRING, partition INT, offset LONG"


def test_recorded_topics_are_followed_once(tmp_path: Path, spark: SparkSession) -> None:
    topics, recorded = Topics(), tmp_path / "recorded"
    recorded.mkdir()
    for number in range(3):
        topics.send("orders", "c", after=order(number))
        topics.send("orders", "u", after=order(0, f"customer {number}"))
        topics.send("notes", "c", after={"note": str(number)})
        pq.write_table(topics.batch(), recorded / f"{number}.parquet")
        os.utime(recorded / f"{number}.parquet", (number, number))  # Spark takes the oldest first
    with tidemill.open(tmp_path / "warehouse", spark=spark) as warehouse:
        warehouse.sql(TABLES)
        warehouse.sql("CREATE MATERIALIZED VIEW n AS SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer")
        for _ in range(2):
            source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(recorded))
            stream = warehouse.stream(["orders", "notes"], source, mode="debezium", availableNow=True)
            stream.awaitTermination()
            assert sorted(warehouse.view("n").rows()) == [("ann", 2), ("customer 2", 1)]
            assert sorted(warehouse.table("notes").rows()) == [("0",), ("1",), ("2",)]
        bare = spark.readStream.schema(SCHEMA).parquet(str(recorded)).drop("offset")
        stream = warehouse.stream(["orders"], bare, name="bare", mode="debezium", availableNow=True)
        with pytest.raises(InvalidArgument, match="no column offset"):
            stream.awaitTermination()
