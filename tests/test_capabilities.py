"""Every construct that the reference lists stays fresh, on both runtimes, whatever happens to its tables."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import pytest

from benchmarks.sql.capabilities import CAPABILITIES, SCHEMA, Capability
from benchmarks.sql.data import Shop
from benchmarks.sql.run import slug
from tests.ways import NATIVE, opened

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 60
CHANGES = 6


def keep_fresh(one: Capability, way: str, changes: int, spark: SparkSession | None = None) -> None:
    """Change one row after the other of every table that the example reads, and compare it with its recomputation."""
    shop = Shop(ROWS)
    with opened(way, spark) as warehouse:
        warehouse.sql(SCHEMA)
        warehouse.apply(shop.load())
        warehouse.sql(f"CREATE MATERIALIZED VIEW v AS {one.example}")
        read = [name for stage in one.program.stages for name in stage.inputs if name in shop.tables]
        for table in dict.fromkeys(read):
            for change in islice(shop.replacements(table), changes):
                warehouse.apply(change)
        verification = warehouse.view("v").verify()
    assert verification.ok, verification


@pytest.mark.turns("way")
@pytest.mark.parametrize("one", CAPABILITIES, ids=slug)
@pytest.mark.parametrize("way", NATIVE)
def test_native(one: Capability, way: str) -> None:
    keep_fresh(one, way, CHANGES)


@pytest.mark.spark
@pytest.mark.parametrize("one", CAPABILITIES, ids=slug)
def test_driver(one: Capability, spark: SparkSession) -> None:
    keep_fresh(one, "driver", 1, spark)


@pytest.mark.parametrize("one", CAPABILITIES, ids=slug)
def test_nothing_but_touched_groups_and_partitions_is_computed_again(one: Capability) -> None:
    assert not one.cost.recomputes
