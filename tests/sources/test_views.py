"""Views of a warehouse over a real PostgreSQL, in SQL from end to end."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import tidemill
from tests.sources.server import PASSWORD
from tests.sources.shop import Shop, kill_often, scribble
from tidemill.changes.zset import ZSet
from tidemill.engine.remote import chunked_load, source_maintainer
from tidemill.model.errors import ArithmeticFault
from tidemill.protocols.audit import audit
from tidemill.protocols.protocol import Level

QUERY = """SELECT c.name, COUNT(*) AS n, SUM(o.amount) AS total
    FROM {0}orders o JOIN {0}customers c ON c.id = o.customer WHERE o.amount > 5 GROUP BY c.name"""


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
        assert 'FROM ONLY "public"."orders" AS "o"' in told
        warehouse.sql("DROP VIEW v; DROP SOURCE shop")
    stored = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert PASSWORD not in told
    assert PASSWORD.encode() not in stored


@pytest.mark.parametrize("changes", ["slot", "outbox"])
def test_columns_and_tables_that_are_added_while_a_warehouse_is_closed(
    shop: Shop, tmp_path: Path, changes: str
) -> None:
    with tidemill.open(tmp_path, runtime="native") as warehouse:
        warehouse.sql(create_source(shop, changes))
        warehouse.sql(f"CREATE MATERIALIZED VIEW v AS {QUERY.format('shop.')}")
    shop.run("ALTER TABLE orders ADD note text DEFAULT 'x'", "CREATE TABLE more (id int8 PRIMARY KEY)")
    shop.run("INSERT INTO orders VALUES (4, 2, 50, 'y')", "UPDATE customers SET name = 'ben' WHERE id = 2")
    with tidemill.open(tmp_path, runtime="native") as warehouse:
        warehouse.sync()
        assert Counter(warehouse.view("v").rows()) == answer(shop)
        assert "ben" in {row[0] for row in warehouse.view("v").rows()}
        warehouse.sql("DROP VIEW v; DROP SOURCE shop")


def test_a_view_at_rest_does_not_keep_the_log(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slot keeps the log of all tables, so a view that nothing happens to must move on as well."""
    monkeypatch.setattr(source_maintainer, "IDLE_SECONDS", 0.0)
    monkeypatch.setattr(source_maintainer, "FORGET_SECONDS", 0.0)
    folder = tmp_path / "warehouse"

    def kept() -> int:
        slots = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn) FROM pg_replication_slots"
        return int(shop.connection.execute(slots + " WHERE NOT temporary").fetchall()[0][0])

    with tidemill.open(folder, runtime="native") as warehouse:
        warehouse.sql(create_source(shop, "slot").replace(")", ", tables = 'orders, customers')"))
        warehouse.sql(f"CREATE MATERIALIZED VIEW v AS {QUERY.format('shop.')}")
        before = warehouse.view("v").certificate()
        shop.run("CREATE TABLE other AS SELECT g FROM generate_series(1, 20000) g")
        assert kept() > 1_000_000
        warehouse.sync()
        assert kept() < 100_000
        assert warehouse.view("v").certificate() != before
    scribble(shop, seed=4, transactions=10)
    with tidemill.open(folder, runtime="native") as warehouse:
        warehouse.sync()
        assert Counter(warehouse.view("v").rows()) == answer(shop)


def test_a_query_that_takes_too_long_is_told_and_the_view_goes_on(shop: Shop) -> None:
    """While customers are locked, the question about an order cannot be answered in time."""
    with tidemill.open(":memory:") as warehouse:
        warehouse.sql(create_source(shop, "outbox").replace(")", ", query_timeout = '0.2', sync = 'continuous')"))
        warehouse.sql(f"CREATE MATERIALIZED VIEW v WITH (protocol = 'eca') AS {QUERY.format('shop.')}")
        with shop.connect(autocommit=False) as owner:
            owner.execute("LOCK TABLE customers IN ACCESS EXCLUSIVE MODE")
            shop.run("INSERT INTO orders VALUES (77, 1, 40)")
            until(lambda: "did not answer" in str(warehouse.sql("SHOW SOURCES").rows()))
            owner.rollback()
        until(lambda: Counter(warehouse.view("v").rows()) == answer(shop) and not warehouse.troubles())


def test_a_server_that_is_gone_for_a_while(shop: Shop) -> None:
    with tidemill.open(":memory:") as warehouse:
        warehouse.sql(create_source(shop, "outbox").replace(")", ", patience = '0.2', sync = 'continuous')"))
        warehouse.sql(f"CREATE MATERIALIZED VIEW v AS {QUERY.format('shop.')}")
        shop.run("INSERT INTO orders VALUES (77, 1, 40)")
        shop.connection.close()
        shop.server.stop()
        try:
            until(lambda: "cannot be read" in str(warehouse.sql("SHOW SOURCES").rows()))
            began = time.monotonic()
            assert PASSWORD not in str(warehouse.troubles())
            assert "cannot be told now" in warehouse.view("v").explain()
            assert time.monotonic() - began < 5
        finally:
            shop.server.start()
            shop.connection = shop.connect()
        scribble(shop, seed=5, transactions=10)
        until(lambda: Counter(warehouse.view("v").rows()) == answer(shop) and not warehouse.troubles())


@pytest.mark.parametrize("changes", ["slot", "outbox"])
@pytest.mark.parametrize("consistency", ["strong", "complete"])
def test_a_backlog_that_is_larger_than_what_may_be_held(shop: Shop, changes: str, consistency: str) -> None:
    with tidemill.open(":memory:") as warehouse:
        warehouse.sql(create_source(shop, changes).replace(")", ", held = '5')"))
        option = f"WITH (consistency = '{consistency}')"
        warehouse.sql(f"CREATE MATERIALIZED VIEW v {option} AS {QUERY.format('shop.')}")
        began = warehouse.epoch
        scribble(shop, seed=6, transactions=60)
        warehouse.sync()
        assert Counter(warehouse.view("v").rows()) == answer(shop)
        assert (warehouse.epoch - began < 20) == (consistency == "strong")


COMPLETE = {
    "groups": QUERY,
    "outer": "SELECT o.id, c.name FROM {0}orders o LEFT JOIN {0}customers c ON c.id = o.customer",
}


@pytest.mark.parametrize("query", COMPLETE)
def test_a_complete_view_shows_every_state_of_a_backlog(shop: Shop, tmp_path: Path, query: str) -> None:
    """Epochs are committed together, and still each shows the state after one transaction."""
    text = COMPLETE[query]
    with tidemill.open(tmp_path / "warehouse", runtime="native") as warehouse:
        warehouse.sql(create_source(shop, "slot"))
        warehouse.sql(f"CREATE MATERIALIZED VIEW v WITH (consistency = 'complete') AS {text.format('shop.')}")
        began = warehouse.epoch
        there = [ZSet.of(plain(shop.connection.execute(text.format("")).fetchall()))]
        for n in range(150):
            shop.run(
                f"INSERT INTO orders VALUES ({100 + n}, {n % 4 + 1}, {n})",
                f"UPDATE customers SET name = 'n{n}' WHERE id = {n % 5 + 1}",
                f"DELETE FROM orders WHERE id = {100 + n // 2}",
            )
            there.append(ZSet.of(plain(shop.connection.execute(text.format("")).fetchall())))
        warehouse.sync()
        here = [ZSet()]
        for batch in warehouse.view("v").batches(0):
            here.append(here[-1] + ZSet(dict(batch.net)))
        assert warehouse.epoch - began == 150
        assert audit(there, here[1:]).level is Level.COMPLETE


LOADED = {
    **COMPLETE,
    "semi": "SELECT o.amount FROM {0}orders o WHERE o.id IN (SELECT c.id FROM {0}customers c)",
    "rows": "SELECT id, amount FROM {0}orders WHERE amount > 2",
}


@pytest.mark.parametrize("query", LOADED)
def test_large_tables_are_loaded_in_ranges_while_others_write(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    monkeypatch.setattr(chunked_load, "CHUNK_ROWS", 7)
    shop.run("INSERT INTO orders SELECT g, g % 6, g % 11 FROM generate_series(10, 200) g")
    taken, shown = chunked_load.ChunkedLoad._take, list[tuple[Any, ...]]()

    def take(load: chunked_load.ChunkedLoad, *given: Any) -> None:
        """Somebody writes between any two messages, also rows of ranges that are loaded and of those that are not."""
        taken(load, *given)
        if load._progress.rows < 150:
            scribble(shop, seed=len(shown), transactions=2)
            shop.run(f"UPDATE orders SET id = 400 - id WHERE id = {20 + 5 * (len(shown) % 30)}")
        shown.extend(warehouse.sql("SHOW BUILDS").rows())

    monkeypatch.setattr(chunked_load.ChunkedLoad, "_take", take)
    with tidemill.open(":memory:") as warehouse:
        warehouse.sql(create_source(shop, "slot"))
        warehouse.sql(f"CREATE MATERIALIZED VIEW v AS {LOADED[query].format('shop.')}")
        assert shown[0][:2] == ("v", "loading") and 0 < shown[5][2] < shown[5][3] and shown[5][5] > 0
        assert len(shown) > 20 and not warehouse.sql("SHOW BUILDS").rows()
        for _ in range(2):
            warehouse.sync()
            own = shop.connection.execute(LOADED[query].format("")).fetchall()
            assert Counter(warehouse.view("v").rows()) == Counter(plain(own))
            scribble(shop, seed=77, transactions=10)
        assert warehouse.view("v").audit()


def plain(rows: list[Any]) -> list[Any]:
    """Rows with sums as the view has them: PostgreSQL's are NUMERIC."""
    return [tuple(int(value) if isinstance(value, Decimal) else value for value in row) for row in rows]


def test_an_epoch_that_is_refused_holds_up_those_after_it_alone(shop: Shop) -> None:
    query = "SELECT customer, 10 / SUM(amount) AS share FROM shop.orders WHERE customer > 1 GROUP BY customer"
    with tidemill.open(":memory:") as warehouse:
        warehouse.sql(create_source(shop, "slot"))
        warehouse.sql(f"CREATE MATERIALIZED VIEW v WITH (consistency = 'complete') AS {query}")
        for n, amount in enumerate((5, 2, 0, 4)):
            shop.run(f"INSERT INTO orders VALUES ({10 + n}, {n + 2}, {amount})")
        with pytest.raises(ArithmeticFault):
            warehouse.sync()
        assert sorted(warehouse.view("v").rows()) == [(2, 2.0), (3, 5.0)]
        with pytest.raises(ArithmeticFault):
            warehouse.sync()
        assert sorted(warehouse.view("v").rows()) == [(2, 2.0), (3, 5.0)]


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
