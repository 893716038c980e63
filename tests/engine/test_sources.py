"""Views over sources, from CREATE SOURCE to the certificate, over SQLite files that others write to."""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tidemill
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
QUERIES = {"join": JOIN, "groups": GROUPS, "outer": OUTER, "self": SELF}


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


def test_views_over_two_sources(tmp_path: Path) -> None:
    orders, items = Shop(tmp_path / "a.db", seed=1), Shop(tmp_path / "b.db", seed=2)
    with tidemill.open(":memory:") as warehouse:
        connect(warehouse, orders, "a")
        connect(warehouse, items, "b")
        warehouse.sql(f"CREATE MATERIALIZED VIEW v AS {JOIN.format('a', 'b')}")
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
        assert "by sweep" in warehouse.view("v").explain()


def test_sources_and_tables_of_the_warehouse_together(shop: Shop) -> None:
    with tidemill.open(":memory:") as warehouse:
        connect(warehouse, shop)
        warehouse.sql("CREATE TABLE customers (id BIGINT PRIMARY KEY, name STRING)")
        warehouse.sql(
            "CREATE MATERIALIZED VIEW v AS"
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
        assert sorted(warehouse.table("v@1").rows()) == [(1, 5), (2, 2), (3, 0), (3, 1)]


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
