"""Example 6 in a real PostgreSQL: relations of any size, updates to them, and the view as the server itself has it.

Groups and scale are those of ``example6``, with J = 2: of the W of a group one is below all its Z and one above, those
of new rows are in the middle. The view shows the key of every relation, so that all protocols can keep it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from benchmarks.eca.example6 import COLUMNS, RELATIONS
from tests.sources.server import PASSWORD, NoServer, Server
from tidemill.changes.zset import ZSet
from tidemill.sources.postgres.connection import Address
from tidemill.sources.postgres.source import PostgresSource

__all__ = ["KEYS", "OUTPUTS", "Database", "NoServer", "opened"]

J = 2
PASSWORD_ENV = "TIDEMILL_BENCH_PGPASSWORD"
OUTPUTS = "r1.w r2.i r3.z"
KEYS = {"r1": ("w",), "r2": ("i",), "r3": ("z",)}
ANSWER = "SELECT w, i, z FROM r1 JOIN r2 ON r1.x = r2.x JOIN r3 ON r2.y = r3.y WHERE w > z"

_FILL = {
    "r1": "SELECT g + CASE n WHEN 0 THEN 0 ELSE 10 * {groups} END, g",
    "r2": "SELECT n * {groups} + g, g, g",
    "r3": "SELECT g, g + CASE n WHEN 0 THEN 3 ELSE 5 END * {groups}",
}
_INDEXES = {"r1": "x", "r2": "x y", "r3": "y"}


class Database:
    """The relations, each of ``size`` rows, and what is done to them."""

    def __init__(self, server: Server, size: int) -> None:
        self.groups = size // J
        self._server = server
        self._connection = server.connect()
        self._number = 0
        self._first, self._spread = 0, 1
        for name in RELATIONS:
            self._fill(name)

    def _fill(self, name: str) -> None:
        """A relation with its rows and its indexes."""
        (key,) = KEYS[name]
        columns = ", ".join(f"{one} bigint{' primary key' if one == key else ''}" for one in COLUMNS[name])
        series = f"generate_series(0, {J - 1}) n, generate_series(0, {self.groups - 1}) g"
        self._run(f"CREATE TABLE {name} ({columns})")
        self._run(f"INSERT INTO {name} {_FILL[name].format(groups=self.groups)} FROM {series}")
        for one in _INDEXES[name].split():
            self._run(f"CREATE INDEX ON {name} ({one})")
        self._run(f"VACUUM ANALYZE {name}")

    def _run(self, sql: str, *values: object) -> psycopg.Cursor[Any]:
        return self._connection.execute(sql.encode(), values or None)

    @property
    def options(self) -> dict[str, str]:
        """Where the server is."""
        return self._server.options

    def connect(self) -> psycopg.Connection[Any]:
        """A connection of its own."""
        return self._server.connect()

    def source(self, reader: str) -> PostgresSource:
        """The database as a source, with a reader of its own."""
        os.environ[PASSWORD_ENV] = PASSWORD
        address = Address(self._server.options, PASSWORD_ENV)
        return PostgresSource("example6", address, tables=RELATIONS, setup="create", reader=reader)

    def answer(self) -> ZSet:
        """The view, computed there."""
        return ZSet.of(self._run(ANSWER).fetchall())

    def contents(self) -> dict[str, ZSet]:
        """The relations, for who copies them."""
        return {name: ZSet.of(self._run(f"SELECT * FROM {name}").fetchall()) for name in RELATIONS}

    def move(self, spread: int) -> None:
        """Send the next updates to ``spread`` groups that are unchanged so far."""
        self._first, self._spread = self._first + self._spread, spread

    def update(self) -> None:
        """One transaction of one row, to each relation in turn; after two rounds of rows that come, one that go."""
        turn, place = divmod(self._number, 3)
        name = RELATIONS[place]
        self._number += 1
        if turn % 3 == 2:
            (key,) = KEYS[name]
            self._run(f"DELETE FROM {name} WHERE {key} = %s", self._row(name, turn - 1)[key])
        else:
            row = self._row(name, turn)
            self._run(f"INSERT INTO {name} ({', '.join(row)}) VALUES ({', '.join(['%s'] * len(row))})", *row.values())

    def _row(self, name: str, turn: int) -> dict[str, int]:
        group = (self._first + turn % self._spread) % self.groups
        middle = 4 * self.groups + turn
        match name:
            case "r1":
                return {"w": middle, "x": group}
            case "r2":
                return {"i": J * self.groups + turn, "x": group, "y": group}
        return {"y": group, "z": middle}

    def close(self) -> None:
        """Let go of the server."""
        self._connection.close()


@contextmanager
def opened(size: int) -> Iterator[Database]:
    """A server with these relations, for as long as it is needed; ``NoServer`` says why none can be had."""
    server = Server()
    try:
        database = Database(server, size)
        yield database
        database.close()
    finally:
        server.remove()
