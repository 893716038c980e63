"""What a view must hold and publish: DuckDB computes it from the same rows, and both are compared as fingerprints.

A fingerprint is how many rows there are and the sum of their hashes. It does not depend on their order, counts
duplicates, and is linear: that of a change is the difference of those before and after. Millions of rows are compared
without one of them becoming a Python value.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

import duckdb
import pyarrow as pa

from benchmarks.dbtoaster.oracle import WrongAnswer
from benchmarks.graphivm.workload import Workload
from tidemill.model.schema import WEIGHT

Fingerprint = tuple[int, int]


class Oracle:
    """Recomputes the query of a workload after some of its events; answers are kept, several cases ask for them."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._answers: dict[int, Fingerprint] = {}
        self._connection = duckdb.connect()

    def answer(self, events: int) -> Fingerprint:
        """The fingerprint of the view after the first ``events``."""
        if events not in self._answers:
            happened = self._workload.events.cut(0, events).tables
            for relation, table in self._workload.base.items():
                self._fill(relation, table, happened.get(relation))
            self._answers[events] = self._taken(f"({self._workload.query})")
        return self._answers[events]

    def _fill(self, relation: str, base: pa.Table, happened: pa.Table | None) -> None:
        """Let ``relation`` stand for the rows that are there; deletions are of rows that an event has inserted."""
        self._connection.register("base", base)
        if happened is None:
            self._connection.execute(f"CREATE OR REPLACE TABLE {relation} AS FROM base")
            return
        self._connection.register("happened", happened)
        columns = ", ".join(base.column_names)
        self._connection.execute(f"""
            CREATE OR REPLACE TABLE {relation} AS
            SELECT {columns} FROM base
            UNION ALL SELECT {columns} FROM happened GROUP BY {columns} HAVING SUM({WEIGHT}) > 0""")

    def check(self, events: int, rows: pa.Table, who: str) -> None:
        """Compare all rows that a view shows after the first ``events``."""
        self._connection.register("shown", rows)
        _require(self._taken("shown"), self.answer(events), f"{who}: its rows after {events:,} events")

    def add(self, changes: Sequence[pa.Table], so_far: Fingerprint = (0, 0)) -> Fingerprint:
        """The fingerprint of changes, rows with weights, together with that of those before."""
        rows, hashes = so_far
        for change in changes:
            self._connection.register("published", change)
            more, hashed = self._taken("published", WEIGHT)
            rows, hashes = rows + more, hashes + hashed
        return rows, hashes

    def check_changes(self, events: int, changes: Fingerprint, who: str) -> None:
        """Compare what was published of the first ``events``."""
        before, after = self.answer(0), self.answer(events)
        expected = (after[0] - before[0], after[1] - before[1])
        _require(changes, expected, f"{who}: its changes by {events:,} events")

    def _taken(self, source: str, weight: str = "1") -> Fingerprint:
        columns = [str(row[0]) for row in self._connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()]
        hashed = ", ".join(f"{column}::BIGINT" for column in columns if column != WEIGHT)
        sums = f"COALESCE(SUM({weight}), 0), COALESCE(SUM({weight} * hash({hashed})::HUGEINT), 0)"
        ((rows, hashes),) = self._connection.execute(f"SELECT {sums} FROM {source}").fetchall()
        return int(rows), int(hashes)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()


def _require(actual: Fingerprint, expected: Fingerprint, what: str) -> None:
    if actual != expected:
        rows = f"{actual[0]:,} rows instead of {expected[0]:,}" if actual[0] != expected[0] else "other rows"
        raise WrongAnswer(f"{what} are wrong: {rows}")
