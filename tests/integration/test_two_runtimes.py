"""One warehouse, two runtimes: what one has written the other opens, and they refuse the same."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tidemill
from tests import ways
from tests.moving import History
from tidemill.compiler import choose
from tidemill.engine.epochs import placement
from tidemill.model.errors import ArithmeticFault, DuplicateKey, MissingRow
from tidemill.runtimes.native.runtime_state import RuntimeState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCRIPT = """
  CREATE TABLE customers (id INT PRIMARY KEY, city STRING);
  CREATE TABLE orders (id INT PRIMARY KEY, customer INT, amount DECIMAL(8,2), weight DOUBLE);
  CREATE STREAM clicks (customer INT);
  CREATE MATERIALIZED VIEW by_city AS
    SELECT c.city, SUM(o.amount) AS total, AVG(o.weight) AS heavy, COUNT(*) AS n
    FROM orders o JOIN customers c ON o.customer = c.id GROUP BY c.city;
  CREATE MATERIALIZED VIEW cities AS SELECT DISTINCT city FROM by_city WHERE n > 1;
  CREATE MATERIALIZED VIEW busy AS
    SELECT c.city, COUNT(*) AS clicks FROM clicks k JOIN customers c ON k.customer = c.id GROUP BY c.city;
"""


def _first(warehouse: tidemill.Warehouse) -> None:
    warehouse.sql(SCRIPT)
    warehouse.apply(
        {
            "customers": [(+1, (1, "Bern")), (+1, (2, "Oslo"))],
            "orders": [(+1, (1, 1, "5.00", 0.1)), (+1, (2, 1, "3.00", 1e20)), (+1, (3, 2, "1.00", None))],
            "clicks": [(+1, (1,)), (+1, (2,)), (+1, (1,))],
        }
    )


def _second(warehouse: tidemill.Warehouse) -> None:
    warehouse.apply(
        {
            "orders": [(-1, (2, 1, "3.00", 1e20)), (+1, (4, 2, "2.50", 0.5))],
            "customers": [(-1, (1, "Bern")), (+1, (1, "Basel"))],
            "clicks": [(+1, (1,))],
        }
    )


def _check(warehouse: tidemill.Warehouse) -> None:
    assert sorted(warehouse.view("by_city").rows()) == [
        ("Basel", Decimal("5.00"), 0.1, 1),
        ("Oslo", Decimal("3.50"), 0.5, 2),
    ]
    assert warehouse.view("cities").rows() == [("Oslo",)]
    assert sorted(warehouse.view("busy").rows()) == [("Basel", 3), ("Oslo", 1)]
    assert warehouse.view("by_city").verify()


@pytest.mark.parametrize(("first", "second"), [("native", "spark"), ("spark", "native")])
def test_one_goes_on_where_the_other_stopped(first: str, second: str, tmp_path: Path, spark: SparkSession) -> None:
    with tidemill.open(tmp_path / "w", runtime=first, spark=spark) as warehouse:
        _first(warehouse)
    with tidemill.open(tmp_path / "w", runtime=second, spark=spark) as warehouse:
        _second(warehouse)
        _check(warehouse)
        assert sorted(row[0] for row in warehouse.at(1).view("by_city").rows()) == ["Bern", "Oslo"]
    with tidemill.open(tmp_path / "w", runtime=first, spark=spark) as warehouse:
        _check(warehouse)


def test_views_of_one_warehouse_on_different_runtimes(tmp_path: Path, spark: SparkSession) -> None:
    with tidemill.open(tmp_path / "w", runtime="native", spark=spark) as warehouse:
        _first(warehouse)
        warehouse.sql(
            "CREATE MATERIALIZED VIEW far WITH (runtime = 'spark') AS SELECT city, n FROM by_city WHERE n > 1"
        )
        assert warehouse.view("far").rows() == [("Bern", 2)]
        _second(warehouse)
        _check(warehouse)
        assert warehouse.view("far").rows() == [("Oslo", 2)]
        assert "spark driver (asked for)" in warehouse.view("far").explain()
        assert "native (asked for)" in warehouse.view("by_city").explain()


def test_nested_aggregates_are_kept_in_the_driver(tmp_path: Path, spark: SparkSession) -> None:
    """In a warehouse on Spark, whose tables are checked there; after opening it again the state goes on."""
    vwap = """SELECT SUM(b.price * b.volume) AS total FROM bids b WHERE 0.25 * (SELECT SUM(v.volume) FROM bids v)
        > (SELECT COALESCE(SUM(w.volume), 0) FROM bids w WHERE w.price > b.price)"""
    rows = [(i, 10 * i, 1 + i % 7) for i in range(200)]
    with tidemill.open(tmp_path / "w", runtime="spark", spark=spark) as warehouse:
        warehouse.sql("CREATE TABLE bids (id INT PRIMARY KEY, price INT NOT NULL, volume INT NOT NULL)")
        warehouse.apply({"bids": [(1, row) for row in rows[:150]]})
        warehouse.sql(f"CREATE MATERIALIZED VIEW vwap WITH (optimize = 'latency') AS {vwap}")
        warehouse.apply({"bids": [(-1, rows[3])]})
    with tidemill.open(tmp_path / "w", runtime="spark", spark=spark) as warehouse:
        warehouse.apply({"bids": [*((1, row) for row in rows[150:]), *((-1, row) for row in rows[10:60])]})
        assert "native (its triggers take one row" in warehouse.view("vwap").explain()
        left = [row for row in rows if row[0] != 3 and not 10 <= row[0] < 60]
        above = {i: sum(volume for _, other, volume in left if other > price) for i, price, _ in left}
        least = sum(volume for *_, volume in left) / 4
        assert warehouse.view("vwap").rows() == [(sum(p * v for i, p, v in left if least > above[i]),)]


@pytest.mark.parametrize(
    ("way", "name", "form"),
    [
        ("driver", "spark driver", "generated Python, over rows that are looked up in files"),
        ("tasks", "spark tasks", "queries over columns in Spark tasks, over the files of the store"),
        ("frames", "spark dataframes", "DataFrames"),
    ],
)
def test_the_ways_of_spark_have_names(way: str, name: str, form: str, spark: SparkSession) -> None:
    with ways.opened(way, spark) as warehouse:
        warehouse.sql("CREATE TABLE t (a INT); CREATE MATERIALIZED VIEW v AS SELECT a, COUNT(*) AS n FROM t GROUP BY a")
        warehouse.apply({"t": [(+1, (1,))]})
        shown = warehouse.view("v").explain()
        assert re.search(rf"^ *runtime +{name} \(asked for\)$", shown, flags=re.M), shown
        assert re.search(rf"^ *back end +{form}$", shown, flags=re.M), shown
        assert [row[2] for row in warehouse.sql("SHOW VIEWS")] == [name]


@pytest.mark.turns("runtime")
@pytest.mark.parametrize("runtime", ["auto", "spark"])
def test_small_and_large_epochs_by_turns(
    runtime: str, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large ones are DataFrames, small ones run in this process, over what it held before and has missed since."""
    monkeypatch.setattr(choose, "NATIVE_WORK", 10)
    monkeypatch.setattr(placement, "DRIVER_WORK", 10)
    loaded: list[str] = []
    read = RuntimeState._read

    def noted(self: RuntimeState, name: str) -> Any:
        loaded.append(name)
        return read(self, name)

    history = History(1)
    with tidemill.open(tmp_path / "w", runtime=runtime, spark=spark) as warehouse:
        warehouse.sql("""
          CREATE TABLE customers (id INT PRIMARY KEY, city STRING);
          CREATE TABLE orders (id INT PRIMARY KEY, customer INT, amount DECIMAL(8,2), share DOUBLE);
          CREATE MATERIALIZED VIEW by_city AS
            SELECT c.city, SUM(o.amount) AS total, AVG(o.share) AS mean, COUNT(*) AS n
            FROM orders o JOIN customers c ON o.customer = c.id GROUP BY c.city;
          CREATE MATERIALIZED VIEW most AS SELECT customer, MAX(amount) AS most FROM orders GROUP BY customer;
        """)
        warehouse.apply(history.change(60))
        small = "native" if runtime == "auto" else "spark driver"
        for rows, name in ((3, small), (12, "spark dataframes"), (2, small), (15, "spark dataframes")) * 2:
            warehouse.apply(history.change(rows))
            assert {row[2] for row in warehouse.sql("SHOW VIEWS")} == {name}
            # Both tables have been read by the first small epoch.
            monkeypatch.setattr(RuntimeState, "_read", noted)
            if name == "spark dataframes":
                with pytest.raises(DuplicateKey):
                    warehouse.apply({"customers": [(+1, (10_000 + i // 2, "a")) for i in range(20)]})
        assert not loaded
        assert all(warehouse.verify(against="evaluator"))
        assert all(warehouse.verify(against="spark"))


def test_both_refuse_alike(spark: SparkSession) -> None:
    refused: dict[str, list[str]] = {}
    for runtime in ("native", "spark"):
        with tidemill.open(":memory:", runtime=runtime, spark=spark) as warehouse:
            warehouse.sql("""
              CREATE TABLE t (id INT PRIMARY KEY, n INT);
              CREATE MATERIALIZED VIEW v AS SELECT id, 10 / n AS share FROM t;
            """)
            warehouse.apply({"t": [(+1, (1, 1))]})
            refused[runtime] = []
            for change, error in (
                ((+1, (1, 2)), DuplicateKey),
                ((-1, (1, 2)), MissingRow),
                ((+1, (2, 0)), ArithmeticFault),
            ):
                with pytest.raises(error) as raised:
                    warehouse.apply({"t": [change]})
                refused[runtime].append(f"{type(raised.value).__name__}: {raised.value.what}")
            assert warehouse.epoch == 1
            assert warehouse.view("v").rows() == [(1, 10.0)]
    assert refused["native"] == refused["spark"]


def test_a_frame_of_each_kind_is_an_epoch(spark: SparkSession) -> None:
    rows = "SELECT 1 AS id, 2 AS n UNION ALL SELECT 2, NULL"
    with tidemill.open(":memory:", runtime="spark", spark=spark) as warehouse:
        warehouse.sql("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
        warehouse.sql("CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS rows, SUM(n) AS total FROM t")
        warehouse.apply({"t": spark.sql(rows)})
        assert warehouse.view("v").rows() == [(2, 2)]
        warehouse.apply({"t": spark.sql(f"SELECT *, -1 AS _weight FROM ({rows}) WHERE id = 1")})
        assert warehouse.view("v").rows() == [(1, None)]
        assert [row.asDict() for row in warehouse.view("v").df().collect()] == [{"rows": 1, "total": None}]
