"""A join graph on disk, larger than the driver should hold: what a change of ten rows reads of it on Spark.

``python -m benchmarks.graphivm.disk --rows 5000000`` fills a warehouse in a folder, with so many followers, and lets
ten rows of each relation arrive, several times. What is published must be what DuckDB says before a figure is given.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import tidemill
from benchmarks.dbtoaster.oracle import WrongAnswer
from benchmarks.graphivm.queries import SCHEMA
from tidemill.engine.epochs import placement

QUERY = """
    SELECT f.followerid, t.userid, t.tweetid, r.tweetid AS retweetid
    FROM follower f JOIN tweet t ON f.userid = t.userid JOIN retweet r ON t.tweetid = r.retweettweetid"""

FANOUT = 100
"""Followers of a user in the mean. Of tweets there are two fifths as many as of followers, of retweets one fifth."""

CHANGE, TURNS = 10, 4
"""Rows of a change, and how often each relation has one. The first turn starts Spark's code and counts for itself."""

WAYS = {"driver": placement.DRIVER_WORK, "frames": -1}
"""Up to how many rows the driver takes, for each way to refresh."""


@dataclass(frozen=True)
class Reading:
    """What one change cost."""

    way: str
    relation: str
    turn: int
    seconds: float
    jobs: int
    bytes_read: int
    rows: int

    def __str__(self) -> str:
        return (
            f"{self.way:7} {self.relation:9} {self.turn}  {self.seconds:7.2f} s  {self.jobs:3} jobs  "
            f"{self.bytes_read / 1e6:9.2f} MB read  {self.rows:6,} rows"
        )


def relations(rows: int) -> dict[str, pa.Table]:
    """Followers, and tweets and retweets in the order of time, as a log would have them."""
    random = np.random.default_rng(7)
    users, tweets, retweets = rows // FANOUT, rows * 2 // 5, rows // 5
    return {
        "follower": pa.table(
            {"userid": random.integers(0, users, rows), "followerid": random.integers(0, users, rows)},
        ),
        "tweet": pa.table(
            {"userid": random.integers(0, users, tweets), "tweetid": np.arange(tweets), "tweetdate": np.arange(tweets)}
        ),
        "retweet": _retweets(random.integers(0, users, retweets), random.integers(0, tweets, retweets), 0),
    }


def _retweets(users: np.ndarray, above: np.ndarray, first: int) -> pa.Table:
    ids = 1_000_000_000 + first + np.arange(len(users))
    return pa.table({"userid": users, "tweetid": ids, "tweetdate": ids, "retweettweetid": above})


def changes(rows: int) -> Iterator[tuple[str, int, pa.Table]]:
    """Ten rows of one relation at a time; those of tweets meet followers, and no retweet yet."""
    random = np.random.default_rng(8)
    users, tweets = rows // FANOUT, rows * 2 // 5
    for turn in range(TURNS):
        some, others = random.integers(0, users, CHANGE), random.integers(0, users, CHANGE)
        new = rows + turn * CHANGE + np.arange(CHANGE)
        yield "follower", turn, pa.table({"userid": some, "followerid": others})
        yield "tweet", turn, pa.table({"userid": some, "tweetid": new, "tweetdate": new})
        yield "retweet", turn, _retweets(others, random.integers(0, tweets, CHANGE), rows + turn * CHANGE)


def measure(rows: int, folder: Path, ways: list[str], *, compact: bool) -> Iterator[str]:
    """A line for the load, for the files of each map, and for each change; those may be of merged files."""
    base = relations(rows)
    begin = time.perf_counter()
    with tidemill.open(folder, runtime="spark") as warehouse:
        for name, table in base.items():
            warehouse.sql(f"CREATE TABLE {name} ({SCHEMA[name]})")
            warehouse.apply({name: table})
        yield f"tables filled in {time.perf_counter() - begin:.1f} s"
        begin = time.perf_counter()
        warehouse.sql(f"CREATE MATERIALIZED VIEW v WITH (strategy = 'joingraph', serve = 'subscribe') AS {QUERY}")
        yield f"join graph filled in {time.perf_counter() - begin:.1f} s"
        if compact:
            warehouse.compact()
            warehouse.vacuum(1)
    yield from files_of(folder)
    oracle = duckdb.connect()
    for name, table in base.items():
        oracle.register("given", table)
        oracle.execute(f"CREATE TABLE {name} AS FROM given")
    for way in ways:
        placement.DRIVER_WORK = WAYS[way]
        with tidemill.open(folder, runtime="spark") as warehouse:
            for relation, turn, change in changes(rows):
                yield str(_read(warehouse, oracle, way, relation, turn, change))
        yield f"this process held at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB"


def _read(
    warehouse: tidemill.Warehouse,
    oracle: duckdb.DuckDBPyConnection,
    way: str,
    relation: str,
    turn: int,
    change: pa.Table,
) -> Reading:
    """Let a change come, and be taken back: every way starts from the same rows."""
    epoch = warehouse.epoch
    begin = time.perf_counter()
    warehouse.apply({relation: change})
    seconds, costs = time.perf_counter() - begin, warehouse.costs()
    shown = sorted(row for weight, row in warehouse.view("v").changes(since=epoch) for _ in range(weight))
    oracle.register("change", change)
    query = QUERY.replace(f" {relation} ", " change ")
    if shown != sorted(oracle.execute(query).fetchall()):
        raise WrongAnswer(f"a change of {relation} shows other rows than DuckDB finds")
    warehouse.apply({relation: change.append_column("_weight", pa.array([-1] * change.num_rows))})
    return Reading(way, relation, turn, seconds, costs.jobs, costs.bytes_read, len(shown))


def files_of(folder: Path) -> Iterator[str]:
    """What the runs of each map look like: their files, row groups and bytes."""
    for path in sorted((folder / "maps").iterdir()):
        footers = [pq.read_metadata(file) for file in sorted(path.glob("*.parquet"))]
        rows, size = sum(f.num_rows for f in footers), sum(file.stat().st_size for file in path.glob("*.parquet"))
        if rows:
            columns = ", ".join(footers[0].schema.names)
            groups = sum(f.num_row_groups for f in footers)
            yield f"{rows:10,} rows, {len(footers)} files, {groups} groups, {size / rows:.2f} B a row: {columns}"


def main() -> None:
    """Measure, in a folder that is removed in the end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000, help="followers in the warehouse")
    parser.add_argument("--ways", default="driver,frames", help="ways to refresh, one after the other")
    parser.add_argument("--compact", action="store_true", help="merge the files of each map before the first change")
    asked = parser.parse_args()
    with TemporaryDirectory(prefix="tidemill-bench-") as folder:
        for line in measure(asked.rows, Path(folder) / "warehouse", asked.ways.split(","), compact=asked.compact):
            print(line, flush=True)


if __name__ == "__main__":
    main()
