"""TPC-H as a stream of single rows: a system that watches about thirty thousand active orders.

As in the paper's section 6: all relations are filled by randomly interleaved inserts and are never emptied, except
Orders, where random rows go so that about thirty thousand stay. Each relation's rows come in the generator's order, and
every relation that has rows left is equally likely to be next. So small relations are complete early: the last
customer comes after about a tenth of the stream.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.dbtoaster.queries import STATIC
from benchmarks.dbtoaster.stream import Stream
from benchmarks.tpch.data import generate
from tidemill.model.schema import WEIGHT

ACTIVE = 30_000
"""How many orders stay."""

COLUMNS = {
    "customer": ["c_custkey", "c_nationkey", "c_acctbal", "c_mktsegment"],
    "orders": ["o_orderkey", "o_custkey", "o_orderdate", "o_shippriority"],
    "lineitem": ["l_orderkey", "l_partkey", "l_suppkey", "l_quantity", "l_extendedprice", "l_discount", "l_shipdate"],
    "part": ["p_partkey", "p_type"],
    "supplier": ["s_suppkey", "s_nationkey"],
    "partsupp": ["ps_partkey", "ps_suppkey", "ps_availqty", "ps_supplycost"],
    "nation": ["n_nationkey", "n_regionkey"],
}
"""What the twelve queries read, under the generator's names; the paper's have no prefix."""


def active_orders(folder: Path, scale: float, active: int = ACTIVE, seed: int = 1) -> Stream:
    """The stream at ``scale``, from tables that are made once and kept in ``folder``."""
    random = np.random.default_rng(seed)
    tables = {name: _unprefixed(table) for name, table in generate(folder, scale, COLUMNS).items()}
    static = {name: tables.pop(name) for name in STATIC}
    # Of independent Poisson processes with one rate, each is equally likely to be the next, until it runs dry.
    moments = {name: np.cumsum(random.exponential(size=table.num_rows)) for name, table in tables.items()}
    events = {name: _weighted(table, np.ones(table.num_rows, dtype=np.int64)) for name, table in tables.items()}
    events["orders"], moments["orders"] = _replaced(tables["orders"], moments["orders"], active, random)
    turns = np.repeat(np.arange(len(events), dtype=np.uint8), [len(m) for m in moments.values()])
    return Stream(events, turns[np.argsort(np.concatenate(list(moments.values())), kind="stable")], static)


def _replaced(
    orders: pa.Table, moments: npt.NDArray[np.float64], active: int, random: np.random.Generator
) -> tuple[pa.Table, npt.NDArray[np.float64]]:
    """Orders and when they come or go: once ``active`` are there, each that comes lets a random one go.

    Think of ``active`` seats. The first orders take one each, a later one takes a random seat and sends away who sat
    there: the last one before it with the same seat.
    """
    count = orders.num_rows
    seats = np.concatenate([np.arange(min(active, count)), random.integers(0, active, max(count - active, 0))])
    by_seat = np.argsort(seats, kind="stable")
    shared = seats[by_seat][1:] == seats[by_seat][:-1]
    leaving, comer = by_seat[:-1][shared], by_seat[1:][shared]
    rows = np.concatenate([np.arange(count), leaving])
    # A row goes right after the one that took its seat came.
    order = np.argsort(np.concatenate([2 * np.arange(count), 2 * comer + 1]), kind="stable")
    weights = np.concatenate([np.ones(count, dtype=np.int64), np.full(len(leaving), -1)])
    when = np.concatenate([moments, moments[comer]])
    return _weighted(orders.take(rows[order]), weights[order]), when[order]


def _unprefixed(table: pa.Table) -> pa.Table:
    return pa.table(
        {name.partition("_")[2]: column for name, column in zip(table.column_names, table.columns, strict=True)}
    )


def _weighted(table: pa.Table, weights: npt.NDArray[np.int64]) -> pa.Table:
    return table.append_column(WEIGHT, pa.array(weights))
