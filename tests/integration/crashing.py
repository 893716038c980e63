"""A writer that works through a fixed life of a small shop, for the crash tests to cut short.

Run as ``python -m tests.integration.crashing FOLDER LAST``: continues from where the warehouse stands up to epoch LAST,
and prints each epoch once ``apply`` has returned. Files are merged and the log is taken in far more often than usual.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

import tidemill
from tidemill.changes.zset import ZSet
from tidemill.engine.maintenance import compaction_schedule
from tidemill.storage import folder_writer

LAST = 30
VACUUM, COMPACT = 9, 7
"""Each comes after the epochs that are a multiple of these."""

TABLES = {
    "orders": "CREATE TABLE orders (id INT PRIMARY KEY, customer STRING NOT NULL, amount INT)",
    "people": "CREATE TABLE people (name STRING PRIMARY KEY, city STRING)",
}

VIEWS = {
    "cities": (
        4,
        "SELECT p.city, SUM(o.amount) AS total, COUNT(*) AS n "
        "FROM orders o JOIN people p ON o.customer = p.name GROUP BY p.city",
    ),
    "large": (11, "SELECT city, n FROM cities WHERE total > 40"),
    "customers": (16, "SELECT DISTINCT customer FROM orders WHERE amount > 2"),
}
"""Each view is made after an epoch, over what is there by then: a join, a view on a view, a DISTINCT."""

Weighted = Iterable[tuple[int, tuple[Any, ...]]]


def order(number: int) -> tuple[int, str, int]:
    return (number, f"c{number % 5}", number % 13)


def person(number: int) -> tuple[str, str]:
    """Who moves with this number, and where to."""
    return (f"c{number % 5}", f"city {number // 5 % 3}")


def changes_of(number: int) -> Mapping[str, Weighted]:
    """Epoch ``number``: an order comes and an older one goes, somebody comes or moves."""
    orders = [(+1, order(number)), *([(-1, order(number - 6))] if number > 6 else [])]
    people = [(+1, person(number)), *([(-1, person(number - 5))] if number > 5 else [])]
    return {"orders": orders, "people": people}


def contents_at(number: int) -> dict[str, ZSet]:
    """The tables after the epochs up to ``number``, each taken once."""
    tables = {name: ZSet() for name in TABLES}
    for epoch in range(1, number + 1):
        for name, pairs in changes_of(epoch).items():
            tables[name].update_by(ZSet.summed((row, weight) for weight, row in pairs))
    return tables


def live(wh: tidemill.Warehouse, last: int) -> None:
    """Go on with the life up to epoch ``last``, from what the positions say."""
    define(wh, TABLES)
    for number in range(int(wh.positions.get("numbers", 0)) + 1, last + 1):
        define(wh, {name: f"CREATE MATERIALIZED VIEW {name} AS {q}" for name, (n, q) in VIEWS.items() if number > n})
        wh.apply(changes_of(number), positions={"numbers": str(number)})
        print(number, flush=True)
        if number % COMPACT == 0:
            wh.compact()
        if number % VACUUM == 0:
            wh.vacuum(keep=4)


def define(wh: tidemill.Warehouse, statements: Mapping[str, str]) -> None:
    """Make what is not there yet."""
    for name, statement in statements.items():
        if name not in (*wh.tables(), *wh.views()):
            wh.sql(statement)


def hurry() -> None:
    """Take the log into runs every third epoch, and look for runs to merge as often."""
    folder_writer.CHECKPOINT_EPOCHS = 3
    compaction_schedule.EPOCHS_BETWEEN_PASSES = 3


if __name__ == "__main__":
    hurry()
    with tidemill.open(sys.argv[1], runtime="native") as opened:
        live(opened, int(sys.argv[2]))
