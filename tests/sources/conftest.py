"""One PostgreSQL server for all tests of sources."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

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
