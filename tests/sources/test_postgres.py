from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from tests.sources.following import Follower, columns, number, orders_of_customers, pairs_of_orders, scan, view
from tests.sources.shop import Shop, kill, kill_often, scribble
from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.scalars import Literal
from tidemill.changes.zset import ZSet
from tidemill.model import types as t
from tidemill.model.errors import BadValue, EpochGone, SetupError, SourceLost, SourceSlow, TidemillError, Unsupported
from tidemill.sources.postgres.connection import Address
from tidemill.sources.postgres.source import PostgresSource
from tidemill.sources.source import Answered, Committed

Open = Callable[..., PostgresSource]


@pytest.fixture(params=["slot", "outbox"])
def opened(request: pytest.FixtureRequest, shop: Shop) -> Iterator[Open]:
    """Opens the shop as a source, by either way of learning of changes."""
    made: list[PostgresSource] = []

    def open_(**options: Any) -> PostgresSource:
        given = {"changes": request.param, "setup": "create", "reader": shop.name, "patience": 20, **options}
        made.append(PostgresSource("shop", Address(shop.server.options), **given))
        return made[-1]

    yield open_
    for source in made:
        source.close()


def follow(shop: Shop, source: PostgresSource) -> Follower:
    return Follower(source, shop.contents("orders", "customers"), source.start(None))


def test_tells_transactions_one_by_one_and_answers_in_the_state_after_them(shop: Shop, opened: Open) -> None:
    source = opened()
    follower = follow(shop, source)
    shop.run("INSERT INTO orders VALUES (4, 2, 50)", "UPDATE customers SET name = 'ben' WHERE id = 2")
    shop.run("DELETE FROM orders WHERE id = 4")
    shop.run("INSERT INTO orders VALUES (5, 2, 60)")
    follower.ask(orders_of_customers(source.tables).query)
    first = follower.step()
    assert isinstance(first, Committed)
    assert first.changes == {"orders": ZSet({(4, 2, 50): 1}), "customers": ZSet({(2, "bob"): -1, (2, "ben"): 1})}
    assert isinstance(follower.step(), Committed) and isinstance(follower.step(), Committed)
    answer = follower.step()
    assert isinstance(answer, Answered)
    assert answer.rows == ZSet({(2, "ann", 60): 1, (5, "ben", 120): 1})
    assert answer.received == len("230ann560ben")
    assert source.receive(0) is None
    assert (source.traffic.queries, source.traffic.answers, source.traffic.notifications) == (1, 1, 3)
    assert follower.state == shop.contents("orders", "customers")


def test_signed_terms_and_bound_tuples(shop: Shop, opened: Open) -> None:
    source = opened()
    follower = follow(shop, source)
    for product in (orders_of_customers(source.tables), pairs_of_orders(source.tables)):
        once = product.query.after("orders", ZSet({(7, 1, 70): 1, (2, 1, 30): -1, (8, None, 5): 2}))
        follower.ask(once)
        follower.ask(product.query - once - once.after("orders", ZSet({(9, 1, 90): 1})))
        if "customers" in product.relations:
            follower.ask(product.query.after("customers", ZSet({(1, "eve"): 3, (2, None): -1})))
    follower.catch_up(0)
    assert len(follower.answers) == 5


@pytest.mark.parametrize(
    ("publication", "part"),
    [
        ("FOR TABLE orders WHERE (amount > 5), customers", "some of its rows"),
        ("FOR TABLE orders, customers (id)", "some of its columns"),
        ("FOR TABLE orders, customers WITH (publish = 'insert, delete')", "some kinds of changes"),
    ],
)
def test_a_publication_of_a_part_is_refused_by_name(shop: Shop, publication: str, part: str) -> None:
    if shop.connection.info.server_version < 150000 and "publish" not in publication:
        pytest.skip("PostgreSQL before 15 has no filters and column lists in publications")
    shop.run("ALTER TABLE orders REPLICA IDENTITY FULL", "ALTER TABLE customers REPLICA IDENTITY FULL")
    shop.run(f"CREATE PUBLICATION tidemill_{shop.name} {publication}")
    for setup in ("exists", "create"):
        with pytest.raises(SetupError, match="only a part of the changes") as error:
            PostgresSource("shop", Address(shop.server.options), changes="slot", setup=setup, reader=shop.name)
        assert part in str(error.value.detail) and "public" in str(error.value.where)


def test_triggers_tell_neither_of_a_partitioned_table_nor_of_its_partitions(shop: Shop) -> None:
    shop.run("CREATE TABLE days (id int8, d date) PARTITION BY RANGE (d)")
    shop.run("CREATE TABLE days_1 PARTITION OF days FOR VALUES FROM ('2024-01-01') TO ('2025-01-01')")
    address = Address(shop.server.options)
    for table, reason in (("days", "It is partitioned"), ("days_1", "run no triggers")):
        with pytest.raises(Unsupported, match=f'table "{table}" of source "shop"') as error:
            PostgresSource("shop", address, tables=[table], changes="outbox", setup="create", reader=shop.name)
        assert reason in str(error.value.detail) and "slot" in str(error.value.detail)


def test_rollbacks_savepoints_truncate_and_updates_of_keys(shop: Shop, opened: Open) -> None:
    source = opened()
    follower = follow(shop, source)
    with pytest.raises(psycopg.errors.DivisionByZero):
        shop.run("INSERT INTO orders VALUES (4, 1, 1)", "SELECT 1 / 0")
    shop.run("INSERT INTO orders VALUES (5, 1, 1)", "SAVEPOINT s", "DELETE FROM orders", "ROLLBACK TO s")
    shop.run("UPDATE orders SET id = id + 100")
    shop.run("INSERT INTO orders VALUES (5, 9, 1), (101, 9, 9) ON CONFLICT (id) DO UPDATE SET amount = excluded.amount")
    shop.run(
        "INSERT INTO customers VALUES (8, 'x')", "TRUNCATE customers, orders", "INSERT INTO customers VALUES (1, 'y')"
    )
    shop.run("CREATE TABLE other (n int4)", "INSERT INTO other VALUES (1)")
    follower.catch_up()
    assert follower.notifications == 4
    assert (
        follower.state == shop.contents("orders", "customers") == {"orders": ZSet(), "customers": ZSet({(1, "y"): 1})}
    )


def test_no_table_is_emptied_between_a_snapshot_and_its_answers(
    shop: Shop, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TRUNCATE empties a table for old snapshots too, so it waits for those who are about to read it."""
    source = opened()
    follower = follow(shop, source)
    taken, waited = type(source._changes).snapshot, list[bool]()

    def snapshot(changes: Any, *given: Any) -> Any:
        found = taken(changes, *given)
        if not waited:
            try:
                shop.run("SET LOCAL lock_timeout = '100ms'", "TRUNCATE orders")
            except psycopg.errors.LockNotAvailable:
                waited.append(True)
        return found

    monkeypatch.setattr(type(source._changes), "snapshot", snapshot)
    follower.ask(orders_of_customers(source.tables).query)
    follower.catch_up(0)
    assert waited and follower.answers[0].rows
    shop.run("TRUNCATE orders")
    follower.catch_up(0.1)
    assert follower.state == shop.contents("orders", "customers")


def test_a_table_that_stays_locked_is_a_query_that_takes_too_long(shop: Shop, opened: Open) -> None:
    source = opened(query_timeout=0.1)
    follower = follow(shop, source)
    follower.ask(orders_of_customers(source.tables).query)
    with shop.connect() as other:
        other.execute("BEGIN")
        other.execute("LOCK TABLE orders")
        shop.run("INSERT INTO customers VALUES (7, 'x')")
        assert isinstance(follower.step(5), Committed), "what was committed is told all the same"
        with pytest.raises(SourceSlow):
            follower.step(5)
        other.execute("COMMIT")
    follower.catch_up(0)
    assert len(follower.answers) == 1


def test_truncate_in_an_old_snapshot_is_refused_rather_than_guessed(shop: Shop, opened: Open) -> None:
    source = opened()
    follower = follow(shop, source)
    with shop.connect() as old:
        old.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        old.execute("SELECT count(*) FROM customers")
        shop.run("INSERT INTO orders VALUES (9, 9, 9)")
        old.execute("TRUNCATE orders")
        old.execute("COMMIT")
    assert isinstance(follower.step(1), Committed)
    with pytest.raises(SourceLost, match="cannot be told"):
        follower.step(1)
    source.start(None)
    shop.run("INSERT INTO orders VALUES (10, 9, 9)")
    assert isinstance(source.receive(5), Committed)


def test_a_transaction_that_began_early_and_commits_late(shop: Shop, opened: Open) -> None:
    """Its number and its place in outbox and log are low, but it is told when it is visible, and not before."""
    source = opened()
    follower = follow(shop, source)
    product = orders_of_customers(source.tables)
    with shop.connect() as slow:
        slow.execute("BEGIN")
        slow.execute("INSERT INTO orders VALUES (10, 1, 99)")
        shop.run("INSERT INTO orders VALUES (11, 1, 98)")
        follower.ask(product.query)
        follower.catch_up(0.1)
        assert (10, 1, 99) not in follower.state["orders"]
        slow.execute("COMMIT")
    follower.ask(product.query)
    follower.catch_up(0.1)
    assert follower.state == shop.contents("orders", "customers")
    assert follower.notifications == 2


def test_a_backlog_is_taken_in_pieces_and_can_be_resumed_in_the_middle(shop: Shop, opened: Open) -> None:
    source = opened(held=4)
    follower = follow(shop, source)
    for n in range(40):
        shop.run(f"INSERT INTO orders VALUES ({100 + n}, 1, 50)", f"UPDATE orders SET amount = {n} WHERE id = 1")
    follower.ask(orders_of_customers(source.tables).query)
    for _ in range(13):
        assert isinstance(follower.step(), Committed)
    assert len(source._messages) <= 10
    source.close()
    follower.source, follower.asked = opened(setup="exists"), {}
    assert follower.source.start(follower.position) == follower.position
    follower.ask(orders_of_customers(source.tables).query)
    follower.catch_up()
    assert follower.notifications == 40
    assert follower.state == shop.contents("orders", "customers")


def test_forgets_what_it_may_and_says_what_is_gone(shop: Shop, opened: Open) -> None:
    source = opened()
    start = source.start(None)
    follower = Follower(source, shop.contents("orders", "customers"), start)
    for n in range(20):
        shop.run(f"INSERT INTO orders VALUES ({100 + n}, 1, 50)")
        follower.catch_up(0.02)
        if n % 5 == 4:
            source.forget(follower.position)
    again = opened(setup="exists")
    assert again.start(follower.position) == follower.position
    assert again.receive(0) is None, "nothing comes twice"
    with pytest.raises(EpochGone):
        again.start(start)
    with pytest.raises(EpochGone):
        again.start("12")
    source.close()
    again.remove()
    with pytest.raises(EpochGone if again.changes == "slot" else TidemillError):
        opened(setup="create").start(follower.position)


def test_two_warehouses_under_one_name_are_told_so(shop: Shop, opened: Open) -> None:
    one, other = opened(), opened()
    start = one.start(None)
    other.start(start)
    shop.run("INSERT INTO orders VALUES (4, 2, 50)")
    message = one.receive(5)
    assert message is not None
    one.forget(message.position)
    kill(shop)
    with pytest.raises(EpochGone, match="under the same name"):
        other.receive(5)


def test_a_reader_that_leaves_takes_nothing_from_the_others(shop: Shop, opened: Open) -> None:
    one, other = opened(), opened(reader="another")
    one.start(None)
    other.start(None)
    one.remove()
    shop.run("INSERT INTO orders VALUES (4, 2, 50)")
    assert isinstance(other.receive(5), Committed)
    other.remove()
    shop.run("INSERT INTO orders VALUES (5, 2, 50)")
    slots = "SELECT (SELECT count(*) FROM pg_replication_slots) + (SELECT count(*) FROM pg_publication)"
    assert shop.connection.execute(slots).fetchone() == (0,)


def test_values_come_exactly_as_they_are_stored(shop: Shop, opened: Open) -> None:
    shop.run(
        'CREATE SCHEMA "Odd ""one"""',
        'CREATE TABLE "Odd ""one"""."V %s" (id int2 PRIMARY KEY, "Big" int8, price numeric(9, 2), free numeric,'
        " x float8, r float4, yes bool, day date, at timestamp, zoned timestamptz, note varchar(20), pad char(4),"
        ' raw bytea, many int4[], "n" int4)',
    )
    source = opened(schema='Odd "one"')
    (name,) = source.tables
    assert name == "v %s"
    table = source.tables[name]
    assert [str(f.type) for f in table.fields] == [
        "INT", "BIGINT", "DECIMAL(9,2)", "DECIMAL(38,18)", "DOUBLE", "DOUBLE", "BOOLEAN", "DATE", "TIMESTAMP",
        "TIMESTAMP", "STRING", "STRING", "INT",
    ]  # fmt: skip
    assert table.primary_key == ("id",)
    assert source.notes[name] == ("Column raw of type bytea is left out.", "Column many of type integer[] is left out.")
    follower = Follower(source, {}, source.start(None))
    shop.connection.execute("SET timezone = 'Asia/Kolkata'; SET extra_float_digits = 0; SET datestyle = 'German'")
    there = '"Odd ""one"""."V %s"'
    values = [
        "1, 9223372036854775807, 9.5, 0.000000000000000001, 0.1::float8 + 0.2, 0.1, true, '2024-02-29', "
        "'2024-02-29 12:00:00.000001', '2024-02-29 12:00:00+02', 'ä%''\"\\', 'ab', '\\x00', '{1}', 1",
        "2, -9007199254740993, -0.01, 12345678901234567890, 'NaN', 'Infinity', false, '0001-01-01', "
        "'9999-12-31 23:59:59.999999', '1970-01-01 00:00:00+00', '', '    ', NULL, NULL, NULL",
        "3" + ", NULL" * 14,
    ]
    for row in values:
        shop.run(f"INSERT INTO {there} VALUES ({row})")
    leaf = scan(table, "v")
    at = columns(leaf)
    whole = view([leaf], [], {f.name: at[f"v.{f.name}"] for f in table.fields})
    follower.ask(whole.query)
    follower.catch_up(0.2)
    assert follower.answers[0].rows == follower.state[name]
    first = next(row for row in follower.state[name] if row[0] == 1)
    assert first[1:5] == (2**63 - 1, Decimal("9.50"), Decimal("0.000000000000000001"), 0.1 + 0.2)
    assert first[5] == pytest.approx(0.1, rel=1e-6) and first[5] != 0.1
    assert str(first[9]) == "2024-02-29 10:00:00"
    other = scan(table, "w")
    compared = ("big", "price", "free", "x", "r", "yes", "day", "at", "zoned", "note", "pad")
    conditions = [call("eq", at[f"v.{column}"], columns(other)[f"w.{column}"]) for column in compared]
    bound = view([leaf, other], conditions, {"id": at["v.id"]})
    follower.ask(bound.query.after(name, follower.state[name]))
    follower.catch_up(0.2)
    assert follower.answers[1].rows == ZSet({(1,): 1, (2,): 1}), "every row finds itself, but for NULLs"
    shop.run(f"UPDATE {there} SET note = 'x' WHERE id = 1", f"DELETE FROM {there} WHERE id = 2")
    follower.catch_up(0.2)
    assert len(follower.state[name]) == 2
    shop.run(f"INSERT INTO {there} (id, day) VALUES (4, 'infinity')")
    with pytest.raises(BadValue) as refused:
        follower.step(1)
    assert refused.value.where == "v %s.day"


def test_long_values_that_an_update_leaves_alone(shop: Shop, opened: Open) -> None:
    shop.run("CREATE TABLE long (id int4 PRIMARY KEY, n int4, body text)")
    source = opened(tables=["long"])
    follower = Follower(source, {}, source.start(None))
    body = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz", k=50_000))
    with shop.connect() as connection:
        connection.execute("INSERT INTO long VALUES (1, 1, %s)", [body])
        connection.execute("UPDATE long SET n = 2")
    follower.catch_up(0.2)
    assert follower.state["long"] == ZSet({(1, 2, body): 1})


@pytest.mark.parametrize(
    ("condition", "there"),
    [
        (lambda at: call("lt", at["o.name"], Literal("b", t.STRING)), True),
        (lambda at: call("in", at["o.id"], number(1), number(3)), True),
        (lambda at: call("or", call("is_null", at["o.name"]), call("not", call("ge", at["o.id"], number(2)))), True),
        (lambda at: call("null_safe_eq", at["o.name"], Literal(None, t.STRING)), True),
        (lambda at: call("eq", call("upper", at["o.name"]), Literal("ANN", t.STRING)), False),
        (lambda at: call("eq", at["o.name"], Literal("a\0b", t.STRING)), False),
    ],
)
def test_what_goes_there_and_what_stays_here(shop: Shop, condition: Any, there: bool) -> None:
    shop.run("INSERT INTO customers VALUES (4, 'Zoe'), (5, 'ä'), (6, 'a')")
    source = PostgresSource("shop", Address(shop.server.options), changes="outbox", setup="create")
    follower = follow(shop, source)
    leaf = scan(source.tables["customers"], "o")
    at = columns(leaf)
    product = view([leaf], [condition(at)], {"id": at["o.id"]})
    follower.ask(product.query)
    follower.catch_up(0)
    text = source.describe(product.query)
    assert ("  there: " in text, "  here: " in text) == (there, not there), text
    source.close()


def test_connections_that_are_killed_and_a_server_that_restarts(shop: Shop, opened: Open) -> None:
    source = opened()
    follower = follow(shop, source)
    product = orders_of_customers(source.tables)
    for n in range(6):
        shop.run(f"INSERT INTO orders VALUES ({100 + n}, 1, 50)")
        follower.ask(product.query.after("orders", ZSet({(1, 1, 25): 1})))
        if n % 2:
            follower.step(0.1)
        kill(shop)
        follower.catch_up(0.1)
    assert follower.notifications == 6
    shop.run("INSERT INTO orders VALUES (200, 1, 50)")
    shop.connection.close()
    shop.server.stop()
    starter = threading.Timer(0.5, shop.server.start)
    starter.start()
    follower.ask(product.query)
    follower.catch_up(0.1)
    starter.join()
    shop.connection = shop.connect()
    assert follower.state == shop.contents("orders", "customers")
    assert follower.notifications == 7


def test_a_crash_takes_back_nothing_that_was_told(shop: Shop, opened: Open) -> None:
    """With synchronous_commit off, a commit may be seen before it is safe, and be gone after a crash."""
    source = opened()
    follower = follow(shop, source)
    for n in range(3):
        shop.connection.execute("SET synchronous_commit = off")
        shop.run(f"INSERT INTO orders VALUES ({100 + n}, 1, 50)")
        follower.step(1)
        shop.run(f"INSERT INTO orders VALUES ({200 + n}, 1, 50)")
        shop.connection.close()
        shop.server.stop("immediate")
        shop.server.start()
        shop.connection = shop.connect()
        shop.run(f"INSERT INTO orders VALUES ({300 + n}, 1, 50)")
        follower.ask(orders_of_customers(source.tables).query)
        follower.catch_up(0.1)
        assert follower.state == shop.contents("orders", "customers")


def test_a_server_that_stays_away_is_lost_after_a_while(shop: Shop, opened: Open) -> None:
    source = opened(patience=0.3)
    source.start(None)
    shop.connection.close()
    shop.server.stop()
    try:
        begun = time.monotonic()
        with pytest.raises(SourceLost, match='source "shop" cannot be read'):
            source.receive(1)
        assert time.monotonic() - begun < 5
    finally:
        shop.server.start()
        shop.connection = shop.connect()
    shop.run("INSERT INTO orders VALUES (200, 1, 50)")
    assert isinstance(source.receive(5), Committed), "and goes on when it is back"


def test_a_query_that_takes_too_long_is_asked_again_then_refused(shop: Shop, opened: Open) -> None:
    shop.run("INSERT INTO orders SELECT n, 1, 1 FROM generate_series(10, 5000) AS n")
    source = opened(query_timeout=0.02)
    source.start(None)
    source.ask(pairs_of_orders(source.tables).query)
    shop.run("INSERT INTO orders VALUES (9999, 2, 2)")
    assert isinstance(source.receive(0), Committed), "what was committed is told all the same"
    with pytest.raises(SourceSlow, match="did not answer query 1 in 0.02 seconds"):
        source.receive(10)


def test_wakes_up_at_once(shop: Shop, opened: Open) -> None:
    source = opened()
    source.start(None)
    writer = threading.Timer(0.2, shop.run, ["INSERT INTO orders VALUES (200, 1, 50)"])
    writer.start()
    begun = time.monotonic()
    assert isinstance(source.receive(10), Committed)
    assert time.monotonic() - begun < 5
    writer.join()


def test_what_is_missing_is_said_with_what_to_do(shop: Shop, opened: Open) -> None:
    with pytest.raises(SetupError, match="setup = 'create'"):
        opened(setup="exists")
    shop.run("CREATE TABLE raw (b bytea)")
    with pytest.raises(Unsupported, match="no column that can be read"):
        opened(tables=["raw"])
    shop.run(
        "DO $$ BEGIN CREATE ROLE reader LOGIN PASSWORD 'canary-7f3a-never-shown'; EXCEPTION WHEN OTHERS THEN END $$",
        "GRANT USAGE ON SCHEMA public TO reader",
        "GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader",
        "ALTER TABLE customers ENABLE ROW LEVEL SECURITY",
    )
    reader = Address({**shop.server.options, "user": "reader"})
    with pytest.raises(SetupError):
        PostgresSource("shop", reader, tables=["orders"], changes="slot")
    with pytest.raises(Unsupported, match="Row security"):
        PostgresSource("shop", reader, tables=["customers"])


def test_a_role_that_only_owns_its_tables_gets_an_outbox(shop: Shop) -> None:
    """Writers need no rights on the outbox: the trigger runs with its owner's."""
    for role in ("clerk", "writer"):
        shop.run(f"DROP ROLE IF EXISTS {role}", f"CREATE ROLE {role} LOGIN PASSWORD 'canary-7f3a-never-shown'")
    shop.run("GRANT USAGE, CREATE ON SCHEMA public TO clerk", "GRANT USAGE ON SCHEMA public TO writer")
    with shop.connect(user="clerk") as clerk:
        clerk.execute("CREATE TABLE sales (id int4 PRIMARY KEY)")
        clerk.execute("GRANT INSERT ON sales TO writer")
    address = Address({**shop.server.options, "user": "clerk"})
    source = PostgresSource("shop", address, tables=["Sales"], setup="create")
    assert source.changes == "outbox"
    source.start(None)
    with shop.connect(user="writer") as writer:
        writer.execute("INSERT INTO sales VALUES (7)")
    message = source.receive(5)
    assert isinstance(message, Committed) and message.changes == {"sales": ZSet({(7,): 1})}
    source.remove()
    with shop.connect(user="writer") as writer:
        writer.execute("INSERT INTO sales VALUES (8)")
    shop.run("DROP OWNED BY clerk, writer", "DROP ROLE clerk, writer")


def test_names_are_never_read_as_sql(shop: Shop, opened: Open) -> None:
    name = """a'b"c%s$1{x}; DROP TABLE orders; --"""
    there = '"' + name.replace('"', '""') + '"'
    shop.connection.execute(f"CREATE SCHEMA {there}".encode())
    shop.connection.execute(f"CREATE TABLE {there}.{there} ({there} int8, n text)".encode())
    source = opened(schema=name, reader=name)
    follower = Follower(source, {}, source.start(None))
    shop.connection.execute(f"INSERT INTO {there}.{there} VALUES (1, 'x'), (2, 'y')".encode())
    leaf = scan(source.tables[name.lower()], name)
    at = columns(leaf)
    product = view([leaf], [call("gt", at[f"{name}.{name.lower()}"], number(1))], {"n": at[f"{name}.n"]})
    follower.ask(product.query)
    follower.ask(product.query.after(name.lower(), ZSet({(3, "z"): 1})))
    follower.catch_up(0.1)
    shop.connection.execute(f"TRUNCATE {there}.{there}".encode())
    follower.catch_up(0.1)
    assert follower.state == {name.lower(): ZSet()}
    assert len(follower.answers) == 2
    shop.connection.execute(f"DROP SCHEMA {there} CASCADE".encode())


def test_passwords_are_seen_nowhere(
    shop: Shop, password: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Any
) -> None:
    caplog.set_level(logging.DEBUG)
    seen: list[str] = []
    address = Address(shop.server.options)
    source = PostgresSource("shop", address, changes="outbox", setup="create")
    seen += [repr(source), str(source.__dict__), source.start(None), repr(source._link), repr(address)]
    seen.append(source.describe(orders_of_customers(source.tables).query))
    source.close()
    for options in ({"password": password}, {"sslpassword": password}, {"dbname": f"postgres://owner:{password}@h/d"}):
        with pytest.raises(Unsupported) as refused:
            Address(options)
        seen.append(str(refused.value))
    with pytest.raises(SourceLost) as failed:
        PostgresSource("shop", Address({**shop.server.options, "dbname": password, "port": "5432"}), patience=0.1)
    seen.append(str(failed.value))
    monkeypatch.delenv("PGPASSWORD")
    with pytest.raises(SourceLost, match="password"):
        PostgresSource("shop", address, patience=0.1)
    monkeypatch.setenv("SHOP_SECRET", password)
    PostgresSource("shop", Address(address.options, password_env="SHOP_SECRET"), changes="outbox").close()
    service = tmp_path / "service.conf"
    lines = [f"{name}={value}" for name, value in address.options.items()]
    service.write_text("\n".join(["[shop]", *lines, f"password={password}", ""]))
    monkeypatch.setenv("PGSERVICEFILE", str(service))
    PostgresSource("shop", Address({"service": "shop"}), changes="outbox").close()
    with shop.connect() as owner:
        stored = owner.execute("SELECT application_name FROM pg_stat_activity").fetchall()
    seen += [caplog.text, str(stored)]
    assert not [text for text in seen if password in text]


def test_writers_with_conflicts_and_kills(shop: Shop, opened: Open) -> None:
    """What was told sums up to the tables, and every answer is that of the state which was told before it."""
    check_under_fire(shop, opened(held=50), transactions=700, writers=3, pause=0.1)


@pytest.mark.long
def test_fifty_thousand_transactions(shop: Shop, opened: Open) -> None:
    check_under_fire(shop, opened(), transactions=12_500, writers=4, pause=1.0)


def check_under_fire(shop: Shop, source: PostgresSource, transactions: int, writers: int, pause: float) -> None:
    follower = follow(shop, source)
    query = orders_of_customers(source.tables).query.after("orders", ZSet({(1, 1, 25): 1, (2, 2, 30): -1}))
    threads = [threading.Thread(target=scribble, args=(shop, seed, transactions)) for seed in range(writers)]
    killer = threading.Thread(target=kill_often, args=(shop, threads, pause))
    for thread in (*threads, killer):
        thread.start()
    while any(thread.is_alive() for thread in threads):
        if not follower.asked:
            follower.ask(query)
        follower.step(0.05)
        if follower.notifications % 100 == 99:
            source.forget(follower.position)
    killer.join()
    if not follower.asked:
        follower.ask(query)
    follower.catch_up(timeout=3.0)  # the last connection may have been killed, too
    assert follower.state == shop.contents("orders", "customers")
    assert follower.answers and follower.notifications > transactions * writers / 2
