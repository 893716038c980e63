"""The queries of the other benchmarks in one form: declarations, rows that are there before, and epochs to come."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.dbtoaster import queries as dbtoaster
from benchmarks.dbtoaster.run import stream_of
from benchmarks.dbtoaster.stream import Stream
from benchmarks.graphivm import queries as graphivm
from benchmarks.graphivm.data import Sizes, social
from benchmarks.graphivm.workload import fanout, simple
from benchmarks.movie.data import database
from benchmarks.nexmark.events import nexmark
from benchmarks.tpch.data import DDL, Changes, generate
from benchmarks.viewdf.data import SCHEMA as LOSSES
from benchmarks.viewdf.data import Losses
from tests.nexmark import queries as auctions
from tests.tpch import data as tpch

Epoch = dict[str, pa.Table]
"""Changes of tables, with a column ``_weight``."""

TakeNext = Callable[[int], Epoch | None]
"""Gives the next epoch of about so many rows; None at the end."""

SIZES = {"small": 1.0, "large": 4.0}
"""How many times the rows of the smallest size are there before epochs are timed."""

BOOK, ORDERS, AUCTIONS = 5_000, 20_000, 20_000
"""Events before those that are timed, at size 1: of the order book, of TPC-H as a stream, and of Nexmark."""

TPCH_SCALE = 0.01

SOCIAL = Sizes(users=1_000, follower=30_000, tweet=36_000, retweet=37_000)
ARRIVING = 36_000
"""Users, followers, tweets and retweets at size 1, and how many of the last are timed."""

MINUTES, MEASUREMENTS, WINDOW = 20, 1_000, 5
"""Minutes of network losses before those that are timed, measurements of each at size 1, and those of a window."""

_PARTS = "compositeparts c JOIN atomicparts a ON a.partof = c.oid"
_USED = "(SELECT oid, id, builddate, EXPLODE(componentspriv) AS part FROM baseassemblies) b ON b.part = c.oid"
_YOUNGER = "WHERE c.id <= 200 AND c.builddate > a.builddate"
OO7 = {
    "sel": "SELECT c.id, c.type FROM compositeparts c WHERE c.id <= 200",
    "joinsel": "SELECT c.id, c.type, d.id AS doc FROM compositeparts c JOIN documents d ON c.documentation = d.oid"
    " WHERE c.id <= 200",
    "complex2": f"SELECT c.id, c.type, a.id AS atom FROM {_PARTS} {_YOUNGER}",
    "complex3": f"SELECT c.id, a.id AS atom, b.id AS base FROM {_PARTS} JOIN {_USED} {_YOUNGER}"
    " AND c.builddate > b.builddate",
    "dbsize": "SELECT c.id, c.type, d.id AS doc FROM compositeparts c JOIN documents d ON c.documentation = d.oid",
}
"""The kinds of views of MOVIE's Figures 2 and 15 in SQL, over the extents of OO7 as tables."""

EXTENTS = {
    "compositeparts": ["oid", "id", "type", "builddate", "documentation"],
    "documents": ["oid", "id", "title"],
    "atomicparts": ["oid", "id", "builddate", "partof"],
    "baseassemblies": ["oid", "id", "builddate", "componentspriv"],
}
"""The columns that these views read."""


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
    arrivals: Callable[[], TakeNext]
    """Begins the rows that come, the same ones each time."""
    arriving: Collection[str] | None = None
    """The tables that these are of; None if they are of all."""


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
    for query in ("sum", "max", "median"):
        yield f"viewdf/{query}", partial(_viewdf, query, size)
    for query in OO7:
        yield f"oo7/{query}", partial(_oo7, query, size)
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

    def arrivals() -> TakeNext:
        changes = Changes(tables)
        # An order has four lines: a change of it is five rows, ten where it is corrected.
        return lambda rows: changes.draw(100 * max(rows / 7, 3) / tables["orders"].num_rows)

    return Workload(f"tpch/{query}", DDL, tpch.QUERIES[query], tables, arrivals, ("orders", "lineitem"))


def _viewdf(query: str, size: float) -> Workload:
    losses = Losses(int(MEASUREMENTS * size), 10, 0.3)

    def arrivals() -> TakeNext:
        minute, left = MINUTES, losses.partition(MINUTES)

        def take(rows: int) -> Epoch:
            nonlocal minute, left
            if not left.num_rows:
                minute += 1
                left = losses.partition(minute)
            taken, left = left.slice(0, rows), left.slice(rows)
            return {"s": weighted(taken, 1)}

        return take

    select = f"SELECT src, dest, {query}(loss) AS loss FROM s [WINDOW {WINDOW} MINUTES] GROUP BY src, dest"
    base = {"s": pa.concat_tables(losses.partitions(range(MINUTES)))}
    return Workload(f"viewdf/{query}", LOSSES.replace("CREATE STREAM", "CREATE TABLE"), select, base, arrivals)


def _oo7(query: str, size: float) -> Workload:
    objects = database(max(int(2 * size), 1))
    tables = {name: objects[name].select(columns) for name, columns in EXTENTS.items()}
    declared = "; ".join(f"CREATE TABLE {name} ({_columns(table)})" for name, table in tables.items())

    def arrivals() -> TakeNext:
        parts, random = tables["compositeparts"], np.random.default_rng(5)

        def take(rows: int) -> Epoch:
            """Composite parts that are built anew, as by the updates U2 of Figure 16."""
            nonlocal parts
            many = min(max(rows // 2, 1), parts.num_rows)
            chosen = np.sort(random.choice(parts.num_rows, many, replace=False))
            old = parts.take(pa.array(chosen))
            new = old.set_column(3, "builddate", pa.array(random.integers(3_001, 1_000_000, many)))
            kept = np.setdiff1d(np.arange(parts.num_rows), chosen)
            parts = pa.concat_tables([parts.take(pa.array(kept)), new]).combine_chunks()
            return {"compositeparts": pa.concat_tables([weighted(old, -1), weighted(new, 1)])}

        return take

    return Workload(f"oo7/{query}", declared, OO7[query], tables, arrivals)


def _columns(table: pa.Table) -> str:
    """The columns of an extent as SQL declares them; its object identifiers are the primary key."""
    types = {pa.int64(): "BIGINT", pa.string(): "STRING"}
    named = [f"{field.name} {types.get(field.type, 'ARRAY<BIGINT>')}" for field in table.schema]
    return ", ".join([*named, "PRIMARY KEY (oid)"])


def _nexmark(query: str, size: float) -> Workload:
    first = int(AUCTIONS * size)
    stream = _auctions(first + 100_000)
    base = stream.cut(0, first).tables
    name = query.partition("_")[0]
    return Workload(f"nexmark/{name}", auctions.SCHEMA, auctions.QUERIES[query], base, partial(_cut, stream, first))


@lru_cache(maxsize=1)
def _auctions(count: int) -> Stream:
    return nexmark(count)


def _cut(stream: Stream, first: int) -> TakeNext:
    place = first

    def take(rows: int) -> Epoch | None:
        nonlocal place
        start, place = place, place + rows
        if place > len(stream):
            return None
        return {name: table for name, table in stream.cut(start, place).tables.items() if table.num_rows}

    return take


def weighted(table: pa.Table, weight: int) -> pa.Table:
    """Rows that all have one weight."""
    return table.append_column("_weight", pa.array(np.full(table.num_rows, weight)))
