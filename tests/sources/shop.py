"""A small shop on the test server, with concurrent writers and an administrator who ends connections."""

from __future__ import annotations

import random
import threading
import time
from itertools import count
from typing import Any

import psycopg

from tests.sources.server import Server
from tidemill.changes.zset import ZSet

SHOP = """
CREATE TABLE customers (id int8 PRIMARY KEY, name text);
CREATE TABLE orders (id int8 PRIMARY KEY, customer int8, amount int8 NOT NULL);
INSERT INTO customers VALUES (1, 'ann'), (2, 'bob'), (3, NULL);
INSERT INTO orders VALUES (1, 1, 10), (2, 1, 30), (3, NULL, 40);
"""
NUMBERS = count(1)


class Shop:
    """The server's database, emptied, and the connection of those who work in it."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.name = f"shop{next(NUMBERS)}"
        self.connection = self.connect()
        self.empty()
        self.connection.execute(SHOP)

    def empty(self) -> None:
        """Remove all that a test has made."""
        kill(self)
        run = self.connection.execute
        while run("SELECT FROM pg_replication_slots WHERE active OR temporary").rowcount:
            time.sleep(0.01)
        run("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
        for (publication,) in run("SELECT pubname FROM pg_publication").fetchall():
            run(f"DROP PUBLICATION {publication}")
        run('DROP SCHEMA IF EXISTS public, "Odd ""one""" CASCADE')
        run("CREATE SCHEMA public")

    def connect(self, **options: Any) -> psycopg.Connection[Any]:
        return self.server.connect(**options)

    def run(self, *statements: str) -> None:
        """One transaction."""
        with self.connection.transaction():
            for statement in statements:
                self.connection.execute(statement)

    def contents(self, *names: str) -> dict[str, ZSet]:
        with self.connect() as connection:
            return {name: ZSet.of(connection.execute(f"SELECT * FROM {name}").fetchall()) for name in names}


def kill_often(shop: Shop, threads: list[threading.Thread], pause: float) -> None:
    """Kills that fall where they may: into a look, a query, a wait, or the making of a connection."""
    chance = random.Random(0)
    while any(thread.is_alive() for thread in threads):
        time.sleep(chance.uniform(0, 2 * pause))
        kill(shop)


def kill(shop: Shop) -> None:
    """End the source's connections, as an administrator would."""
    with shop.connect() as owner:
        owner.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name LIKE 'tidemill%%' AND datname = current_database()"
        )


def scribble(shop: Shop, seed: int, transactions: int) -> None:
    """Short transactions over few rows, so that they wait for each other; some fail, some are taken back."""
    chance = random.Random(seed)
    with shop.connect() as connection:
        connection.execute(f"SET synchronous_commit = {chance.choice(['on', 'off'])}")
        for _ in range(transactions):
            try:
                with connection.transaction():
                    for _ in range(chance.randint(1, 3)):
                        connection.execute(*statement(chance))
                    if chance.random() < 0.1:
                        raise psycopg.Rollback
            except (psycopg.errors.DeadlockDetected, psycopg.errors.UniqueViolation):
                continue


def statement(chance: random.Random) -> tuple[Any, tuple[int | str, ...]]:
    id_, customer = chance.randint(1, 30), chance.randint(1, 6)
    return chance.choice(
        [
            (
                "INSERT INTO orders VALUES (%s, %s, %s) ON CONFLICT (id) DO UPDATE SET amount = excluded.amount",
                (id_, customer, chance.randint(1, 60)),
            ),
            ("DELETE FROM orders WHERE id = %s", (id_,)),
            ("UPDATE orders SET id = %s WHERE id = %s", (id_, chance.randint(1, 30))),
            ("UPDATE customers SET name = %s WHERE id = %s", (f"c{chance.randint(1, 9)}", customer)),
            ("INSERT INTO customers VALUES (%s, 'new') ON CONFLICT DO NOTHING", (customer,)),
        ]
    )
