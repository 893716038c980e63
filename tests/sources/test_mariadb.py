"""A real MariaDB as a source, by its binary log."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import tidemill
from tests.sources.following import Follower, columns, orders_of_customers, pairs_of_orders, scan, view
from tests.sources.mariadb import PASSWORD, MariaDb
from tests.sources.test_render import TYPES, VALUES, condition
from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.scalars import Literal
from tidemill.changes.zset import ZSet
from tidemill.model import types as t
from tidemill.model.errors import BadValue, EpochGone, SetupError, SourceLost, SourceSlow, TidemillError, Unsupported
from tidemill.sources.registry import open_source
from tidemill.sources.source import Answered, Committed, Source

SHOP = """
CREATE TABLE customers (id BIGINT PRIMARY KEY, name VARCHAR(40));
CREATE TABLE orders (id BIGINT PRIMARY KEY, customer BIGINT, amount BIGINT NOT NULL);
INSERT INTO customers VALUES (1, 'ann'), (2, 'bob'), (3, NULL);
INSERT INTO orders VALUES (1, 1, 10), (2, 1, 30), (3, NULL, 40)
"""
Open = Callable[..., Source]


class Shop:
    """The database ``shop`` of the server, made anew, and the connection of those who work in it."""

    def __init__(self, server: MariaDb) -> None:
        self.server = server
        self.connection = server.connect()
        self.run("DROP DATABASE IF EXISTS shop", "CREATE DATABASE shop CHARACTER SET utf8mb4", "USE shop")
        self.run(*SHOP.split(";"))

    def connect(self) -> Any:
        return self.server.connect(database="shop")

    def run(self, *statements: str) -> None:
        with self.connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def transaction(self, *statements: str) -> None:
        self.run("START TRANSACTION", *statements, "COMMIT")

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(query)
            return list(cursor.fetchall())

    def contents(self, *names: str) -> dict[str, ZSet]:
        return {name: ZSet.of(self.rows(f"SELECT * FROM {name}")) for name in names}


@pytest.fixture
def shop(mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.setenv("MYSQL_PWD", PASSWORD)
    return Shop(mariadb)


@pytest.fixture
def opened(shop: Shop) -> Iterator[Open]:
    made: list[Source] = []

    def open_(**options: str) -> Source:
        made.append(open_source("shop", "mariadb", {**shop.server.options, "patience": "20", **options}))
        return made[-1]

    yield open_
    for source in made:
        source.close()


def follow(shop: Shop, source: Source) -> Follower:
    return Follower(source, shop.contents("orders", "customers"), source.start(None))


def test_tells_transactions_one_by_one_and_answers_in_the_state_after_them(shop: Shop, opened: Open) -> None:
    source = opened()
    follower = follow(shop, source)
    shop.transaction("INSERT INTO orders VALUES (4, 2, 50)", "UPDATE customers SET name = 'ben' WHERE id = 2")
    shop.run("DELETE FROM orders WHERE id = 4", "INSERT INTO orders VALUES (5, 2, 60)")
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
            follower.ask(product.query.after("customers", ZSet({(1, "e'v\\e %s"): 3, (2, None): -1})))
    follower.catch_up(0)
    assert len(follower.answers) == 5


def test_rollbacks_savepoints_and_other_databases(shop: Shop, opened: Open) -> None:
    source = opened()
    follower = follow(shop, source)
    shop.run("START TRANSACTION", "INSERT INTO orders VALUES (4, 1, 1)", "ROLLBACK")
    shop.transaction("INSERT INTO orders VALUES (5, 1, 1)", "SAVEPOINT s", "DELETE FROM orders", "ROLLBACK TO s")
    shop.run("UPDATE orders SET id = id + 100", "REPLACE INTO orders VALUES (105, 9, 9)")
    shop.run("CREATE DATABASE IF NOT EXISTS other", "CREATE OR REPLACE TABLE other.orders (id INT)")
    shop.run("INSERT INTO other.orders VALUES (1)", "DROP DATABASE other", "CREATE TABLE third (n INT)")
    shop.run("INSERT INTO third VALUES (1)")
    follower.catch_up(0)
    assert follower.state == shop.contents("orders", "customers")
    assert follower.notifications == 3


@pytest.mark.parametrize(
    "statement",
    [
        "TRUNCATE TABLE orders",
        "ALTER TABLE orders ADD COLUMN note TEXT",
        "RENAME TABLE orders TO older",
        "DROP TABLE shop.orders",
        "CREATE OR REPLACE TABLE orders (id INT)",
    ],
)
def test_what_the_log_does_not_tell_is_refused_rather_than_guessed(shop: Shop, opened: Open, statement: str) -> None:
    source = opened()
    follower = follow(shop, source)
    shop.run("INSERT INTO orders VALUES (9, 9, 9)", statement)
    assert isinstance(follower.step(1), Committed)
    with pytest.raises(SourceLost, match="cannot be told"):
        follower.step(1)


def test_an_index_is_no_change_of_a_table(shop: Shop, opened: Open) -> None:
    source = opened()
    follower = follow(shop, source)
    shop.run("INSERT INTO orders VALUES (9, 9, 9)", "ALTER TABLE orders ADD INDEX (customer)")
    shop.run("CREATE INDEX more ON shop.orders (amount)", "INSERT INTO orders VALUES (10, 9, 9)")
    follower.catch_up(0)
    assert follower.state == shop.contents("orders", "customers") and follower.notifications == 2


def test_changes_that_a_session_wrote_as_statements_are_refused(shop: Shop, opened: Open) -> None:
    source = opened()
    follower = follow(shop, source)
    shop.run("SET SESSION binlog_format = STATEMENT", "UPDATE orders SET amount = amount + 1")
    shop.run("SET SESSION binlog_format = ROW")
    with pytest.raises(SourceLost, match="cannot be told") as error:
        follower.step(1)
    assert "UPDATE of orders" in str(error.value.detail)


def test_a_snapshot_shows_its_place_of_the_log_while_others_write(shop: Shop, opened: Open) -> None:
    source = opened(held="7")
    follower = follow(shop, source)
    writers = [threading.Thread(target=scribble, args=(shop, seed, 150)) for seed in range(3)]
    for writer in writers:
        writer.start()
    products = [orders_of_customers(source.tables), pairs_of_orders(source.tables)]
    while any(writer.is_alive() for writer in writers):
        if not follower.asked:
            follower.ask(products[len(follower.answers) % 2].query)
        follower.step(0.01)
    follower.catch_up(0.1)
    assert follower.state == shop.contents("orders", "customers")
    assert len(follower.answers) >= 2


def scribble(shop: Shop, seed: int, transactions: int) -> None:
    chance = random.Random(seed)
    with shop.connect() as connection, connection.cursor() as cursor:
        for _ in range(transactions):
            try:
                cursor.execute("START TRANSACTION")
                for _ in range(chance.randint(1, 3)):
                    cursor.execute(*statement(chance))
                cursor.execute("ROLLBACK" if chance.random() < 0.1 else "COMMIT")
            except Exception as error:
                if error.args[0] not in (1213, 1062, 1205):  # a deadlock, a key that is taken, a lock
                    raise
                cursor.execute("ROLLBACK")


def statement(chance: random.Random) -> tuple[str, tuple[Any, ...]]:
    id_, customer = chance.randint(1, 30), chance.randint(1, 6)
    return chance.choice(
        [
            ("REPLACE INTO orders VALUES (%s, %s, %s)", (id_, customer, chance.randint(1, 60))),
            ("DELETE FROM orders WHERE id = %s", (id_,)),
            ("UPDATE orders SET id = %s WHERE id = %s", (id_, chance.randint(1, 30))),
            ("UPDATE customers SET name = %s WHERE id = %s", (f"c{chance.randint(1, 9)}", customer)),
            ("INSERT IGNORE INTO customers VALUES (%s, 'new')", (customer,)),
        ]
    )


def test_goes_on_from_any_position_and_over_broken_connections(shop: Shop, opened: Open) -> None:
    source = opened(held="4")
    follower = follow(shop, source)
    for n in range(10):
        shop.transaction(
            f"INSERT INTO orders VALUES ({100 + n}, 1, 50)", f"UPDATE orders SET amount = {n} WHERE id = 1"
        )
    shop.run("FLUSH BINARY LOGS")
    for _ in range(5):
        assert isinstance(follower.step(), Committed)
    source.close()
    again = opened()
    again.start(follower.position)
    follower = Follower(again, follower.state, follower.position)
    follower.ask(orders_of_customers(again.tables).query)
    assert isinstance(follower.step(), Committed)
    own = {row[0] for row in shop.rows("SELECT CONNECTION_ID()")}
    for (process,) in shop.rows("SELECT id FROM information_schema.processlist WHERE user = 'root'"):
        if process not in own:
            shop.run(f"KILL {process}")
    shop.run("INSERT INTO orders VALUES (7, 2, 70)")
    follower.catch_up(0.1)
    assert follower.state == shop.contents("orders", "customers") and len(follower.answers) == 1


def test_a_log_that_is_gone_is_noticed(shop: Shop, opened: Open) -> None:
    source = opened()
    follower = follow(shop, source)
    shop.run("INSERT INTO orders VALUES (4, 1, 1)", "FLUSH BINARY LOGS")
    for (process,) in shop.rows("SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog%'"):
        shop.run(f"KILL {process}")  # a file that somebody reads stays
    (*_, (last, *_)) = shop.rows("SHOW BINARY LOGS")
    while len(shop.rows("SHOW BINARY LOGS")) > 1:
        shop.run(f"PURGE BINARY LOGS TO '{last}'")
    with pytest.raises(EpochGone, match="cannot be read on"):
        opened().start(follower.position)
    place = source.start(None)
    with pytest.raises(EpochGone, match="set up again"):
        opened().start(place.partition("@")[0] + "@0-1-1")
    with pytest.raises(EpochGone, match="no position"):
        opened().start("somewhere")


@pytest.mark.parametrize(("setting", "value"), [("binlog_format", "MIXED"), ("binlog_row_image", "MINIMAL")])
def test_a_log_without_whole_rows_is_refused_by_name(shop: Shop, opened: Open, setting: str, value: str) -> None:
    before = shop.rows(f"SELECT @@GLOBAL.{setting}")[0][0]
    shop.run(f"SET GLOBAL {setting} = {value}")
    try:
        with pytest.raises(SetupError, match=f"{setting} is {value}") as error:
            opened()
        assert PASSWORD not in error.value.render()
    finally:
        shop.run(f"SET GLOBAL {setting} = {before}")


def test_a_query_that_takes_too_long(shop: Shop, opened: Open) -> None:
    source = opened(query_timeout="0.1")
    shop.run("CREATE TABLE many (id INT PRIMARY KEY)", "INSERT INTO many SELECT seq FROM seq_1_to_4000")
    source = opened(query_timeout="0.1")
    source.start(None)
    leaves = [scan(source.tables["many"], alias) for alias in "abc"]
    at = columns(*leaves)
    source.ask(view(leaves, [call("lt", at["a.id"], at["b.id"])], {"a": at["c.id"]}).query)
    with pytest.raises(SourceSlow, match="did not answer"):
        source.receive(20)


# --------------------------------------------------------------------------------------------------------------- types

COLUMNS: dict[str, tuple[t.Type, list[tuple[str, Any]]]] = {
    "TINYINT": (t.INT, [("-128", -128), ("127", 127)]),
    "TINYINT UNSIGNED": (t.INT, [("255", 255)]),
    "SMALLINT UNSIGNED": (t.INT, [("65535", 65535)]),
    "MEDIUMINT": (t.INT, [("-8388608", -8388608)]),
    "MEDIUMINT UNSIGNED": (t.INT, [("16777215", 16777215)]),
    "INT": (t.INT, [("-2147483648", -(2**31))]),
    "INT UNSIGNED": (t.BIGINT, [("4294967295", 2**32 - 1)]),
    "BIGINT": (t.BIGINT, [("-9223372036854775808", -(2**63))]),
    "BIGINT UNSIGNED": (t.Decimal(20, 0), [("18446744073709551615", Decimal(2**64 - 1))]),
    "DECIMAL(9,2)": (t.Decimal(9, 2), [("-1234567.89", Decimal("-1234567.89")), ("0.05", Decimal("0.05"))]),
    "DECIMAL(38,10)": (
        t.Decimal(38, 10),
        [("-1234567890123456789012345678.0000000001", Decimal("-1234567890123456789012345678.0000000001"))],
    ),
    "DECIMAL(20,20)": (t.Decimal(20, 20), [("-0.12345678901234567890", Decimal("-0.12345678901234567890"))]),
    "DOUBLE": (t.DOUBLE, [("0.1", 0.1), ("-1.7976931348623157e308", -1.7976931348623157e308)]),
    "FLOAT": (t.DOUBLE, [("0.1", 0.10000000149011612)]),
    "BIT(1)": (t.BIGINT, [("b'1'", 1), ("b'0'", 0)]),
    "BIT(12)": (t.BIGINT, [("b'100000000001'", 2049)]),
    "BIT(64)": (t.Decimal(20, 0), [("~0", Decimal(2**64 - 1))]),
    "VARCHAR(300)": (t.STRING, [("'ä \U0001f600'", "ä \U0001f600"), ("''", "")]),
    "VARCHAR(9) CHARACTER SET latin1": (t.STRING, [("'Ärger '", "Ärger ")]),
    "CHAR(5)": (t.STRING, [("'ab'", "ab")]),
    "CHAR(200)": (t.STRING, [("'ab'", "ab")]),
    "LONGTEXT": (t.STRING, [("REPEAT('ü', 70000)", "ü" * 70000)]),
    "JSON": (t.STRING, [("""'{"a": 1}'""", '{"a": 1}')]),
    "ENUM('small','it''s')": (t.STRING, [("'it''s'", "it's")]),
    "SET('a','b','c')": (t.STRING, [("'a,c'", "a,c"), ("''", "")]),
    "VARBINARY(9)": (t.BINARY, [("x'00ff00'", b"\0\xff\0")]),
    "BINARY(4)": (t.BINARY, [("x'01'", b"\1\0\0\0")]),
    "BLOB": (t.BINARY, [("x'8000'", b"\x80\0")]),
    "DATE": (t.DATE, [("'2024-02-29'", date(2024, 2, 29)), ("'9999-12-31'", date(9999, 12, 31))]),
    "DATETIME": (t.TIMESTAMP, [("'2024-02-29 23:59:59'", datetime(2024, 2, 29, 23, 59, 59))]),
    "DATETIME(3)": (t.TIMESTAMP, [("'1000-01-01 00:00:00.007'", datetime(1000, 1, 1, 0, 0, 0, 7000))]),
    "DATETIME(6)": (t.TIMESTAMP, [("'2024-02-29 00:00:00.000001'", datetime(2024, 2, 29, 0, 0, 0, 1))]),
    "TIMESTAMP(5) NULL": (t.TIMESTAMP, [("'2024-07-01 12:00:00.00002'", datetime(2024, 7, 1, 10, 0, 0, 20))]),
    "YEAR": (t.INT, [("2024", 2024), ("0", 0)]),
}


def test_types_are_the_same_from_queries_and_from_the_log(shop: Shop, opened: Open) -> None:
    """Each value is inserted and read twice: told by the log, and asked for."""
    made = ", ".join(f"c{n} {kind}" for n, kind in enumerate(COLUMNS))
    shop.run(f"CREATE TABLE kinds (id INT PRIMARY KEY, {made}, clock TIME(4), place POINT, twice INT AS (id * 2))")
    source = opened(tables="kinds")
    table = source.tables["kinds"]
    assert [field.type for field in table.fields[1:]] == [of for of, _ in COLUMNS.values()]
    assert len(source.notes["kinds"]) == 3  # type: ignore[attr-defined]
    source.start(None)
    shop.run("SET time_zone = '+02:00'")
    for number in range(2):
        values = [written[number % len(written)][0] for _, written in COLUMNS.values()]
        names = ", ".join(f"c{n}" for n in range(len(COLUMNS)))
        shop.run(
            f"INSERT INTO kinds (id, {names}, clock, place) VALUES ({number}, {', '.join(values)}, '-01:00:00.5',"
            " POINT(1, 2))"
        )
    shop.run("INSERT INTO kinds (id) VALUES (9)", "SET time_zone = '+00:00'")
    expected = [(n, *(written[n % len(written)][1] for _, written in COLUMNS.values())) for n in range(2)]
    told = [source.receive(1) for _ in range(3)]
    rows = [next(iter(one.changes["kinds"])) for one in told if isinstance(one, Committed)]
    assert rows == [*expected, (9, *[None] * len(COLUMNS))]
    leaf = scan(table, "k")
    at = columns(leaf)
    source.ask(view([leaf], [], {field.name: at[f"k.{field.name}"] for field in table.fields}).query)
    answer = source.receive(1)
    assert isinstance(answer, Answered)
    assert set(answer.rows) == set(rows)


@pytest.mark.parametrize("zero_dates", ["refuse", "null"])
def test_zero_dates_are_refused_or_null(shop: Shop, opened: Open, zero_dates: str) -> None:
    shop.run("CREATE TABLE days (id INT PRIMARY KEY, d DATE, at DATETIME(2), ts TIMESTAMP NULL)")
    source = opened(tables="days", zero_dates=zero_dates)
    source.start(None)
    shop.run("SET sql_mode = ''", "INSERT INTO days VALUES (1, '2024-00-10', '0000-00-00', 0)")
    leaf = scan(source.tables["days"], "d")
    at = columns(leaf)
    asked = view([leaf], [], {name.partition(".")[2]: scalar for name, scalar in at.items()}).query
    if zero_dates == "null":
        source.ask(asked)
        told, answer = source.receive(1), source.receive(1)
        assert isinstance(told, Committed) and isinstance(answer, Answered)
        assert told.changes["days"] == answer.rows == ZSet({(1, None, None, None): 1})
        return
    with pytest.raises(BadValue, match="is no date") as error:
        source.receive(1)
    assert error.value.where == "days.d" and "zero_dates = 'null'" in str(error.value.hint)
    source.start(None)
    source.ask(asked)
    with pytest.raises(BadValue, match="is no date"):
        source.receive(1)


def test_conditions_mean_there_what_they_mean_here(shop: Shop, opened: Open) -> None:
    chance = random.Random(11)
    kept = {name: [row(chance) for _ in range(14)] for name in ("one", "two")}
    for name, rows in kept.items():
        shop.run(
            f"CREATE TABLE {name} (n BIGINT, s VARCHAR(9), x DOUBLE, b TINYINT(1), d DATE, p DECIMAL(9, 2),"
            " at DATETIME(6))"
        )
        with shop.connection.cursor() as cursor:
            cursor.executemany(f"INSERT INTO {name} VALUES (%s, %s, %s, %s, %s, %s, %s)", rows)
    source = opened(tables="one, two")
    state = {name: ZSet.of(rows) for name, rows in kept.items()}
    follower = Follower(source, state, source.start(None))
    one, two = scan(source.tables["one"], "o"), scan(source.tables["two"], "w")
    at = columns(one, two)
    outputs = {"a": at["o.n"], "b": at["w.s"], "c": at["o.x"], "d": at["w.p"], "e": at["o.at"]}
    for _ in range(100):
        conditions = [asked(chance, at) for _ in range(2)]
        product = view([one, two], conditions, outputs)
        follower.ask(product.query if chance.random() < 0.7 else product.query.after("two", state["two"]))
        follower.catch_up(0)
    assert len(follower.answers) == 100


def asked(chance: random.Random, at: dict[str, Any]) -> Any:
    """A condition without booleans, which no column there has."""
    while True:
        try:
            found = condition(chance, at, depth=2)
        except TidemillError:
            continue
        if "o.b" not in repr(found) and "w.b" not in repr(found) and Literal(True, t.BOOLEAN) not in (found,):
            return found


def row(chance: random.Random) -> tuple[Any, ...]:
    assert list(TYPES) == list(VALUES)
    values = {name: [value for value in some if value != float("inf")] for name, some in VALUES.items()}
    return tuple(0.0 if value == 0 and type(value) is float else value for value in map(chance.choice, values.values()))


# --------------------------------------------------------------------------------------------------------- a warehouse

QUERY = """SELECT c.name, COUNT(*) AS n, SUM(o.amount * 1.5) AS total
    FROM {0}orders o JOIN {0}customers c ON c.id = o.customer WHERE o.amount > 5 GROUP BY c.name"""


@pytest.mark.parametrize("consistency", ["strong", "complete"])
def test_a_view_follows_while_others_write(shop: Shop, tmp_path: Path, consistency: str) -> None:
    folder, given = tmp_path / "warehouse", ", ".join(f"{k} = '{v}'" for k, v in shop.server.options.items())

    def answer(query: str) -> Counter[Any]:
        return Counter(shop.rows(query))

    outer = "SELECT o.id, c.name FROM {0}orders o LEFT JOIN {0}customers c ON c.id = o.customer"
    with tidemill.open(folder, runtime="native") as warehouse:
        warehouse.sql(f"CREATE SOURCE shop TYPE mysql OPTIONS ({given})")
        option = f"WITH (consistency = '{consistency}')"
        warehouse.sql(f"CREATE MATERIALIZED VIEW v {option} AS {QUERY.format('shop.')}")
        warehouse.sql(f"CREATE MATERIALIZED VIEW w {option} AS {outer.format('shop.')}")
        writers = [threading.Thread(target=scribble, args=(shop, seed, 40)) for seed in range(2)]
        for writer in writers:
            writer.start()
        while any(writer.is_alive() for writer in writers):
            warehouse.sync(timeout=1)
        warehouse.sync()
        assert Counter(warehouse.view("v").rows()) == answer(QUERY.format(""))
    scribble(shop, seed=9, transactions=20)
    with tidemill.open(folder, runtime="native") as warehouse:
        warehouse.sync()
        assert Counter(warehouse.view("v").rows()) == answer(QUERY.format(""))
        assert Counter(warehouse.view("w").rows()) == answer(outer.format(""))
        assert warehouse.view("v").verify().ok
        told = warehouse.view("v").explain() + str(warehouse.sql("SHOW SOURCES"))
        assert "there: SUM(" in told and "groups with sums" in told
        warehouse.sql("DROP VIEW v; DROP VIEW w; DROP SOURCE shop")
    stored = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert PASSWORD not in told and PASSWORD.encode() not in stored


def test_what_cannot_be_is_refused(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    for options, text in (
        ({"database": "shop", "password": "x"}, "no option 'password'"),
        ({"database": "shop", "colour": "red"}, "no option 'colour'"),
        ({"host": "nowhere"}, "needs the option database"),
        ({"database": "shop", "zero_dates": "perhaps"}, "'perhaps' is no value"),
        ({"database": "shop", "password_env": "HOME"}, 'may not read the variable "HOME"'),
        ({"database": "shop", "port": "x"}, "no value of the option port"),
    ):
        with pytest.raises(Unsupported, match=text):
            open_source("shop", "mysql", options)
    monkeypatch.setenv("MYSQL_PWD", "wrong-secret-word")
    with pytest.raises(SourceLost) as error:
        open_source("shop", "mysql", {**shop.server.options, "patience": "0.1"})
    assert "wrong-secret-word" not in error.value.render()
    monkeypatch.setenv("MYSQL_PWD", PASSWORD)
    shop.run("CREATE TABLE plain (id INT) ENGINE = MyISAM")
    with pytest.raises(Unsupported, match="no column that can be read") as found:
        open_source("shop", "mysql", {**shop.server.options, "tables": "plain"})
    assert "MyISAM" in str(found.value.detail)
