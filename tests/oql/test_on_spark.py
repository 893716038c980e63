"""On Spark as in this process: rows with collections of structs, of values in order, and aggregates beside them."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.oql.direct import random_objects
from tests.oql.examples import SCHEMA
from tests.oql.kept import TABLES, shake
from tests.runtimes.spark.conftest import Driver
from tidemill.compiler.frontends.oql.statements import translate_oql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERY = """
select struct(w: w.id, ps: (select struct(i: p.id, k: p.kind) from p in w.parts where p.size > 0),
              down: (select p.id from p in w.parts order by p.size desc), m: avg(w.sizes))
from w in Wholes
"""


@pytest.mark.spark
def test_nested_collections(spark: SparkSession) -> None:
    (asked,) = translate_oql(QUERY, SCHEMA, {})
    chance = Random(1)
    objects = random_objects(SCHEMA, chance)
    driver = Driver(spark, list(TABLES.values()), asked.relation)
    before = objects.tables()
    driver.apply(**{name: list(rows.items()) for name, rows in before.items()})
    shake(objects, chance)
    changes = {name: rows - before[name] for name, rows in objects.tables().items()}
    driver.apply(**{name: list(rows.items()) for name, rows in changes.items()})
    assert driver.shown
