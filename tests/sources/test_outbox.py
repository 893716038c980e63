"""An outbox of a real PostgreSQL: what triggers do not tell is noticed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.sources.following import Follower, orders_of_customers
from tests.sources.shop import Shop
from tidemill.model.errors import EpochGone, Unsupported
from tidemill.sources.registry import open_source
from tidemill.sources.source import Source

Open = Callable[..., Source]
DROP = "DROP TABLE orders; CREATE TABLE orders (id int8 PRIMARY KEY, customer int8, amount int8 NOT NULL)"
SWAP = (
    "CREATE TABLE next (LIKE orders INCLUDING ALL); INSERT INTO next VALUES (7, 7, 7);"
    " ALTER TABLE orders RENAME TO last; ALTER TABLE next RENAME TO orders"
)


@pytest.fixture
def opened(shop: Shop) -> Iterator[Open]:
    made: list[Source] = []

    def open_(**options: str) -> Source:
        given = {**shop.server.options, "setup": "create", "changes": "outbox", "patience": "20", **options}
        made.append(open_source("shop", "postgres", given))
        return made[-1]

    yield open_
    for source in made:
        source.close()


def follow(shop: Shop, source: Source) -> Follower:
    return Follower(source, shop.contents("orders", "customers"), source.start(None))


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("ALTER TABLE orders DISABLE TRIGGER ALL", "triggers"),
        ("ALTER TABLE orders DISABLE TRIGGER USER; TRUNCATE orders; ALTER TABLE orders ENABLE TRIGGER ALL", "triggers"),
        ("DROP TRIGGER _tidemill_update ON orders", "triggers"),
        (DROP, "columns"),
        (SWAP, "columns"),
        ("ALTER TABLE orders ALTER amount TYPE int4 USING 5", "columns"),
        (
            "ALTER TABLE orders RENAME amount TO x; ALTER TABLE orders RENAME customer TO amount;"
            " ALTER TABLE orders RENAME x TO customer",
            "columns",
        ),
    ],
)
def test_what_no_trigger_tells_is_an_error(
    shop: Shop, opened: Open, statement: str, named: str, restarted: bool
) -> None:
    source = opened(tables="customers, orders")
    follower = follow(shop, source)
    shop.run("INSERT INTO orders VALUES (4, 2, 50)")
    follower.catch_up(0)
    if restarted:
        source.close()
    shop.run(statement, "UPDATE orders SET amount = amount + 1")
    with pytest.raises(EpochGone, match=named) as error:
        opened(tables="customers, orders").start(follower.position) if restarted else source.receive(1)
    assert "orders" in error.value.what and error.value.hint
    shop.run("DROP TABLE IF EXISTS last")


def test_triggers_that_were_disabled_and_enabled_again_as_they_were(shop: Shop, opened: Open) -> None:
    source = opened()
    source.start(None)
    triggers = [f"_tidemill_{kind}" for kind in ("insert", "update", "delete", "truncate")]
    shop.run("ALTER TABLE orders DISABLE TRIGGER ALL", "DELETE FROM orders")
    shop.run(*(f"ALTER TABLE orders ENABLE ALWAYS TRIGGER {one}" for one in triggers))
    with pytest.raises(EpochGone, match="triggers"):
        source.receive(1)


def test_other_changes_of_a_table_are_not_in_the_way(shop: Shop, opened: Open) -> None:
    source = opened()
    recorded = {name: [field.name for field in table.fields] for name, table in source.tables.items()}
    follower = follow(shop, source)
    shop.run(
        "ALTER TABLE orders ADD note text DEFAULT 'x', ALTER amount SET DEFAULT 5, ALTER customer SET STATISTICS 10",
        "CREATE INDEX ON orders (customer)",
        "CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
        "CREATE TRIGGER other BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION nothing()",
        "INSERT INTO orders VALUES (4, 2, 50, 'y')",
    )
    shop.connection.execute("VACUUM FULL orders")
    follower.ask(orders_of_customers(source.tables).query)
    follower.catch_up(0)
    assert follower.state["orders"][4, 2, 50] == 1
    opened(reader="another").start(None)
    open_source("shop", "postgres", shop.server.options | {"changes": "outbox"}, columns=recorded).start(
        follower.position
    )


def test_tables_that_inherit_are_refused_by_name(shop: Shop, opened: Open) -> None:
    """A statement on the one changes rows of the other, and runs the triggers of the first alone."""
    source = opened()
    source.start(None)
    shop.run("CREATE TABLE more () INHERITS (orders)", "INSERT INTO more VALUES (40, 1, 1)")
    with pytest.raises(EpochGone, match="inheritance"):
        source.receive(1)
    try:
        for name in ("orders", "more"):
            with pytest.raises(Unsupported, match="no column that can be read") as error:
                opened(tables=name)
            assert "inherit" in str(error.value.detail)
        opened(tables="customers").start(None)
    finally:
        shop.run("DROP TABLE more")
