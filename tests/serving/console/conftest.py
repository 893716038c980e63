"""One warehouse, its server, with and without users, and one browser for all tests of the console."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

import tidemill
from tests.serving.console.browser import WIDE, Shown, started
from tidemill.engine.warehouse import Warehouse
from tidemill.serving.access.users import Users
from tidemill.serving.server.server import Server
from tidemill.serving.server.settings import Settings

HOSTILE = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"

SHOP = """
    CREATE TABLE orders (id BIGINT PRIMARY KEY, customer STRING, amount DECIMAL(12,2), parts INT);
    CREATE MATERIALIZED VIEW spend AS
      SELECT customer, SUM(amount) AS total, COUNT(*) AS n FROM orders GROUP BY customer;
    CREATE MATERIALIZED VIEW top_spenders AS SELECT customer, total FROM spend ORDER BY total DESC LIMIT 3;
    CREATE MATERIALIZED VIEW part_price WITH (on_error = 'quarantine') AS
      SELECT id, amount / parts AS price FROM orders;
    CREATE MATERIALIZED VIEW late WITH (refresh = 'deferred') AS SELECT id, customer FROM orders;
    CREATE MATERIALIZED VIEW hostile AS SELECT customer AS `<b id="injected">c</b>`, id FROM orders WHERE id < 9;
"""


@pytest.fixture(scope="package")
def shop() -> Iterator[Warehouse]:
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql(SHOP)
        wh.apply({"orders": [(+1, (9007199254740993, "ann", "9.50", 2)), (+1, (2, HOSTILE, "3.00", 1))]})
        wh.apply({"orders": [(+1, (3, "bob", "4.00", 0)), (+1, (4, "cora", "40.00", 4))]})
        yield wh


@pytest.fixture(scope="package")
def server(shop: Warehouse) -> Iterator[Server]:
    server = Server(shop, "shop", Settings(port=0))
    server.start()
    yield server
    server.stop()
    server.wait()


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    with started() as browser:
        yield browser


@pytest.fixture
def shown(browser: Any, server: Server) -> Iterator[Shown]:
    """A new page, on which nothing may go wrong until the test has ended."""
    with new_page(browser, server) as shown:
        yield shown


class Guarded(NamedTuple):
    """The same warehouse, served to users: each of them has the role of this name."""

    server: Server
    users: Users
    tokens: dict[str, str]


@pytest.fixture(scope="package")
def guarded(shop: Warehouse, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    users = Users.load(tmp_path_factory.mktemp("users") / "users.json")
    for role in ("owner", "writer", "reader", "granted"):
        users.add(f"the.{role}", [role] if role != "granted" else [])
    tokens = {name.removeprefix("the."): users.add_token(name) for name in users.names()}
    server = Server(shop, "shop", Settings(port=0, users=users))
    server.start()
    yield Guarded(server, users, tokens)
    server.stop()
    server.wait()


@pytest.fixture
def visitor(browser: Any, guarded: Guarded) -> Iterator[Shown]:
    """A new page of the server with users, where nobody has logged in."""
    with new_page(browser, guarded.server) as shown:
        yield shown


@contextmanager
def new_page(browser: Any, server: Server) -> Iterator[Shown]:
    context = browser.new_context(viewport=WIDE, color_scheme="light")
    context.set_default_timeout(15_000)
    shown = Shown(context.new_page(), server.url)
    yield shown
    faults = list(shown.faults)
    context.close()
    assert not faults
