"""What a query must show after the first events, by DuckDB."""

from __future__ import annotations

from types import TracebackType
from typing import Self

import duckdb
import pyarrow as pa
import sqlglot

from benchmarks.dbtoaster.oracle import WrongAnswer
from benchmarks.dbtoaster.stream import Stream
from tests.nexmark.queries import QUERIES
from tidemill.model.schema import WEIGHT

BY_HAND = {
    "q5_hot_items": """
        WITH counts AS (
          SELECT auction, COUNT(*) AS bids,
            time_bucket(INTERVAL '5 minutes', "at") - back * INTERVAL '5 minutes' AS since
          FROM bid, (VALUES (0), (1)) hops (back) GROUP BY ALL
        )
        SELECT auction, since, bids FROM counts QUALIFY bids = MAX(bids) OVER (PARTITION BY since)""",
    "q7_highest_bid": """
        SELECT auction, price, bidder, "at" FROM bid
        QUALIFY price = MAX(price) OVER (PARTITION BY time_bucket(INTERVAL '10 minutes', "at"))""",
    "q8_new_users": """
        SELECT p.id, p.name, p.since
        FROM (SELECT DISTINCT id, name, time_bucket(INTERVAL '1 hour', "at") AS since FROM person) p
        JOIN (SELECT DISTINCT seller, time_bucket(INTERVAL '1 hour', "at") AS since FROM auction) a
          ON p.id = a.seller AND p.since = a.since""",
    "q11_sessions": """
        WITH begun AS (
          SELECT bidder, "at",
            COALESCE("at" - LAG("at") OVER (PARTITION BY bidder ORDER BY "at") > INTERVAL '10 minutes', true) AS first
          FROM bid
        ), numbered AS (
          SELECT bidder, "at",
            SUM(first::INT) OVER (PARTITION BY bidder ORDER BY "at", first DESC ROWS UNBOUNDED PRECEDING) AS session
          FROM begun
        )
        SELECT bidder, COUNT(*) AS bids, MIN("at") AS since, MAX("at") + INTERVAL '10 minutes' AS until
        FROM numbered GROUP BY bidder, session""",
}
"""Queries with window() and session_window(), which DuckDB does not have."""


class Oracle:
    """Recomputes queries over the first events of a stream; answers are kept, several cases ask for the same ones."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._connection = duckdb.connect()
        self._answers: dict[tuple[str, int], pa.Table] = {}

    def answer(self, query: str, events: int) -> pa.Table:
        """The rows after the first ``events``."""
        if (query, events) not in self._answers:
            for name, table in self._stream.cut(0, events).tables.items():
                self._connection.register(name, table.drop_columns([WEIGHT]))
            self._answers[query, events] = self._connection.sql(_text(query)).to_arrow_table()
        return self._answers[query, events]

    def check(self, query: str, events: int, shown: pa.Table, who: str) -> int:
        """Compare the rows that a view shows, duplicates counted; returns how many there are."""
        expected = self.answer(query, events)
        # The view's times have a zone, and sums of whole numbers are wider in DuckDB.
        types = [shown.schema.field(place).type for place in range(shown.num_columns)]
        naive = [pa.timestamp("us") if pa.types.is_timestamp(one) else one for one in types]
        alike = pa.schema(list(zip(shown.column_names, naive, strict=True)))
        self._connection.register("shown", shown.cast(alike))
        self._connection.register("expected", expected.rename_columns(shown.column_names).cast(alike))
        for what, left, right in (("too many", "shown", "expected"), ("missing", "expected", "shown")):
            rows = self._connection.execute(f"FROM {left} EXCEPT ALL FROM {right} LIMIT 3").fetchall()
            if rows:
                raise WrongAnswer(f"{who} is wrong after {events:,} events: {what} {rows}")
        return int(expected.num_rows)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()


def _text(query: str) -> str:
    if query in BY_HAND:
        return BY_HAND[query]
    (text,) = sqlglot.transpile(QUERIES[query], read="spark", write="duckdb")
    return text
