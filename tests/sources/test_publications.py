"""Publications that an administrator has made, of all or of a part of a table: notifications and answers agree."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tidemill
from tests.sources.following import Follower, columns, orders_of_customers, pairs_of_orders, scan, view
from tests.sources.server import PASSWORD
from tests.sources.shop import Shop, kill_often, scribble
from tidemill.changes.zset import ZSet
from tidemill.model.errors import EpochGone, SetupError, SourceLost, TidemillError, Unsupported
from tidemill.sources.postgres.connection import Address
from tidemill.sources.postgres.source import PostgresSource
from tidemill.sources.registry import open_source
from tidemill.sources.source import Committed

Open = Callable[..., PostgresSource]
LARGE = "CREATE PUBLICATION part FOR TABLE orders WHERE (amount > 20 AND customer IS NOT NULL), customers"


@pytest.fixture
def shop(shop: Shop) -> Shop:
    if shop.connection.info.server_version < 150000:
        pytest.skip("PostgreSQL before 15 has no filters and column lists in publications")
    return shop


@pytest.fixture
def opened(shop: Shop) -> Iterator[Open]:
    """Opens the shop as a source, by the publication ``part``."""
    made: list[PostgresSource] = []

    def open_(**options: Any) -> PostgresSource:
        given = {"setup": "create", "reader": shop.name, "patience": 20, "publication": "part", **options}
        made.append(PostgresSource("shop", Address(shop.server.options), **given))
        return made[-1]

    yield open_
    for source in made:
        source.close()


def large(shop: Shop) -> dict[str, ZSet]:
    """What the publication of large orders has."""
    with shop.connect() as connection:
        rows = connection.execute("SELECT * FROM orders WHERE amount > 20 AND customer IS NOT NULL").fetchall()
    return {"orders": ZSet.of(rows), **shop.contents("customers")}


def follow(shop: Shop, source: PostgresSource) -> Follower:
    return Follower(source, large(shop), source.start(None))


def test_rows_move_in_and_out_of_the_filter(shop: Shop, opened: Open) -> None:
    shop.run(LARGE)
    source = opened()
    assert "WHERE ((amount > 20)" in source.notes["orders"][0]
    follower = follow(shop, source)
    expected = [
        ("INSERT INTO orders VALUES (4, 2, 50), (5, 2, 5)", ZSet({(4, 2, 50): 1})),
        ("UPDATE orders SET amount = 20 WHERE id = 4", ZSet({(4, 2, 50): -1})),
        ("UPDATE orders SET amount = amount + 10 WHERE id IN (4, 5)", ZSet({(4, 2, 30): 1})),
        ("UPDATE orders SET customer = NULL WHERE id = 4", ZSet({(4, 2, 30): -1})),
        ("UPDATE orders SET id = 40, customer = 1 WHERE id = 4", ZSet({(40, 1, 30): 1})),
        ("UPDATE orders SET amount = amount + 1 WHERE id < 40", ZSet({(2, 1, 30): -1, (2, 1, 31): 1})),
        ("DELETE FROM orders WHERE id IN (1, 40)", ZSet({(40, 1, 30): -1})),
        ("TRUNCATE orders", ZSet({(2, 1, 31): -1})),
    ]  # fmt: skip
    for statement, change in expected:
        shop.run(statement)
        message = follower.step(1)
        assert isinstance(message, Committed) and message.changes == {"orders": change}, statement
        for product in (orders_of_customers(source.tables), pairs_of_orders(source.tables)):
            follower.ask(product.query)
        follower.catch_up(0)
    shop.run("INSERT INTO orders VALUES (7, NULL, 70)", "INSERT INTO orders VALUES (8, 1, 2)")
    follower.catch_up(0.2)
    assert follower.state == large(shop) and not follower.state["orders"]
    source.remove()
    assert shop.connection.execute("SELECT pubname FROM pg_publication").fetchall() == [("part",)], "it is not ours"


def test_a_part_with_conflicts_and_kills(shop: Shop, opened: Open) -> None:
    shop.run(LARGE)
    source = opened(held=20)
    follower = follow(shop, source)
    writers = [threading.Thread(target=scribble, args=(shop, seed, 300)) for seed in range(3)]
    killer = threading.Thread(target=kill_often, args=(shop, writers, 0.2))
    for thread in (*writers, killer):
        thread.start()
    query = orders_of_customers(source.tables).query
    while any(writer.is_alive() for writer in writers):
        if not follower.asked:
            follower.ask(query)
        follower.step(0.05)
    killer.join()
    follower.ask(query)
    follower.catch_up(3.0)
    assert follower.state == large(shop) and follower.answers


def test_the_columns_that_are_listed_are_the_table(shop: Shop, opened: Open) -> None:
    """The log has old values of the columns that identify a row, so these are all that may be listed."""
    shop.run(
        "DELETE FROM orders WHERE customer IS NULL",
        "ALTER TABLE orders ALTER customer SET NOT NULL",
        "CREATE UNIQUE INDEX listed ON orders (id, customer)",
        "ALTER TABLE orders REPLICA IDENTITY USING INDEX listed",
        "CREATE PUBLICATION part FOR TABLE orders (id, customer) WHERE (customer < 3), customers (id)",
    )
    source = opened()
    assert [f.name for f in source.tables["orders"].fields] == ["id", "customer"]
    assert [f.name for f in source.tables["customers"].fields] == ["id"]
    assert "Column amount is not in the publication part." in source.notes["orders"]
    start = source.start(None)
    follower = Follower(
        source, {"orders": ZSet({(1, 1): 1, (2, 1): 1}), "customers": ZSet({(1,): 1, (2,): 1, (3,): 1})}, start
    )
    o, c = scan(source.tables["orders"], "o"), scan(source.tables["customers"], "c")
    product = view([o, c], [], {"id": columns(o)["o.id"], "customer": columns(c)["c.id"]})
    for statement in (
        "UPDATE orders SET amount = amount + 1",
        "UPDATE orders SET customer = 3 WHERE id = 2",
        "UPDATE orders SET customer = 2, id = 22 WHERE id = 2",
        "INSERT INTO orders VALUES (9, 3, 9), (8, 2, 8)",
        "UPDATE customers SET name = 'x'",
        "UPDATE customers SET id = 30 WHERE id = 3",
        "DELETE FROM orders WHERE id = 8",
        "TRUNCATE customers",
    ):
        shop.run(statement)
        follower.ask(product.query)
        follower.catch_up(0)
        own = shop.connection.execute("SELECT id, customer FROM orders WHERE customer < 3").fetchall()
        assert follower.state["orders"] == ZSet.of(own), statement
    assert follower.state["customers"] == ZSet()


def test_a_list_of_columns_never_makes_writers_fail(shop: Shop, opened: Open) -> None:
    """With REPLICA IDENTITY FULL the server would refuse UPDATE and DELETE, also for a publication of somebody else."""
    shop.run("CREATE PUBLICATION part FOR TABLE orders (id, customer)")
    for options in ({}, {"publication": None}, {"setup": "exists"}):
        with pytest.raises(SetupError, match="no whole old rows") as error:
            opened(tables=["orders"], changes="slot", **options)
        assert error.value.hint
    shop.run("UPDATE orders SET amount = 1", "DELETE FROM orders")
    shop.run("ALTER TABLE orders REPLICA IDENTITY FULL")
    with pytest.raises(SetupError, match="no whole old rows") as error:
        opened(tables=["orders"])
    assert "REPLICA IDENTITY USING INDEX" in str(error.value.hint)


@pytest.mark.parametrize(
    ("publication", "options", "error", "words"),
    [
        (LARGE + " WITH (publish = 'insert')", {}, SetupError, "some kinds of changes"),
        (LARGE, {"changes": "outbox"}, Unsupported, "changes = 'slot'"),
        (LARGE, {"publication": "other"}, SetupError, 'no publication "other"'),
        ("CREATE PUBLICATION part FOR TABLE customers", {"tables": ["orders"]}, Unsupported, "not in the publication"),
    ],
)
def test_what_is_refused_by_name(
    shop: Shop, opened: Open, publication: str, options: dict[str, Any], error: type[TidemillError], words: str
) -> None:
    shop.run(publication)
    with pytest.raises(error) as refused:
        opened(**options)
    assert words in str(refused.value) + str(refused.value.detail) + str(refused.value.hint)


def test_only_tables_of_the_publication_are_offered(shop: Shop, opened: Open) -> None:
    """A publication may have other schemas, and tables of the same name there."""
    shop.run("CREATE TABLE other (n int8)", "CREATE PUBLICATION part FOR TABLE customers, orders")
    shop.run('CREATE SCHEMA "Odd ""one"""', 'CREATE TABLE "Odd ""one""".orders (LIKE orders)')
    shop.run(
        'ALTER TABLE "Odd ""one""".orders REPLICA IDENTITY FULL',
        'ALTER PUBLICATION part ADD TABLE "Odd ""one""".orders',
    )
    there = opened(schema='Odd "one"', reader="there")
    follower = Follower(there, {}, there.start(None))
    source = opened()
    assert sorted(source.tables) == ["customers", "orders"]
    here = Follower(source, shop.contents("orders", "customers"), source.start(None))
    shop.run('INSERT INTO "Odd ""one""".orders VALUES (1, 1, 10)', "INSERT INTO orders VALUES (9, 9, 9)")
    here.catch_up(0.2)
    follower.catch_up(0.2)
    assert here.state == shop.contents("orders", "customers")
    shop.run('TRUNCATE "Odd ""one""".orders')
    here.catch_up(0.2)
    follower.catch_up(0.2)
    assert here.state == shop.contents("orders", "customers") and follower.state == {"orders": ZSet()}


CHANGED = {
    "another filter": ["ALTER PUBLICATION part SET TABLE orders WHERE (amount > 5), customers"],
    "there and back": [
        "ALTER PUBLICATION part SET TABLE orders, customers",
        LARGE.replace("CREATE PUBLICATION part FOR", "ALTER PUBLICATION part SET"),
    ],
    "a table that leaves": ["ALTER PUBLICATION part DROP TABLE orders", "ALTER PUBLICATION part ADD TABLE orders"],
    "a kind of changes": [
        "ALTER PUBLICATION part SET (publish = 'insert')",
        "ALTER PUBLICATION part SET (publish = 'insert, update, delete, truncate')",
    ],
    "made again": ["DROP PUBLICATION part", LARGE],
    "gone": ["DROP PUBLICATION part"],
    "a whole schema": ["ALTER PUBLICATION part ADD TABLES IN SCHEMA public"],
}  # fmt: skip


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("how", CHANGED)
def test_a_publication_that_is_changed_is_named(shop: Shop, opened: Open, how: str, restarted: bool) -> None:
    shop.run(LARGE)
    source = opened()
    follower = follow(shop, source)
    shop.run("INSERT INTO orders VALUES (4, 2, 50)")
    follower.catch_up(0)
    if restarted:
        source.close()
    for statement in CHANGED[how]:
        shop.run(statement)
        shop.run("UPDATE orders SET amount = amount + 1")
    follower.asked.clear()
    with pytest.raises((EpochGone, SetupError), match="publication") as error:
        opened().start(follower.position) if restarted else source.receive(1)
    assert "part" in str(error.value.what) and error.value.hint


def test_our_own_publication_is_watched_as_well(shop: Shop, opened: Open) -> None:
    source = opened(publication=None, changes="slot")
    source.start(None)
    (name,) = shop.connection.execute("SELECT pubname FROM pg_publication").fetchall()[0]
    shop.run(f"ALTER PUBLICATION {name} DROP TABLE orders", "UPDATE orders SET amount = 1")
    shop.run(f"ALTER PUBLICATION {name} ADD TABLE ONLY orders")
    with pytest.raises(EpochGone, match=f"the publication {name} was changed"):
        source.receive(1)


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE orders ALTER amount TYPE numeric(20, 1) USING amount * 1.5",
        "ALTER TABLE orders DROP amount",
        "BEGIN; ALTER TABLE orders RENAME amount TO x; ALTER TABLE orders RENAME customer TO amount;"
        " ALTER TABLE orders RENAME x TO customer; COMMIT",
        "BEGIN; ALTER TABLE orders RENAME TO old; CREATE TABLE orders (LIKE old INCLUDING ALL); COMMIT",
    ],
)
def test_columns_that_change_without_a_word_in_the_log(shop: Shop, opened: Open, statement: str) -> None:
    source = opened(publication=None, changes="slot")
    position = source.start(None)
    shop.connection.execute(statement)
    shop.run("UPDATE customers SET name = 'x'")
    with pytest.raises((EpochGone, SourceLost), match=r"columns or row security of|the log does not tell"):
        source.receive(1)
    with pytest.raises((EpochGone, SetupError)):
        opened(publication=None, changes="slot", setup="exists").start(position)
    shop.run("DROP TABLE IF EXISTS old")


def test_rows_that_are_hidden_from_us_later_on(shop: Shop) -> None:
    """Answers would lack the rows, and changes have them."""
    shop.run(
        "DROP ROLE IF EXISTS limited",
        f"CREATE ROLE limited LOGIN REPLICATION PASSWORD '{PASSWORD}'",
        "GRANT USAGE ON SCHEMA public TO limited",
        "GRANT SELECT ON orders, customers TO limited",
        "CREATE PUBLICATION part FOR TABLE orders",
        "ALTER TABLE orders REPLICA IDENTITY FULL",
    )
    given = {**shop.server.options, "publication": "part", "changes": "slot", "tables": "orders"}
    open_source("owned", "postgres", {**given, "setup": "create"}).remove()
    source = open_source("limited", "postgres", {**given, "user": "limited"})
    source.start(None)
    try:
        shop.run("CREATE POLICY ours ON orders USING (customer = 1)", "ALTER TABLE orders ENABLE ROW LEVEL SECURITY")
        with pytest.raises(EpochGone, match='row security of "orders"'):
            source.receive(1)
        with pytest.raises(Unsupported) as error:
            open_source("limited", "postgres", {**given, "user": "limited"})
        assert "Row security" in str(error.value.detail)
    finally:
        source.remove()
        shop.run("DROP OWNED BY limited", "DROP ROLE limited")


def test_a_column_that_is_added_is_not_in_the_way(shop: Shop, opened: Open) -> None:
    source = opened(publication=None, changes="slot")
    follower = Follower(source, shop.contents("orders", "customers"), source.start(None))
    shop.run("ALTER TABLE orders ADD note text DEFAULT 'x'", "INSERT INTO orders VALUES (4, 2, 50, 'y')")
    follower.ask(orders_of_customers(source.tables).query)
    follower.catch_up(0)
    assert follower.state["orders"][4, 2, 50] == 1


def test_a_position_of_before_definitions_were_noted_is_taken(shop: Shop, opened: Open) -> None:
    source = opened(publication=None, changes="slot")
    follower = Follower(source, shop.contents("orders", "customers"), source.start(None))
    shop.run("INSERT INTO orders VALUES (4, 2, 50)")
    old, _, digest = follower.position.partition("#")
    assert digest and source.start(old) == follower.position
    follower.catch_up(0.1)
    assert follower.state == shop.contents("orders", "customers")
    with pytest.raises(EpochGone, match='columns or row security of "customers", "orders" were changed'):
        source.start(f"{old}#{'0' * 8}.{'0' * 8}.{'0' * 8}")


def test_a_view_over_a_part_says_so_and_refuses_another_part(shop: Shop, tmp_path: Path) -> None:
    shop.run(LARGE)
    options = {**shop.server.options, "changes": "slot", "setup": "create", "reader": shop.name, "publication": "part"}
    given = ", ".join(f"{key} = '{value}'" for key, value in options.items())
    with tidemill.open(tmp_path / "warehouse", runtime="native") as warehouse:
        warehouse.sql(f"CREATE SOURCE shop TYPE postgres OPTIONS ({given})")
        warehouse.sql(
            "CREATE MATERIALIZED VIEW v AS"
            " SELECT o.id, c.name FROM shop.orders o JOIN shop.customers c ON c.id = o.customer"
        )
        scribble(shop, seed=3, transactions=40)
        warehouse.sync()
        with shop.connect() as connection:
            own = connection.execute(
                "SELECT o.id, c.name FROM orders o JOIN customers c ON c.id = o.customer WHERE amount > 20"
            ).fetchall()
        assert own and Counter(warehouse.view("v").rows()) == Counter(own)
        assert 'SELECT * FROM ONLY "public"."orders" WHERE' in str(warehouse.view("v").explain())
        shown = warehouse.view("v").rows()
        shop.run("ALTER PUBLICATION part SET TABLE orders WHERE (amount > 1), customers")
        shop.run("UPDATE orders SET amount = amount + 1")
        for _ in range(2):
            with pytest.raises(EpochGone, match="the publication part was changed"):
                warehouse.sync()
        assert Counter(warehouse.view("v").rows()) == Counter(shown)
        warehouse.sql("DROP VIEW v; DROP SOURCE shop")
        warehouse.sql(f"CREATE SOURCE shop TYPE postgres OPTIONS ({given})")
        warehouse.sql("CREATE MATERIALIZED VIEW v AS SELECT o.id FROM shop.orders o")
        assert (
            len(warehouse.view("v").rows()) == shop.connection.execute("SELECT FROM orders WHERE amount > 1").rowcount
        )
