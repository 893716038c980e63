"""``information_schema``: the catalog as rows, compared with what SHOW and DESCRIBE say; joined, filtered, refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import tidemill
from tidemill.engine.inspect.information_schema import INFORMATION_TABLES
from tidemill.engine.warehouse import Warehouse
from tidemill.model.errors import UnknownName, Unsupported

SCRIPT = """
CREATE TABLE customers (
  id INT PRIMARY KEY, name VARCHAR(20) NOT NULL, code CHAR(3), age INT DEFAULT 3, CONSTRAINT grown CHECK (age > 0)
);
CREATE TABLE orders (
  id BIGINT PRIMARY KEY, customer INT REFERENCES customers (id), amount DECIMAL(12,2), tags ARRAY<STRING>
);
CREATE STREAM clicks (page STRING);
CREATE MATERIALIZED VIEW spend AS SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer;
CREATE MATERIALIZED VIEW lazy WITH (refresh = 'deferred') AS SELECT id FROM orders;
CREATE VIEW plain AS SELECT id, amount FROM orders;
CREATE TEMPORARY VIEW passing AS SELECT 1 AS one;
INSERT INTO customers VALUES (1, 'ann', 'x', 4), (2, 'bob', 'y', 5);
INSERT INTO orders VALUES (1, 1, 2.5, NULL);
"""


@pytest.fixture
def wh() -> Iterator[Warehouse]:
    with tidemill.open(":memory:", runtime="native") as made:
        made.sql(SCRIPT)
        yield made


def test_tables_and_columns_are_those_of_show_and_describe(wh: Warehouse) -> None:
    kinds = dict(wh.sql("SELECT table_name, table_type FROM information_schema.tables").rows())
    shown = {name: kind for name, kind, *_ in wh.sql("SHOW TABLES")}
    assert {name: kind.replace("BASE ", "").lower() for name, kind in kinds.items() if name in shown} == shown
    assert {name for name, kind in kinds.items() if kind == "MATERIALIZED VIEW"} == set(wh.views())
    assert kinds["plain"] == "VIEW" and kinds["passing"] == "TEMPORARY VIEW"
    for name in kinds:
        query = (
            f"SELECT column_name FROM information_schema.columns WHERE table_name = '{name}' ORDER BY ordinal_position"
        )
        assert wh.sql(query).rows() == wh.sql(f"SHOW COLUMNS IN {name}").rows()


def test_views_say_how_they_are_maintained(wh: Warehouse) -> None:
    columns = "table_name, strategy, runtime, refresh, shown_epoch"
    found = wh.sql(f"SELECT {columns} FROM information_schema.views WHERE is_materialized = 'YES'").rows()
    assert found == [(name, *rest[:3], rest[3]) for name, *rest in wh.sql("SHOW VIEWS")]
    query = "SELECT view_definition, reads FROM information_schema.views WHERE table_name = 'spend'"
    assert wh.sql(query).rows() == [("SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer", "orders")]


def test_constraints_and_keys(wh: Warehouse) -> None:
    kinds = wh.sql("SELECT table_name, constraint_name, constraint_type FROM information_schema.table_constraints")
    assert set(kinds.rows()) == {
        ("customers", "customers_pkey", "PRIMARY KEY"),
        ("customers", "grown", "CHECK"),
        ("orders", "orders_pkey", "PRIMARY KEY"),
        ("orders", "orders_customer_fkey", "FOREIGN KEY"),
        ("spend", "spend_key", "UNIQUE"),
        ("lazy", "lazy_key", "UNIQUE"),
    }
    usage = """
      SELECT k.table_name, k.column_name, r.referenced_table FROM information_schema.key_column_usage k
      LEFT JOIN information_schema.referential_constraints r USING (constraint_name) WHERE k.table_name = 'orders'
    """
    assert set(wh.sql(usage).rows()) == {("orders", "id", None), ("orders", "customer", "customers")}
    assert wh.sql("SELECT check_clause FROM information_schema.check_constraints").rows() == [("age > 0",)]


def test_types_in_full_and_in_numbers(wh: Warehouse) -> None:
    columns = "column_name, data_type, full_data_type, character_maximum_length, numeric_precision, numeric_scale"
    found = wh.sql(f"SELECT {columns} FROM information_schema.columns WHERE table_name IN ('customers', 'orders')")
    rows = {row[0]: row[1:] for row in found}
    assert rows["amount"] == ("DECIMAL", "DECIMAL(12,2)", None, 12, 2)
    assert rows["name"] == ("VARCHAR", "VARCHAR(20)", 20, None, None)
    assert rows["code"] == ("CHAR", "CHAR(3)", 3, None, None)
    assert rows["tags"] == ("ARRAY", "ARRAY<STRING>", None, None, None)


def test_it_is_joined_with_tables_and_read_in_subqueries(wh: Warehouse) -> None:
    rows = "SELECT t.table_name FROM information_schema.tables t WHERE t.rows"
    assert wh.sql(f"SELECT name FROM customers c WHERE 'orders' IN ({rows} = c.id)").rows() == [("ann",)]
    joined = "SELECT COUNT(*) FROM customers, spark_catalog.information_schema.schemata"
    assert wh.sql(joined).rows() == [(2,)]
    assert wh.sql(f"WITH x AS ({rows} > 0) SELECT MAX(table_name) FROM x").rows() == [("spend",)]


def test_it_follows_the_catalog(wh: Warehouse) -> None:
    count = "SELECT COUNT(*) FROM information_schema.columns WHERE table_name = 'clicks'"
    wh.sql("ALTER TABLE clicks ADD COLUMN ms INT")
    assert wh.sql(count).rows() == [(2,)]
    wh.sql("DROP STREAM clicks")
    assert wh.sql(count).rows() == [(0,)]


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE MATERIALIZED VIEW v AS SELECT table_name FROM information_schema.tables",
        "CREATE VIEW v AS SELECT table_name FROM information_schema.tables",
        "CREATE TEMPORARY VIEW v AS SELECT table_name FROM information_schema.tables",
        "CREATE TABLE v AS SELECT table_name FROM information_schema.tables",
        "INSERT INTO clicks SELECT table_name FROM information_schema.tables",
    ],
)
def test_what_is_stored_cannot_read_it(wh: Warehouse, statement: str) -> None:
    with pytest.raises(Unsupported, match='"information_schema.tables" cannot be read here'):
        wh.sql(statement)


def test_other_tables_of_it_are_unknown(wh: Warehouse) -> None:
    with pytest.raises(UnknownName, match='Did you mean "information_schema.tables"'):
        wh.sql("SELECT * FROM information_schema.tabels")


def test_a_reader_has_it_too_and_every_table_has_its_columns(tmp_path: Path) -> None:
    with tidemill.open(tmp_path / "shop", runtime="native") as wh:
        wh.sql(SCRIPT)
        wh.sql("DROP VIEW passing")
        written = {name: wh.sql(f"SELECT * FROM information_schema.{name}") for name in INFORMATION_TABLES}
    with tidemill.open(tmp_path / "shop", runtime="native", read_only=True) as reader:
        for name, rows in written.items():
            found = reader.sql(f"SELECT * FROM information_schema.{name}")
            assert found.rows() == rows.rows() and found.arrow().num_rows == len(rows) > 0
