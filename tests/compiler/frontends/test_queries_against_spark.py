"""What each query means: answers, types and names by Spark itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.answers import differ
from tests.compiler.frontends.examples import QUERIES, SPARK_ONLY, answers
from tidemill.compiler.frontends.text.names import NameAllocator

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ALL = {**QUERIES, **SPARK_ONLY}

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("name", ALL)
def test_answers_of_spark(name: str, interpreted_spark: SparkSession) -> None:
    known = answers({name: ALL[name]})
    assert differ(known.spark(interpreted_spark)[name], known.evaluator()[name], known.fields(name)) == ""
    unique = NameAllocator()  # Spark lets names repeat
    assert [f.name for f in known.fields(name)] == [
        unique.take(c.lower()) for c in interpreted_spark.table(name).columns
    ]
