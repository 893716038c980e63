"""The queries of the other benchmarks in one form: declarations, rows that are there before, and epochs to come."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

import pyarrow as pa

from benchmarks.dbtoaster import queries as dbtoaster
from benchmarks.dbtoaster.run import stream_of
from benchmarks.dbtoaster.stream import Stream
from benchmarks.graphivm import queries as graphivm
from benchmarks.graphivm.data import Sizes, social
from benchmarks.graphivm.workload import fanout, simple
from benchmarks.nexmark.events import nexmark
from benchmarks.tpch.data import DDL, Changes, generate
from tests.nexmark import queries as auctions
from tests.tpch import data as tpch

Epoch = dict[str, pa.Table]
"""Changes of tables, with a column ``_weight``."""

SIZES = {"small": 1.0, "large": 10.0}
"""How many times the rows of the smallest size are there before epochs are timed."""

MIXES = {"single": 1, "bulk": 1_000}
"""Rows an epoch."""

BOOK, ORDERS, AUCTIONS = 5_000, 20_000, 20_000
"""Events before those that are timed, at size 1: of the order book, of TPC-H as a stream, and of Nexmark."""

TPCH_SCALE = 0.01

SOCIAL = Sizes(users=1_000, follower=30_000, tweet=36_000, retweet=37_000)
ARRIVING = 36_000
"""Users, followers, tweets and retweets at size 1, and how many of the last are timed."""


NESTED = {
    "vwap_of_brokers": """
        SELECT SUM(b1.price * b1.volume) AS vwap FROM bids b1
        WHERE 0.25 * (SELECT SUM(b3.volume) FROM bids b3 WHERE b3.broker_id = b1.broker_id)
              > (SELECT SUM(b2.volume) FROM bids b2 WHERE b2.broker_id = b1.broker_id AND b2.price > b1.price)""",
    "best_ten": """
        SELECT b1.broker_id, SUM(b1.volume) AS volume FROM bids b1
        WHERE 10 > (SELECT COUNT(*) FROM bids b2 WHERE b2.broker_id = b1.broker_id AND b2.price > b1.price)
        GROUP BY b1.broker_id""",
    "met": """
        SELECT SUM(b.volume) AS volume FROM bids b
        WHERE EXISTS (SELECT 1 FROM asks a WHERE a.broker_id = b.broker_id AND a.price <= b.price)""",
    "behind": """
        SELECT SUM(b.volume) AS volume FROM bids b
        WHERE 100000 < (SELECT SUM(a.volume) FROM asks a WHERE a.broker_id = b.broker_id AND a.price < b.price)""",
}
"""Nested aggregates over the order book that are correlated by an equality and a range."""


@dataclass(frozen=True)
class Workload:
    """A view, the tables that it reads, and their changes."""

    name: str
    declarations: str
    query: str
    base: Mapping[str, pa.Table]
    epochs: Callable[[int], Iterator[Epoch]]
    """The epochs that come, each of about so many rows; the same ones whenever they are asked for."""


def workloads(folder: Path, size: float) -> Iterator[tuple[str, Callable[[], Workload]]]:
    """The name of each workload, and how to make it with ``size`` times the least rows."""
    for query in dbtoaster.QUERIES:
        yield f"dbtoaster/{query}", partial(_dbtoaster, query, folder, size)
    for query in NESTED:
        yield f"nested/{query}", partial(_nested, query, folder, size)
    for query in (*graphivm.SIMPLE, "fanout10"):
        yield f"graphivm/{query}", partial(_graphivm, query, size)
    for query in tpch.QUERIES:
        yield f"tpch/{query}", partial(_tpch, query, folder, size)
    for query in sorted(auctions.QUERIES, key=lambda name: int(name.partition("_")[0][1:])):
        yield f"nexmark/{query.partition('_')[0]}", partial(_nexmark, query, size)


def _dbtoaster(query: str, folder: Path, size: float) -> Workload:
    book = query in ("axf", "bsp", "bsv", "mst", "psp", "vwap")
    stream = stream_of(query, 0.1, folder)
    first = min(int((BOOK if book else ORDERS) * size), len(stream) // 2)
    declared = dbtoaster.declarations(query).replace("CREATE STREAM", "CREATE TABLE")
    base = {**stream.static, **stream.cut(0, first).tables}
    return Workload(f"dbtoaster/{query}", declared, dbtoaster.QUERIES[query], base, partial(_cut, stream, first))


def _nested(query: str, folder: Path, size: float) -> Workload:
    book = _dbtoaster("axf", folder, size)
    return replace(book, name=f"nested/{query}", query=NESTED[query])


def _graphivm(query: str, size: float) -> Workload:
    tables = _social(size)
    made = simple(query, tables, ARRIVING) if query in graphivm.SIMPLE else fanout(10, "last", tables, ARRIVING)
    declared = "; ".join(f"CREATE TABLE {name} ({graphivm.SCHEMA[name]})" for name in made.base)
    return Workload(f"graphivm/{query}", declared, made.query, made.base, partial(_cut, made.events, 0))


@lru_cache(maxsize=1)
def _social(size: float) -> Mapping[str, pa.Table]:
    return social(SOCIAL.scaled(size))


def _tpch(query: str, folder: Path, size: float) -> Workload:
    tables = generate(folder, TPCH_SCALE * size)

    def epochs(rows: int) -> Iterator[Epoch]:
        changes = Changes(tables)
        # An order has four lines: a change of it is five rows, ten where it is corrected.
        percent = 100 * max(rows / 7, 3) / tables["orders"].num_rows
        while True:
            yield changes.draw(percent)

    return Workload(f"tpch/{query}", DDL, tpch.QUERIES[query], tables, epochs)


def _nexmark(query: str, size: float) -> Workload:
    first = int(AUCTIONS * size)
    stream = _auctions(first + 100_000)
    base = stream.cut(0, first).tables
    name = query.partition("_")[0]
    return Workload(f"nexmark/{name}", auctions.SCHEMA, auctions.QUERIES[query], base, partial(_cut, stream, first))


@lru_cache(maxsize=1)
def _auctions(count: int) -> Stream:
    return nexmark(count)


def _cut(stream: Stream, first: int, rows: int) -> Iterator[Epoch]:
    for start in range(first, len(stream) - rows + 1, rows):
        yield {name: table for name, table in stream.cut(start, start + rows).tables.items() if table.num_rows}
