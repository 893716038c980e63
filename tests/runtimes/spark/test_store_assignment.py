"""Numbers that go into a DECIMAL column: rounded as Spark rounds them when it stores them."""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidemill.model.coerce import coerce
from tidemill.model.types import Decimal as DecimalType

TYPE = DecimalType(10, 2)


@pytest.mark.spark
def test_floats_and_decimals_are_stored_as_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    random.seed(7)
    floats = [1.005, 2.675, -0.125, 0.1 + 0.2, 1e-9, 12345678.995, *(random.uniform(-1e6, 1e6) for _ in range(200))]
    floats += [round(random.uniform(-1e3, 1e3), 3) for _ in range(200)]
    digits = [Decimal(str(value)).quantize(Decimal("0.00001")) for value in floats]
    spark.sql(f"CREATE TABLE assigned (i INT, x DECIMAL(10,2), y DECIMAL(10,2)) USING parquet LOCATION '{tmp_path}/t'")
    try:
        rows = list(zip(range(len(floats)), floats, digits, strict=True))
        spark.createDataFrame(rows, "i INT, x DOUBLE, y DECIMAL(18,5)").createOrReplaceTempView("given")
        spark.sql("INSERT INTO assigned SELECT i, x, y FROM given")
        stored = sorted(tuple(row) for row in spark.table("assigned").collect())
    finally:
        spark.sql("DROP TABLE assigned")
    ours = [(i, coerce(x, TYPE), coerce(y, TYPE)) for i, x, y in rows]
    assert ours == stored
