"""Verification: which views Spark's own answer is a measure of, and which only ours is."""

from __future__ import annotations

import pytest

import tidemill
from tidemill.engine.verify import leaves_open

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
        assert leaves_open(wh._engine.catalog.view("v").relation) == OPEN[query]


@pytest.mark.spark
@pytest.mark.parametrize(
    "query", ["SELECT k, COLLECT_LIST(v) AS vs FROM t GROUP BY k", "SELECT id FROM w ORDER BY v LIMIT 2"]
)
def test_such_views_are_verified_on_spark(query: str) -> None:
    with tidemill.open(":memory:", runtime="spark") as wh:
        wh.sql(f"{TABLE}; CREATE MATERIALIZED VIEW w AS SELECT id, v FROM t; CREATE MATERIALIZED VIEW x AS {query}")
        wh.apply({"t": [(1, (9 - number, number % 2, 7 - number % 3)) for number in range(8)]})
        assert wh.view("x").verify()
