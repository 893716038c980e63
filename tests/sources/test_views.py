"""Views of a warehouse over a real PostgreSQL, in SQL from end to end."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tidemill
from tests.sources.server import PASSWORD, Server
from tests.sources.test_postgres import Shop, kill_often, scribble

QUERY = """SELECT c.name, COUNT(*) AS n, SUM(o.amount) AS total
    FROM {0}orders o JOIN {0}customers c ON c.id = o.customer WHERE o.amount > 5 GROUP BY c.name"""


@pytest.fixture
def shop(server: Server, password: str) -> Iterator[Shop]:
    made = Shop(server)
    yield made
    made.empty()
    made.connection.close()


def create_source(shop: Shop, changes: str) -> str:
    options = {**shop.server.options, "changes": changes, "setup": "create", "reader": shop.name}
    given = ", ".join(f"{key} = '{value}'" for key, value in options.items())
    return f"CREATE SOURCE shop TYPE postgres OPTIONS ({given})"


def answer(shop: Shop) -> Counter[Any]:
    with shop.connect() as connection:
        rows = connection.execute(QUERY.format("")).fetchall()
    return Counter((name, n, int(total)) for name, n, total in rows)


@pytest.mark.parametrize("changes", ["slot", "outbox"])
@pytest.mark.parametrize("protocol", ["eca", "eca_local", "lca", "copies"])
def test_a_view_follows_while_others_write(shop: Shop, tmp_path: Path, changes: str, protocol: str) -> None:
    folder = tmp_path / "warehouse"
    with tidemill.open(folder, runtime="native") as warehouse:
        warehouse.sql(create_source(shop, changes))
        warehouse.sql(f"CREATE MATERIALIZED VIEW v WITH (protocol = '{protocol}') AS {QUERY.format('shop.')}")
        writers = [threading.Thread(target=scribble, args=(shop, seed, 40)) for seed in range(2)]
        for writer in writers:
            writer.start()
        killing = threading.Thread(target=kill_often, args=(shop, writers, 0.2))
        killing.start()
        while any(writer.is_alive() for writer in writers):
            warehouse.sync(timeout=1)
        killing.join()
        warehouse.sync()
        assert Counter(warehouse.view("v").rows()) == answer(shop)
    scribble(shop, seed=9, transactions=20)
    with tidemill.open(folder, runtime="native") as warehouse:
        warehouse.sync()
        assert Counter(warehouse.view("v").rows()) == answer(shop)
        assert warehouse.view("v").verify().ok
        told = warehouse.view("v").explain() + str(warehouse.sql("SHOW SOURCES"))
        warehouse.sql("DROP VIEW v; DROP SOURCE shop")
    stored = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert PASSWORD not in told
    assert PASSWORD.encode() not in stored
