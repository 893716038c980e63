"""Views over sources, from CREATE SOURCE to the certificate, over SQLite files that others write to."""

from __future__ import annotations

import random
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tidemill
from tidemill.engine.catalog.new_views.define_view import define_view
from tidemill.engine.definitions import planning
from tidemill.model.errors import (
    ArithmeticFault,
    EpochGone,
    NameTaken,
    ParseError,
    SetupError,
    UnknownName,
    Unsupported,
)
from tidemill.protocols.protocol import Level
from tidemill.sources.polled_source import PendingQuery
from tidemill.sources.source import Message
from tidemill.sources.sqlite.source import SqliteSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = """
    CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, amount INTEGER);
    CREATE TABLE items (id INTEGER PRIMARY KEY, order_id INTEGER, part TEXT);
"""
JOIN = """SELECT o.id, i.id AS item, o.amount, i.part
    FROM {0}.orders o JOIN {1}.items i ON i.order_id = o.id WHERE o.amount > 2"""
GROUPS = """SELECT o.customer, COUNT(*) AS n, SUM(o.amount) AS total
    FROM {0}.orders o JOIN {1}.items i ON i.order_id = o.id GROUP BY o.customer"""
OUTER = "SELECT o.id, i.part FROM {0}.orders o LEFT JOIN {1}.items i ON i.order_id = o.id"
SELF = """SELECT a.id, b.id AS other
    FROM {0}.orders a JOIN {1}.orders b ON a.customer = b.customer WHERE a.amount < b.amount"""
SEMI = """SELECT o.amount FROM {0}.orders o WHERE o.id IN (SELECT i.order_id FROM {1}.items i) AND o.amount < 9"""
FULL = """SELECT a.id, b.id AS other FROM {0}.orders a FULL JOIN {1}.orders b
    ON a.customer = b.customer AND a.amount < b.amount"""
MOST = """SELECT o.customer, MAX(o.amount) AS most, AVG(o.amount) AS mean, COUNT(i.part) AS n
    FROM {0}.orders o JOIN {1}.items i ON i.order_id = o.id GROUP BY o.customer"""
QUERIES = {"join": JOIN, "groups": GROUPS, "outer": OUTER, "self": SELF, "semi": SEMI, "full": FULL, "most": MOST}
ANTI = "SELECT o.id FROM {0}.orders o WHERE NOT EXISTS (SELECT 1 FROM {1}.items i WHERE i.order_id = o.id)"


class Shop:
    """Somebody else's database: rows come, change and go."""

    def __init__(self, path: Path, seed: int = 5) -> None:
        self.path = path
        self._random = random.Random(seed)
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.executescript(SCHEMA)

    def change(self, times: int) -> None:
        for _ in range(times):
            self.connection.execute("BEGIN")
            for _ in range(self._random.randint(1, 3)):
                self.connection.execute(*self._statement())
            self.connection.execute("COMMIT" if self._random.random() < 0.9 else "ROLLBACK")

    def _statement(self) -> tuple[str, tuple[Any, ...]]:
        pick, key, number = self._random.random(), self._random.randint(1, 12), self._random.choice([1, 2, 3, 9, None])
        if pick < 0.3:
            return "INSERT OR REPLACE INTO orders VALUES (?, ?, ?)", (key, self._random.choice([1, 2, None]), number)
        if pick < 0.6:
            return "INSERT OR REPLACE INTO items VALUES (?, ?, ?)", (key, self._random.randint(1, 12), "nut")
        if pick < 0.8:
            return "UPDATE orders SET amount = ? WHERE id = ?", (number, key)
        return f"DELETE FROM {self._random.choice(['orders', 'items'])} WHERE id = ?", (key,)

    def answer(self, query: str) -> Counter[Any]:
        return Counter(self.connection.execute(query.replace("{0}.", "").replace("{1}.", "")).fetchall())


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    found = Shop(tmp_path / "shop.db")
    found.change(30)
    return found


def connect(warehouse: tidemill.Warehouse, shop: Shop, name: str = "shop") -> None:
    warehouse.sql(f"CREATE SOURCE {name} TYPE sqlite OPTIONS (path = '{shop.path}', setup = 'create')")


def shown(warehouse: tidemill.Warehouse, view: str = "v") -> Counter[Any]:
    return Counter(warehouse.view(view).rows())


@pytest.mark.parametrize("protocol", ["eca", "eca_local", "lca", "copies", "recompute", None])
@pytest.mark.parametrize("query", QUERIES)
def test_views_follow_their_source(shop: Shop, query: str, protocol: str | None) -> None:
    text = QUERIES[query].format("shop", "shop")
    with tidemill.open(":memory:") as warehouse:
        connect(warehouse, shop)
        option = f"WITH (protocol = '{protocol}')" if protocol else ""
        warehouse.sql(f"CREATE MATERIALIZED VIEW v {option} AS {text}")
        assert shown(warehouse) == shop.answer(QUERIES[query])
        for _ in range(10):
            shop.change(3)
            warehouse.sync("v")
            assert shown(warehouse) == shop.answer(QUERIES[query])
        assert warehouse.view("v").verify().ok


def test_copies_are_refused_unless_they_are_allowed(shop: Shop, tmp_path: Path) -> None:
    folder = tmp_path / "warehouse"
    with tidemill.open(folder, runtime="native") as warehouse:
        connect(warehouse, shop)
        warehouse.sql("CREATE TABLE customers (id BIGINT PRIMARY KEY, name STRING)")
        refused = {
            ANTI.format("shop", "shop"): "have a partner now",
            "SELECT c.name, o.id FROM shop.orders o JOIN customers c ON c.id = o.customer": "a join with it",
            "SELECT id FROM shop.orders WHERE amount > (SELECT AVG(amount) FROM shop.orders)": "a subquery about",
        }
        for query, why in refused.items():
            with pytest.raises(Unsupported, match="would copy shop.orders") as error:
                warehouse.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
            assert why in str(error.value.detail) and "copy = 'allowed'" in str(error.value.hint)
            assert error.value.where == "shop.orders"
        with pytest.raises(Unsupported, match="no copy = "):
            warehouse.sql("CREATE MATERIALIZED VIEW v WITH (copy = 'perhaps') AS SELECT id FROM shop.orders")
        with pytest.raises(Unsupported, match="has the option copy, and reads no source"):
            warehouse.sql("CREATE MATERIALIZED VIEW v WITH (copy = 'allowed') AS SELECT id FROM customers")
        warehouse.sql(f"CREATE MATERIALIZED VIEW v WITH (copy = 'allowed') AS {ANTI.format('shop', 'shop')}")
        assert "asked" not in str(warehouse.sql("SHOW CREATE VIEW v").rows())
    shop.change(10)
    with tidemill.open(folder, runtime="native") as warehouse:
        warehouse.sync()
        assert shown(warehouse) == shop.answer(ANTI)
        held = shop.connection.execute("SELECT COUNT(*) FROM orders").fetchone()[0]
        told = warehouse.view("v").explain()
        assert f"v@2: {held} rows" in told and "a copy of shop.orders, since rows of it that have a partner" in told


def test_a_view_of_an_older_warehouse_keeps_its_subplans(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before groups were asked, the rows of a join were held: what is stored stays what it is."""
    folder = tmp_path / "warehouse"

    def defined_before(catalog: Any, name: str, query: str, options: Any, *others: Any, **named: Any) -> Any:
        plain = {option: value for option, value in options.items() if option != planning.ASKED}
        return define_view(catalog, name, query, plain, *others, **named)

    with monkeypatch.context() as before:
        before.setattr(planning, "define_view", defined_before)
        before.setattr(planning, "require_copies_allowed", lambda *given: None)
        with tidemill.open(folder, runtime="native") as warehouse:
            connect(warehouse, shop)
            warehouse.sql(f"CREATE MATERIALIZED VIEW v AS {ANTI.format('shop', 'shop')}")
            warehouse.sql(f"CREATE MATERIALIZED VIEW w AS {GROUPS.format('shop', 'shop')}")
            assert {len(row) for row in warehouse.table("w@1").rows()} == {2}
    shop.change(10)
    with tidemill.open(folder, runtime="native") as warehouse:
        warehouse.sync()
        assert shown(warehouse, "v") == shop.answer(ANTI)
        assert shown(warehouse, "w") == shop.answer(GROUPS)
        assert {len(row) for row in warehouse.table("w@1").rows()} == {2}


def test_keys_make_it_cheaper(shop: Shop) -> None:
    with tidemill.open(":memory:") as warehouse:
        connect(warehouse, shop)
        warehouse.sql(f"CREATE MATERIALIZED VIEW v AS {JOIN.format('shop', 'shop')}")
        assert "by eca_key" in warehouse.view("v").explain()
        shop.change(20)
        warehouse.sync()
        assert shown(warehouse) == shop.answer(JOIN)


def test_a_view_goes_on_where_it_was_left(shop: Shop, tmp_path: Path) -> None:
    folder = tmp_path / "warehouse"
    with tidemill.open(folder, runtime="native") as warehouse:
        connect(warehouse, shop)
        warehouse.sql(f"CREATE MATERIALIZED VIEW v WITH (protocol = 'eca') AS {GROUPS.format('shop', 'shop')}")
    for _ in range(3):
        shop.change(10)
        with tidemill.open(folder, runtime="native") as warehouse:
            before = warehouse.view("v").certificate()
            warehouse.sync()
            assert shown(warehouse) == shop.answer(GROUPS)
            assert int(warehouse.view("v").certificate().positions["shop"]) >= int(before.positions["shop"])


def test_a_certificate_names_level_and_state(shop: Shop) -> None:
    with tidemill.open(":memory:") as warehouse:
        connect(warehouse, shop)
        warehouse.sql(f"CREATE MATERIALIZED VIEW v WITH (consistency = 'complete') AS {JOIN.format('shop', 'shop')}")
        certificate = warehouse.view("v").certificate()
        assert certificate.level is Level.COMPLETE
        assert list(certificate.positions) == ["shop"]
        shop.connection.execute("INSERT INTO orders VALUES (100, 1, 50)")
        warehouse.sync()
        assert warehouse.view("v").certificate().positions != certificate.positions


@pytest.mark.parametrize("consistency", ["strong", "complete"])
def test_views_over_two_sources(tmp_path: Path, consistency: str) -> None:
    orders, items = Shop(tmp_path / "a.db", seed=1), Shop(tmp_path / "b.db", seed=2)
    with tidemill.open(":memory:") as warehouse:
        connect(warehouse, orders, "a")
        connect(warehouse, items, "b")
        option = f"WITH (consistency = '{consistency}')"
        warehouse.sql(f"CREATE MATERIALIZED VIEW v {option} AS {JOIN.format('a', 'b')}")
        for _ in range(8):
            orders.change(3)
            items.change(2)
            warehouse.sync()
            rows = Counter(
                (o[0], i[0], o[2], i[2])
                for o in orders.connection.execute("SELECT * FROM orders").fetchall()
                for i in items.connection.execute("SELECT * FROM items").fetchall()
                if i[1] == o[0] and o[2] is not None and o[2] > 2
            )
            assert shown(warehouse) == rows
        assert f"by sweep; consistency {consistency}" in warehouse.view("v").explain()


def test_sources_and_tables_of_the_warehouse_together(shop: Shop) -> None:
    with tidemill.open(":memory:") as warehouse:
        connect(warehouse, shop)
        warehouse.sql("CREATE TABLE customers (id BIGINT PRIMARY KEY, name STRING)")
        warehouse.sql(
            "CREATE MATERIALIZED VIEW v WITH (copy = 'allowed') AS"
            " SELECT c.name, COUNT(*) AS n FROM shop.orders o JOIN customers c ON c.id = o.customer GROUP BY c.name"
        )
        warehouse.sql("CREATE MATERIALIZED VIEW w WITH (strategy = 'viewlet') AS SELECT MAX(n) AS most FROM v")
        warehouse.sql("INSERT INTO customers VALUES (1, 'ann'), (2, 'bob')")
        shop.change(10)
        warehouse.sync()
        counts = Counter(row[0] for row in shop.connection.execute("SELECT customer FROM orders").fetchall())
        assert shown(warehouse) == Counter({("ann", counts[1]): 1, ("bob", counts[2]): 1})
        assert warehouse.view("w").rows() == [(max(counts[1], counts[2]),)]
        assert warehouse.tables() == ("customers",)


@pytest.mark.spark
def test_views_over_sources_on_spark(shop: Shop, tmp_path: Path, spark: SparkSession) -> None:
    with tidemill.open(tmp_path / "warehouse", runtime="spark", spark=spark) as warehouse:
        connect(warehouse, shop)
        warehouse.sql(f"CREATE MATERIALIZED VIEW v AS {GROUPS.format('shop', 'shop')}")
        warehouse.sql("CREATE MATERIALIZED VIEW w AS SELECT COUNT(*) AS n FROM v")
        shop.change(10)
        warehouse.sync()
        assert shown(warehouse) == shop.answer(GROUPS)
        assert warehouse.view("v").verify().ok
        assert warehouse.view("w").verify().ok


def test_what_cannot_be_is_refused(shop: Shop, tmp_path: Path) -> None:
    with tidemill.open(":memory:") as warehouse:
        connect(warehouse, shop)
        with pytest.raises(NameTaken):
            connect(warehouse, shop)
        with pytest.raises(Unsupported, match="there is no protocol"):
            warehouse.sql("CREATE MATERIALIZED VIEW v WITH (protocol = 'hope') AS SELECT id FROM shop.orders")
        with pytest.raises(Unsupported, match="reads no source"):
            warehouse.sql("CREATE MATERIALIZED VIEW v WITH (protocol = 'eca') AS SELECT 1 AS one")
        with pytest.raises(UnknownName):
            warehouse.sql("CREATE MATERIALIZED VIEW v AS SELECT id FROM shop.missing")
        with pytest.raises(SetupError, match="cannot open its file"):
            warehouse.sql(f"CREATE SOURCE other TYPE sqlite OPTIONS (path = '{tmp_path / 'no' / 'such.db'}')")
        with pytest.raises(ParseError):
            warehouse.sql("INSERT INTO shop.orders VALUES (1, 1, 1)")
        warehouse.sql("CREATE MATERIALIZED VIEW v AS SELECT id FROM shop.orders")
        with pytest.raises(Unsupported, match="read by v"):
            warehouse.sql("DROP SOURCE shop")
        warehouse.sql("DROP VIEW v; DROP SOURCE shop")
        assert warehouse.sql("SHOW SOURCES").rows() == []
        assert not shop.connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()


# ------------------------------------------------------------------------------------------- sources that never rest


class Busy:
    """A source that commits before each look, and knows the answer to ``query`` in each of its states."""

    def __init__(self, shop: Shop, query: str) -> None:
        self.shop = shop
        self.query = query
        self.looks = 0
        self.answers: dict[str, Counter[Any]] = {}
        self._look = SqliteSource._look

    @property
    def position(self) -> int:
        """The number of the last row that came to the outbox."""
        query = "SELECT COALESCE(MAX(seq), 0) FROM sqlite_sequence WHERE name = '_tidemill_outbox'"
        return int(self.shop.connection.execute(query).fetchone()[0])

    def look(self, source: SqliteSource, asked: Sequence[PendingQuery]) -> list[Message]:
        self.looks += 1
        self.shop.connection.execute("INSERT INTO orders VALUES (?, ?, 9)", (1000 + self.looks, self.looks % 3))
        self.shop.connection.execute("INSERT INTO items VALUES (?, ?, 'nut')", (1000 + self.looks, 1000 + self.looks))
        self.answers[str(self.position)] = self.shop.answer(self.query)
        return self._look(source, asked)


@pytest.mark.parametrize(
    ("options", "query"),
    [
        ("protocol = 'eca'", "join"),
        ("consistency = 'strong'", "join"),
        ("consistency = 'strong'", "groups"),
        ("consistency = 'strong'", "self"),
        ("consistency = 'strong'", "outer"),
        ("protocol = 'recompute'", "groups"),
        ("protocol = 'copies', consistency = 'strong'", "join"),
        ("consistency = 'complete'", "groups"),
        ("consistency = 'complete'", "outer"),
    ],
)
def test_a_view_advances_though_its_source_never_rests(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, options: str, query: str
) -> None:
    with tidemill.open(":memory:") as warehouse:
        connect(warehouse, shop)
        warehouse.sql(f"CREATE MATERIALIZED VIEW v WITH ({options}) AS {QUERIES[query].format('shop', 'shop')}")
        shop.change(1)
        busy = Busy(shop, QUERIES[query])
        monkeypatch.setattr(SqliteSource, "_look", lambda source, asked: busy.look(source, asked))
        for _ in range(5):
            committed, looks = busy.position, busy.looks
            warehouse.sync("v")
            shows = warehouse.view("v").certificate().positions["shop"]
            assert int(shows) >= committed
            assert shown(warehouse) == busy.answers[shows]
            # One look tells what there is, the next answers; each of two relations may need a correction.
            assert busy.looks - looks <= 6


def test_two_sources_that_never_rest_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = Shop(tmp_path / "a.db", seed=1), Shop(tmp_path / "b.db", seed=2)
    with tidemill.open(":memory:") as warehouse:
        connect(warehouse, one, "a")
        connect(warehouse, other, "b")
        warehouse.sql(f"CREATE MATERIALIZED VIEW v AS {OUTER.format('a', 'b')}")
        assert warehouse.view("v").certificate().level is Level.STRONG
        busy = {shop.path: Busy(shop, "SELECT 1") for shop in (one, other)}
        one.change(1)
        other.change(1)
        look = lambda source, asked: busy[source._path].look(source, asked)  # noqa: E731
        monkeypatch.setattr(SqliteSource, "_look", look)
        for _ in range(4):
            committed = {"a": busy[one.path].position, "b": busy[other.path].position}
            warehouse.sync()
            shows = warehouse.view("v").certificate().positions
            assert all(int(shows[name]) >= committed[name] for name in committed)
        monkeypatch.undo()
        warehouse.sync()
        orders = one.connection.execute("SELECT id FROM orders").fetchall()
        items = other.connection.execute("SELECT order_id, part FROM items").fetchall()
        parts = {order: [part for of, part in items if of == order] or [None] for (order,) in orders}
        assert shown(warehouse) == Counter((order, part) for order, some in parts.items() for part in some)


# -------------------------------------------------------------------------------------- views that follow by themselves


def eventually(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)


def connect_for_good(warehouse: tidemill.Warehouse, shop: Shop, sync: str = "continuous") -> None:
    options = f"path = '{shop.path}', setup = 'create', sync = '{sync}'"
    warehouse.sql(f"CREATE SOURCE shop TYPE sqlite OPTIONS ({options})")


@pytest.mark.parametrize("sync", ["continuous", "every 0.1 seconds"])
def test_a_view_follows_by_itself(shop: Shop, tmp_path: Path, sync: str) -> None:
    folder = tmp_path / "warehouse"
    with tidemill.open(folder, runtime="native") as warehouse:
        connect_for_good(warehouse, shop, sync)
        warehouse.sql(f"CREATE MATERIALIZED VIEW v AS {GROUPS.format('shop', 'shop')}")
        warehouse.sql(f"CREATE MATERIALIZED VIEW w AS {OUTER.format('shop', 'shop')}")
        for _ in range(3):
            shop.change(5)
            answers = {"v": shop.answer(GROUPS), "w": shop.answer(OUTER)}
            eventually(lambda answers=answers: all(shown(warehouse, name) == answers[name] for name in answers))
        warehouse.sync()  # who asks for it does not get in the way
        warehouse.sql("DROP VIEW w")
    shop.change(5)
    with tidemill.open(folder, runtime="native", follow=True) as warehouse:
        eventually(lambda: shown(warehouse) == shop.answer(GROUPS))
        assert warehouse.sql("SHOW SOURCES").rows() == [("shop", "sqlite", "items, orders", sync, None)]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("tidemill")]


def test_trouble_is_told_and_overcome(shop: Shop) -> None:
    with tidemill.open(":memory:") as warehouse:
        connect_for_good(warehouse, shop)
        warehouse.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT customer, 10 / SUM(amount) AS s FROM shop.orders GROUP BY 1"
        )
        shop.connection.execute("DELETE FROM orders")
        eventually(lambda: not shown(warehouse))
        shop.connection.execute("INSERT INTO orders VALUES (1, 1, 0)")

        def trouble() -> str:
            ((*_, told),) = warehouse.sql("SHOW SOURCES").rows()
            return str(told)

        eventually(lambda: "v: division by zero" in trouble().lower() and "tried" in trouble())
        shop.connection.execute("INSERT INTO orders VALUES (2, 1, 5)")
        eventually(lambda: shown(warehouse) == Counter([(1, 2.0)]))
        eventually(lambda: trouble() == "None")


def test_views_follow_when_the_warehouse_is_told_to(shop: Shop) -> None:
    with tidemill.open(":memory:") as warehouse:
        connect(warehouse, shop)
        warehouse.sql(f"CREATE MATERIALIZED VIEW v AS {GROUPS.format('shop', 'shop')}")
        warehouse.follow()
        shop.change(10)
        eventually(lambda: shown(warehouse) == shop.answer(GROUPS))


def test_subscribers_hear_of_a_view_that_follows_by_itself(shop: Shop) -> None:
    with tidemill.open(":memory:") as warehouse:
        connect_for_good(warehouse, shop)
        warehouse.sql("CREATE MATERIALIZED VIEW v AS SELECT id, amount FROM shop.orders")
        heard = warehouse.subscribe("v", timeout=20)
        shop.connection.execute("INSERT INTO orders VALUES (77, 1, 5)")
        batch = next(iter(heard))
        assert batch.net == {(77, 5): 1}


def test_a_wrong_way_to_sync_is_refused(shop: Shop) -> None:
    with tidemill.open(":memory:") as warehouse, pytest.raises(Unsupported, match="no value of the option sync"):
        connect_for_good(warehouse, shop, "sometimes")


# ------------------------------------------------------------------------------------------------------------- explain


def test_explain_tells_protocol_reason_and_questions(shop: Shop, tmp_path: Path) -> None:
    other = Shop(tmp_path / "other.db")
    with tidemill.open(":memory:") as warehouse:
        connect(warehouse, shop)
        connect(warehouse, other, "other")
        warehouse.sql(f"CREATE MATERIALIZED VIEW v AS {GROUPS.format('shop', 'shop')}")
        warehouse.sql(f"CREATE MATERIALIZED VIEW w AS {JOIN.format('shop', 'other')}")
        warehouse.sql(f"CREATE MATERIALIZED VIEW c WITH (protocol = 'copies') AS {JOIN.format('shop', 'shop')}")
        told = warehouse.view("v").explain()
        assert "v@1 by eca_local; consistency strong" in told
        assert 'the cheapest that is "strong"; eca_key needs the primary key of every relation' in told
        assert "in batches of all that waits; sync manual" in told
        assert (
            "shop when shop.orders changes: WITH b1(w, c0, c1, c2) AS (VALUES (?1, ?2, ?3, ?4)), answer(w, k0, k1)"
            in told
        )
        assert "shop: here: SUM(o.amount)" in told and "groups with sums" in told
        told = warehouse.view("w").explain()
        assert "w@1 by sweep; consistency strong" in told and "eca_local needs all relations of the view in one" in told
        assert "shop: there: o.amount > 2" in told
        assert "other when shop changes: WITH b1" in told
        told = warehouse.view("c").explain()
        assert "a copy of shop.orders, as protocol = 'copies' asks for" in told
        assert "asked for by name" in told and "each update as it comes" in told and "changes: WITH" not in told
        other.path.unlink()
        assert "cannot be told now" in warehouse.view("w").explain()


def test_a_change_that_was_refused_is_not_lost(shop: Shop) -> None:
    shop.connection.executescript("DELETE FROM orders; INSERT INTO orders VALUES (1, 1, 5), (2, 2, 2)")
    with tidemill.open(":memory:") as warehouse:
        connect(warehouse, shop)
        query = "SELECT customer, 10 / SUM(amount) AS share FROM shop.orders GROUP BY customer"
        warehouse.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
        shop.connection.execute("INSERT INTO orders VALUES (3, 3, 0)")
        with pytest.raises(ArithmeticFault):
            warehouse.sync()
        assert shown(warehouse) == Counter([(1, 2.0), (2, 5.0)])
        shop.connection.execute("INSERT INTO orders VALUES (4, 3, 1)")
        warehouse.sync()
        assert shown(warehouse) == Counter([(1, 2.0), (2, 5.0), (3, 10.0)])
        assert sorted(warehouse.table("v@1").rows()) == [(1, 1, 5, 1), (2, 1, 2, 1), (3, 2, 1, 2)]


def test_a_view_can_be_dropped_though_its_source_is_gone(shop: Shop, tmp_path: Path) -> None:
    folder = tmp_path / "warehouse"
    with tidemill.open(folder, runtime="native") as warehouse:
        connect(warehouse, shop)
        warehouse.sql("CREATE MATERIALIZED VIEW v AS SELECT id, amount FROM shop.orders")
    shop.path.unlink()
    with tidemill.open(folder, runtime="native") as warehouse:
        with pytest.raises(SetupError):
            warehouse.sql("CREATE MATERIALIZED VIEW w AS SELECT id FROM shop.orders")
        assert warehouse.views() == ("v",)
        with pytest.warns(RuntimeWarning, match="go on to keep changes for it"):
            warehouse.sql("DROP VIEW v")
        warehouse.sql("DROP SOURCE shop")
    with tidemill.open(folder, runtime="native") as warehouse:
        assert warehouse.views() == () and warehouse.sql("SHOW SOURCES").rows() == []


def test_a_source_that_forgot_is_noticed(shop: Shop, tmp_path: Path) -> None:
    folder = tmp_path / "warehouse"
    with tidemill.open(folder, runtime="native") as warehouse:
        connect(warehouse, shop)
        warehouse.sql("CREATE MATERIALIZED VIEW v AS SELECT id, amount FROM shop.orders")
    shop.change(10)
    # As if the outbox had been trimmed by a warehouse that calls itself like this one.
    shop.connection.execute("UPDATE _tidemill_readers SET position = 1000000 WHERE reader = ''")
    with tidemill.open(folder, runtime="native") as warehouse, pytest.raises(EpochGone):
        warehouse.sync()
