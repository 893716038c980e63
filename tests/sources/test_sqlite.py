from __future__ import annotations

import math
import sqlite3
import subprocess
import sys
import threading
from decimal import Decimal
from pathlib import Path

import pytest

from tests.sources.following import Follower, columns, orders_of_customers, pairs_of_orders, scan, view
from tests.sources.scribbling import scribble
from tidemill.algebra.expressions.call import call
from tidemill.changes.zset import ZSet
from tidemill.model import types as t
from tidemill.model.errors import BadValue, EpochGone, SetupError, SourceSlow, Unsupported
from tidemill.sources.source import Answered, Committed
from tidemill.sources.sqlite.source import SqliteSource

SHOP = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, amount INTEGER NOT NULL);
INSERT INTO customers VALUES (1, 'ann'), (2, 'bob'), (3, NULL);
INSERT INTO orders VALUES (1, 1, 10), (2, 1, 30), (3, NULL, 40);
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    path = tmp_path / "shop's %20.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(SHOP)
        connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    return path


def contents(path: Path, *names: str) -> dict[str, ZSet]:
    connection = sqlite3.connect(path)
    rows = {name: ZSet.of(connection.execute(f"SELECT * FROM {name}").fetchall()) for name in names}
    connection.close()
    return rows


def follow(path: Path, source: SqliteSource) -> Follower:
    position = source.start(None)
    return Follower(source, contents(path, *source.tables), position)


def write(path: Path, *statements: str, recursive: bool = False) -> None:
    with sqlite3.connect(path, timeout=30) as connection:
        connection.execute(f"PRAGMA recursive_triggers = {int(recursive)}")
        for statement in statements:
            connection.execute(statement)
    connection.close()


def test_tells_what_other_connections_commit_and_answers_in_that_state(shop: Path) -> None:
    source = SqliteSource("shop", shop, setup="create")
    follower = follow(shop, source)
    write(shop, "INSERT INTO orders VALUES (4, 2, 50)", "UPDATE customers SET name = 'ben' WHERE id = 2")
    follower.ask(orders_of_customers(source.tables).query)
    message = follower.step()
    assert isinstance(message, Committed)
    assert message.changes == {
        "orders": ZSet({(4, 2, 50): 1}),
        "customers": ZSet({(2, "bob"): -1, (2, "ben"): 1}),
    }
    answer = follower.step()
    assert isinstance(answer, Answered)
    assert answer.rows == ZSet({(2, "ann", 60): 1, (4, "ben", 100): 1})
    assert answer.position == message.position
    assert answer.received == len("230ann450ben")
    assert source.receive(0) is None
    assert (source.traffic.queries, source.traffic.answers, source.traffic.notifications) == (1, 1, 1)
    source.close()


def test_signed_terms_and_bound_tuples(shop: Path) -> None:
    source = SqliteSource("shop", shop, setup="create")
    follower = follow(shop, source)
    for product in (orders_of_customers(source.tables), pairs_of_orders(source.tables)):
        change = ZSet({(7, 1, 70): 1, (2, 1, 30): -1, (8, None, 5): 2})
        once = product.query.after("orders", change)
        follower.ask(once)
        follower.ask(product.query - once - once.after("orders", ZSet({(9, 1, 90): 1})))
        if "customers" in product.relations:
            follower.ask(product.query.after("customers", ZSet({(1, "eve"): 3, (2, None): -1})))
    follower.catch_up(0)
    assert len(follower.answers) == 5
    source.close()


def test_a_batch_beyond_the_limits_of_a_statement(shop: Path) -> None:
    source = SqliteSource("shop", shop, setup="create")
    follower = follow(shop, source)
    product = orders_of_customers(source.tables)
    follower.ask(product.query.after("orders", ZSet({(n, 1 + n % 3, n): 1 for n in range(4_000)})))
    many = product.query
    for n in range(220):
        many += product.query.after("orders", ZSet({(n, 1, n): 1}))
    follower.ask(many)
    follower.catch_up(0)
    assert len(follower.answers) == 2
    source.close()


def test_rollbacks_and_savepoints_leave_nothing_behind(shop: Path) -> None:
    source = SqliteSource("shop", shop, setup="create")
    follower = follow(shop, source)
    connection = sqlite3.connect(shop, isolation_level=None)
    for statement in (
        "BEGIN",
        "INSERT INTO orders VALUES (4, 1, 1)",
        "ROLLBACK",
        "BEGIN",
        "INSERT INTO orders VALUES (5, 1, 1)",
        "SAVEPOINT s",
        "DELETE FROM orders",
        "ROLLBACK TO s",
    ):
        connection.execute(statement)
    assert follower.step() is None, "what is not committed is not told"
    connection.execute("COMMIT")
    follower.catch_up(0)
    assert follower.notifications == 1
    assert follower.state == contents(shop, "orders", "customers")
    source.close()


@pytest.mark.parametrize("recursive", [False, True])
def test_rows_that_replace_removes_are_told(shop: Path, recursive: bool) -> None:
    write(shop, "CREATE UNIQUE INDEX name ON customers (name COLLATE NOCASE)")
    source = SqliteSource("shop", shop, setup="create")
    follower = follow(shop, source)
    for statement in (
        "REPLACE INTO orders VALUES (1, 2, 11)",
        "INSERT OR REPLACE INTO customers VALUES (7, 'ANN')",
        "INSERT OR IGNORE INTO customers VALUES (8, 'Bob')",
        "INSERT INTO orders VALUES (1, 3, 12) ON CONFLICT (id) DO UPDATE SET amount = excluded.amount",
        "UPDATE OR REPLACE customers SET name = 'bOB' WHERE id = 7",
        "UPDATE OR REPLACE orders SET id = 3 WHERE id = 2",
        "REPLACE INTO orders SELECT id, customer, amount + 1 FROM orders",
        "INSERT INTO customers (name) VALUES ('zoe'), (NULL), (NULL)",
    ):
        write(shop, statement, recursive=recursive)
        follower.catch_up(0)
        assert follower.state == contents(shop, "orders", "customers"), statement
    source.close()


def test_values_come_exactly_as_they_are_stored(tmp_path: Path) -> None:
    path = tmp_path / "values.db"
    write(
        path,
        'CREATE TABLE "V v" (id INTEGER PRIMARY KEY, "Big ""one""" BIGINT, price DECIMAL(9, 2), x DOUBLE, yes BOOLEAN,'
        " day DATE, at TIMESTAMP, note VARCHAR(20) COLLATE NOCASE, raw BLOB)",
    )
    source = SqliteSource("s", path, setup="create")
    assert source.notes == {"v v": ("Column raw of type BLOB is left out.",)}
    table = source.tables["v v"]
    assert [f.type for f in table.fields[1:]] == [
        t.BIGINT, t.Decimal(9, 2), t.DOUBLE, t.BOOLEAN, t.DATE, t.TIMESTAMP, t.STRING,
    ]  # fmt: skip
    assert table.primary_key == ("id",)
    follower = Follower(source, {}, source.start(None))
    connection = sqlite3.connect(path)
    rows = [
        (1, 2**63 - 1, "9.50", 0.1 + 0.2, 1, "2024-02-29", "2024-02-29 12:00:00.5", "ä%'\"", b"x"),
        (2, -(2**53) - 1, 7, 5e-324, 0, None, "2024-02-29T12:00:00+02:00", "", None),
        (3, None, None, -math.inf, None, None, None, None, None),
    ]
    connection.executemany('INSERT INTO "V v" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)', rows)
    connection.commit()
    leaf = scan(table, "v")
    at = columns(leaf)
    whole = view([leaf], [], {f.name: at[f"v.{f.name}"] for f in table.fields})
    follower.ask(whole.query)
    follower.catch_up(0)
    (row,) = [row for row in follower.state["v v"] if row[0] == 1]
    assert row[1:4] == (2**63 - 1, Decimal("9.50"), 0.1 + 0.2)
    assert follower.answers[0].rows == follower.state["v v"]
    upper = view([leaf], [call("eq", at["v.note"], at["v.note"])], {"id": at["v.id"]})
    follower.ask(upper.query.after("v v", ZSet({(9, *row[1:7], "Ä%'\""): 1})))
    follower.catch_up(0)
    connection.execute("INSERT INTO \"V v\" (id, day) VALUES (4, '2024-1-1')")
    connection.commit()
    connection.close()
    with pytest.raises(BadValue) as refused:
        follower.step()
    assert refused.value.where == "V v.day"
    source.close()


def test_resumes_where_it_was_and_forgets_what_it_may(shop: Path) -> None:
    source = SqliteSource("shop", shop, setup="create")
    follower = follow(shop, source)
    other = SqliteSource("other", shop)
    other.start(None)
    write(shop, "INSERT INTO orders VALUES (4, 2, 50)")
    follower.catch_up(0)
    source.close()
    write(shop, "DELETE FROM orders WHERE id = 4", "INSERT INTO orders VALUES (5, 2, 50)")
    again = SqliteSource("shop", shop)
    assert again.start(follower.position) == follower.position
    follower.source = again
    follower.catch_up(0)
    assert follower.state == contents(shop, "orders", "customers")
    again.forget(follower.position)
    assert contents(shop, "_tidemill_outbox")["_tidemill_outbox"], "the other reader has not read it"
    other.forget(follower.position)
    assert not contents(shop, "_tidemill_outbox")["_tidemill_outbox"]
    with pytest.raises(EpochGone, match="does not reach back"):
        again.start("0")
    with pytest.raises(EpochGone):
        again.start("99")
    again.close()
    other.close()


def test_two_warehouses_under_one_name_are_told_so(shop: Path) -> None:
    one, other = SqliteSource("shop", shop, setup="create"), SqliteSource("shop", shop)
    other.start(one.start(None))
    write(shop, "INSERT INTO orders VALUES (4, 2, 50)")
    message = one.receive(0)
    assert message is not None
    one.forget(message.position)
    with pytest.raises(EpochGone, match="under the same name"):
        other.receive(0)
    one.close()
    other.close()


def test_the_last_reader_takes_everything_along(shop: Path) -> None:
    one, other = SqliteSource("one", shop, setup="create"), SqliteSource("other", shop)
    one.start(None)
    other.start(None)
    made = "SELECT count(*) FROM sqlite_master WHERE name LIKE '%tidemill%'"
    for source, left in ((one, True), (other, False)):
        source.remove()
        connection = sqlite3.connect(shop)
        assert bool(connection.execute(made).fetchone()[0]) == left
        connection.close()
    write(shop, "INSERT INTO orders VALUES (4, 2, 50)")


def test_columns_that_come_later_need_the_owners_permission(shop: Path) -> None:
    with pytest.raises(SetupError, match="no outbox"):
        SqliteSource("shop", shop)
    first = SqliteSource("shop", shop, setup="create")
    start = first.start(None)
    write(shop, "INSERT INTO orders VALUES (4, 2, 50)", "ALTER TABLE orders ADD COLUMN note TEXT")
    with pytest.raises(SetupError, match='no outbox for "orders"'):
        SqliteSource("shop", shop)
    second = SqliteSource("shop", shop, setup="create")
    assert second.start(start) == start
    write(shop, "UPDATE orders SET note = 'new' WHERE id = 4")
    message = second.receive(0)
    assert isinstance(message, Committed)
    assert message.changes["orders"] == ZSet({(4, 2, 50, "new"): 1})
    first.close()
    second.close()


def test_what_cannot_be_read_is_refused_when_used(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    write(path, "CREATE TABLE b (raw BLOB)", "CREATE TABLE w (id INTEGER PRIMARY KEY) WITHOUT ROWID")
    source = SqliteSource("s", path, setup="create")
    assert source.tables == {}
    with pytest.raises(Unsupported, match="no column that can be read"):
        SqliteSource("s", path, tables=["b"], setup="create")
    with pytest.raises(Unsupported, match="WITHOUT ROWID"):
        SqliteSource("s", path, tables=["w"], setup="create")
    with pytest.raises(SetupError, match="cannot open"):
        SqliteSource("s", tmp_path / "missing.db")
    source.close()


def test_a_query_that_takes_too_long_is_asked_again_then_refused(shop: Path) -> None:
    connection = sqlite3.connect(shop)
    connection.executemany("INSERT INTO orders VALUES (?, 1, 1)", [(n,) for n in range(10, 3000)])
    connection.commit()
    connection.close()
    source = SqliteSource("shop", shop, setup="create", query_timeout=0.01)
    follow(shop, source)
    source.ask(pairs_of_orders(source.tables).query)
    write(shop, "INSERT INTO orders VALUES (9999, 2, 2)")
    assert isinstance(source.receive(0), Committed), "what was committed is told all the same"
    with pytest.raises(SourceSlow, match="did not answer query 1"):
        source.receive(5)
    source.close()


def test_writers_in_other_threads_and_processes(shop: Path) -> None:
    """Three writers, with conflicts: the fold of what was told is the tables, and every answer is right."""
    source = SqliteSource("shop", shop, setup="create")
    follower = follow(shop, source)
    product = orders_of_customers(source.tables)
    threads = [threading.Thread(target=scribble, args=(shop, seed, 300)) for seed in (1, 2)]
    script = f"from tests.sources.scribbling import scribble; scribble({str(shop)!r}, 3, 300)"
    process = subprocess.Popen([sys.executable, "-c", script], cwd=Path(__file__).parents[2])
    for thread in threads:
        thread.start()
    while process.poll() is None or any(thread.is_alive() for thread in threads):
        if not follower.asked:
            follower.ask(product.query.after("orders", ZSet({(1, 1, 25): 1})))
        follower.step(0.05)
    follower.catch_up()
    assert process.returncode == 0
    assert follower.state == contents(shop, "orders", "customers")
    assert follower.notifications > 2 and follower.answers
    source.close()
