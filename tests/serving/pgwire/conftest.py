"""One door, over one warehouse, for all tests of the protocol."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import psycopg
import pytest

import tidemill
from tests.serving.pgwire.door import SHOP, Door
from tests.sources.server import NoServer, Server


@pytest.fixture(scope="session")
def door() -> Iterator[Door]:
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql(SHOP)
        door = Door(wh)
        yield door
        door.close()


@pytest.fixture
def client(door: Door) -> Iterator[psycopg.Connection]:
    with door.connect() as client:
        yield client


@pytest.fixture(scope="session")
def psql(door: Door) -> Door:
    if shutil.which("psql") is None:
        pytest.skip("no psql on the PATH: Debian's package postgresql-client has it")
    return door


@pytest.fixture(scope="session")
def real_postgres() -> Iterator[psycopg.Connection]:
    """A real PostgreSQL to compare with, or the exact reason why there is none."""
    try:
        server = Server()
    except NoServer as reason:
        pytest.skip(f"no PostgreSQL: {reason}")
    with server.connect() as client:
        client.execute("SET TIME ZONE 'UTC'")
        yield client
    server.remove()
