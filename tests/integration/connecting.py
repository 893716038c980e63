"""A warehouse over a session of Spark Connect, whose server is another process; prints what it has found."""

from __future__ import annotations

import json
import os
import sys
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

import tidemill
import tidemill.spark
from tidemill.model.errors import TidemillError
from tidemill.runtimes.spark.sessions.java import java_home

ROWS = 260_000
"""As many as make an epoch a bulk change, whose results Spark writes."""


def main(folder: Path) -> None:
    """Small and bulk epochs, a DataFrame in and one out, views attached, a stream that is refused; the data source."""
    os.environ |= {"JAVA_HOME": str(java_home()), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    os.environ["SPARK_TESTING"] = "1"  # any free port
    address = {"spark.connect.grpc.binding.address": "127.0.0.1", "spark.ui.enabled": "false"}
    spark = SparkSession.builder.remote("local[2]").config(map=address).getOrCreate()
    with tidemill.open(folder / "w", runtime="spark", spark=spark) as wh:
        wh.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, k INT, x DECIMAL(10,2))")
        wh.sql("CREATE MATERIALIZED VIEW v AS SELECT k, SUM(x) AS x, COUNT(*) AS n, MEDIAN(x) AS m FROM t GROUP BY k")
        wh.apply({"t": [(+1, (n, n % 5, Decimal(n))) for n in range(100)]})
        wh.apply({"t": pa.table({"id": range(100, ROWS), "k": [n % 5 for n in range(100, ROWS)]}).cast(KEYS)})
        wh.apply({"t": spark.createDataFrame([(-1, 7, Decimal("2.50"))], "id BIGINT, k INT, x DECIMAL(10,2)")})
        told = {"session": type(spark).__module__, "epoch": wh.epoch, "verified": all(wh.verify())}
        told |= {"groups": [row[0] for row in sorted(wh.view("v").df().collect())], "rows": len(wh.table("t").rows())}
        wh.attach(spark)
        told["attached"] = [row[0] for row in spark.sql("SELECT k FROM v ORDER BY k").collect()]
        try:
            wh.stream("t", spark.readStream.format("rate").load(), checkpoint=str(folder / "c"))
        except TidemillError as error:
            told["stream"] = error.what
    print(json.dumps(told | through_the_data_source(spark, folder)))


def through_the_data_source(spark: SparkSession, folder: Path) -> dict[str, object]:
    """Rows are written and read by ``format("tidemill")``, and changes stream from one warehouse to another."""
    tidemill.spark.register(spark)
    for name in ("shop", "copy"):
        with tidemill.open(folder / name, runtime="native") as wh:
            wh.sql("CREATE TABLE t (id INT PRIMARY KEY, k INT)")
            wh.sql("CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS n FROM t GROUP BY k")

    frame = spark.createDataFrame([(1, 5, 1), (2, 5, 1), (3, 6, 1)], "id INT, k INT, _weight BIGINT").coalesce(1)
    frame.write.format("tidemill").option("warehouse", str(folder / "shop")).mode("append").save("t")
    changes = spark.readStream.format("tidemill").options(warehouse=str(folder / "shop"), changes="true").load("t")
    sink = changes.drop("_epoch").writeStream.format("tidemill").option("warehouse", str(folder / "copy"))
    sink = sink.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
    sink.start("t").awaitTermination()
    found = spark.read.format("tidemill").option("warehouse", str(folder / "copy")).load("v")
    return {"written": sorted(map(list, found.collect()))}


KEYS = pa.schema([("id", pa.int64()), ("k", pa.int32())])

if __name__ == "__main__":
    main(Path(sys.argv[1]))
