"""Partitioned tables by logical decoding: partitions come and go with rows of which the log has no word."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

import tidemill
from tests.sources.following import Follower, columns, number, scan, view
from tests.sources.shop import Shop, kill
from tidemill.algebra.expressions.call import call
from tidemill.model.errors import EpochGone, SetupError, SourceLost, Unsupported
from tidemill.sources.postgres.connection import Address
from tidemill.sources.postgres.replication_slot import ReplicationSlot
from tidemill.sources.postgres.source import PostgresSource
from tidemill.sources.remote_queries.signed_query import SpjView
from tidemill.sources.source import Committed

Open = Callable[..., PostgresSource]
SALES = """
CREATE TABLE sales (id int8, day int8 NOT NULL, amount int8, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
CREATE TABLE sales_1 PARTITION OF sales FOR VALUES FROM (0) TO (10);
CREATE TABLE sales_2 PARTITION OF sales FOR VALUES FROM (10) TO (20) PARTITION BY LIST (id);
CREATE TABLE sales_2_odd PARTITION OF sales_2 FOR VALUES IN (1, 3, 5, 7, 9);
CREATE TABLE sales_2_even PARTITION OF sales_2 DEFAULT;
CREATE TABLE sales_3 (amount int8, gone text, id int8 NOT NULL, day int8 NOT NULL);
ALTER TABLE sales_3 DROP gone;
ALTER TABLE sales ATTACH PARTITION sales_3 FOR VALUES FROM (20) TO (30);
INSERT INTO sales SELECT g, 3 * g, 10 * g FROM generate_series(1, 9) g
"""
UNWATCHED = """DO $$ DECLARE t text; BEGIN
    FOR t IN SELECT evtname FROM pg_event_trigger LOOP EXECUTE 'DROP EVENT TRIGGER ' || t; END LOOP;
END $$"""
"""Without the trigger that only a superuser can make, new partitions are prepared at the next look."""

NEW = "CREATE TABLE sales_4 PARTITION OF sales FOR VALUES FROM (30) TO (40)"


@pytest.fixture
def shop(shop: Shop) -> Shop:
    """A shop with a partitioned table, one of whose partitions has its columns in another order."""
    for statement in SALES.split(";"):
        shop.run(statement)
    return shop


@pytest.fixture
def opened(shop: Shop) -> Iterator[Open]:
    made: list[PostgresSource] = []

    def open_(**options: Any) -> PostgresSource:
        given = {"setup": "create", "reader": shop.name, "patience": 20, "changes": "slot", **options}
        made.append(PostgresSource("shop", Address(shop.server.options), **given))
        return made[-1]

    yield open_
    for source in made:
        source.close()


def follow(shop: Shop, source: PostgresSource) -> Follower:
    return Follower(source, shop.contents(*source.tables), source.start(None))


def sales_of_customers(source: PostgresSource) -> SpjView:
    s, c = scan(source.tables["sales"], "s"), scan(source.tables["customers"], "c")
    at = columns(s, c)
    conditions = [call("eq", at["s.id"], at["c.id"]), call("lt", at["s.day"], number(1000))]
    return view([s, c], conditions, {"day": at["s.day"], "amount": at["s.amount"], "name": at["c.name"]})


def whole(source: PostgresSource) -> SpjView:
    s = scan(source.tables["sales"], "s")
    return view([s], [], columns(s))


def check(shop: Shop, follower: Follower, *statements: str) -> None:
    """What is told of each statement and what is answered after it is what the table has."""
    for statement in statements:
        shop.run(statement)
        for product in (whole(follower.source), sales_of_customers(follower.source)):  # type: ignore[arg-type]
            follower.ask(product.query)
        follower.catch_up(0)
        assert follower.state == shop.contents(*follower.source.tables), statement


def test_rows_of_all_partitions_are_rows_of_the_table(shop: Shop, opened: Open) -> None:
    source = opened()
    assert source.tables["sales"].primary_key == ("id", "day")
    follower = follow(shop, source)
    check(
        shop,
        follower,
        "INSERT INTO sales VALUES (2, 1, 5), (3, 11, 6), (4, 13, 7), (5, 20, 8)",
        "INSERT INTO sales_3 (id, day, amount) VALUES (6, 22, 9)",
        "UPDATE sales SET amount = amount + 1 WHERE day > 5",
        "UPDATE sales SET day = 29 - day",
        "UPDATE sales_2 SET id = id + 1 WHERE id < 4",
        "DELETE FROM sales_2_even WHERE amount > 50",
        "TRUNCATE sales_3",
        "INSERT INTO sales VALUES (1, 25, 5), (1, 26, NULL)",
        "TRUNCATE sales_2",
        "TRUNCATE sales",
        "INSERT INTO sales VALUES (1, 1, 1)",
    )
    assert follower.notifications == 11
    again = opened(setup="exists")
    source.close()
    assert again.start(follower.position) == follower.position


def test_the_table_alone_and_together_with_a_partition(shop: Shop, opened: Open) -> None:
    alone = follow(shop, opened(tables=["sales", "customers"]))
    both = follow(shop, opened(tables=["sales", "sales_3", "customers"], reader="both"))
    check(shop, alone, "INSERT INTO sales VALUES (7, 27, 1)", "TRUNCATE sales_3")
    both.catch_up(0.1)
    assert both.state == shop.contents("sales", "sales_3", "customers")


def test_partitions_that_are_made_empty_are_taken_in(shop: Shop, opened: Open) -> None:
    source = opened(tables=["sales", "customers"])
    follower = follow(shop, source)
    shop.run(UNWATCHED)
    check(shop, follower, NEW, "INSERT INTO sales VALUES (1, 31, 1)", "UPDATE sales SET amount = 2 WHERE day > 30")
    check(shop, follower, "CREATE TABLE sales_5 (LIKE sales)")
    check(shop, follower, "ALTER TABLE sales ATTACH PARTITION sales_5 FOR VALUES FROM (40) TO (50)")
    check(shop, follower, "INSERT INTO sales VALUES (1, 41, 1)", "TRUNCATE sales_5")
    with shop.connection.transaction():
        shop.connection.execute(
            "CREATE TABLE sales_6 PARTITION OF sales FOR VALUES FROM (50) TO (60) PARTITION BY LIST (id)"
        )
        shop.connection.execute("CREATE TABLE sales_6_1 PARTITION OF sales_6 DEFAULT")
        shop.connection.execute("INSERT INTO sales VALUES (1, 51, 1), (2, 52, 2)")
    check(shop, follower, "INSERT INTO sales VALUES (3, 53, 3)", "DELETE FROM sales WHERE day = 51")
    source.close()
    shop.run("CREATE TABLE sales_7 PARTITION OF sales FOR VALUES FROM (60) TO (70)")
    shop.run("INSERT INTO sales VALUES (1, 61, 1)")
    follower.source = opened(tables=["sales", "customers"])
    follower.source.start(follower.position)
    check(shop, follower, "INSERT INTO sales VALUES (2, 62, 1)", "UPDATE sales SET amount = 3")


def test_a_new_partition_without_its_old_rows_in_the_log_is_named(shop: Shop, opened: Open) -> None:
    opened(tables=["sales", "customers"]).close()
    source = opened(tables=["sales", "customers"], setup="exists")
    follower = follow(shop, source)
    shop.run(UNWATCHED)
    shop.run(NEW, "INSERT INTO sales VALUES (1, 31, 1)")
    for _ in range(2):
        with pytest.raises(SetupError, match=r'"public"\."sales_4"') as error:
            follower.step(1)
        assert "REPLICA IDENTITY FULL" in str(error.value.detail)
    shop.run("ALTER TABLE sales_4 REPLICA IDENTITY FULL")
    check(shop, follower, "UPDATE sales SET amount = 3")
    with pytest.raises(SourceLost, match="cannot be told") as lost:
        check(shop, follower, "TRUNCATE sales_4")
    assert "sales_4 was emptied by TRUNCATE" in str(lost.value.detail)


def test_rows_changed_before_a_new_partition_was_prepared_are_never_guessed(shop: Shop, opened: Open) -> None:
    source = opened(tables=["sales", "customers"])
    follower = follow(shop, source)
    shop.run(UNWATCHED)
    shop.run(NEW)
    shop.run("INSERT INTO sales VALUES (1, 31, 1)")
    shop.run("UPDATE sales SET amount = 2 WHERE day = 31")
    assert isinstance(follower.step(1), Committed)
    with pytest.raises(SourceLost, match="cannot be told") as lost:
        follower.step(1)
    assert "REPLICA IDENTITY FULL" in str(lost.value.detail)


def test_a_partition_that_somebody_else_has_locked_is_prepared_later(shop: Shop, opened: Open) -> None:
    source = opened(tables=["sales", "customers"])
    follower = follow(shop, source)
    shop.run(UNWATCHED)
    check(shop, follower, "INSERT INTO sales VALUES (9, 1, 1)")
    shop.run(NEW)
    with shop.connect() as other:
        other.execute("BEGIN")
        other.execute("SELECT FROM sales_4")
        shop.run("INSERT INTO sales VALUES (1, 31, 1)")
        assert isinstance(follower.step(5), Committed)
        full = "SELECT relreplident = 'f' FROM pg_class WHERE relname = 'sales_4'"
        assert shop.connection.execute(full).fetchone() == (False,)
        other.execute("COMMIT")
    follower.step(2)
    assert shop.connection.execute(full).fetchone() == (True,)
    check(shop, follower, "UPDATE sales SET amount = 2 WHERE day = 31")


def test_a_superuser_has_new_partitions_prepared_where_they_are_made(shop: Shop, opened: Open) -> None:
    """Rows may be changed at once, however long nobody looks."""
    source = opened(tables=["sales", "customers"])
    follower = follow(shop, source)
    shop.run(NEW, "INSERT INTO sales VALUES (1, 31, 1), (2, 32, 2)")
    shop.run("UPDATE sales SET amount = 7 WHERE day > 30", "DELETE FROM sales WHERE day = 32")
    shop.run("CREATE TABLE sales_5 PARTITION OF sales FOR VALUES FROM (40) TO (50) PARTITION BY LIST (id)")
    shop.run("CREATE TABLE sales_5_1 PARTITION OF sales_5 DEFAULT")
    shop.run("INSERT INTO sales VALUES (1, 41, 1), (2, 42, 2)")
    shop.run("UPDATE sales SET day = 33 WHERE day = 41", "TRUNCATE sales_5_1", "CREATE TABLE other (n int8)")
    check(shop, follower, "UPDATE sales SET amount = amount + 1")
    lacking = "SELECT FROM pg_class WHERE starts_with(relname, 'sales') AND relkind = 'r' AND relreplident <> 'f'"
    assert not shop.connection.execute(lacking).rowcount
    full = "SELECT relreplident FROM pg_class WHERE relname = 'other'"
    assert shop.connection.execute(full).fetchone() == ("d",), "other tables are left alone"


def test_a_role_without_more_rights_prepares_what_it_owns(shop: Shop) -> None:
    shop.run("DROP ROLE IF EXISTS clerk", "CREATE ROLE clerk LOGIN REPLICATION PASSWORD 'canary-7f3a-never-shown'")
    shop.run("GRANT ALL ON SCHEMA public TO clerk", "GRANT CREATE ON DATABASE postgres TO clerk")
    for table in ("sales", "sales_1", "sales_2", "sales_2_odd", "sales_2_even", "sales_3", "customers"):
        shop.run(f"ALTER TABLE {table} OWNER TO clerk")
    address = Address({**shop.server.options, "user": "clerk"})
    source = PostgresSource("shop", address, tables=["sales", "customers"], setup="create", reader=shop.name)
    assert source.changes == "slot"
    assert not shop.connection.execute("SELECT FROM pg_event_trigger").rowcount
    follower = follow(shop, source)
    check(shop, follower, "UPDATE sales SET amount = 2", "TRUNCATE sales")
    with shop.connect(user="clerk") as clerk:
        clerk.execute(NEW)
    check(shop, follower, "INSERT INTO sales VALUES (1, 31, 1)", "UPDATE sales SET amount = 2")
    source.remove()
    shop.run("DROP OWNED BY clerk CASCADE", "DROP ROLE clerk")


MOVED = {
    "attached": [
        "CREATE TABLE sales_4 (LIKE sales)",
        "INSERT INTO sales_4 VALUES (1, 31, 1)",
        "ALTER TABLE sales ATTACH PARTITION sales_4 FOR VALUES FROM (30) TO (40)",
    ],
    "attached where it was made": [
        "BEGIN; CREATE TABLE sales_4 (LIKE sales); INSERT INTO sales_4 VALUES (1, 31, 1);"
        " ALTER TABLE sales ATTACH PARTITION sales_4 FOR VALUES FROM (30) TO (40); COMMIT",
    ],
    "attached with partitions": [
        "CREATE TABLE sales_4 (LIKE sales) PARTITION BY LIST (id)",
        "CREATE TABLE sales_4_1 PARTITION OF sales_4 DEFAULT",
        "INSERT INTO sales_4 VALUES (1, 31, 1)",
        "ALTER TABLE sales ATTACH PARTITION sales_4 FOR VALUES FROM (30) TO (40)",
    ],
    "attached and emptied": [
        "CREATE TABLE sales_4 (LIKE sales)",
        "INSERT INTO sales_4 VALUES (1, 31, 1)",
        "ALTER TABLE sales ATTACH PARTITION sales_4 FOR VALUES FROM (30) TO (40)",
        "TRUNCATE sales_4",
    ],
    "detached": ["ALTER TABLE sales DETACH PARTITION sales_3"],
    "detached concurrently": ["ALTER TABLE sales DETACH PARTITION sales_3 CONCURRENTLY"],
    "dropped": ["DROP TABLE sales_2_odd"],
    "detached and attached": [
        "ALTER TABLE sales DETACH PARTITION sales_3",
        "UPDATE sales_3 SET amount = 1",
        "ALTER TABLE sales ATTACH PARTITION sales_3 FOR VALUES FROM (20) TO (30)",
    ],
    "dropped and made": [
        "DROP TABLE sales_1",
        "CREATE TABLE sales_1 PARTITION OF sales FOR VALUES FROM (0) TO (10)",
    ],
}


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("how", MOVED)
def test_partitions_that_come_and_go_with_rows_are_named(shop: Shop, opened: Open, how: str, restarted: bool) -> None:
    source = opened(tables=["sales", "customers"])
    follower = follow(shop, source)
    check(shop, follower, "INSERT INTO sales VALUES (7, 27, 1)")
    if restarted:
        source.close()
    for statement in MOVED[how]:
        shop.connection.execute(statement)
    shop.run("INSERT INTO sales VALUES (8, 28, 1), (8, 1, 1)" if "3" not in MOVED[how][0] else "SELECT 1")
    with pytest.raises(EpochGone, match=r'(partitions of|attached to) "sales"(,|$| were)') as error:
        follow_on(opened, source, follower.position, restarted)
    assert "DROP" in str(error.value.hint).upper()


def follow_on(opened: Open, source: PostgresSource, position: str, restarted: bool) -> None:
    if restarted:
        source = opened(tables=["sales", "customers"])
        source.start(position)
    source.ask(whole(source).query)
    while source.receive(1) is not None:
        pass


def test_partitions_that_come_and_go_between_two_looks_leave_nothing(shop: Shop, opened: Open) -> None:
    source = opened(tables=["sales", "customers"])
    follower = follow(shop, source)
    shop.run(NEW, "INSERT INTO sales VALUES (1, 31, 1), (1, 2, 3)")
    shop.run("UPDATE sales SET amount = 5 WHERE day = 2")
    check(shop, follower, "DROP TABLE sales_4")
    shop.run("CREATE TABLE sales_5 (LIKE sales)", "INSERT INTO sales_5 VALUES (1, 41, 1)")
    shop.run("ALTER TABLE sales ATTACH PARTITION sales_5 FOR VALUES FROM (40) TO (50)")
    shop.run("ALTER TABLE sales_5 REPLICA IDENTITY FULL", "UPDATE sales SET amount = amount + 1")
    check(shop, follower, "ALTER TABLE sales DETACH PARTITION sales_5")


def test_a_new_partition_whose_transaction_is_not_visible_yet(shop: Shop, opened: Open) -> None:
    """Its rows may be read from the log before any snapshot says that it is a partition."""
    source = opened(tables=["sales", "customers"], held=2)
    follower = follow(shop, source)
    with shop.connect() as slow:
        slow.execute("BEGIN")
        slow.execute(NEW)
        slow.execute("INSERT INTO sales VALUES (1, 31, 1)")
        for n in range(6):
            shop.run(f"INSERT INTO customers VALUES ({50 + n}, 'x')")
        follower.step(1)
        follower.step(1)
        assert not follower.state["sales"].get((1, 31, 1))
        slow.execute("COMMIT")
    for n in range(6):
        shop.run(f"INSERT INTO sales VALUES ({50 + n}, 32, 1)")
    kill(shop)
    follower.step(5)
    source.close()
    again = opened(tables=["sales", "customers"], held=2)
    assert again.start(follower.position) == follower.position
    follower.source = again
    check(shop, follower, "INSERT INTO sales VALUES (2, 33, 1)")


def test_nothing_comes_between_a_snapshot_and_the_answers_in_it(
    shop: Shop, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server plans queries with the partitions of the moment, and TRUNCATE empties tables for old snapshots too."""
    source = opened(tables=["sales", "customers"])
    follower = follow(shop, source)
    taken, between = ReplicationSlot.snapshot, list[str]()
    waited = list[bool]()

    def snapshot(slot: ReplicationSlot, *given: Any) -> Any:
        found = taken(slot, *given)
        while between:
            shop.connection.execute("SET lock_timeout = '100ms'")
            try:
                shop.run(between.pop(0))
            except psycopg.errors.LockNotAvailable:
                waited.append(True)
        return found

    monkeypatch.setattr(ReplicationSlot, "snapshot", snapshot)
    for statement in ("TRUNCATE sales", "TRUNCATE sales_3", "ALTER TABLE sales DETACH PARTITION sales_3"):
        between.append(statement)
        follower.ask(whole(source).query)
        follower.catch_up(0)
        assert waited.pop(), statement
    shop.run("CREATE TABLE sales_5 (LIKE sales)", "INSERT INTO sales_5 VALUES (1, 41, 1)")
    between.append("ALTER TABLE sales ATTACH PARTITION sales_5 FOR VALUES FROM (40) TO (50)")
    follower.ask(whole(source).query)
    assert follower.step(0) is None and not between, "an answer with its rows is not taken"
    with pytest.raises(EpochGone, match="sales_5 was attached"):
        follower.step(1)


def test_what_cannot_be_read_as_a_whole_is_refused_by_name(shop: Shop, opened: Open) -> None:
    with pytest.raises(Unsupported, match='table "sales" of source "shop"') as error:
        opened(tables=["sales"], changes="outbox")
    assert "partitioned" in str(error.value.detail)
    shop.run("CREATE PUBLICATION by_root FOR TABLE sales WITH (publish_via_partition_root)")
    with pytest.raises(SetupError, match="only a part") as refused:
        opened(tables=["sales"], publication="by_root")
    assert "TRUNCATE" in str(refused.value.detail)
    shop.run("CREATE PUBLICATION listed FOR TABLE sales_1, sales_2, sales_3")
    with pytest.raises(Unsupported, match='"sales"'):
        opened(tables=["sales"], publication="listed")
    shop.run("CREATE PUBLICATION own FOR TABLE sales, customers")
    check(shop, follow(shop, opened(publication="own")), NEW, "INSERT INTO sales VALUES (1, 31, 1)")
    shop.run("CREATE UNLOGGED TABLE sales_9 PARTITION OF sales FOR VALUES FROM (90) TO (100)")
    with pytest.raises(Unsupported, match='"sales"') as error:
        opened(tables=["sales"])
    assert "unlogged" in str(error.value.detail)


def test_partitions_that_others_make_while_others_write(shop: Shop, opened: Open) -> None:
    source = opened(tables=["sales", "customers"], held=30)
    follower = follow(shop, source)
    made, writers = [4], [threading.Thread(target=sell, args=(shop, seed)) for seed in range(3)]
    for writer in writers:
        writer.start()
    chance = random.Random(0)
    while any(writer.is_alive() for writer in writers) or len(made) < 8:
        if chance.random() < 0.4 and made[-1] < 20:
            shop.run(f"CREATE TABLE sales_{made[-1]} PARTITION OF sales FOR VALUES FROM ({made[-1]}0) TO ({made[-1]}9)")
            made.append(made[-1] + 1)
        if not follower.asked:
            follower.ask(sales_of_customers(source).query)
        follower.step(0.02)
        if chance.random() < 0.05:
            kill(shop)
    follower.catch_up(2.0)
    assert follower.state == shop.contents("sales", "customers")


def sell(shop: Shop, seed: int) -> None:
    """Inserts anywhere, updates and deletes where old rows are in the log."""
    chance = random.Random(seed)
    with shop.connect() as connection:
        for _ in range(400):
            day, id_ = chance.randint(0, 29), chance.randint(1, 9)
            statement = chance.choice(
                [
                    f"INSERT INTO sales VALUES ({id_}, {chance.randint(0, 200)}, {day}) ON CONFLICT DO NOTHING",
                    f"INSERT INTO sales VALUES ({id_}, {day}, 1) ON CONFLICT (id, day) DO UPDATE SET amount = {seed}",
                    f"DELETE FROM sales WHERE day = {day} AND id < 5",
                    f"UPDATE sales SET day = (day + 7) % 30 WHERE day = {day} AND id = {id_}",
                ]
            )
            try:
                connection.execute(statement)
            except (psycopg.errors.UniqueViolation, psycopg.errors.CheckViolation, psycopg.errors.DeadlockDetected):
                continue


def test_a_view_over_a_partitioned_table(shop: Shop) -> None:
    options = {**shop.server.options, "changes": "slot", "setup": "create", "reader": shop.name}
    given = ", ".join(f"{key} = '{value}'" for key, value in options.items())
    query = "SELECT day, COUNT(*) AS n, SUM(amount) AS total FROM {0}sales GROUP BY day"
    with tidemill.open(":memory:") as warehouse:
        warehouse.sql(f"CREATE SOURCE shop TYPE postgres OPTIONS ({given})")
        warehouse.sql(f"CREATE MATERIALIZED VIEW v AS {query.format('shop.')}")
        for statement in (
            NEW,
            "INSERT INTO sales VALUES (1, 31, 1), (2, 31, 5)",
            "UPDATE sales SET day = 5 WHERE day < 5",
        ):
            shop.run(statement)
            warehouse.sync()
            own = shop.connection.execute(query.format("")).fetchall()
            assert sorted(warehouse.view("v").rows()) == sorted((day, n, int(total)) for day, n, total in own)
        assert warehouse.view("v").audit()
        shop.run("DROP TABLE sales_4")
        with pytest.raises(EpochGone, match='partitions of "sales" were attached, detached or dropped'):
            warehouse.sync()
