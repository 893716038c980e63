"""Verification: the views that Spark's own answer can verify, and those that only the evaluator can."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

import tidemill
from tidemill.engine.inspect.verification.verify import depends_on_row_order
from tidemill.model.errors import SetupError

TABLE = "CREATE TABLE t (id INT PRIMARY KEY, k INT, v INT)"
OPEN = {
    "SELECT k, SUM(v) AS n FROM t GROUP BY k": False,
    "SELECT k, COLLECT_LIST(v) AS vs FROM t GROUP BY k": True,
    "SELECT k, STRING_AGG(CAST(v AS STRING), ',') AS vs FROM t GROUP BY k": True,
    "SELECT k, MAX_BY(id, v) AS top FROM t GROUP BY k": True,
    "SELECT id FROM t ORDER BY v LIMIT 2": True,
    "SELECT id, ROW_NUMBER() OVER (ORDER BY v) AS n FROM t": True,
    "SELECT id, LAG(id) OVER (ORDER BY v) AS n FROM t": True,
    "SELECT id, RANK() OVER (ORDER BY v) AS n FROM t": False,
    "SELECT id, SUM(v) OVER (PARTITION BY k) AS n FROM t": False,
    "SELECT id, SUM(v) OVER (ORDER BY v) AS n FROM t": False,
    "SELECT id, SUM(v) OVER (ORDER BY v ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS n FROM t": True,
    "SELECT k FROM t WHERE v IN (SELECT id FROM t ORDER BY v LIMIT 2)": True,
}


@pytest.mark.parametrize("query", OPEN)
def test_what_sql_leaves_open(query: str) -> None:
    with tidemill.open(":memory:", runtime="native", backend="python") as wh:
        wh.sql(f"{TABLE}; CREATE MATERIALIZED VIEW v AS {query}")
        assert depends_on_row_order(wh._engine.catalog.view("v").relation) == OPEN[query]


@pytest.mark.spark
@pytest.mark.parametrize(
    "query", ["SELECT k, COLLECT_LIST(v) AS vs FROM t GROUP BY k", "SELECT id FROM w ORDER BY v LIMIT 2"]
)
def test_such_views_are_verified_on_spark(query: str) -> None:
    with tidemill.open(":memory:", runtime="spark") as wh:
        wh.sql(f"{TABLE}; CREATE MATERIALIZED VIEW w AS SELECT id, v FROM t; CREATE MATERIALIZED VIEW x AS {query}")
        wh.apply({"t": [(1, (9 - number, number % 2, 7 - number % 3)) for number in range(8)]})
        assert wh.view("x").verify()


VIEWS = {
    "sums": "SELECT k, SUM(v) AS n, MEDIAN(DISTINCT v) AS m FROM t GROUP BY k",
    "above": "SELECT MAX(n) AS most FROM sums",
    "first": "SELECT id FROM t ORDER BY v, id LIMIT 2",
    "listed": "SELECT k, COLLECT_LIST(v) AS vs FROM t GROUP BY k",
    "brought": "SELECT id, twice(v) AS w FROM t",
    "most": "SELECT id FROM t WHERE v >= ALL (SELECT v FROM t)",
    "late": "SELECT id FROM t WHERE k = 1",
}
ROWS = [(1, (9 - number, number % 2, 7 - number % 3)) for number in range(8)]


@pytest.fixture
def shop() -> Iterator[tidemill.Warehouse]:
    with tidemill.open(":memory:", runtime="native", backend="python") as wh:
        wh.register_function("twice", lambda x: 2 * x, arguments=["INT"], returns="INT")
        wh.sql(TABLE)
        for name, query in VIEWS.items():
            options = " WITH (refresh = 'deferred')" if name == "late" else ""
            wh.sql(f"CREATE MATERIALIZED VIEW {name}{options} AS {query}")
        wh.apply({"t": ROWS})
        yield wh


def test_small_views_are_verified_by_the_evaluator(shop: tidemill.Warehouse) -> None:
    checks = shop.verify()
    assert [check.view for check in checks] == list(VIEWS)
    assert all(checks) and {check.oracle for check in checks} == {"the evaluator"}
    assert str(shop.view("first").verify()) == "first: 2 rows, equal to recomputation by the evaluator"


def test_oracles_have_names(shop: tidemill.Warehouse) -> None:
    assert shop.view("sums").verify(against="evaluator").oracle == "the evaluator"
    assert shop.view("first").verify(against="duckdb").oracle == "DuckDB, by the view's translation"
    with pytest.raises(SetupError, match="cannot be verified against"):
        shop.view("sums").verify(against="sqlite")


@pytest.mark.spark
def test_spark_is_asked_the_text_of_a_view(shop: tidemill.Warehouse) -> None:
    checks = {check.view: check for check in shop.verify(against="spark")}
    assert all(checks.values())
    own = {name for name, check in checks.items() if check.oracle == "Spark, by the view's own text"}
    assert own >= {"sums", "above", "first", "late"} and own.isdisjoint({"brought", "most"})


@pytest.mark.spark
def test_spark_can_disagree(shop: tidemill.Warehouse) -> None:
    """A text that we had misread: the evaluator shares our mistake, and Spark does not."""
    view = shop._engine.catalog.view("sums")
    shop._engine.catalog.update_view(replace(view, query="SELECT k, SUM(v + 1) AS n, MEDIAN(v) AS m FROM t GROUP BY k"))
    assert shop.view("sums").verify()
    found = shop.view("sums").verify(against="spark")
    assert not found and found.missing and found.extra
    shop._engine.catalog.update_view(
        replace(view, query="SELECT k, SUM(v * 1.0) AS n, MEDIAN(DISTINCT v) AS m FROM t GROUP BY k")
    )
    typed = shop.view("sums").verify(against="spark")
    assert typed.columns == ("n is BIGINT, not DECIMAL(23,1)",) and not typed
