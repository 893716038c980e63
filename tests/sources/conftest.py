"""One PostgreSQL server for all tests of sources."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from tests.sources.mariadb import MariaDb
from tests.sources.server import PASSWORD, NoServer, Server
from tests.sources.shop import Shop


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A real server, or the exact reason why there is none."""
    try:
        running = Server()
    except NoServer as reason:
        pytest.skip(f"no PostgreSQL: {reason}")
    yield running
    running.remove()


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDb]:
    """A real MariaDB, or the exact reason why there is none."""
    if find_spec("pymysqlreplication") is None:
        pytest.skip("no MariaDB: the package mysql-replication is not installed")
    try:
        running = MariaDb()
    except NoServer as reason:
        pytest.skip(f"no MariaDB: {reason}")
    yield running
    running.remove()


@pytest.fixture
def password(monkeypatch: pytest.MonkeyPatch) -> str:
    """The password where sources look for it."""
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    return PASSWORD


@pytest.fixture
def shop(server: Server, password: str) -> Iterator[Shop]:
    """A shop of its own for each test."""
    made = Shop(server)
    yield made
    made.empty()
    made.connection.close()
