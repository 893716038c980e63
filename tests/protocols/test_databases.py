"""Protocols over SQLite databases: they keep the promises of the recorded source."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.sources.oracle import answer
from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.scalars import Column, Named
from tidemill.algebra.relational.relations import Scan
from tidemill.changes.zset import ZSet
from tidemill.protocols.choose_protocol import PROTOCOLS
from tidemill.protocols.protocol import AskSource, InitialView, ViewMaintainer
from tidemill.sources.remote_queries.signed_query import SpjView
from tidemill.sources.source import Answered, Committed
from tidemill.sources.sqlite.source import SqliteSource

SCHEMA = {
    "customers": "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, region INTEGER)",
    "orders": "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, amount INTEGER)",
    "regions": "CREATE TABLE regions (id INTEGER PRIMARY KEY, least INTEGER)",
}
KEYS = dict.fromkeys(SCHEMA, ("id",))
WRITES = [
    ("customers", "INSERT INTO customers VALUES (4, 'dan', 1), (5, 'eve', NULL)"),
    ("orders", "INSERT INTO orders VALUES (7, 4, 90), (8, 5, 90), (9, NULL, 90)"),
    ("regions", "UPDATE regions SET least = 60 WHERE id = 1"),
    ("orders", "UPDATE orders SET customer = 2 WHERE id = 7"),
    ("customers", "DELETE FROM customers WHERE id = 1"),
    ("regions", "INSERT INTO regions VALUES (3, 0)"),
    ("customers", "UPDATE customers SET region = 3"),
    ("orders", "DELETE FROM orders WHERE amount < 50"),
]


class Databases:
    """The tables, each in the database that ``homes`` says, and sources on them."""

    def __init__(self, folder: Path, homes: Mapping[str, str]) -> None:
        self.paths = {name: folder / f"{home}.db" for name, home in homes.items()}
        self.homes = homes
        for name, statement in SCHEMA.items():
            self.write(name, statement)
        self.write("customers", "INSERT INTO customers VALUES (1, 'ann', 1), (2, 'bob', 2), (3, NULL, 1)")
        self.write("orders", "INSERT INTO orders VALUES (1, 1, 10), (2, 1, 80), (3, 3, 40), (4, 2, 70)")
        self.write("regions", "INSERT INTO regions VALUES (1, 30), (2, 50)")
        files = {home: self.paths[name] for name, home in homes.items()}
        self.sources = {home: SqliteSource(home, path, setup="create") for home, path in files.items()}

    def write(self, table: str, statement: str) -> None:
        with sqlite3.connect(self.paths[table]) as connection:
            connection.execute(statement)
        connection.close()

    def rows(self) -> dict[str, ZSet]:
        found = {}
        for name, path in self.paths.items():
            connection = sqlite3.connect(path)
            found[name] = ZSet.of(connection.execute(f"SELECT * FROM {name}").fetchall())
            connection.close()
        return found

    def view(self) -> SpjView:
        """Orders that are large enough for the region of their customer."""
        tables = {name: self.sources[home].tables[name] for name, home in self.homes.items()}
        leaves = [Scan(name, alias, tables[name].fields) for name, alias in zip(SCHEMA, "cor", strict=True)]
        columns = {field.name: Column(field.name, field.type) for leaf in leaves for field in leaf.fields}
        conditions = [
            call("eq", columns["c.id"], columns["o.customer"]),
            call("eq", columns["c.region"], columns["r.id"]),
            call("ge", columns["o.amount"], columns["r.least"]),
        ]
        names = ("c.id", "c.name", "o.id", "o.amount", "r.id")
        return SpjView(tuple(leaves), tuple(conditions), tuple(Named(name, columns[name]) for name in names))


class Driver:
    """Carries messages between a maintainer and sources."""

    def __init__(self, maintainer: ViewMaintainer, databases: Databases, rows: ZSet) -> None:
        self.maintainer = maintainer
        self.sources = databases.sources
        self.rows = rows
        self._numbers: dict[tuple[str, int], int] = {}

    def take(self, source: str) -> bool:
        """One message, if there is one."""
        match self.sources[source].receive(0):
            case Committed(changes=changes, position=position):
                actions = self.maintainer.updated(changes, position, source)
            case Answered(number=number, rows=rows, position=position):
                actions = self.maintainer.answered(self._numbers.pop((source, number)), rows, position, source)
            case None:
                return False
        for action in actions:
            if isinstance(action, AskSource):
                self._numbers[action.source, self.sources[action.source].ask(action.query)] = action.number
            else:
                self.rows = self.rows + action.change
        return True


@pytest.fixture
def databases(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Databases]:
    made = Databases(tmp_path, request.param)
    yield made
    for source in made.sources.values():
        source.close()


ONE = dict.fromkeys(SCHEMA, "shop")
TWO = {"customers": "people", "orders": "shop", "regions": "shop"}
THREE = {"customers": "people", "orders": "shop", "regions": "world"}


@pytest.mark.parametrize("between", [0, 1, 3], ids=["no answers", "some answers", "all answers"])
@pytest.mark.parametrize(
    ("databases", "protocol"),
    [(ONE, name) for name in PROTOCOLS] + [(homes, "sweep") for homes in (TWO, THREE)],
    indirect=["databases"],
    ids=lambda value: value if isinstance(value, str) else f"{len(set(value.values()))} databases",
)
def test_views_over_databases(databases: Databases, protocol: str, between: int) -> None:
    view, contents = databases.view(), databases.rows()
    positions = {name: source.start(None) for name, source in databases.sources.items()}
    rows = answer(view.query, contents)
    maintainer = PROTOCOLS[protocol].maintainer(InitialView(view, rows, positions, KEYS, databases.homes, contents))
    driver = Driver(maintainer, databases, rows)
    for table, statement in WRITES:
        databases.write(table, statement)
        for _ in range(between):
            for source in databases.sources:
                driver.take(source)
    while any(driver.take(source) for source in databases.sources) or not maintainer.idle:
        pass
    assert rows != driver.rows == answer(view.query, databases.rows())
