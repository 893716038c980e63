"""The estimator with statistics of columns and rates: frequent values, NULLs, and which relation changes how often."""

from __future__ import annotations

import pytest

from tests.compiler.shop import TABLES, relation_of
from tidemill.compiler.choose_plan import predicted_work
from tidemill.compiler.passes import compile_view
from tidemill.compiler.statistics.column_values import ColumnStatistics, ValueShares
from tidemill.compiler.statistics.sizes import Statistics

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


def test_a_group_without_sums_is_passed_on_when_it_appears_and_when_it_goes() -> None:
    """With ten orders for each customer, one in ten changes which customers there are; a sum changes each time."""
    orders = {"orders": 1.0, "customers": 0.0}
    outer = "SELECT n.k, COUNT(*) AS m FROM ({}) AS n JOIN customers c ON c.id = n.customer GROUP BY n.k"
    names, sums = (f"SELECT customer, {k} AS k FROM orders GROUP BY customer" for k in ("customer", "SUM(id)"))
    by_names, by_sums = (work(outer.format(inner), None, orders) for inner in (names, sums))
    inner = work(names, None, orders)
    assert by_sums - inner == pytest.approx(20 * (by_names - inner))
