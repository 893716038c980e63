"""A writer that feeds numbered events to compiled views, for the crash tests to cut short.

Run as ``python -m tests.integration.feeding FOLDER WAY LAST [DEATH]``: goes on from where the warehouse stands up to
epoch LAST, and prints each epoch once it is committed. With DEATH it kills itself after the event of that number, which
may be in the middle of an epoch. The way is ``feed``, an event at a time, or ``columns``, an epoch's events at once.
"""

from __future__ import annotations

import os
import signal
import sys
from decimal import Decimal
from typing import Any

import pyarrow as pa

import tidemill
from tests.integration.crashing import define, hurry

LAST = 12
EVENTS = 7
"""How many events an epoch has."""

COMPACT, VACUUM = 5, 6
"""Each comes after the epochs that are a multiple of these."""

ORDERS = "(id BIGINT NOT NULL, broker STRING NOT NULL, price DECIMAL(10,2) NOT NULL)"

STATEMENTS = {
    "bids": f"CREATE STREAM bids {ORDERS}",
    "asks": f"CREATE STREAM asks {ORDERS}",
    "worth": "CREATE MATERIALIZED VIEW worth AS "
    "SELECT broker, SUM(price) AS total, COUNT(*) AS n FROM bids GROUP BY broker",
    "spread": "CREATE MATERIALIZED VIEW spread WITH (strategy = 'viewlet') AS "
    "SELECT b.broker, SUM(a.price - b.price) AS total FROM bids b, asks a WHERE b.broker = a.broker GROUP BY b.broker",
}

Event = tuple[str, int, tuple[int, str, Decimal]]


def event(number: int) -> Event:
    """A bid or an ask that comes, or now and then one that goes again."""
    came = number - 4 if number % 3 == 0 and number > 4 else number
    row = came, f"broker {came % 3}", Decimal(came % 50) / 4
    return ("bids", "asks")[came % 2], 1 if came == number else -1, row


def rows_at(epoch: int) -> dict[str, set[tuple[Any, ...]]]:
    """What the views show after the epochs up to ``epoch``."""
    standing: list[tuple[str, tuple[int, str, Decimal]]] = []
    for number in range(1, epoch * EVENTS + 1):
        relation, weight, row = event(number)
        (standing.append if weight > 0 else standing.remove)((relation, row))
    worth: set[tuple[Any, ...]] = set()
    spread: set[tuple[Any, ...]] = set()
    for broker in {row[1] for _, row in standing}:
        bids, asks = (
            [row[2] for name, row in standing if name == relation and row[1] == broker] for relation in ("bids", "asks")
        )
        if bids:
            worth.add((broker, sum(bids), len(bids)))
        if bids and asks:
            spread.add((broker, len(bids) * sum(asks) - len(asks) * sum(bids)))
    return {"worth": worth, "spread": spread}


def live(wh: tidemill.Warehouse, way: str, last: int, death: int = 0) -> None:
    """Go on up to epoch ``last``, from where the warehouse stands."""
    define(wh, STATEMENTS)
    for epoch in range(wh.epoch + 1, last + 1):
        numbers = range((epoch - 1) * EVENTS + 1, epoch * EVENTS + 1)
        (_replay if way == "columns" else _feed)(wh, numbers, death)
        assert wh.flush() == epoch
        print(epoch, flush=True)
        if epoch % COMPACT == 0:
            wh.compact()
        if epoch % VACUUM == 0:
            wh.vacuum(keep=3)


def _feed(wh: tidemill.Warehouse, numbers: range, death: int) -> None:
    feeds = {name: wh.feed(name) for name in ("bids", "asks")}
    for number in numbers:
        relation, weight, row = event(number)
        feeds[relation](weight, *row)
        _die_at(number, death)


def _replay(wh: tidemill.Warehouse, numbers: range, death: int) -> None:
    events = [event(number) for number in numbers]
    tables = {name: _table(name, events) for name in ("bids", "asks")}
    wh.replay(tables, [relation for relation, _, _ in events])
    for number in numbers:
        _die_at(number, death)


def _table(name: str, events: list[Event]) -> pa.Table:
    mine = [(*row, weight) for relation, weight, row in events if relation == name]
    names = ("id", "broker", "price", "_weight")
    return pa.table({column: [row[place] for row in mine] for place, column in enumerate(names)})


def _die_at(number: int, death: int) -> None:
    if number == death:
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    hurry()
    with tidemill.open(sys.argv[1], runtime="native", backend="llvm") as opened:
        live(opened, sys.argv[2], *map(int, sys.argv[3:]))
