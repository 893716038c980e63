"""Running the query again over the last partitions, in DuckDB: the alternative to a view, and the second opinion."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import duckdb
import pyarrow as pa

from benchmarks.dbtoaster.oracle import WrongAnswer
from benchmarks.viewdf.case import FULL, MAX, MEDIAN, PATTERN, SUM, Case
from benchmarks.viewdf.data import HIGH

QUERIES = {
    SUM: "SELECT src, dest, SUM(loss)::BIGINT AS sum_loss FROM recent GROUP BY src, dest",
    MAX: "SELECT src, dest, MAX(loss) AS max_loss FROM recent GROUP BY src, dest",
    MEDIAN: "SELECT src, dest, QUANTILE_CONT(loss, 0.5) AS median_loss FROM recent GROUP BY src, dest",
    PATTERN: f"""
        WITH broken AS (SELECT src, dest, MAX(ts) AS last FROM recent WHERE loss <= {HIGH} GROUP BY src, dest)
        SELECT src, dest, COUNT(*) AS count, SUM(loss)::BIGINT AS sum_loss
        FROM recent LEFT JOIN broken USING (src, dest)
        WHERE last IS NULL OR ts > last GROUP BY src, dest HAVING COUNT(*) >= {FULL}""",
}
"""Each pair reports in every partition, so a run of high losses is what came after the last other one."""


class DirectInDuckDB:
    """Holds the partitions of the window in memory, as Arrow."""

    def __init__(self, case: Case) -> None:
        self._query = QUERIES[case.query]
        self._recent: deque[pa.Table] = deque(maxlen=case.reach)
        self._connection = duckdb.connect()
        self._shown: pa.Table | None = None

    def bring(self, partitions: Sequence[pa.Table]) -> None:
        """The next partitions are there."""
        self._recent.extend(partitions)

    def slide(self) -> None:
        """Ask."""
        self._shown = self._ask()

    def _ask(self) -> pa.Table:
        self._connection.register("recent", pa.concat_tables(self._recent))
        return self._connection.sql(self._query).to_arrow_table()

    def answer(self) -> pa.Table:
        """What the last slide gave."""
        assert self._shown is not None, "a slide comes first"
        return self._shown

    def check(self, shown: pa.Table, who: str) -> None:
        """Compare the rows of the last window with what the query says now, both ways and with duplicates."""
        expected = self._ask()
        self._connection.register("expected", expected)
        self._connection.register("shown", shown.rename_columns(expected.column_names))
        both = (("missing", "expected", "shown"), ("wrong", "shown", "expected"))
        for what, one, other in both:
            rows = self._connection.execute(f"FROM {one} EXCEPT ALL FROM {other} LIMIT 3").fetchall()
            if rows:
                raise WrongAnswer(f"{who}: rows of its last window are {what}: {rows}")

    def close(self) -> None:
        """Let go of the partitions."""
        self._connection.close()
