"""Whoever reads a view in quarantine by PostgreSQL's protocol is told by a notice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

import tidemill
from tests.serving.pgwire.door import Door

TABLES = """
    CREATE TABLE parts (id INT PRIMARY KEY, cost INT, pieces INT);
    CREATE TABLE kept (id INT, price BIGINT);
    CREATE MATERIALIZED VIEW prices WITH (on_error = 'quarantine') AS SELECT id, cost DIV pieces AS price FROM parts;
    INSERT INTO parts VALUES (1, 9, 3);
    INSERT INTO parts VALUES (2, 9, 0);
"""


@pytest.fixture(scope="module")
def parts() -> Iterator[Door]:
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql(TABLES)
        door = Door(wh)
        yield door
        door.close()


def copied(client: psycopg.Connection[Any], text: str) -> None:
    with client.cursor().copy(text) as copy:  # type: ignore[arg-type]
        list(copy)


def fetched(client: psycopg.Connection[Any]) -> None:
    with client.transaction():
        client.execute("DECLARE c CURSOR FOR SELECT * FROM prices")
        client.execute("FETCH ALL FROM c")


DOORS: dict[str, Callable[[psycopg.Connection[Any]], Any]] = {
    "simple": lambda client: client.execute("SELECT * FROM prices", prepare=False),
    "prepared": lambda client: client.execute("SELECT price FROM prices WHERE id = %s", [1], prepare=True),
    "insert": lambda client: client.execute("INSERT INTO kept SELECT * FROM prices"),
    "copy": lambda client: copied(client, "COPY prices TO STDOUT"),
    "copy of a query": lambda client: copied(client, "COPY (SELECT * FROM prices) TO STDOUT"),
    "cursor": fetched,
    "subscribe": lambda client: list(client.cursor().stream("SUBSCRIBE TO prices SINCE 0 UNTIL 1")),
}


@pytest.mark.parametrize("way", DOORS)
def test_readers_get_a_notice(parts: Door, way: str) -> None:
    heard: list[str | None] = []
    with parts.connect() as client:
        client.add_notice_handler(lambda notice: heard.append(notice.message_primary))
        DOORS[way](client)
    assert [str(note).partition(":")[0] for note in heard] == ['view "prices" is in quarantine since epoch 2']
