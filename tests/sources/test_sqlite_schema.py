"""SQLite files whose tables are altered, dropped and replaced: what triggers do not tell is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sources.following import Follower
from tests.sources.test_sqlite import contents, follow, shop, write
from tidemill.model.errors import EpochGone
from tidemill.sources.sqlite.source import SqliteSource

__all__ = ["shop"]

ORDERS = "CREATE TABLE {} (id INTEGER PRIMARY KEY, customer INTEGER, amount INTEGER NOT NULL)"
COLUMNS = {"orders": ["id", "customer", "amount"], "customers": ["id", "name"]}


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize(
    "statements",
    [
        ("DROP TABLE orders", ORDERS.format("orders")),
        (
            ORDERS.format("next"),
            "INSERT INTO next VALUES (7, 7, 7)",
            "ALTER TABLE orders RENAME TO last",
            "ALTER TABLE next RENAME TO orders",
        ),
        (
            "ALTER TABLE orders RENAME amount TO x",
            "ALTER TABLE orders RENAME customer TO amount",
            "ALTER TABLE orders RENAME x TO customer",
        ),
        ("DROP TRIGGER _tidemill_orders_insert",),
        ("CREATE UNIQUE INDEX once ON orders (amount)", "INSERT OR REPLACE INTO orders VALUES (8, 1, 10)"),
    ],
)
def test_changes_that_go_unnoticed_are_an_error(shop: Path, statements: tuple[str, ...], restarted: bool) -> None:
    source = SqliteSource("shop", shop, setup="create")
    follower = follow(shop, source)
    write(shop, "INSERT INTO orders VALUES (4, 2, 50)")
    follower.catch_up(0)
    if restarted:
        source.close()
    write(shop, *statements, "INSERT INTO orders VALUES (9, 9, 9)")
    if restarted:
        source = SqliteSource("shop", shop, setup="create", columns=COLUMNS)
        source.start(follower.position)
    with pytest.raises(EpochGone, match='table "orders"') as error:
        source.receive(1)
    assert error.value.hint
    source.close()
    source = SqliteSource("shop", shop, setup="create")  # views that are created again go on
    follower = follow(shop, source)
    write(shop, "UPDATE orders SET amount = amount + 1", "DELETE FROM orders WHERE id = 9")
    follower.catch_up(0)
    assert follower.state == contents(shop, *source.tables)


def test_readers_that_know_fewer_columns_and_more(shop: Path) -> None:
    """Each opens the file anew, and the triggers serve both."""
    old = SqliteSource("old", shop, setup="create", columns=COLUMNS)
    one = follow(shop, old)
    write(shop, "ALTER TABLE orders ADD note TEXT DEFAULT 'x'", "CREATE INDEX some ON orders (customer)")
    new = SqliteSource("new", shop, setup="create")
    other = follow(shop, new)
    write(shop, "INSERT INTO orders VALUES (4, 2, 50, 'y')")
    one.catch_up(0)
    old.close()
    old = SqliteSource("old", shop, setup="create", columns=COLUMNS)
    old.start(one.position)
    one = Follower(old, one.state, one.position)
    write(shop, "INSERT OR REPLACE INTO orders VALUES (4, 1, 60, 'z')", "UPDATE orders SET note = NULL WHERE id = 1")
    one.catch_up(0)
    other.catch_up(0)
    assert other.state["orders"] == contents(shop, "orders")["orders"]
    assert set(one.state["orders"]) == {row[:3] for row in other.state["orders"]}
    old.close()
    new.close()
