"""Bulk changes in tasks: sums that meet in shards, and epochs of one job."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tidemill
from tests import ways
from tidemill.model import types as t
from tidemill.model.errors import ArithmeticFault, DataError, DuplicateKey, MissingRow
from tidemill.model.types import Field
from tidemill.program.maps import Map, RingField
from tidemill.program.stages import Stage
from tidemill.runtimes.spark import task_runtime
from tidemill.runtimes.spark.lookup import key_check
from tidemill.runtimes.spark.tasks.partial_sums import TargetSums, add_sums, divide, pack, unpack

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GROUPS = Map("g", (Field("k", t.DOUBLE), Field("d", t.Decimal(9, 2))), (RingField("n", t.BIGINT),))
STAGE = Stage("v", (), (), (GROUPS,), (), (), None, "delta")


def test_a_group_is_in_one_shard_whichever_part_it_comes_from() -> None:
    """NaN is another object in each process, and a decimal may have been written in another way."""
    from decimal import Decimal

    parts: list[TargetSums] = [
        {"g": {(math.nan, Decimal("1.0")): [1, 2], (None, None): [1, 3]}},
        {"g": {(math.nan, Decimal("1.00")): [1, 5], (0.5, Decimal(7)): [1, 1]}},
    ]
    met: dict[int, TargetSums] = {}
    for sums in parts:
        for shard, some in divide(sums, STAGE, 5, alone=0):
            add_sums(met.setdefault(shard, {}), unpack(pack(some), STAGE))
    entries = {key: addend for sums in met.values() for key, addend in sums["g"].items()}
    assert entries == {(math.nan, Decimal(1)): [2, 7], (None, None): [1, 3], (0.5, Decimal(7)): [1, 1]}
    assert sum(len(sums["g"]) for sums in met.values()) == 3


DDL = """
CREATE TABLE orders (id INT PRIMARY KEY, customer INT, amount INT);
CREATE TABLE customers (id INT PRIMARY KEY, city STRING);
CREATE STREAM visits (customer INT);
CREATE MATERIALIZED VIEW by_city AS
  SELECT c.city, SUM(o.amount) AS total, MAX(o.amount) AS most
  FROM orders o JOIN customers c ON o.customer = c.id GROUP BY c.city;
CREATE MATERIALIZED VIEW sizes AS SELECT COUNT(*) AS n FROM orders GROUP BY customer;
CREATE MATERIALIZED VIEW shares AS SELECT id, 100 / amount AS share, NULL AS note FROM orders;
CREATE MATERIALIZED VIEW cities AS SELECT COUNT(*) AS n, SUM(total) AS total FROM by_city;
CREATE MATERIALIZED VIEW visitors WITH (strategy = 'delta') AS
  SELECT c.city, COUNT(*) AS n FROM visits v JOIN customers c ON v.customer = c.id GROUP BY c.city;
CREATE MATERIALIZED VIEW sold WITH (strategy = 'joingraph') AS
  SELECT c.city, SUM(o.amount) AS total FROM orders o JOIN customers c ON o.customer = c.id GROUP BY c.city;
CREATE MATERIALIZED VIEW traced WITH (strategy = 'lineage') AS
  SELECT DISTINCT a.city FROM customers a JOIN customers b ON a.city = b.city;
"""


@pytest.mark.spark
def test_epochs_in_tasks(spark: SparkSession) -> None:
    """A job that checks keys, and one for each level: all stages over tables, and the view over the groups of a join.

    A view that cannot be sharded runs beside them.
    """
    with ways.opened("tasks", spark) as wh:
        wh.sql(DDL)
        customers = [(+1, (i, f"city {i % 3}")) for i in range(8)]
        wh.apply({"customers": customers, "orders": [(+1, (i, i % 8, i + 1)) for i in range(40)]})
        names = {row[0]: row[2] for row in wh.sql("SHOW VIEWS")}
        in_tasks = ("by_city", "sizes", "shares", "cities", "visitors", "sold")
        assert names == dict.fromkeys(in_tasks, "spark tasks") | {"traced": "spark driver"}
        assert "not in tasks, since its triggers read traced:" in wh.view("traced").explain()
        wh.apply({"orders": [(-1, (i, i % 8, i + 1)) for i in range(0, 40, 3)] + [(+1, (50, 1, 7))]})
        assert wh.costs().jobs == 4
        # Groups of one size change to that of others: rows that two shards emit cancel.
        moved = [(-1, (1, "city 1")), (+1, (1, "city 0")), (-1, (7, "city 1")), (+1, (8, "city 2"))]
        new = [(+1, (60 + i, i % 2, 5)) for i in range(9)]
        wh.apply({"visits": [(+1, (1,)), (+1, (2,)), (+1, (8,))], "customers": moved, "orders": new})
        for view in in_tasks[:4]:
            assert wh.view(view).verify(against="evaluator")
        assert sorted(wh.view("visitors").rows()) == [("city 0", 1), ("city 2", 2)]
        totals = [(city, total) for city, total, _ in wh.view("by_city").rows()]
        assert sorted(wh.view("sold").rows()) == sorted(totals)


@pytest.mark.spark
def test_a_fault_of_a_task_is_the_native_one(spark: SparkSession) -> None:
    def fault(wh: tidemill.Warehouse) -> str:
        wh.sql(DDL)
        wh.apply({"orders": [(+1, (1, 1, 1))]})
        with pytest.raises(ArithmeticFault) as raised:
            wh.apply({"orders": [(+1, (2, 1, 1)), (+1, (3, 1, 0))]})
        assert wh.epoch == 1
        return str(raised.value)

    with tidemill.open(":memory:", runtime="native") as native, ways.opened("tasks", spark) as tasks:
        assert fault(tasks) == fault(native)


@pytest.mark.spark
def test_a_change_that_tasks_refuse_is_refused_as_ever(spark: SparkSession, tmp_path: Path) -> None:
    """The error is that of one process, the epoch before stays, and what was handed to tasks is gone."""
    ddl = """
    CREATE TABLE places (id INT PRIMARY KEY, city STRING);
    CREATE TABLE people (id INT PRIMARY KEY, name STRING NOT NULL, place INT REFERENCES places);
    CREATE MATERIALIZED VIEW there AS
      SELECT city, COUNT(*) AS n FROM people p JOIN places q ON p.place = q.id GROUP BY city;
    """
    refused: list[dict[str, list[tuple[int, tuple[object, ...]]]]] = [
        {"people": [(+1, (9, "nil", 1)), (+1, (1, "ann", 2))]},
        {"people": [(-1, (2, "bob", 1)), (-1, (3, "cy", 1))]},
        {"people": [(+1, (4, None, 1))]},
        {"people": [(+1, (4, "dee", 7)), (+1, (5, "eve", 1))]},
        {"places": [(-1, (1, "rome"))], "people": [(-1, (2, "bob", 2))]},
    ]

    def errors(wh: tidemill.Warehouse) -> list[str]:
        wh.sql(ddl)
        wh.apply(
            {"places": [(+1, (1, "rome")), (+1, (2, "oslo"))], "people": [(+1, (1, "ann", 1)), (+1, (2, "bob", 2))]}
        )
        found = []
        for change in refused:
            with pytest.raises(DataError) as raised:
                wh.apply(change)
            found.append(str(raised.value))
        assert wh.epoch == 1
        wh.apply({"people": [(-1, (2, "bob", 2)), (+1, (2, "bob", 1)), (+1, (3, "cy", 1)), (-1, (3, "cy", 1))]})
        assert wh.view("there").rows() == [("rome", 2)]
        return found

    with (
        tidemill.open(":memory:", runtime="native") as native,
        ways.taking("tasks"),
        tidemill.open(tmp_path / "w", runtime="spark", spark=spark) as tasks,
    ):
        assert errors(tasks) == errors(native)
    assert not list(tmp_path.rglob("*.arrow"))


@pytest.mark.spark
@pytest.mark.parametrize(("here", "jobs"), [(100, 1), (-1, 2)])
def test_tasks_check_the_keys_of_tables_too_large_for_the_driver(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, here: int, jobs: int
) -> None:
    """A job more than where the driver looks them up, and the same errors."""
    with ways.opened("tasks", spark) as wh:
        monkeypatch.setattr(task_runtime, "CHECK_ROWS", 1_000)
        monkeypatch.setattr(key_check, "LOOKUP_ROWS", here)
        wh.sql("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
        wh.sql("CREATE MATERIALIZED VIEW v AS SELECT n, COUNT(*) AS many FROM t GROUP BY n")
        wh.apply({"t": [(+1, (i, i % 3)) for i in range(30)]})
        wh.apply({"t": [(-1, (4, 1)), (+1, (4, 2)), (+1, (30, 0))]})
        assert wh.costs().jobs == jobs
        for wrong, error in (((+1, (5, 0)), DuplicateKey), ((-1, (5, 0)), MissingRow)):
            with pytest.raises(error):
                wh.apply({"t": [wrong, (+1, (31, 0))]})
        assert sorted(wh.view("v").rows()) == [(0, 11), (1, 9), (2, 11)]
