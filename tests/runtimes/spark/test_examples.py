"""Sums multiplied with sums, as DataFrames over the logs of maps and in the driver over rows that Spark looks up."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from tests.program import examples
from tests.program.examples import Example
from tests.runtimes.spark.conftest import Driver
from tidemill.changes.changeset import ChangeSet, Epoch
from tidemill.changes.zset import ZSet
from tidemill.runtimes.spark.dataframe_runtime import DataFrameRuntime
from tidemill.runtimes.spark.driver_runtime import DriverRuntime
from tidemill.runtimes.spark.sessions.session import given_session
from tidemill.storage.memory_store import MemoryStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


class Written(Driver):
    """A view whose program was written by hand."""

    def __init__(self, spark: SparkSession, example: Example, runtime: str) -> None:
        self.tables = dict(example.tables)
        self.rows = {name: ZSet() for name in self.tables}
        self.relation, self.program = example.relation, example.program
        self.store, self.shown = MemoryStore(), ZSet()
        if runtime == "frames":
            self.runtime = DataFrameRuntime(self.store, self.fields_of, lambda: given_session(spark))
        else:
            self.runtime = DriverRuntime(self.store, self.fields_of, lambda: spark, resident=0)  # type: ignore[assignment]
        for stage in self.program.stages:
            self.runtime.install(stage)


ORDERS = [(1, Decimal("1.5000")), (1, None), (2, Decimal("-0.2500")), (None, Decimal("2.0000"))]
ITEMS = [(1, Decimal("10.00")), (1, Decimal("0.01")), (2, None), (2, Decimal("9.50")), (None, Decimal("3.00"))]


def draw(rows: list[Any], held: ZSet, chance: random.Random) -> list[tuple[Any, int]]:
    """Rows that come, twice perhaps, and rows that leave, all of them perhaps."""
    leaving = [(row, -chance.choice([1, weight])) for row, weight in held.items() if chance.random() < 0.4]
    return [*leaving, *((chance.choice(rows), chance.choice([1, 2])) for _ in range(3))]


@pytest.mark.parametrize("runtime", ["frames", "driver"])
def test_products_of_sums(spark: SparkSession, runtime: str) -> None:
    view, chance = Written(spark, examples.example_2(), runtime), random.Random(7)
    view.load()
    for _ in range(5):
        view.apply(
            orders=draw(ORDERS, view.rows["orders"], chance), lineitem=draw(ITEMS, view.rows["lineitem"], chance)
        )
    view.apply(lineitem=[(row, -weight) for row, weight in view.rows["lineitem"].items()])
    assert view.shown == ZSet({(None,): 1})


@pytest.mark.parametrize("runtime", ["frames", "driver"])
def test_maps_are_filled_from_tables_that_are_there(spark: SparkSession, runtime: str) -> None:
    view = Written(spark, examples.example_2(), runtime)
    view.rows = {"orders": ZSet.of(ORDERS), "lineitem": ZSet.of(ITEMS * 2)}
    contents = {name: ChangeSet.of(rows.items(), view.fields_of(name)) for name, rows in view.rows.items()}
    view.store.commit(Epoch(1, contents))
    assert view.load() == ZSet({(Decimal("25.280000"),): 1})
    view.apply(orders=[(ORDERS[0], -1)], lineitem=[(ITEMS[0], 1)])
