"""Two streams over simulated minutes, with late, wrong and deleted rows, and what a warehouse should make of them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tidemill.engine.warehouse import Warehouse

START = datetime(2024, 1, 1, 9)
LATENESS, RETAIN = 3, 5
"""In minutes, which are the partitions of both streams."""

STREAMS = ("s", "r")
COLUMNS = "(ts TIMESTAMP {null}, k STRING, n INT)"
BOUNDS = f"PARTITION BY ts EVERY 1 MINUTE LATENESS {LATENESS} MINUTES RETAIN {RETAIN} MINUTES"

Row = tuple[datetime | None, str, int]
Change = tuple[int, Row]

INTERVAL = "a.k = b.k AND a.ts BETWEEN b.ts - INTERVAL 4 MINUTES AND b.ts + INTERVAL 2 MINUTES"

QUERIES = {
    "tumbling": "SELECT window.start AS w, k, SUM(n) AS n, COUNT(*) AS c FROM s GROUP BY window(ts, '5 minutes'), k",
    "sliding": "SELECT window.end AS w, k, MAX(n) AS n, AVG(n) AS a FROM s "
    "GROUP BY window(ts, '6 minutes', '2 minutes'), k",
    "distinct_in_window": "SELECT window.start AS w, COUNT(DISTINCT n) AS d, percentile(n, 0.5) AS p FROM s "
    "GROUP BY window(ts, '5 minutes')",
    "truncated": "SELECT date_trunc('HOUR', ts) AS h, CAST(ts AS DATE) AS d, SUM(n) AS n FROM s "
    "GROUP BY date_trunc('HOUR', ts), CAST(ts AS DATE)",
    "nested": "SELECT w, COUNT(*) AS c, MAX(n) AS n FROM (SELECT window.start AS w, k, SUM(n) AS n FROM s "
    "GROUP BY window(ts, '5 minutes'), k) GROUP BY w",
    "session": "SELECT session_window.start AS b, session_window.end AS e, k, SUM(n) AS n FROM s WHERE n > 60 "
    "GROUP BY session_window(ts, '90 seconds'), k",
    "session_values": "SELECT session_window.end AS e, k, MAX(n) AS n, COUNT(DISTINCT n) AS d FROM s WHERE n > 60 "
    "GROUP BY session_window(ts, '90 seconds'), k",
    "session_ends": "SELECT date_trunc('MINUTE', e) AS e, COUNT(*) AS c FROM (SELECT session_window.end AS e FROM s "
    "WHERE n > 60 GROUP BY session_window(ts, '90 seconds'), k) GROUP BY date_trunc('MINUTE', e)",
    "seconds": "SELECT unix_timestamp(ts) DIV 300 AS g, CAST(from_utc_timestamp(ts, 'Asia/Kolkata') AS DATE) AS d, "
    "MIN(n) AS n FROM s GROUP BY unix_timestamp(ts) DIV 300, CAST(from_utc_timestamp(ts, 'Asia/Kolkata') AS DATE)",
    "interval_join": f"SELECT a.ts, b.ts AS t, a.k, a.n, b.n AS m FROM s a JOIN r b ON {INTERVAL}",
    "interval_outer": f"SELECT a.ts, a.k, a.n, b.n AS m FROM s a LEFT JOIN r b ON {INTERVAL}",
    "interval_exists": f"SELECT a.ts, a.k, a.n FROM s a WHERE NOT EXISTS (SELECT 1 FROM r b WHERE {INTERVAL})",
    "outer_sums": "SELECT window.start AS w, COUNT(m) AS c, SUM(n) AS n FROM "
    f"(SELECT a.ts, a.n, b.n AS m FROM s a LEFT JOIN r b ON {INTERVAL}) GROUP BY window(ts, '5 minutes')",
    "interval_in": "SELECT a.ts, a.k, a.n FROM s a WHERE a.n IN (SELECT b.n FROM r b "
    "WHERE b.ts BETWEEN a.ts - INTERVAL 2 MINUTES AND a.ts + INTERVAL 2 MINUTES)",
    "interval_scalar": "SELECT a.ts, a.k, a.n, (SELECT SUM(b.n) FROM r b "
    "WHERE b.k = a.k AND b.ts BETWEEN a.ts - INTERVAL 2 MINUTES AND a.ts) AS m FROM s a",
    "difference_join": "SELECT a.ts, b.ts AS t, a.n + b.n AS n FROM s a JOIN r b ON a.k = b.k "
    "AND a.ts - b.ts <= INTERVAL 3 MINUTES AND b.ts - a.ts < INTERVAL 3 MINUTES",
    "joined_sums": "SELECT window.start AS w, SUM(m) AS m FROM "
    f"(SELECT a.ts, a.n * b.n AS m FROM s a JOIN r b ON {INTERVAL}) GROUP BY window(ts, '5 minutes')",
    "window_join": "SELECT a.w, a.k, a.n, b.n AS m FROM "
    "(SELECT window.start AS w, k, SUM(n) AS n FROM s GROUP BY window(ts, '5 minutes'), k) a JOIN "
    "(SELECT window.start AS w, k, SUM(n) AS n FROM r GROUP BY window(ts, '5 minutes'), k) b "
    "ON a.w = b.w AND a.k = b.k",
    "lag": "SELECT ts, k, n, LAG(n) OVER (PARTITION BY k ORDER BY ts, n) AS p FROM s",
    "lead": "SELECT ts, k, n, LEAD(n, 2) OVER (PARTITION BY k ORDER BY ts, n) AS p, "
    "LAG(n) OVER (PARTITION BY k ORDER BY ts, n) AS q FROM s",
    "range": "SELECT ts, k, n, SUM(n) OVER (PARTITION BY k ORDER BY ts "
    "RANGE BETWEEN INTERVAL 4 MINUTES PRECEDING AND INTERVAL 1 MINUTE FOLLOWING) AS p FROM s",
    "rows": "SELECT ts, k, n, MAX(n) OVER (PARTITION BY k ORDER BY ts, n "
    "ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) AS p FROM s",
    "top": "SELECT w, k, n FROM (SELECT window.start AS w, k, n, ROW_NUMBER() OVER "
    "(PARTITION BY window.start ORDER BY n DESC, k, ts) AS i FROM "
    "(SELECT window(ts, '5 minutes') AS window, k, n, ts FROM s)) WHERE i <= 3",
    "latest": "SELECT k, ts, n FROM "
    "(SELECT k, ts, n, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC, n) AS i FROM s) WHERE i <= 2",
    "distinct": "SELECT DISTINCT date_trunc('MINUTE', ts) AS t, k FROM s",
    "equal_times": "SELECT a.k, b.n FROM (SELECT DISTINCT date_trunc('MINUTE', ts) AS t, k FROM s) a JOIN "
    "(SELECT date_trunc('MINUTE', ts) AS t, k, n FROM r) b ON a.t = b.t AND a.k = b.k",
    "pattern": "SELECT ts, k, n, COUNT(*) AS c, SUM(b.n) AS t FROM s PATTERN (a, b+) ORDER BY ts "
    "WHERE a.n > 40 AND b.n > 25 GROUP BY k",
    "match": "SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES FIRST(ts) AS b, LAST(ts) AS e, "
    "SUM(n) AS n PATTERN (a b* c) DEFINE a AS n > 30, b AS n > a.n AND n > 20, c AS n BETWEEN 10 AND 60) AS m",
    "panes": "SELECT window.start AS w, k, SUM(n) AS n FROM s GROUP BY window(ts, '1 minute'), k",
    "over_panes": "SELECT window(w, '5 minutes').start AS v, MAX(n) AS n FROM panes GROUP BY window(w, '5 minutes')",
}
"""A query for each kind of stage that can follow a stream; the last one reads the view before it."""


def create(warehouse: Warehouse, *, bounded: bool, nulls: bool = True, kinds: tuple[str, ...] = tuple(QUERIES)) -> None:
    """Make the streams, or tables of what was accepted, and the views over them."""
    null = "" if nulls else "NOT NULL"
    for stream in STREAMS:
        columns = COLUMNS.format(null=null)
        warehouse.sql(f"CREATE STREAM {stream} {columns} {BOUNDS}" if bounded else f"CREATE TABLE {stream} {columns}")
    for kind in kinds:
        options = "WITH (require = 'bounded')" if bounded else ""
        warehouse.sql(f"CREATE MATERIALIZED VIEW {kind} {options} AS {QUERIES[kind]}")


@dataclass
class World:
    """Random changes of both streams, as time goes by."""

    seed: int
    nulls: bool = True
    rows: int = 4
    minute: int = 0
    heads: dict[str, int] = field(default_factory=dict)
    late: dict[str, list[Change]] = field(default_factory=lambda: {name: [] for name in STREAMS})
    there: dict[str, list[Row]] = field(default_factory=lambda: {name: [] for name in STREAMS})

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def changes(self) -> dict[str, list[Change]]:
        """What comes in the next minute: rows of now, of a while ago and of long ago, and deletions of rows."""
        self.minute += self.random.choice([1, 1, 1, 1, 2])
        found = {}
        for stream in STREAMS:
            new = [(+1, self._row()) for _ in range(self.random.randint(1, self.rows))]
            there = self.there[stream]
            gone = [there.pop(self.random.randrange(len(there))) for _ in range(self.random.choice([0, 0, 1])) if there]
            found[stream] = [*new, *((-1, row) for row in gone)]
        return found

    def _row(self) -> Row:
        behind = self.random.choice([0, 0, 0, 0, 0, 1, 1, 2, 3, 4, 8, 20])
        at = START + timedelta(minutes=self.minute - behind, seconds=self.random.randrange(60))
        wrong = self.nulls and self.random.random() < 0.02
        return None if wrong else at, self.random.choice("abc"), self.random.randint(0, 99)

    def take(self, changes: Mapping[str, list[Change]]) -> dict[str, list[Change]]:
        """The changes that are not late, all judged by the heads before them."""
        accepted = {}
        for stream, some in changes.items():
            least = self.heads.get(stream, -(10**6)) - LATENESS
            accepted[stream] = [one for one in some if one[1][0] is None or number_of(one) >= least]
            self.late[stream] += [one for one in some if one not in accepted[stream]]
            timed = [number_of(one) for one in some if one[1][0] is not None]
            self.heads[stream] = max([*timed, *([self.heads[stream]] if stream in self.heads else [])])
            self._accept(stream, accepted[stream])
        return accepted

    def replay(self, stream: str) -> list[Change]:
        """The late changes that can be replayed."""
        fine = [one for one in self.late[stream] if number_of(one) >= self.heads[stream] - RETAIN]
        self.late[stream] = [one for one in self.late[stream] if one not in fine]
        self._accept(stream, fine)
        return fine

    def _accept(self, stream: str, changes: list[Change]) -> None:
        # Rows that are far back would be late, were they deleted.
        recent = START + timedelta(minutes=self.minute - 12)
        self.there[stream] += [row for weight, row in changes if weight > 0]
        self.there[stream] = [row for row in self.there[stream] if row[0] is None or row[0] >= recent]


def number_of(change: Change) -> int:
    """The minute of a change."""
    assert change[1][0] is not None
    return (change[1][0] - START) // timedelta(minutes=1)


def step(world: World, bounded: Warehouse, whole: Warehouse) -> None:
    """One more minute for the warehouse that forgets and for the one that has exactly what was accepted."""
    changes = world.changes()
    bounded.apply(changes)
    whole.apply(world.take(changes))
    if world.random.random() < 0.1:
        for stream in STREAMS:
            fine = world.replay(stream)
            assert bounded.replay_late(stream).taken == len(fine)
            if fine:
                whole.apply({stream: fine})


def differing(bounded: Warehouse, whole: Warehouse, kinds: tuple[str, ...] = tuple(QUERIES)) -> list[str]:
    """The views that do not show what follows from the accepted rows."""
    return [kind for kind in kinds if Counter(shown(bounded, kind)) != Counter(shown(whole, kind))]


def shown(warehouse: Warehouse, view: str) -> list[tuple[Any, ...]]:
    """The rows of a view."""
    return [tuple(map(repr, row)) for row in warehouse.view(view).rows()]


def entries(warehouse: Warehouse) -> dict[str, int]:
    """The number of entries that each view keeps beside its rows."""
    return {
        kind: sum(size.entries for size in warehouse.view(kind).sizes() if size.map != kind)
        for kind in QUERIES
        if kind in warehouse.views()
    }
