"""The views of the thesis: windows by each method, and its pattern as a query and as ViewDFs written out."""

from __future__ import annotations

from benchmarks.viewdf.case import APPEND_ONLY, DIRECT, MAX, MEDIAN, OURS, PATTERN, SUM, Case
from benchmarks.viewdf.data import HIGH

VIEW = "v"

SHOWN: dict[str, list[str]] = {
    SUM: ["src", "dest", "sum_loss"],
    MAX: ["src", "dest", "max_loss"],
    MEDIAN: ["src", "dest", "median_loss"],
    PATTERN: ["src", "dest", "count", "sum_loss"],
}
"""The columns of each query's view."""

_HIGH_LOSS = f"""PATTERN (a, b, c, d+)
  WHERE a.loss > {HIGH} AND b.loss > {HIGH} AND c.loss > {HIGH} AND d.loss > {HIGH} GROUP BY src, dest"""

_RUNS = f"""
    SELECT new.src, new.dest, new.loss, COALESCE(prev.state, 0) AS state, COALESCE(prev.count, 0) AS count,
      COALESCE(prev.sum_loss, 0) AS sum_loss
    FROM s[i] AS new LEFT OUTER JOIN helper[i-1] AS prev ON new.src = prev.src AND new.dest = prev.dest
    WHERE new.loss > {HIGH}"""
"""High losses of partition i, each with the run that it goes on."""

_HELPER = f"""CREATE VIEW helper AS
  INITIALIZE helper[k] AS
    SELECT src, dest, 1 AS state, 1 AS count, CAST(loss AS BIGINT) AS sum_loss FROM s[k] WHERE loss > {HIGH}
  UPDATE helper[i] AS %s
  PARTITION BY 1 MINUTE"""

_BY_CASE = f"""
    SELECT src, dest, CASE WHEN state < 4 THEN state + 1 ELSE state END AS state, count + 1 AS count,
      sum_loss + loss AS sum_loss FROM ({_RUNS}) AS runs"""

_BY_UNION = f"""
    SELECT src, dest, state + 1, count + 1, sum_loss + loss FROM ({_RUNS}) AS runs WHERE state <> 4
    UNION ALL SELECT src, dest, state, count + 1, sum_loss + loss FROM ({_RUNS}) AS runs WHERE state = 4"""

_COMPLETE = "CREATE VIEW v AS UPDATE v[i] AS SELECT src, dest, count, sum_loss FROM helper[i] WHERE state = 4"


def definitions(case: Case) -> list[str]:
    """The statements that make the view ``v`` by the method of ``case``."""
    if case.query == PATTERN:
        return _pattern(case)
    method = OURS[case.query] if case.method == APPEND_ONLY else case.method
    return [
        f"""CREATE MATERIALIZED VIEW v WITH (method = '{method}') AS
        SELECT src, dest, {case.query}(loss) AS {case.query}_loss FROM s [WINDOW {case.window} MINUTES]
        GROUP BY src, dest"""
    ]


def _pattern(case: Case) -> list[str]:
    matched = f"SELECT ts, src, dest, COUNT(*) AS count, SUM(loss) AS sum_loss FROM %s {_HIGH_LOSS}"
    if case.method == "match":
        return [f"CREATE MATERIALIZED VIEW v AS {matched % 's'}"]
    if case.method == DIRECT:
        # All matches in the scope, of which those are wanted that are complete as of now.
        scope = f"s[i-{case.window - 1} .. i]"
        now = "JOIN s[i] AS now ON now.ts = m.ts AND now.src = m.src AND now.dest = m.dest"
        return [f"CREATE VIEW v AS UPDATE v[i] AS SELECT m.* FROM ({matched % scope}) AS m {now}"]
    return [_HELPER % (_BY_UNION if case.method == "union" else _BY_CASE), _COMPLETE]
