"""What strategy ``auto`` chooses for each stage, by what is known of the tables."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import tidemill
from tests.compiler.shop import TABLES, relation_of
from tidemill.compiler.choose_plan import Choice, PlannedView, choose_plan
from tidemill.compiler.passes import Compilation
from tidemill.compiler.statistics import predictions
from tidemill.compiler.statistics.sizes import Statistics
from tidemill.model.errors import Unsupported
from tidemill.program.reads import row_wise

FEW = Statistics({"customers": 100, "orders": 1_000, "items": 5_000}, lambda relation, column: 100)
LARGE = Statistics({"customers": 10_000, "orders": 100_000, "items": 500_000}, lambda relation, column: 10_000)

SIMPLE = "SELECT region, COUNT(*) AS n FROM customers GROUP BY region"
LOOKUPS = (
    "SELECT c.region, SUM(o.amount) AS total FROM orders o JOIN customers c ON c.id = o.customer GROUP BY c.region"
)
ABOVE_AVERAGE = "SELECT SUM(o.amount) AS total FROM orders o WHERE o.amount > (SELECT AVG(p.amount) FROM orders p)"
ABOVE_ONE_ROW = (
    "SELECT SUM(o.amount) AS total FROM orders o JOIN (SELECT AVG(amount) AS a FROM orders) p ON o.amount > p.a"
)
SMALL_QUANTITIES = (
    "SELECT SUM(o.amount) AS total FROM orders o"
    " WHERE o.amount < (SELECT 0.2 * AVG(p.amount) FROM orders p WHERE p.customer = o.customer)"
)
PAIRS = (
    "SELECT a.customer, SUM(a.amount * b.amount) AS n FROM orders a JOIN orders b ON a.customer = b.customer GROUP BY 1"
)

BOOK = "CREATE TABLE bids (broker BIGINT NOT NULL, price BIGINT NOT NULL, volume BIGINT NOT NULL)"
VWAP = """CREATE MATERIALIZED VIEW vwap {options} AS
    SELECT SUM(b.price * b.volume) AS total FROM bids b
    WHERE 0.25 * (SELECT SUM(v.volume) FROM bids v)
          > (SELECT COALESCE(SUM(w.volume), 0) FROM bids w WHERE w.price > b.price)"""


def planned(sql: str, statistics: Statistics, goal: str = "balanced", on_spark: bool = False) -> PlannedView:
    return choose_plan(Compilation("v", relation_of(sql), TABLES), statistics, Choice(goal, on_spark))


@pytest.mark.parametrize("sql", [SIMPLE, LOOKUPS])
@pytest.mark.parametrize("statistics", [Statistics(), FEW, LARGE])
def test_deltas_stay_where_they_cost_the_change(sql: str, statistics: Statistics) -> None:
    assert not planned(sql, statistics).plan.strategies


def test_stages_are_planned_one_by_one() -> None:
    """The average is a stage of its own, and what compares with it is for viewlets."""
    found = planned(ABOVE_ONE_ROW, LARGE)
    assert (dict(found.plan.strategies), found.plan.keeps_subqueries) == ({"v": "viewlet"}, False)
    assert [stage.strategy for stage in found.program.stages] == ["delta", "viewlet"]


def test_rows_that_stages_pass_on_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum over a range as a stage passes half of its groups on for each row; as a subquery of one stage, none."""
    nested = (
        "SELECT SUM(o.amount) AS total FROM orders o WHERE 0.25 * (SELECT SUM(p.amount) FROM orders p)"
        " > (SELECT SUM(q.amount) FROM orders q WHERE q.amount > o.amount)"
    )
    book = Statistics({"orders": 12_000}, lambda relation, column: 7_000)
    assert planned(nested, book).plan.keeps_subqueries
    assert planned(nested, book).candidates[-1].strategy == "viewlet with subqueries in place"
    with_passed = planned(ABOVE_ONE_ROW, LARGE).work
    monkeypatch.setattr(predictions, "CONSTANTS", replace(predictions.CONSTANTS, passed=0.0))
    assert planned(ABOVE_ONE_ROW, LARGE).work < with_passed


@pytest.mark.parametrize("sql", [ABOVE_AVERAGE, SMALL_QUANTITIES])
def test_one_stage_is_better_than_two(sql: str) -> None:
    """Deltas need an average and what compares with it, in two stages; every epoch pays for the runs of both."""
    found = planned(sql, FEW)
    assert found.plan.keeps_subqueries and len(found.program.stages) == 1
    assert found.plan.log[-1].reason == "the least predicted work and memory"
    assert not planned(SMALL_QUANTITIES, Statistics()).plan.keeps_subqueries  # nothing is known of the tables


def test_rows_that_would_be_replaced_in_python_stay_joined() -> None:
    """Machine code replaces entries of maps; here the rows of the view would be, for each change of a sum."""
    dear = "SELECT o.customer FROM orders o WHERE o.amount > (SELECT SUM(i.price) FROM items i WHERE i.orders = o.id)"
    found = planned(f"SELECT c.name FROM customers c WHERE c.id IN ({dear})", FEW)
    assert not found.plan.keeps_subqueries
    assert found.plan.log[-1].reason.endswith("nor 4 times with subqueries left in place")


def test_many_partners_are_for_viewlets_and_few_are_not() -> None:
    partners = Statistics({"orders": 100_000}, lambda relation, column: 100)
    alone = Statistics({"orders": 100_000}, lambda relation, column: 100_000)
    assert planned(PAIRS, partners).plan.strategies == {"v": "viewlet"}
    assert not planned(PAIRS, alone).plan.strategies


def test_on_spark_stages_run_row_by_row_in_the_driver_if_they_fit_and_gain_much() -> None:
    """Deltas read all orders whenever the average moves; what is read by key and a little cheaper stays on Spark."""
    assert planned(ABOVE_AVERAGE, LARGE, on_spark=True).plan.keeps_subqueries
    assert planned(SMALL_QUANTITIES, FEW).plan.keeps_subqueries
    assert not planned(SMALL_QUANTITIES, FEW, on_spark=True).plan.keeps_subqueries


def test_what_does_not_fit_into_the_driver_is_no_plan_for_spark() -> None:
    """64 bytes for each of 100 million orders, and the maps, are more than the driver may take."""
    huge = Statistics({"orders": 100_000_000}, lambda relation, column: 10_000)
    assert planned(ABOVE_AVERAGE, huge).plan.keeps_subqueries
    found = planned(ABOVE_AVERAGE, huge, on_spark=True)
    assert not any(map(row_wise, found.program.stages))
    assert "; viewlet for v, with subqueries left in place, would take 6.4 GB in the driver, of at most 1" in (
        found.plan.log[-1].reason
    )


def test_goals_differ() -> None:
    work = {goal: planned(PAIRS, LARGE, goal) for goal in ("latency", "memory")}
    assert work["latency"].work <= work["memory"].work
    assert work["memory"].bytes <= work["latency"].bytes


def test_an_unknown_goal_is_refused() -> None:
    with tidemill.open(":memory:") as warehouse:
        warehouse.sql(BOOK)
        with pytest.raises(Unsupported, match='cannot be optimized for "beauty"'):
            warehouse.sql(VWAP.format(options="WITH (optimize = 'beauty')"))


def test_the_plan_is_stored_with_the_view(tmp_path: Path) -> None:
    """Opened again the view has the plan that it was created with, and its state is used as it is."""
    rows = [(1, (i % 10, 100 + i % 57, 1 + i % 7)) for i in range(2_000)]
    with tidemill.open(tmp_path / "w") as warehouse:
        warehouse.sql(BOOK)
        warehouse.apply({"bids": rows})
        warehouse.sql(VWAP.format(options=""))
        assert "viewlet for vwap, with subqueries left in place" in warehouse.view("vwap").explain()
        before = warehouse.view("vwap").rows()
    with tidemill.open(tmp_path / "w") as warehouse:
        view = warehouse._engine.catalog.view("vwap")
        assert dict(view.plan.strategies) == {"vwap": "viewlet"} and view.plan.keeps_subqueries
        assert json.loads(json.dumps(view.plan.to_json())) == view.plan.to_json()
        assert warehouse.view("vwap").rows() == before
        warehouse.apply({"bids": [(-1, rows[5][1]), (1, (3, 500, 40))]})
        warehouse.verify("vwap")


def test_a_view_over_empty_tables_is_planned_by_what_is_sure() -> None:
    with tidemill.open(":memory:") as warehouse:
        warehouse.sql(BOOK)
        warehouse.sql(VWAP.format(options=""))
        warehouse.sql("CREATE MATERIALIZED VIEW n AS SELECT broker, COUNT(*) AS n FROM bids GROUP BY broker")
        assert "vwap: incremental, viewlet" in warehouse.view("vwap").explain()
        assert "n: incremental, delta" in warehouse.view("n").explain()
