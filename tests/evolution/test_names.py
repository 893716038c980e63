"""Definitions that can be read back, other names, and DROP ... CASCADE."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import tidemill
from tidemill.model.errors import NameTaken, UnknownName, Unsupported

SHOP = """
CREATE TABLE customers (id INT PRIMARY KEY, region VARCHAR(9) DEFAULT 'it''s', `odd name` INT);
CREATE TABLE orders (id BIGINT NOT NULL, customer INT REFERENCES customers(id), amount DECIMAL(9,2),
    CONSTRAINT positive CHECK (amount > 0), PRIMARY KEY (id)) APPEND ONLY;
CREATE STREAM clicks (ts TIMESTAMP, n INT) PARTITION BY ts EVERY 1 MINUTE;
CREATE VIEW large (which, how_much) AS SELECT id, amount FROM orders WHERE amount > 5;
CREATE MATERIALIZED VIEW totals WITH (strategy = 'delta') AS
    SELECT c.region, SUM(o.amount) AS total FROM orders o JOIN customers c ON c.id = o.customer GROUP BY c.region;
CREATE MATERIALIZED VIEW rich AS WITH orders AS (SELECT * FROM totals) SELECT orders.region FROM orders WHERE total > 5;
CREATE MATERIALIZED VIEW many WITH (refresh = 'deferred') AS SELECT COUNT(*) AS n FROM large;
CREATE MATERIALIZED VIEW per_minute AS SELECT window.start AS t, SUM(n) AS n FROM clicks GROUP BY window(ts, '1 minute')
"""


@pytest.fixture
def wh(tmp_path: Path) -> Iterator[tidemill.Warehouse]:
    with tidemill.open(tmp_path / "w", runtime="native", backend="python") as opened:
        opened.sql(SHOP)
        opened.sql("INSERT INTO customers VALUES (1, 'north', 0), (2, 'south', 0)")
        opened.sql("INSERT INTO orders VALUES (1, 1, 5.5), (2, 2, 1.25)")
        yield opened


def shown(wh: tidemill.Warehouse, name: str) -> str:
    kind = "TABLE" if name in wh.tables() else "VIEW"
    return str(wh.sql(f"SHOW CREATE {kind} {name}").rows()[0][0])


NAMES = ("customers", "orders", "clicks", "large", "totals", "rich", "many", "per_minute")


def test_what_is_shown_creates_the_same(wh: tidemill.Warehouse) -> None:
    wh.sql(
        "ALTER TABLE orders ADD COLUMN note STRING DEFAULT 'a\\'b'; ALTER TABLE customers RENAME COLUMN region TO area"
    )
    with tidemill.open(":memory:", runtime="native") as other:
        for name in NAMES:
            other.sql(shown(wh, name))
            assert shown(other, name) == shown(wh, name)
        other.sql("INSERT INTO customers VALUES (1, 'north', 0), (2, 'south', 0)")
        other.sql("INSERT INTO orders VALUES (1, 1, 5.5, 'x'), (2, 2, 1.25, 'y')")
        for name in ("totals", "rich"):
            assert sorted(other.view(name).rows()) == sorted(wh.view(name).rows())
            assert other.view(name).fields == wh.view(name).fields
    assert wh.view("totals").definition == shown(wh, "totals")
    assert wh.sql("SHOW CREATE TABLE totals").rows() == [(shown(wh, "totals"),)]


def test_a_temporary_view_is_shown(wh: tidemill.Warehouse) -> None:
    wh.sql("CREATE TEMPORARY VIEW mine AS SELECT 1 AS one")
    assert shown(wh, "mine") == "CREATE TEMPORARY VIEW `mine` AS SELECT 1 AS one"
    with pytest.raises(UnknownName):
        wh.sql("SHOW CREATE VIEW orders")


def test_describe_extended(wh: tidemill.Warehouse) -> None:
    wh.sql("CREATE MATERIALIZED VIEW every AS SELECT * FROM customers; ALTER TABLE customers ADD COLUMN c INT")
    told = {row[0]: row[1] for row in wh.sql("DESCRIBE TABLE EXTENDED every").rows()}
    assert (told["Type"], told["Refresh"], told["id"]) == ("MATERIALIZED VIEW", "immediate", "int")
    assert told["Columns of customers"] == "id, region, odd name: those of when it was created"
    assert told["Definition"] == wh.view("every").definition
    told = {row[0]: row[1] for row in wh.sql("DESCRIBE EXTENDED customers").rows()}
    assert (told["Type"], told["Primary key"], told["Read by"]) == ("TABLE", "id", "totals, every")
    assert {row[0]: row[1] for row in wh.sql("DESC EXTENDED large").rows()}["Type"] == "VIEW"
    assert "Type" not in {row[0] for row in wh.sql("DESCRIBE orders").rows()}


def test_a_table_gets_another_name_and_its_readers_follow(wh: tidemill.Warehouse, tmp_path: Path) -> None:
    before = {name: sorted(wh.view(name).rows()) for name in ("totals", "rich")}
    epoch = wh.epoch
    assert wh.sql("ALTER TABLE orders RENAME TO sales").message == "renamed orders to sales"
    assert wh.sql("ALTER TABLE customers RENAME TO people").message == "renamed customers to people"
    assert (sorted(wh.tables()), wh.epoch) == (["clicks", "people", "sales"], epoch)
    assert {name: sorted(wh.view(name).rows()) for name in before} == before
    wh.sql("INSERT INTO sales VALUES (3, 1, 2); REFRESH VIEW many")
    assert sorted(wh.view("totals").rows())[0][0] == "north"
    assert wh.view("many").rows() == [(1,)]
    assert "FROM `sales` o JOIN `people` c" in shown(wh, "totals")
    assert "REFERENCES `people`" in shown(wh, "sales")
    assert len(wh.sql(f"SELECT * FROM sales VERSION AS OF {epoch}").rows()) == 2
    assert all(wh.view(name).verify().ok for name in ("totals", "rich", "many"))
    with pytest.raises(UnknownName):
        wh.sql("SELECT * FROM orders")
    wh.sql("CREATE TABLE orders (a INT); INSERT INTO orders VALUES (1); DROP TABLE orders")
    wh.close()
    with tidemill.open(tmp_path / "w", runtime="native", backend="python") as again:
        assert len(again.table("sales").rows()) == 3
        again.sql("INSERT INTO sales VALUES (4, 2, 100)")
        assert all(again.view(name).verify().ok for name in ("totals", "rich"))


@pytest.mark.parametrize("path", ["memory", "disk"])
def test_a_view_gets_another_name(path: str, tmp_path: Path) -> None:
    with tidemill.open(":memory:" if path == "memory" else tmp_path / "w", runtime="native") as wh:
        wh.sql("CREATE TABLE t (a INT, b INT); INSERT INTO t VALUES (1, 1), (1, 2)")
        wh.sql("CREATE MATERIALIZED VIEW v AS SELECT a, SUM(b) AS s FROM t GROUP BY a")
        wh.sql("CREATE MATERIALIZED VIEW same AS SELECT a, SUM(b) AS s FROM t GROUP BY a")
        wh.sql("CREATE MATERIALIZED VIEW w AS SELECT v.s FROM v")
        wh.sql("CREATE MATERIALIZED VIEW lazy WITH (refresh = 'deferred') AS SELECT s FROM v")
        wh.sql("INSERT INTO t VALUES (2, 5); ALTER VIEW v RENAME TO sums; ALTER VIEW lazy RENAME TO late")
        assert wh.sql("SELECT * FROM w").rows() == wh.sql("SELECT s FROM sums").rows()
        wh.sql("INSERT INTO t VALUES (2, 6); REFRESH VIEW late")
        assert sorted(wh.view("sums").rows()) == sorted(wh.view("same").rows()) == [(1, 3), (2, 11)]
        assert sorted(wh.view("late").rows()) == [(3,), (11,)]
        assert all(one.ok for one in wh.verify())
        assert wh.view("w").definition == "CREATE MATERIALIZED VIEW `w` AS SELECT v.s FROM `sums` AS `v`"
        wh.sql("DROP VIEW sums CASCADE; INSERT INTO t VALUES (7, 7)")
        assert sorted(wh.views()) == ["same"]
        assert all(one.ok for one in wh.verify())


def test_a_name_for_a_query_gets_another_name(wh: tidemill.Warehouse) -> None:
    wh.sql("CREATE VIEW larger AS SELECT * FROM large; ALTER VIEW large RENAME TO big")
    assert wh.sql("SELECT which FROM larger").rows() == [(1,)]
    with pytest.raises(NameTaken):
        wh.sql("ALTER VIEW big RENAME TO orders")


def test_readers_of_a_query_keep_it_under_its_new_name(wh: tidemill.Warehouse) -> None:
    wh.sql("CREATE VIEW larger AS SELECT how_much FROM large WHERE which < 9")
    wh.sql("CREATE MATERIALIZED VIEW most AS SELECT MAX(how_much) AS most FROM larger")
    epoch = wh.epoch
    wh.sql("ALTER VIEW large RENAME TO former_large; CREATE VIEW large AS SELECT id FROM orders WHERE amount < 5")
    assert wh.epoch == epoch, "no rows change"
    assert shown(wh, "many").endswith("SELECT COUNT(*) AS n FROM `former_large` AS `large`")
    wh.sql("INSERT INTO orders VALUES (3, 1, 7), (4, 1, 1); REFRESH VIEW many")
    assert (wh.view("many").rows(), wh.view("most").rows()) == ([(2,)], [(7,)])
    wh.sql("CREATE OR REPLACE MATERIALIZED VIEW many AS SELECT COUNT(*) AS n FROM large")
    assert wh.view("many").rows() == [(2,)]
    with pytest.raises(Unsupported, match="cannot be dropped"):
        wh.sql("DROP VIEW former_large")
    assert all(one.ok for one in wh.verify("many", "most", "totals"))


def test_readers_of_a_renamed_query_survive_a_restart(tmp_path: Path) -> None:
    with tidemill.open(tmp_path / "w", runtime="native") as wh:
        wh.sql("CREATE TABLE t (a INT, b INT); CREATE VIEW s AS SELECT a, b FROM t; INSERT INTO t VALUES (1, 2)")
        wh.sql("CREATE MATERIALIZED VIEW v AS SELECT a, SUM(b) AS b FROM s GROUP BY a")
        wh.sql("CREATE MATERIALIZED VIEW same AS SELECT a, SUM(b) AS b FROM s GROUP BY a")
        wh.sql("ALTER VIEW s RENAME TO former; CREATE VIEW s AS SELECT a, b * 2 AS b FROM t")
    with tidemill.open(tmp_path / "w", runtime="native") as wh:
        wh.sql("INSERT INTO t VALUES (1, 5)")
        wh.sql("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT a, SUM(b) AS b FROM s GROUP BY a")
        assert (wh.view("v").rows(), wh.view("same").rows()) == ([(1, 14)], [(1, 7)])
        assert all(one.ok for one in wh.verify())


def test_a_query_whose_readers_cannot_follow_keeps_its_name(wh: tidemill.Warehouse) -> None:
    wh.sql("CREATE VIEW ticks AS SELECT ts, n FROM clicks")
    wh.sql("CREATE VIEW some AS SELECT n FROM ticks")
    wh.sql("CREATE MATERIALIZED VIEW counted AS UPDATE counted[i] AS SELECT COUNT(*) AS ticks FROM clicks[i]")
    with pytest.raises(Unsupported, match="cannot be renamed"):
        wh.sql("ALTER VIEW ticks RENAME TO tocks")
    assert "`" not in shown(wh, "some").partition("AS")[2]


def test_definitions_of_several_threads_are_all_there() -> None:
    with tidemill.open(":memory:", runtime="native") as wh, ThreadPoolExecutor(8) as pool:
        wh.sql("CREATE TABLE t (a INT)")
        scripts = [
            f"CREATE VIEW v{i} AS SELECT a FROM t; CREATE FUNCTION f{i}(x INT) RETURNS INT RETURN x" for i in range(16)
        ]
        list(pool.map(wh.sql, scripts))
        list(pool.map(wh.sql, [f"GRANT SELECT ON t TO user{i}" for i in range(16)]))
        assert len(wh.sql("SHOW GRANTS").rows()) == 16
        assert wh.sql("SELECT COUNT(*) FROM information_schema.views").rows() == [(16,)]
        assert len(wh.sql("SHOW USER FUNCTIONS").rows()) == 16
        list(pool.map(wh.sql, [f"DROP VIEW v{i}; DROP FUNCTION f{i}" for i in range(15)]))
        assert wh.sql("SELECT table_name FROM information_schema.views").rows() == [("v15",)]


def test_drop_with_readers(wh: tidemill.Warehouse) -> None:
    with pytest.raises(Unsupported) as error:
        wh.sql("DROP VIEW totals")
    assert "CASCADE" in (error.value.hint or "")
    assert wh.sql("DROP VIEW totals CASCADE").message == "dropped totals, rich"
    assert wh.sql("DROP VIEW large CASCADE").message == "dropped large, many"
    assert wh.sql("DROP TABLE orders CASCADE").message == "dropped orders"
    assert sorted(wh.views()) == ["per_minute"]


def test_names_that_stand_for_more(tmp_path: Path) -> None:
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql(
            "CREATE TABLE t (ts TIMESTAMP, n INT) PARTITION BY ts EVERY 1 HOUR LATENESS 1 DAY; CREATE TABLE u (a INT)"
        )
        wh.sql("CREATE MATERIALIZED VIEW v WITH (static = 'u') AS SELECT a FROM u")
        for statement in (
            "ALTER TABLE t RENAME TO s",
            "ALTER TABLE t_late ADD COLUMN c INT",
            "ALTER TABLE u RENAME TO w",
        ):
            with pytest.raises(Unsupported, match="cannot be"):
                wh.sql(statement)
