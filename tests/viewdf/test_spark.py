"""Partitions as Spark counts them."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import pytest

from tidemill.algebra.functions.registry import FUNCTIONS
from tidemill.model.errors import ArithmeticFault
from tidemill.model.types import BIGINT, TIMESTAMP, Type
from tidemill.runtimes.spark.execution.errors import translate_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

MOMENTS = (
    datetime(1, 1, 1, 12),
    datetime(1969, 12, 31, 23, 59, 59, 999_999),
    datetime(1970, 1, 1),
    datetime(2024, 2, 29, 13, 14, 15, 16),
)
EVERY = 90_000_000


def asked(spark: SparkSession, name: str, of: Type, *arguments: str) -> object:
    """What Spark says of a function."""
    types = (TIMESTAMP, BIGINT, BIGINT)[: len(arguments)]
    text = FUNCTIONS[name].spell([*arguments, f"{EVERY}L"], of, (*types, BIGINT))
    with translate_errors(name):
        return spark.sql(f"SELECT CAST({text} AS STRING)").collect()[0][0]


@pytest.mark.parametrize("moment", MOMENTS, ids=str)
def test_numbers_and_starts(moment: datetime, spark: SparkSession) -> None:
    instant = f"TIMESTAMP '{moment.isoformat(' ')}'"
    number = FUNCTIONS["partition_number"].apply(moment, EVERY)
    assert asked(spark, "partition_number", BIGINT, instant) == str(number)
    start = FUNCTIONS["partition_start"].apply(number, EVERY)
    assert asked(spark, "partition_start", TIMESTAMP, f"{number}L") == start.isoformat(" ")
    assert asked(spark, "partition_time", TIMESTAMP, instant, f"{number}L") == moment.isoformat(" ")


@pytest.mark.parametrize("instant", ["TIMESTAMP '2024-01-01 00:00:00'", "CAST(NULL AS TIMESTAMP)"])
def test_a_time_outside_its_partition_is_an_error(instant: str, spark: SparkSession) -> None:
    with pytest.raises(ArithmeticFault, match="outside partition 7"):
        asked(spark, "partition_time", TIMESTAMP, instant, "7L")
