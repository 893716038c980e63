"""Nested aggregates over groups in order: histories of single rows and of many, in Python and in machine code."""

from __future__ import annotations

import random

import pytest

import tidemill
from tests.ways import taking

VIEWS = {
    "vwap": """SELECT SUM(b.price * b.volume) AS worth FROM bids b
        WHERE 0.25 * (SELECT SUM(t.volume) FROM bids t WHERE t.broker = b.broker)
        > (SELECT SUM(a.volume) FROM bids a WHERE a.broker = b.broker AND a.price > b.price)""",
    "by_broker": """SELECT b.broker, COUNT(*) AS n FROM bids b
        WHERE 30 < (SELECT SUM(a.volume) FROM bids a WHERE a.broker = b.broker AND a.price <= b.price)
        GROUP BY b.broker""",
    "asked": """SELECT SUM(b.volume) AS volume FROM bids b
        WHERE 40 >= (SELECT COALESCE(SUM(a.volume), 0) FROM asks a WHERE a.broker = b.broker AND a.price < b.price)""",
    "average": """SELECT COUNT(*) AS n FROM bids b
        WHERE 4 < (SELECT AVG(CAST(a.volume AS DECIMAL(6,2))) FROM bids a WHERE a.broker = b.broker)""",
    "by_entries": """SELECT SUM(b.volume) AS volume FROM bids b
        WHERE b.volume > (SELECT COUNT(*) FROM bids a WHERE a.broker = b.broker AND a.price > b.price)""",
}
"""The last one visits the entries of a group, as no descent answers it."""

Bid = tuple[int | None, int, int | None]


def bid(drawn: random.Random, negative: bool) -> Bid:
    """A bid, seldom without a broker or a volume."""
    broker = None if drawn.random() < 0.05 else drawn.randrange(3)
    volume = None if drawn.random() < 0.05 else drawn.randrange(-3 if negative else 0, 9)
    return broker, drawn.randrange(30), volume


@pytest.mark.parametrize("way", ["held", "llvm"])
@pytest.mark.parametrize("negative", [False, True])
def test_views_are_what_the_evaluator_computes_after_each_epoch(way: str, negative: bool) -> None:
    drawn = random.Random(11)
    with taking(way):
        wh = tidemill.open(":memory:", runtime="native")
        for table in ("bids", "asks"):
            wh.sql(f"CREATE TABLE {table} (broker INT, price INT NOT NULL, volume INT)")
        for name, query in VIEWS.items():
            wh.sql(f"CREATE MATERIALIZED VIEW {name} WITH (strategy = 'viewlet') AS {query}")
        there: dict[str, list[Bid]] = {"bids": [], "asks": []}
        for epoch in range(28):
            table = drawn.choice(sorted(there))
            changes: list[tuple[int, Bid]] = []
            for _ in range(25 if epoch % 8 == 0 else 1):
                if there[table] and drawn.random() < 0.4:
                    changes.append((-1, there[table].pop(drawn.randrange(len(there[table])))))
                else:
                    changes.append((1, bid(drawn, negative and epoch > 14)))
            there[table] += [row for weight, row in changes if weight > 0]
            wh.apply({table: changes})
            for name in VIEWS:
                assert wh.view(name).verify(), name
