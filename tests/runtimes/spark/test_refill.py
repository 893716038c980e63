"""Views that an epoch computes again on Spark: the difference in their rows, and triggers that go on from there."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

import tidemill
from tests import ways
from tidemill.compiler import choose, choose_recomputation
from tidemill.compiler.statistics.epoch_costs import RefillCosts, SparkCosts, TriggerCosts
from tidemill.engine.epochs import placement
from tidemill.model.errors import ArithmeticFault
from tidemill.runtimes.spark import dataframe_runtime
from tidemill.runtimes.spark.execution import results

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

DDL = """
CREATE TABLE orders (id INT PRIMARY KEY, customer INT, amount INT, at DOUBLE);
CREATE TABLE customers (id INT PRIMARY KEY, city STRING);
CREATE MATERIALIZED VIEW by_city AS
  SELECT c.city, SUM(o.amount) AS total, MAX(o.amount) AS most, COLLECT_LIST(o.at) AS ats
  FROM orders o JOIN customers c ON o.customer = c.id GROUP BY c.city;
CREATE MATERIALIZED VIEW large AS
  SELECT o.id, o.amount FROM orders o JOIN (SELECT customer, AVG(amount) AS mean FROM orders GROUP BY customer) m
  ON o.customer = m.customer WHERE o.amount > m.mean;
CREATE MATERIALIZED VIEW firsts AS
  SELECT id, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY amount, id) AS place FROM orders;
CREATE MATERIALIZED VIEW cities AS SELECT COUNT(*) AS n, SUM(total) AS total FROM by_city;
CREATE MATERIALIZED VIEW shares AS SELECT id, 100 / amount AS share FROM orders;
"""


NAMES = {"frames": "spark dataframes", "tasks": "spark tasks"}


def order(number: int) -> tuple[int, int, int, float]:
    return number, number % 8, number % 13 + 1, number / 4


def orders(weight: int, numbers: range) -> list[tuple[int, tuple[int, int, int, float]]]:
    return [(weight, order(number)) for number in numbers]


def filled(wh: tidemill.Warehouse) -> None:
    wh.sql(DDL)
    wh.apply({"customers": [(+1, (i, f"city {i % 3}")) for i in range(8)], "orders": orders(+1, range(40))})


def recomputed(wh: tidemill.Warehouse, view: str) -> str:
    """The line of EXPLAIN about the last epoch that computed the view again."""
    lines = (line.strip() for line in wh.view(view).explain().splitlines())
    return next((line for line in lines if line.startswith("recomputed  ")), "")


def verify(wh: tidemill.Warehouse) -> None:
    for view, *_ in wh.sql("SHOW VIEWS"):
        assert wh.view(view).verify(against="evaluator"), view


@pytest.mark.turns("way")
@pytest.mark.spark
@pytest.mark.parametrize("in_files", [False, True])
@pytest.mark.parametrize("way", ["frames", "tasks"])
def test_an_epoch_computes_views_again(
    way: str, in_files: bool, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By triggers, computed again, and by triggers over what that has left; large results are files."""
    if in_files:
        monkeypatch.setattr(results, "COLLECT_ROWS", -1)
        monkeypatch.setattr(dataframe_runtime, "COLLECT_ROWS", -1)
    with ways.opened(way, spark, tmp_path / "wh") as wh:
        filled(wh)
        before, shown = wh.epoch, set(wh.view("large").rows())
        with monkeypatch.context() as patched:
            patched.setattr(choose_recomputation, "LEAST_CHANGED", 0)
            patched.setattr(choose_recomputation, "reason_to_recompute", lambda *_: "a test")
            wh.apply({"orders": [*orders(-1, range(0, 40, 3)), *orders(+1, range(50, 55))]})
        assert recomputed(wh, "by_city").endswith(f"in epoch {wh.epoch}: a test")
        assert {row[2] for row in wh.sql("SHOW VIEWS")} == {f"{NAMES[way]}, recomputed"}
        verify(wh)
        (batch,) = wh.view("large").batches(since=before)
        *columns, weights = batch.arrow().select(["id", "amount", "_weight"]).to_pydict().values()
        told = dict(zip(zip(*columns, strict=True), weights, strict=True))
        now = set(wh.view("large").rows())
        assert told == {**dict.fromkeys(now - shown, 1), **dict.fromkeys(shown - now, -1)}
        wh.apply({"orders": [*orders(-1, range(50, 53)), *orders(+1, range(60, 64))]})
        assert recomputed(wh, "by_city").endswith(f"in epoch {wh.epoch - 1}: a test")
        assert {row[2] for row in wh.sql("SHOW VIEWS")} == {NAMES[way]}
        verify(wh)
        assert set(wh.at(before).sql("SELECT * FROM large").rows()) == shown


@pytest.mark.turns("way")
@pytest.mark.spark
@pytest.mark.parametrize("way", ["frames", "tasks"])
def test_views_that_share_stages(way: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner is computed again, others take its changes as they are; a view that shares stages runs its triggers.

    When the owner is dropped, the first of them has its state.
    """
    monkeypatch.setattr(choose_recomputation, "LEAST_CHANGED", 0)
    monkeypatch.setattr(choose_recomputation, "reason_to_recompute", lambda *_: "a test")
    with ways.opened(way, spark) as wh:
        filled(wh)
        wh.sql(
            "CREATE MATERIALIZED VIEW same AS SELECT id, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY amount, id) "
            "AS place FROM orders;"
            "CREATE MATERIALIZED VIEW small AS SELECT o.id FROM orders o JOIN (SELECT customer, AVG(amount) AS mean "
            "FROM orders GROUP BY customer) m ON o.customer = m.customer WHERE o.amount < m.mean"
        )
        assert {name: "shares  " in wh.view(name).explain() for name in ("same", "small", "large")} == {
            "same": True,
            "small": True,
            "large": False,
        }
        wh.apply({"orders": [*orders(-1, range(0, 40, 3)), *orders(+1, range(50, 55))]})
        names = {row[0]: row[2].endswith("recomputed") for row in wh.sql("SHOW VIEWS")}
        assert (names["large"], names["firsts"], names["small"], names["same"]) == (True, True, False, False)
        verify(wh)
        for owner in ("large", "firsts"):
            wh.sql(f"DROP VIEW {owner}")
        verify(wh)
        wh.apply({"orders": [*orders(-1, range(1, 40, 3)), *orders(+1, range(60, 64))]})
        verify(wh)


@pytest.mark.turns("backend")
@pytest.mark.spark
@pytest.mark.parametrize("backend", ["python", "llvm"])
def test_state_in_this_process_is_read_again(
    backend: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bulk change goes to Spark, which computes views again: maps that this process holds are replaced."""
    for module, limit in ((choose, "LOOKUP_WORK"), (choose, "NATIVE_WORK"), (placement, "DRIVER_WORK")):
        monkeypatch.setattr(module, limit, 15)
    monkeypatch.setattr(choose_recomputation, "LEAST_CHANGED", 10)
    monkeypatch.setattr(choose_recomputation, "reason_to_recompute", lambda *_: "a test")
    with tidemill.open(tmp_path / "wh", runtime="auto", spark=spark, backend=backend) as wh:
        filled(wh)
        for first in range(0, 30, 10):
            wh.apply({"orders": [*orders(-1, range(first, first + 2)), *orders(+1, range(100 + first, 103 + first))]})
            assert {row[2] for row in wh.sql("SHOW VIEWS")} == {"native"}
            verify(wh)
            bulk = [*orders(-1, range(first + 2, first + 9)), *orders(+1, range(200 + first, 209 + first))]
            wh.apply({"orders": bulk})
            assert {row[2] for row in wh.sql("SHOW VIEWS")} == {"spark dataframes, recomputed"}
        wh.apply({"orders": orders(-1, range(200, 204))})
        verify(wh)


@pytest.mark.spark
def test_a_fault_is_told_by_triggers(spark: SparkSession) -> None:
    """Nothing is computed again if that fails: triggers say what is wrong, or that nothing is."""
    with ways.opened("refilled", spark) as wh:
        filled(wh)
        with pytest.raises(ArithmeticFault, match="shares"):
            wh.apply({"orders": [*orders(+1, range(70, 74)), (+1, (90, 1, 0, 0.5))]})
        assert wh.epoch == 1
        wh.apply({"orders": orders(+1, range(70, 74))})
        verify(wh)


@pytest.mark.spark
def test_the_way_of_an_epoch_is_the_cheapest(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows are the driver's; where its triggers would take longest, views are computed again as DataFrames."""
    monkeypatch.setattr(placement, "LEAST_TASK_WORK", 0)
    with tidemill.open(":memory:", runtime="spark", spark=spark) as wh:
        filled(wh)
        explained = wh.view("by_city").explain()
        assert "in epoch 1: spark driver, predicted to take" in explained
        assert re.search(r"way chosen .* ms, spark tasks [\d,]+ ms, spark dataframes [\d,]+ ms", explained)
        free, dear = TriggerCosts(visit=0.0), TriggerCosts(visit=1.0)
        for costs, way in {
            SparkCosts(dear, free, dear, RefillCosts(row=1.0, window=1.0)): "spark tasks",
            SparkCosts(dear, dear, free, RefillCosts(row=1.0, window=1.0)): "spark dataframes",
            SparkCosts(free, dear, dear, RefillCosts(row=1.0, window=1.0)): "spark driver",
            SparkCosts(
                TriggerCosts(visit=0.5), dear, dear, RefillCosts(row=0.0, window=0.0)
            ): "spark dataframes, recomputed",
        }.items():
            monkeypatch.setattr(placement, "on_spark", lambda cores, costs=costs: costs)
            wh.apply({"orders": orders(+1, range(100 + 10 * wh.epoch, 108 + 10 * wh.epoch))})
            assert {row[2] for row in wh.sql("SHOW VIEWS")} == {way}
            verify(wh)
