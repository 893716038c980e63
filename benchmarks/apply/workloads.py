"""The three workloads: a join of TPC-H 3's shape, two tables grouped, and a sliding window of flows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from benchmarks.apply.history import FlowHistory, History, Ids, MixedHistory

ROWS = 150_000
"""Rows of all tables of a workload."""

DATES = pa.array(np.datetime64("2026-01-01") + np.arange(360))
SEGMENTS = pa.array(["AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY"])
MIDDLE = "2026-06-30"


@dataclass(frozen=True)
class Workload:
    """A view over tables with a key ``id``.

    ``query`` computes its rows, as DuckDB and PostgreSQL write it: ``keys``, then ``sums``, the last of which counts.
    ``deltas`` are for SQLite: what one ``{row}`` of a table adds to the groups. Where the tables forget rows by
    themselves, ``stream`` declares them and ``window`` is the view.
    """

    name: str
    tables: Mapping[str, str]
    indexes: tuple[str, ...]
    query: str
    keys: tuple[str, ...]
    sums: tuple[str, ...]
    deltas: Mapping[str, str]
    stream: str = ""
    window: str = ""

    def declarations(self) -> str:
        """The tables and the view, for Tidemill."""
        if self.window:
            return f"{self.stream}; {self.window}"
        tables = "; ".join(f"CREATE TABLE {name} ({columns})" for name, columns in self.tables.items())
        return f"{tables}; CREATE MATERIALIZED VIEW answer AS {self.query}"

    def history(self, rows: int = ROWS) -> History:
        """The same rows and changes each time."""
        match self.name:
            case "orders":
                sizes = {"customers": rows // 15, "orders": rows * 4 // 15, "lines": rows * 10 // 15}
                return MixedHistory(sizes, {"customers": _customers, "orders": _orders, "lines": _lines})
            case "shops":
                sizes = {"shops": max(rows // 150, 10), "sales": rows - rows // 150}
                return MixedHistory(sizes, {"shops": _shops, "sales": _sales})
        return FlowHistory(rows)


def _customers(draw: np.random.Generator, ids: Ids, live: Mapping[str, Ids]) -> pa.Table:
    return pa.table({"id": ids, "segment": SEGMENTS.take(draw.integers(0, len(SEGMENTS), len(ids)))})


def _orders(draw: np.random.Generator, ids: Ids, live: Mapping[str, Ids]) -> pa.Table:
    customers = draw.choice(live["customers"], len(ids))
    placed = DATES.take(draw.integers(0, len(DATES), len(ids)))
    return pa.table({"id": ids, "customer": customers, "placed": placed, "priority": draw.integers(0, 5, len(ids))})


def _lines(draw: np.random.Generator, ids: Ids, live: Mapping[str, Ids]) -> pa.Table:
    return pa.table(
        {
            "id": ids,
            "order_id": draw.choice(live["orders"], len(ids)),
            "price": draw.integers(100, 10_000_000, len(ids)),
            "discount": draw.integers(0, 11, len(ids)),
            "shipped": DATES.take(draw.integers(0, len(DATES), len(ids))),
        }
    )


def _shops(draw: np.random.Generator, ids: Ids, live: Mapping[str, Ids]) -> pa.Table:
    return pa.table({"id": ids, "region": draw.integers(0, 50, len(ids))})


def _sales(draw: np.random.Generator, ids: Ids, live: Mapping[str, Ids]) -> pa.Table:
    shops = draw.choice(live["shops"], len(ids))
    return pa.table(
        {
            "id": ids,
            "shop": shops,
            "product": draw.integers(0, 20, len(ids)),
            "amount": draw.integers(1, 100_000, len(ids)),
        }
    )


ORDERS = Workload(
    "orders",
    {
        "customers": "id BIGINT PRIMARY KEY, segment STRING",
        "orders": "id BIGINT PRIMARY KEY, customer BIGINT, placed DATE, priority BIGINT",
        "lines": "id BIGINT PRIMARY KEY, order_id BIGINT, price BIGINT, discount BIGINT, shipped DATE",
    },
    ("orders (customer)", "lines (order_id)"),
    f"""SELECT o.id AS order_id, o.placed AS placed, o.priority AS priority,
          SUM(l.price * (100 - l.discount)) AS revenue, COUNT(*) AS n
        FROM customers c JOIN orders o ON o.customer = c.id JOIN lines l ON l.order_id = o.id
        WHERE c.segment = 'BUILDING' AND o.placed < DATE '{MIDDLE}' AND l.shipped > DATE '{MIDDLE}'
        GROUP BY o.id, o.placed, o.priority""",
    ("order_id", "placed", "priority"),
    ("revenue", "n"),
    {
        "customers": f"""SELECT o.id AS order_id, o.placed, o.priority, l.price * (100 - l.discount) AS revenue, 1 AS n
            FROM orders o JOIN lines l ON l.order_id = o.id WHERE o.customer = {{row}}.id
            AND {{row}}.segment = 'BUILDING' AND o.placed < '{MIDDLE}' AND l.shipped > '{MIDDLE}'""",
        "orders": f"""SELECT {{row}}.id AS order_id, {{row}}.placed AS placed, {{row}}.priority AS priority,
              l.price * (100 - l.discount) AS revenue, 1 AS n
            FROM customers c JOIN lines l ON l.order_id = {{row}}.id WHERE c.id = {{row}}.customer
            AND c.segment = 'BUILDING' AND {{row}}.placed < '{MIDDLE}' AND l.shipped > '{MIDDLE}'""",
        "lines": f"""SELECT o.id AS order_id, o.placed, o.priority,
              {{row}}.price * (100 - {{row}}.discount) AS revenue, 1 AS n
            FROM orders o JOIN customers c ON c.id = o.customer WHERE o.id = {{row}}.order_id
            AND c.segment = 'BUILDING' AND o.placed < '{MIDDLE}' AND {{row}}.shipped > '{MIDDLE}'""",
    },
)

SHOPS = Workload(
    "shops",
    {
        "shops": "id BIGINT PRIMARY KEY, region BIGINT",
        "sales": "id BIGINT PRIMARY KEY, shop BIGINT, product BIGINT, amount BIGINT",
    },
    ("sales (shop)",),
    """SELECT s.region AS region, f.product AS product, SUM(f.amount) AS amount, COUNT(*) AS n
       FROM sales f JOIN shops s ON s.id = f.shop GROUP BY s.region, f.product""",
    ("region", "product"),
    ("amount", "n"),
    {
        "shops": """SELECT {row}.region AS region, f.product, f.amount, 1 AS n FROM sales f WHERE f.shop = {row}.id""",
        "sales": """SELECT s.region, {row}.product AS product, {row}.amount AS amount, 1 AS n
            FROM shops s WHERE s.id = {row}.shop""",
    },
)

FLOWS = Workload(
    "flows",
    {"flows": "ts TIMESTAMP, id BIGINT PRIMARY KEY, src BIGINT, dest BIGINT, bytes BIGINT"},
    (),
    "SELECT src, dest, SUM(bytes) AS bytes, COUNT(*) AS n FROM flows GROUP BY src, dest",
    ("src", "dest"),
    ("bytes", "n"),
    {"flows": "SELECT {row}.src AS src, {row}.dest AS dest, {row}.bytes AS bytes, 1 AS n"},
    """CREATE STREAM flows (ts TIMESTAMP, id BIGINT, src BIGINT, dest BIGINT, bytes BIGINT)
       PARTITION BY ts EVERY 1 MINUTE LATENESS 5 MINUTES""",
    """CREATE MATERIALIZED VIEW answer WITH (retain = '5 minutes') AS
       SELECT src, dest, SUM(bytes) AS bytes, COUNT(*) AS n FROM flows [WINDOW 60 MINUTES] GROUP BY src, dest""",
)

WORKLOADS = {workload.name: workload for workload in (ORDERS, SHOPS, FLOWS)}
