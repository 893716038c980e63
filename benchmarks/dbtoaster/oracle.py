"""What a query's answer must be after so many events: DuckDB computes it from the rows that are there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from types import TracebackType
from typing import Self

import duckdb

from benchmarks.dbtoaster.queries import QUERIES, READS
from benchmarks.dbtoaster.stream import Stream
from tidemill.changes.zset import Row
from tidemill.model.schema import WEIGHT

RECOMPUTED = {
    **QUERIES,
    # The same, each side filtered before they meet: DuckDB would join all pairs first and take a hundred times as long.
    "mst": """
        WITH few_bids AS MATERIALIZED (
            SELECT * FROM bids b WHERE 0.25 * (SELECT SUM(b1.volume) FROM bids b1)
                > (SELECT COALESCE(SUM(b2.volume), 0) FROM bids b2 WHERE b2.price > b.price)),
        few_asks AS MATERIALIZED (
            SELECT * FROM asks a WHERE 0.25 * (SELECT SUM(a1.volume) FROM asks a1)
                > (SELECT COALESCE(SUM(a2.volume), 0) FROM asks a2 WHERE a2.price > a.price))
        SELECT b.broker_id, SUM(a.price * a.volume - b.price * b.volume) AS difference
        FROM few_bids b, few_asks a
        GROUP BY b.broker_id""",
}
"""The text that DuckDB gets for each query."""


class WrongAnswer(AssertionError):
    """A view differs from its recomputation: no figure of it is worth printing."""


class Oracle:
    """Recomputes queries over prefixes of one stream. Answers are kept: several cases ask for the same ones."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._answers: dict[tuple[str, int], Counter[Row]] = {}
        self._filled: dict[str, int] = {}
        self._connection = duckdb.connect()
        for name, table in stream.static.items():
            self._connection.register(name, table)

    def answer(self, query: str, events: int) -> Counter[Row]:
        """The rows of ``query`` after the first ``events``."""
        if (query, events) not in self._answers:
            for relation in READS[query]:
                if relation in self._stream.tables:
                    self._fill(relation, self._stream.count(relation, events))
            rows = self._connection.execute(RECOMPUTED[query]).fetchall()
            self._answers[query, events] = Counter(rows)
        return self._answers[query, events]

    def check(self, query: str, events: int, rows: Iterable[Row], who: str) -> None:
        """Compare the rows that a view shows, duplicates counted and numbers exact."""
        expected, actual = self.answer(query, events), Counter(rows)
        if actual != expected:
            missing, extra = list(expected - actual)[:3], list(actual - expected)[:3]
            raise WrongAnswer(f"{who} is wrong after {events:,} events: missing {missing}, too many {extra}")

    def _fill(self, relation: str, count: int) -> None:
        """Let the table ``relation`` hold what its first ``count`` events have come to.

        Points mostly come in the order of the stream, so only what happened since the last one is taken in.
        """
        done = self._filled.get(relation, 0)
        if relation not in self._filled or count < done:
            done = 0
            empty = self._stream.tables[relation].schema.empty_table().drop_columns([WEIGHT])
            self._connection.register("empty", empty)
            self._connection.execute(f"CREATE OR REPLACE TABLE {relation} AS FROM empty")
        happened = self._stream.tables[relation].slice(done, count - done)
        self._filled[relation] = count
        columns = ", ".join(happened.drop_columns([WEIGHT]).column_names)
        self._connection.register("happened", happened)
        if happened.num_rows and happened[WEIGHT].to_numpy().min() > 0:
            self._connection.execute(f"INSERT INTO {relation} SELECT {columns} FROM happened, UNNEST(RANGE({WEIGHT}))")
            return
        self._connection.execute(f"""
            CREATE OR REPLACE TABLE {relation} AS
            SELECT {columns} FROM (
                SELECT {columns}, SUM({WEIGHT})::BIGINT AS times
                FROM (SELECT *, 1 AS {WEIGHT} FROM {relation} UNION ALL FROM happened) GROUP BY ALL),
            UNNEST(RANGE(times))""")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()
