"""The estimator with statistics of columns and rates: frequent values, NULLs, and which relation changes how often."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.compiler.shop import TABLES, relation_of
from tidemill.compiler.choose_plan import predicted_work
from tidemill.compiler.passes import compile_view
from tidemill.compiler.statistics import predictions
from tidemill.compiler.statistics.column_values import ColumnStatistics, ValueShares
from tidemill.compiler.statistics.predictions import estimate_stage
from tidemill.compiler.statistics.sizes import Statistics
from tidemill.compiler.statistics.work_counts import CONSTANTS

PAIRS = "SELECT a.id, b.id AS other FROM orders a JOIN orders b ON a.customer = b.customer"
LOOKUP = "SELECT o.id, c.region FROM orders o JOIN customers c ON c.id = o.customer"
ROWS = {"orders": 1_000, "customers": 100}


def work(sql: str, shares: ValueShares | None = None, changes: dict[str, float] | None = None) -> float:
    program = compile_view("v", relation_of(sql), TABLES, strategy="delta")
    found = ValueShares() if shares is None else shares
    statistics = Statistics(ROWS, lambda relation, column: 100, lambda relation, column: found, changes or {})
    return predicted_work(program, TABLES, statistics)


def test_a_self_join_costs_the_mean_over_rows_and_not_over_values() -> None:
    even, skewed, missing = work(PAIRS), work(PAIRS, ValueShares({"7": 0.5})), work(PAIRS, ValueShares(nulls=0.9))
    # Two lookups, each of whose rows is visited once and updates an entry: three visits.
    assert skewed - even == pytest.approx(2 * 3 * 1_000 * (0.5 * 0.5 + 0.5 * 0.5 / 99 - 1 / 100))
    assert even - missing == pytest.approx(2 * 3 * 1_000 * (1 - 0.1) / 100)


def test_a_lookup_by_key_finds_one_row_however_frequent_its_keys_are() -> None:
    assert work(LOOKUP, ValueShares({"7": 0.5}), {"orders": 1.0, "customers": 0.0}) == work(
        LOOKUP, None, {"orders": 1.0, "customers": 0.0}
    )


def test_relations_change_as_often_as_they_have_changed_lately() -> None:
    by_rows = work(LOOKUP)
    assert by_rows == work(LOOKUP, changes={"orders": 1_000.0, "customers": 100.0})
    assert by_rows == work(LOOKUP, changes={"orders": 5.0})  # nothing is known of customers
    orders, customers = (
        work(LOOKUP, changes=one) for one in ({"orders": 1.0, "customers": 0.0}, {"orders": 0.0, "customers": 1.0})
    )
    assert orders < by_rows < customers
    assert work(LOOKUP, changes={"orders": 3.0, "customers": 1.0}) == pytest.approx(0.75 * orders + 0.25 * customers)


def test_a_condition_on_a_frequent_value_keeps_its_share() -> None:
    sql = "SELECT a.id FROM orders a JOIN orders b ON a.customer = b.customer WHERE b.day = 7"
    rare, frequent = (work(sql, ValueShares({"7": share})) for share in (0.001, 0.4))
    assert rare < frequent


def test_values_that_are_not_heavy_are_taken_as_even() -> None:
    column = ColumnStatistics(rows=100, distinct=10, frequent=(("a", 21), ("b", 20)))
    assert column.shares == ValueShares({"a": 0.21}, 0.0)
    assert ColumnStatistics(rows=10, distinct=0, nulls=10).shares == ValueShares({}, 1.0)


def test_columns_that_go_together_are_counted_together() -> None:
    sql = "SELECT a.id, b.id AS other FROM orders a JOIN orders b ON a.customer = b.customer AND a.day = b.day"
    program = compile_view("v", relation_of(sql), TABLES, strategy="delta")
    asked: set[str] = set()

    def predicted(combinations: int | None) -> float:
        def distinct(relation: str, column: str) -> int | None:
            asked.add(column)
            return combinations if ", " in column else 100

        return predicted_work(program, TABLES, Statistics(ROWS, distinct))

    apart, together = predicted(None), predicted(100)
    # By themselves 100 times 100 values would leave a tenth of a row for each pair.
    assert together - apart == pytest.approx(2 * 3 * (1_000 / 100 - 1_000 / 100 / 100))
    assert "customer, day" in asked


def test_a_group_without_sums_is_passed_on_when_it_appears_and_when_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """With ten orders for each customer, one in ten changes which customers there are; a sum changes each time."""
    monkeypatch.setattr(predictions, "CONSTANTS", replace(predictions.CONSTANTS, run=0.0))
    orders = {"orders": 1.0, "customers": 0.0}
    outer = "SELECT n.k, COUNT(*) AS m FROM ({}) AS n JOIN customers c ON c.id = n.customer GROUP BY n.k"
    names, sums = (f"SELECT customer, {k} AS k FROM orders GROUP BY customer" for k in ("customer", "SUM(id)"))
    by_names, by_sums = (work(outer.format(inner), None, orders) for inner in (names, sums))
    inner = work(names, None, orders)
    assert by_sums - inner == pytest.approx(20 * (by_names - inner))


def test_a_map_is_as_large_as_what_fills_it_wherever_the_stage_lists_it() -> None:
    """Viewlets of a nested aggregate that are filled from others, which may be listed after them."""
    sql = (
        "SELECT c.region, COUNT(*) AS n FROM customers c WHERE c.id > (SELECT AVG(d.id) FROM customers d)"
        " AND NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.id) GROUP BY c.region"
    )
    program = compile_view("v", relation_of(sql), TABLES, strategy="viewlet")
    sizes = Statistics(ROWS, lambda relation, column: 100).sizes(ROWS, TABLES)
    (stage,) = program.stages
    listed, reversed_ = (estimate_stage(replace(stage, maps=maps), sizes)[0] for maps in (stage.maps, stage.maps[::-1]))
    assert listed.entries == pytest.approx(reversed_.entries)
    assert listed.work["customers"] == reversed_.work["customers"]
    assert listed.entries < 10 * sum(ROWS.values())


@pytest.mark.parametrize(("customers", "runs"), [(100, 2 / 10), (10, 1 / 10 + 1 / 100)])
def test_an_epoch_pays_for_each_stage_that_its_rows_reach(
    customers: int, runs: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten rows share the run of a stage; where one in a hundred has a new customer, the next stage seldom runs."""
    distinct = "(SELECT DISTINCT customer FROM orders)"
    sql = f"SELECT c.region, COUNT(*) AS n FROM {distinct} o JOIN customers c ON c.id = o.customer GROUP BY c.region"
    program = compile_view("v", relation_of(sql), TABLES, strategy="delta")
    statistics = Statistics(ROWS, lambda relation, column: customers, changes={"orders": 1.0, "customers": 0.0})
    with_runs = predicted_work(program, TABLES, statistics)
    monkeypatch.setattr(predictions, "CONSTANTS", replace(predictions.CONSTANTS, run=0.0))
    assert with_runs - predicted_work(program, TABLES, statistics) == pytest.approx(runs * CONSTANTS.run)


def test_a_sum_over_a_range_costs_the_height_of_the_tree_of_its_key() -> None:
    """A map orders the amounts of each customer, and not those of all."""
    sql = (
        "SELECT COUNT(*) AS n FROM orders o WHERE 10 >"
        " (SELECT SUM(p.amount) FROM orders p WHERE p.customer = o.customer AND p.amount < o.amount)"
    )
    program = compile_view("v", relation_of(sql), TABLES, strategy="viewlet")

    def predicted(rows: int, customers: int) -> float:
        return predicted_work(
            program, TABLES, Statistics({"orders": rows}, lambda _, column: {"customer": customers}.get(column, rows))
        )

    one, many, larger = predicted(1_000, 10), predicted(100_000, 1_000), predicted(100_000, 10)
    assert one == pytest.approx(many, rel=0.01) and many < larger
