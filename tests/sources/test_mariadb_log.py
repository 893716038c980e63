"""The binary log of a real MariaDB: what statements, prepared transactions and character sets do to what is told."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.sources.following import Follower
from tests.sources.mariadb import PASSWORD, MariaDb
from tests.sources.test_mariadb import Shop, scribble
from tidemill.changes.zset import ZSet
from tidemill.model.errors import EpochGone, SetupError, SourceLost, Unsupported
from tidemill.sources.mysql.log_statements import LoggedStatement
from tidemill.sources.registry import open_source
from tidemill.sources.source import Source

PARTS = (
    "CREATE TABLE parts (id INT PRIMARY KEY, n INT) PARTITION BY RANGE (id)"
    " (PARTITION low VALUES LESS THAN (10), PARTITION high VALUES LESS THAN MAXVALUE)",
    "INSERT INTO parts VALUES (1, 1), (20, 2)",
)
Open = Callable[..., Source]


@pytest.fixture
def shop(mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    monkeypatch.setenv("MYSQL_PWD", PASSWORD)
    made = Shop(mariadb)
    yield made
    made.connection.close()


@pytest.fixture
def opened(shop: Shop) -> Iterator[Open]:
    made: list[Source] = []

    def open_(**options: str) -> Source:
        made.append(open_source("shop", "mariadb", {**shop.server.options, "patience": "20", **options}))
        return made[-1]

    yield open_
    for source in made:
        source.close()


def contents(shop: Shop, source: Source) -> dict[str, ZSet]:
    return {name: ZSet.of(shop.rows(f"SELECT * FROM shop.`{name}`")) for name in source.tables}


def follow(shop: Shop, source: Source) -> Follower:
    return Follower(source, contents(shop, source), source.start(None))


# ---------------------------------------------------------------------------------------------------------- statements


@pytest.mark.parametrize(
    "statements",
    [
        ("ALTER TABLE parts TRUNCATE PARTITION low",),
        ("ALTER TABLE parts DROP PARTITION low",),
        ("CREATE TABLE other (id INT PRIMARY KEY, n INT)", "ALTER TABLE parts EXCHANGE PARTITION low WITH TABLE other"),
        ("ALTER TABLE parts CONVERT PARTITION low TO TABLE other",),
        ("ALTER TABLE parts MODIFY n TINYINT", "ALTER TABLE parts MODIFY n INT"),
        ("ALTER IGNORE TABLE parts ADD UNIQUE INDEX (n, id)",),
        ("CREATE TABLE next LIKE parts", "ALTER TABLE parts RENAME TO old", "ALTER TABLE next RENAME TO parts"),
        ("ALTER TABLE parts DROP PRIMARY KEY",),
        ("DROP INDEX `PRIMARY` ON parts",),
        ("ALTER TABLE parts REMOVE PARTITIONING",),
        ("ALTER TABLE orders ADD FOREIGN KEY (customer) REFERENCES customers (id) ON DELETE SET NULL",),
        ("SET STATEMENT lock_wait_timeout = 9 FOR TRUNCATE TABLE parts",),
        ("/* tidy up */ DROP TABLE parts",),
        ("CREATE OR REPLACE DATABASE shop", "USE shop", PARTS[0], "CREATE TABLE orders (id INT)"),
        ("BEGIN NOT ATOMIC TRUNCATE TABLE parts; END",),
    ],
)  # fmt: skip
def test_statements_that_change_rows_unseen_are_errors(shop: Shop, opened: Open, statements: tuple[str, ...]) -> None:
    shop.run(*PARTS)
    source = opened(tables="parts, orders")
    follow(shop, source)
    shop.run("UPDATE parts SET n = NULL", *statements)
    assert source.receive(1) is not None
    with pytest.raises(SourceLost, match="cannot be told"):
        source.receive(1)


@pytest.mark.parametrize("before", ["SET binlog_format = STATEMENT", "SET binlog_row_image = MINIMAL"])
@pytest.mark.parametrize(
    "statement", ["SET STATEMENT max_statement_time = 9 FOR UPDATE orders SET amount = 1", "DELETE FROM orders"]
)
def test_sessions_that_log_less_are_noticed(shop: Shop, opened: Open, before: str, statement: str) -> None:
    source = opened()
    follow(shop, source)
    shop.run(before, statement)
    with pytest.raises(SourceLost, match="cannot be told") as error:
        source.receive(1)
    assert "orders" in str(error.value.detail)


def test_rows_that_are_loaded_as_a_statement_are_noticed(shop: Shop, opened: Open) -> None:
    lines = shop.server.folder / "lines.txt"
    lines.write_text("77\t7\t7\n")
    lines.chmod(0o644)
    source = opened()
    follow(shop, source)
    shop.run("SET binlog_format = STATEMENT", f"LOAD DATA INFILE '{lines}' INTO TABLE orders")
    with pytest.raises(SourceLost, match="cannot be told") as error:
        source.receive(1)
    assert "LOAD DATA of orders" in str(error.value.detail)


def test_what_changes_no_rows_goes_on(shop: Shop, opened: Open) -> None:
    shop.run(*PARTS)
    source = opened()
    follower = follow(shop, source)
    shop.run(
        "CREATE TRIGGER one BEFORE INSERT ON orders FOR EACH ROW SET NEW.amount = NEW.amount + 1",
        "CREATE OR REPLACE VIEW some AS SELECT * FROM orders",
        "CREATE PROCEDURE more() UPDATE orders SET amount = 2 WHERE id = 1",
        "CALL more()",
        "ALTER TABLE shop.orders ADD INDEX a (customer), ADD UNIQUE KEY b (id, customer), COMMENT = 'a, b'",
        "ALTER TABLE orders DROP INDEX a, DROP KEY b, ALTER COLUMN amount SET DEFAULT 5, ENGINE = InnoDB",
        "SET STATEMENT lock_wait_timeout = 9 FOR ALTER TABLE orders ADD CONSTRAINT c CHECK (amount > -1000)",
        "ALTER TABLE orders ADD FOREIGN KEY (customer) REFERENCES customers (id)",
        "ANALYZE TABLE orders",
        "CREATE TEMPORARY TABLE customers (n INT)",
        "DROP TEMPORARY TABLE customers",
        "CREATE TABLE copied AS SELECT * FROM orders",
        "ALTER TABLE parts REORGANIZE PARTITION high INTO (PARTITION high VALUES LESS THAN (90),"
        " PARTITION top VALUES LESS THAN MAXVALUE)",
        "INSERT INTO parts VALUES (5, 5), (500, 5)",
        "INSERT INTO orders VALUES (9, 1, 9)",
    )
    follower.catch_up(0)
    assert follower.state == contents(shop, source)


def test_columns_that_are_altered_while_nobody_reads(shop: Shop, opened: Open) -> None:
    """The log has earlier rows in another form, which would be read as something else."""
    shop.run("CREATE TABLE kinds (id INT PRIMARY KEY, e ENUM('a', 'b'))")
    source = opened()
    follower = follow(shop, source)
    shop.run("INSERT INTO kinds VALUES (1, 'a')")
    follower.catch_up(0)
    opened().start(follower.position)
    source.close()
    shop.run("INSERT INTO kinds VALUES (2, 'b')", "ALTER TABLE kinds MODIFY e ENUM('b', 'a')")
    with pytest.raises(EpochGone, match="other columns"):
        opened().start(follower.position)


def test_names_are_found_however_they_are_written() -> None:
    tables = ["orders", "my-t`b", "größe x"]
    for text, named in (
        ("TRUNCATE TABLE `my-t``b`", ["my-t`b"]),
        ("truncate GRÖSSE", []),
        ("TRUNCATE `größe x`", ["größe x"]),
        ("DROP TABLE `my-shop` . `orders` /* generated */", ["orders"]),
        ("DROP TABLE ORDERS", []),
        ("DROP TABLE other.orders, elsewhere", []),
        ("/*!40000 ALTER TABLE orders DISCARD TABLESPACE */", ["orders"]),
        ("REPLACE INTO copies SELECT 'orders' -- orders\n", []),
        ("RENAME USER orders TO orders2", []),
        ("CREATE DEFINER=`root`@`table` TRIGGER t BEFORE INSERT ON orders FOR EACH ROW SET NEW.id = 1", []),
        ("WITH a AS (SELECT 1) DELETE FROM orders", ["orders"]),
    ):
        assert LoggedStatement(text, "my-shop").touches("my-shop", tables) == named, text


def test_savepoints_beside_a_table_without_transactions(shop: Shop, opened: Open) -> None:
    shop.run("CREATE TABLE plain (id INT) ENGINE = MyISAM")
    source = opened(tables="orders")
    follower = follow(shop, source)
    insert = "INSERT INTO orders VALUES ({0}, 1, 1)".format
    shop.transaction(
        insert(60), "SAVEPOINT s", insert(61), "INSERT INTO plain VALUES (1)", "ROLLBACK TO SAVEPOINT s", insert(62)
    )
    shop.run("START TRANSACTION", insert(63), "INSERT INTO plain VALUES (2)", "ROLLBACK")
    follower.catch_up(0)
    assert follower.state == contents(shop, source)


# ------------------------------------------------------------------------------------------------ prepared transactions


def xa(shop: Shop, number: str, *statements: str) -> Any:
    """Prepare a transaction in a session of its own."""
    other = shop.connect()
    with other.cursor() as cursor:
        for statement in (f"XA START {number}", *statements, f"XA END {number}", f"XA PREPARE {number}"):
            cursor.execute(statement)
    return other


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
@pytest.mark.parametrize("restart", [False, True])
def test_prepared_transactions_count_when_they_are_committed(shop: Shop, opened: Open, end: str, restart: bool) -> None:
    source = opened()
    follower = follow(shop, source)
    shop.run("INSERT INTO orders VALUES (50, 1, 1)")
    xa(shop, "'a', 'b', 7", "INSERT INTO orders VALUES (51, 1, 1)", "DELETE FROM orders WHERE id = 2").close()
    shop.run("INSERT INTO orders VALUES (52, 1, 1)")
    follower.catch_up(0)
    assert follower.state == contents(shop, source)
    if restart:
        source.close()
        source = opened()
        source.start(follower.position)
        follower = Follower(source, follower.state, follower.position)
    shop.run("INSERT INTO orders VALUES (53, 1, 1)", f"XA {end} 'a', 'b', 7", "INSERT INTO orders VALUES (54, 1, 1)")
    follower.catch_up(0)
    assert follower.state == contents(shop, source)


def test_a_transaction_that_was_prepared_before_the_views_is_an_error(shop: Shop, opened: Open) -> None:
    xa(shop, "'early'", "INSERT INTO orders VALUES (51, 1, 1)").close()
    source = opened()
    follow(shop, source)
    shop.run("XA COMMIT 'early'")
    with pytest.raises(SourceLost, match="cannot be told") as error:
        source.receive(1)
    assert "prepared" in str(error.value.detail)


def test_prepared_transactions_beside_writers(shop: Shop, opened: Open) -> None:
    source = opened(held="7")
    follower = follow(shop, source)
    writers = [threading.Thread(target=scribble, args=(shop, seed, 60)) for seed in range(2)]
    for writer in writers:
        writer.start()
    chance = random.Random(5)
    for number in range(40):
        one = xa(shop, f"'{number}'", f"INSERT INTO orders VALUES ({1000 + number}, 1, 1)")
        follower.step(0.01)
        with one.cursor() as cursor:
            cursor.execute(f"XA {chance.choice(['COMMIT', 'ROLLBACK'])} '{number}'")
        one.close()
    for writer in writers:
        writer.join()
    follower.catch_up(0.1)
    assert follower.state == contents(shop, source)


# ---------------------------------------------------------------------------------------------------- settings, catalog


def test_checksums_are_switched_while_the_log_is_read(shop: Shop, opened: Open) -> None:
    shop.run("CREATE TABLE tiny (n TINYINT)")
    source = opened(tables="tiny")
    follower = follow(shop, source)
    for setting in ("NONE", "CRC32"):
        shop.run("INSERT INTO tiny VALUES (1), (NULL)", f"SET GLOBAL binlog_checksum = {setting}")
        shop.run("INSERT INTO tiny VALUES (2), (NULL), (NULL)", "DELETE FROM tiny WHERE n = 2")
    follower.catch_up(0)
    assert follower.state == contents(shop, source) == {"tiny": ZSet({(1,): 2, (None,): 6})}


def test_compressed_events_are_refused_by_name(shop: Shop, opened: Open) -> None:
    source = opened()
    follow(shop, source)
    shop.run("SET GLOBAL log_bin_compress = ON", "SET GLOBAL log_bin_compress_min_len = 10")
    try:
        shop.run("INSERT INTO orders VALUES (70, 1, 1), (71, 1, 1), (72, 1, 1)")
        with pytest.raises(SourceLost, match="cannot be told") as error:
            source.receive(1)
        assert "log_bin_compress" in str(error.value.detail)
        with pytest.raises(SetupError, match="log_bin_compress is ON"):
            opened()
    finally:
        shop.run("SET GLOBAL log_bin_compress = OFF", "SET GLOBAL log_bin_compress_min_len = DEFAULT")


def test_tables_whose_rows_a_foreign_key_changes_are_refused(shop: Shop, opened: Open) -> None:
    """Also for a role that may only read, from which the catalog of foreign keys is hidden."""
    shop.run(
        "CREATE TABLE parent (id INT PRIMARY KEY)",
        "CREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE)",
        "CREATE TABLE plain (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id))",
        "CREATE OR REPLACE USER reader@localhost IDENTIFIED BY ''",
        "GRANT SELECT ON shop.* TO reader@localhost",
        "GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO reader@localhost",
        f"SET PASSWORD FOR reader@localhost = PASSWORD('{PASSWORD}')",
    )
    source = opened(user="reader", tables="parent, plain")
    follower = follow(shop, source)
    shop.run("INSERT INTO parent VALUES (1), (2)", "INSERT INTO child VALUES (1, 1)", "DELETE FROM parent WHERE id = 1")
    follower.catch_up(0)
    assert follower.state == contents(shop, source)
    with pytest.raises(Unsupported, match="no column that can be read") as error:
        opened(user="reader", tables="child")
    assert "foreign key" in str(error.value.detail)


def test_names_that_differ_in_case_are_different_names(shop: Shop, opened: Open) -> None:
    shop.run("CREATE OR REPLACE DATABASE Shop", "CREATE TABLE Shop.orders (x INT, y INT)")
    try:
        source = opened()
        follower = follow(shop, source)
        assert len(source.tables["orders"].fields) == 3
        shop.run("INSERT INTO Shop.orders VALUES (1, 1)", "INSERT INTO orders VALUES (9, 9, 9)", "TRUNCATE Shop.orders")
    finally:
        shop.run("DROP DATABASE Shop")
    follower.catch_up(0)
    assert follower.state == contents(shop, source)


def test_columns_that_the_reader_does_not_know_are_of_no_concern_elsewhere(shop: Shop, opened: Open) -> None:
    shop.run("CREATE TABLE squeezed (id INT PRIMARY KEY, a TEXT COMPRESSED)")
    source = opened()
    follower = follow(shop, source)
    columns = "id INT, a UUID, b INET6, c GEOMETRY, d TEXT COMPRESSED, e VARCHAR(500) COMPRESSED, f TIME(3)"
    values = "1, UUID(), '::1', POINT(1, 2), REPEAT('x', 400), REPEAT('y', 400), '10:00:00'"
    shop.run(
        "CREATE OR REPLACE DATABASE odd", f"CREATE TABLE odd.orders ({columns})", f"CREATE TABLE others ({columns})"
    )
    shop.run(f"INSERT INTO odd.orders VALUES ({values})", f"INSERT INTO others VALUES ({values})", "DROP DATABASE odd")
    shop.run("INSERT INTO squeezed VALUES (1, REPEAT('x', 400))", "INSERT INTO orders VALUES (9, 9, 9)")
    follower.catch_up(0)
    assert follower.state == contents(shop, source)
    with pytest.raises(Unsupported, match="no column that can be read") as error:
        opened(tables="squeezed")
    assert "compressed" in str(error.value.detail)


def test_a_server_that_numbers_transactions_by_domains(shop: Shop, opened: Open) -> None:
    source = opened()
    follower = follow(shop, source)
    for domain in (3, 0):
        shop.run(f"SET gtid_domain_id = {domain}", f"INSERT INTO orders VALUES ({60 + domain}, 1, 1)")
        follower.catch_up(0)
        opened().start(follower.position)  # the log is the same one
    assert follower.state == contents(shop, source)


CHARSETS = ("latin1", "swe7", "koi8u", "cp866", "macce", "sjis", "big5", "eucjpms", "ucs2", "utf16le", "utf32")


def test_texts_of_all_character_sets(shop: Shop, opened: Open) -> None:
    """Each character that a set has, from the log as from a query."""
    made = ", ".join(f"{name} TEXT CHARACTER SET {name}" for name in CHARSETS)
    shop.run(f"CREATE TABLE texts (id INT PRIMARY KEY, {made}, e ENUM('ä', 'ß') CHARACTER SET latin1)")
    source = opened(tables="texts")
    follower = follow(shop, source)
    shop.run("SET sql_mode = ''")
    with shop.connection.cursor() as cursor:
        for start in (*range(1, 0x700, 256), 0x2000, 0x2100, 0x2500, 0x3000, 0x4E00, 0xFF00):
            text = "".join(map(chr, range(start, start + 255)))
            cursor.execute(
                f"INSERT IGNORE INTO texts VALUES ({', '.join(['%s'] * (len(CHARSETS) + 2))})",
                (start, *[text] * len(CHARSETS), "ß"),
            )
        every = "".join(f"{byte:02x}" for byte in range(256))
        cursor.execute(f"INSERT INTO texts (id, latin1) VALUES (-1, x'{every}')")
    follower.catch_up(0)
    assert follower.state == contents(shop, source)


# ----------------------------------------------------------------------------------------- servers with other settings


@pytest.mark.parametrize(
    ("setting", "named"), [("binlog_ignore_db", "binlog_ignore_db is other"), ("binlog_do_db", "binlog_do_db is other")]
)
def test_a_log_with_a_filter_is_refused_by_name(
    mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch, setting: str, named: str
) -> None:
    """Statements are left out by the database that a session has chosen, whatever they change."""
    monkeypatch.setenv("MYSQL_PWD", PASSWORD)
    server = MariaDb(**{setting: "other"})
    try:
        Shop(server).connection.close()
        with pytest.raises(SetupError, match=named):
            open_source("shop", "mariadb", server.options)
    finally:
        server.remove()


def test_a_server_that_writes_names_in_lower_case_and_is_killed(
    mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MYSQL_PWD", PASSWORD)
    server = MariaDb(lower_case_table_names="1", sync_binlog="1", innodb_flush_log_at_trx_commit="1")
    try:
        shop = Shop(server)
        source = open_source("shop", "mariadb", {**server.options, "database": "Shop", "patience": "30"})
        follower = follow(shop, source)
        for _ in range(2):
            shop.run("INSERT INTO SHOP.Orders SELECT MAX(id) + 1, 1, 1 FROM orders")
            follower.catch_up(0)
            server.kill()
            server.start()
            shop.connection.connect()
            shop.run("USE shop", "UPDATE orders SET amount = amount + 1")
            follower.catch_up(0.1)
            assert follower.state == contents(shop, source)
        shop.run("TRUNCATE TABLE SHOP.ORDERS")
        with pytest.raises(SourceLost, match="cannot be told"):
            source.receive(1)
        source.start(None)
        shop.run("DROP DATABASE SHOP", "CREATE DATABASE shop")
        with pytest.raises(SourceLost, match="cannot be told"):
            source.receive(1)
        source.close()
    finally:
        server.remove()
