"""Views that are not materialized, functions in SQL, variables and CREATE TABLE AS; Spark 4.3 gives the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import tidemill
from tidemill.model.errors import NameTaken, TidemillError, TypeMismatch, UnknownName, Unsupported


@pytest.fixture
def wh() -> Iterator[tidemill.Warehouse]:
    with tidemill.open(":memory:", runtime="native", backend="python") as warehouse:
        warehouse.sql("CREATE TABLE orders (id INT, customer STRING, amount INT)")
        warehouse.sql("INSERT INTO orders VALUES (1, 'ann', 10), (2, 'bob', 20), (3, 'ann', 5), (4, NULL, 1)")
        yield warehouse


def answers(wh: tidemill.Warehouse, query: str) -> list[tuple[object, ...]]:
    return sorted(wh.sql(query), key=repr)


# -- views ------------------------------------------------------------------------------------------------------


def test_a_temporary_view_is_read_like_a_table(wh: tidemill.Warehouse) -> None:
    wh.sql("CREATE TEMPORARY VIEW large AS SELECT id, amount FROM orders WHERE amount > 5")
    assert answers(wh, "SELECT * FROM large") == [(1, 10), (2, 20)]
    assert answers(wh, "SELECT a.id FROM large a JOIN large b ON a.id = b.id - 1") == [(1,)]
    wh.sql("INSERT INTO orders VALUES (5, 'eve', 50)")
    assert answers(wh, "SELECT count(*) FROM large") == [(3,)]


def test_a_temporary_view_hides_a_table_and_with_hides_it(wh: tidemill.Warehouse) -> None:
    wh.sql("CREATE TEMPORARY VIEW orders AS SELECT 1 AS one")
    assert answers(wh, "SELECT * FROM orders") == [(1,)]
    assert answers(wh, "WITH orders AS (SELECT 2 AS two) SELECT two FROM orders") == [(2,)]
    wh.sql("DROP VIEW orders")
    assert answers(wh, "SELECT count(*) FROM orders") == [(4,)]


def test_a_view_names_its_columns(wh: tidemill.Warehouse) -> None:
    wh.sql(
        "CREATE VIEW totals (who COMMENT 'customer', total) COMMENT 'c' TBLPROPERTIES ('a' = 'b') AS "
        "SELECT customer, sum(amount) FROM orders GROUP BY customer"
    )
    assert answers(wh, "SELECT who, totals.total FROM totals WHERE who IS NOT NULL") == [("ann", 15), ("bob", 20)]
    with pytest.raises(TypeMismatch):
        wh.sql("CREATE VIEW wrong (a) AS SELECT 1, 2")
    with pytest.raises(NameTaken):
        wh.sql("CREATE VIEW wrong AS SELECT 1 AS a, 2 AS a")
    with pytest.raises(TidemillError):
        wh.sql("CREATE VIEW wrong AS SELECT id FROM orders TABLESAMPLE (10 PERCENT)")
    wh.sql("CREATE VIEW pairs AS VALUES (1, 2) AS t(a, b)")
    assert answers(wh, "SELECT b, a FROM pairs") == [(2, 1)]


def test_a_view_is_replaced_and_cannot_read_itself(wh: tidemill.Warehouse) -> None:
    wh.sql("CREATE TEMP VIEW v AS SELECT 1 AS a")
    with pytest.raises(NameTaken):
        wh.sql("CREATE TEMP VIEW v AS SELECT 2 AS a")
    wh.sql("CREATE OR REPLACE TEMP VIEW v AS SELECT 2 AS a")
    assert answers(wh, "SELECT a FROM v") == [(2,)]
    with pytest.raises(Unsupported, match="defined by itself"):
        wh.sql("CREATE OR REPLACE TEMP VIEW v AS SELECT a FROM v")
    wh.sql("CREATE GLOBAL TEMPORARY VIEW g AS SELECT a + 1 AS b FROM v")
    assert answers(wh, "SELECT b FROM global_temp.g") == [(3,)]


def test_errors_of_a_view_are_found_when_it_is_created(wh: tidemill.Warehouse) -> None:
    with pytest.raises(UnknownName) as error:
        wh.sql("CREATE VIEW broken AS SELECT nothing FROM orders")
    assert "broken:1:8" in str(error.value)
    with pytest.raises(UnknownName):
        wh.sql("SELECT * FROM broken")


def test_a_materialized_view_over_a_view_is_maintained_and_outlives_a_restart(tmp_path: Path) -> None:
    with tidemill.open(tmp_path / "w", runtime="native", backend="python") as wh:
        wh.sql("CREATE TABLE orders (id INT, customer STRING, amount INT)")
        wh.sql("CREATE VIEW totals AS SELECT customer, sum(amount) AS total FROM orders GROUP BY customer")
        wh.sql("CREATE FUNCTION doubled(x BIGINT) RETURNS BIGINT RETURN x * 2")
        wh.sql("CREATE MATERIALIZED VIEW rich AS SELECT customer, doubled(total) AS d FROM totals WHERE total > 9")
        wh.sql("CREATE TEMPORARY VIEW gone AS SELECT 1 AS a")
        wh.sql("INSERT INTO orders VALUES (1, 'ann', 10), (2, 'bob', 5)")
    with tidemill.open(tmp_path / "w", runtime="native", backend="python") as wh:
        assert answers(wh, "SELECT * FROM rich") == [("ann", 20)]
        wh.sql("INSERT INTO orders VALUES (3, 'bob', 5)")
        assert answers(wh, "SELECT * FROM rich") == [("ann", 20), ("bob", 20)]
        assert answers(wh, "SELECT customer FROM totals WHERE doubled(total) = 20") == [("ann",), ("bob",)]
        with pytest.raises(UnknownName):
            wh.sql("SELECT * FROM gone")
        for refused in (
            "DROP VIEW totals",
            "DROP FUNCTION doubled",
            "CREATE OR REPLACE VIEW totals AS SELECT 1 AS customer",
            "CREATE OR REPLACE FUNCTION doubled(x BIGINT, y BIGINT) RETURN x",
            "DROP TABLE orders",
        ):
            with pytest.raises(Unsupported, match="rich"):
                wh.sql(refused)
        wh.sql("DROP VIEW rich; DROP VIEW totals; DROP FUNCTION doubled; DROP TABLE orders")


def test_what_is_stored_does_not_use_what_is_temporary(wh: tidemill.Warehouse) -> None:
    wh.sql("CREATE TEMP VIEW v AS SELECT 1 AS a; CREATE TEMPORARY FUNCTION one() RETURNS INT RETURN 1")
    for refused in (
        "CREATE MATERIALIZED VIEW m AS SELECT a FROM v",
        "CREATE VIEW m AS SELECT a FROM v",
        "CREATE FUNCTION m() RETURNS INT RETURN SELECT max(a) FROM v",
        "CREATE MATERIALIZED VIEW m AS SELECT one() AS a FROM orders",
    ):
        with pytest.raises(Unsupported, match="temporary"):
            wh.sql(refused)
    wh.sql("CREATE MATERIALIZED VIEW m AS WITH v AS (SELECT id FROM orders) SELECT id FROM v")


# -- functions --------------------------------------------------------------------------------------------------


def test_functions_in_sql(wh: tidemill.Warehouse) -> None:
    wh.sql("CREATE FUNCTION plus(x INT, y INT DEFAULT 10) RETURNS INT COMMENT 'sum' DETERMINISTIC RETURN x + y")
    assert answers(wh, "SELECT plus(1), plus(1, 2), plus('3', 4), plus(y => 5, x => 1)") == [(11, 3, 7, 6)]
    assert answers(wh, "SELECT plus(sum(amount)) FROM orders") == [(46,)]
    assert answers(wh, "SELECT id FROM orders WHERE plus(id, amount) = 11") == [(1,)]
    for wrong in ("plus()", "plus(1, 2, 3)", "plus(1, x => 2)", "plus(1, z => 2)", "plus(x => 1, 2)", "plus(array(1))"):
        with pytest.raises(TidemillError):
            wh.sql(f"SELECT {wrong}")


def test_a_function_may_have_a_query_that_reads_its_parameters(wh: tidemill.Warehouse) -> None:
    wh.sql(
        "CREATE FUNCTION spent(customer STRING) RETURNS BIGINT RETURN "
        "SELECT sum(amount) FROM orders AS o WHERE o.customer = spent.customer"
    )
    assert answers(wh, "SELECT spent('ann'), spent('zoe')") == [(15, None)]
    # A column of the query comes before a parameter of its name.
    wh.sql(
        "CREATE FUNCTION whole(customer STRING) RETURNS BIGINT RETURN "
        "SELECT sum(amount) FROM orders WHERE customer = customer"
    )
    assert answers(wh, "SELECT whole('ann')") == [(35,)]
    wh.sql("CREATE MATERIALIZED VIEW m AS SELECT DISTINCT customer, spent(customer) AS s FROM orders")
    wh.sql("INSERT INTO orders VALUES (9, 'bob', 1)")
    assert answers(wh, "SELECT * FROM m") == [("ann", 15), ("bob", 21), (None, None)]


def test_functions_that_make_a_table(wh: tidemill.Warehouse) -> None:
    wh.sql(
        "CREATE FUNCTION above(least INT) RETURNS TABLE (id BIGINT, who STRING) RETURN "
        "SELECT id, customer FROM orders WHERE amount > least"
    )
    assert answers(wh, "SELECT a.id, a.who FROM above(5) AS a") == [(1, "ann"), (2, "bob")]
    assert answers(wh, "SELECT count(*) FROM above(least => 1 + 0) JOIN above(5) AS b USING (id)") == [(2,)]
    with pytest.raises(TypeMismatch):
        wh.sql("CREATE FUNCTION wrong() RETURNS TABLE (a INT) RETURN SELECT 1, 2")


def test_functions_are_listed_described_and_dropped(wh: tidemill.Warehouse) -> None:
    wh.sql("CREATE FUNCTION plus(x INT, y INT DEFAULT 1) RETURN x + y")
    assert list(wh.sql("SHOW USER FUNCTIONS")) == [("plus",)]
    assert ("abs",) in wh.sql("SHOW FUNCTIONS LIKE 'ab*'")
    assert ("Returns: INT",) in wh.sql("DESCRIBE FUNCTION EXTENDED plus")
    with pytest.raises(NameTaken):
        wh.sql("CREATE FUNCTION plus(x INT) RETURN x")
    with pytest.raises(NameTaken):
        wh.sql("CREATE FUNCTION abs(x INT) RETURN x")
    wh.sql("CREATE FUNCTION IF NOT EXISTS plus(x INT) RETURN 0")
    assert answers(wh, "SELECT default.plus(1) + plus(1)") == [(4,)]
    wh.sql("DROP FUNCTION plus")
    with pytest.raises(UnknownName):
        wh.sql("SELECT plus(1)")
    with pytest.raises(UnknownName):
        wh.sql("DROP FUNCTION plus")
    wh.sql("DROP FUNCTION IF EXISTS plus")


def test_a_function_cannot_call_itself_nor_have_aggregates(wh: tidemill.Warehouse) -> None:
    for body in ("wrong(x)", "sum(x)", "nothing", "row_number() OVER (ORDER BY x)", "array(x)"):
        with pytest.raises(TidemillError):
            wh.sql(f"CREATE FUNCTION wrong(x INT) RETURNS INT RETURN {body}")
    for head in (
        "(x INT, X INT) RETURNS INT",
        "(x INT NOT NULL) RETURNS INT",
        "(x VARCHAR(3)) RETURNS STRING",
        "(x INT DEFAULT 1, y INT) RETURNS INT",
        "(x INT DEFAULT array(1)) RETURNS INT",
        "() RETURNS TABLE (a INT, A INT)",
        "() RETURNS TABLE (a INT DEFAULT 5)",
    ):
        with pytest.raises(TidemillError):
            wh.sql(f"CREATE FUNCTION wrong{head} RETURN SELECT 1")


# -- variables --------------------------------------------------------------------------------------------------


def test_variables(wh: tidemill.Warehouse) -> None:
    wh.sql("DECLARE VARIABLE least INT DEFAULT 5; DECLARE name = 'ann'; DECLARE nothing DOUBLE")
    assert answers(wh, "SELECT id FROM orders WHERE amount > least AND customer = session.name") == [(1,)]
    assert answers(wh, "SELECT nothing, typeof(system.session.nothing)") == [(None, "double")]
    wh.sql("SET VAR least = (SELECT max(amount) FROM orders), name = upper(name)")
    assert answers(wh, "SELECT least, name") == [(20, "ANN")]
    wh.sql("SET VARIABLE (least, name) = (SELECT min(id), 'x' FROM orders)")
    assert answers(wh, "SELECT least, name") == [(1, "x")]
    wh.sql("SET VAR least = (SELECT amount FROM orders ORDER BY amount DESC LIMIT 1)")
    assert answers(wh, "SELECT least") == [(20,)]
    wh.sql("SET VAR least = DEFAULT")
    assert answers(wh, "SELECT least") == [(5,)]
    wh.sql("UPDATE orders SET amount = least WHERE id = least - 1")
    assert answers(wh, "SELECT amount FROM orders WHERE id = 4") == [(5,)]


def test_a_column_hides_a_variable_and_stored_views_have_none(wh: tidemill.Warehouse) -> None:
    wh.sql("DECLARE id INT = 100")
    assert answers(wh, "SELECT max(id), max(session.id) FROM orders") == [(4, 100)]
    wh.sql("DECLARE other INT = 1")
    with pytest.raises(UnknownName):
        wh.sql("CREATE MATERIALIZED VIEW m AS SELECT id + other AS x FROM orders")
    for wrong in (
        "SET VAR unknown = 1",
        "SET VAR other = (SELECT id FROM orders)",
        "SET VAR other = array(1)",
        "DECLARE x INT = (SELECT 1)",
    ):
        with pytest.raises(TidemillError):
            wh.sql(wrong)
    wh.sql("DROP TEMPORARY VARIABLE other")
    with pytest.raises(UnknownName):
        wh.sql("SELECT other")


def test_statements_whose_text_is_a_value(wh: tidemill.Warehouse) -> None:
    wh.sql("DECLARE text STRING = 'SELECT id FROM orders WHERE amount > ? AND customer = ?'; DECLARE who = 'ann'")
    assert answers(wh, "EXECUTE IMMEDIATE text USING 5, who") == [(1,)]
    assert answers(wh, "EXECUTE IMMEDIATE 'SELECT :a + :a, :b' USING 2 AS b, 1 + 0 AS a") == [(2, 2)]
    assert answers(wh, "EXECUTE IMMEDIATE 'SELECT :who' USING who") == [("ann",)]
    assert answers(wh, "EXECUTE IMMEDIATE 'SELECT ' || '42'") == [(42,)]
    wh.sql("EXECUTE IMMEDIATE 'INSERT INTO orders VALUES (?, ?, NULL)' USING (7, 'zoe')")
    wh.sql("DECLARE found INT; EXECUTE IMMEDIATE 'SELECT id FROM orders WHERE customer = ?' INTO found USING 'zoe'")
    assert answers(wh, "SELECT found") == [(7,)]
    wh.sql("EXECUTE IMMEDIATE 'SELECT 1, ''x'' WHERE false' INTO found, who")
    assert answers(wh, "SELECT found, who") == [(None, None)]
    for wrong in (
        "EXECUTE IMMEDIATE 'SELECT ?'",
        "EXECUTE IMMEDIATE 'SELECT :a' USING 1",
        "EXECUTE IMMEDIATE 'SELECT ?' USING (SELECT 1)",
        "EXECUTE IMMEDIATE 'SELECT id FROM orders' INTO found",
        "EXECUTE IMMEDIATE 'INSERT INTO orders VALUES (1, NULL, 1)' INTO found",
        "EXECUTE IMMEDIATE CAST(NULL AS STRING)",
        "EXECUTE IMMEDIATE 5",
        "EXECUTE IMMEDIATE 'SELECT :a' USING 1 AS a, 2 AS a",
        "SELECT :a",
        "CREATE MATERIALIZED VIEW m AS SELECT id + ? AS x FROM orders",
    ):
        with pytest.raises(TidemillError):
            wh.sql(wrong)


# -- tables -----------------------------------------------------------------------------------------------------


def test_a_table_of_a_query(wh: tidemill.Warehouse) -> None:
    wh.sql("CREATE TABLE names USING parquet TBLPROPERTIES ('a' = 'b') AS SELECT DISTINCT customer AS name FROM orders")
    wh.sql("INSERT INTO orders VALUES (5, 'eve', 50)")
    assert answers(wh, "SELECT name FROM names") == [("ann",), ("bob",), (None,)]
    wh.sql("CREATE TABLE IF NOT EXISTS names AS SELECT 1 AS a")
    with pytest.raises(TypeMismatch):
        wh.sql("CREATE TABLE untyped AS SELECT NULL AS a")
    wh.sql("CREATE TABLE most AS SELECT id FROM orders ORDER BY amount DESC LIMIT 2")
    assert answers(wh, "SELECT id FROM most") == [(2,), (5,)]
    assert wh.tables() == ("orders", "names", "most")


def test_columns_with_defaults(tmp_path: Path) -> None:
    with tidemill.open(tmp_path / "w", runtime="native", backend="python") as wh:
        wh.sql(
            "CREATE TABLE d (a INT DEFAULT 5 + abs(-1), b STRING DEFAULT 'it''s', "
            "c INT DEFAULT -CAST('1' AS INT) NOT NULL)"
        )
        wh.sql("INSERT INTO d (a) VALUES (1); INSERT INTO d VALUES (DEFAULT, DEFAULT, DEFAULT), (DEFAULT, NULL, 7)")
    with tidemill.open(tmp_path / "w", runtime="native", backend="python") as wh:
        wh.sql("INSERT INTO d (b) SELECT 'x'; UPDATE d SET a = DEFAULT WHERE a = 1")
        found = answers(wh, "SELECT * FROM d")
        assert found == [(6, "it's", -1), (6, "it's", -1), (6, "x", -1), (6, None, 7)]
        assert "DEFAULT 5 + abs(-1)" in wh.sql("SHOW CREATE TABLE d")[0][0]
        for wrong in ("a INT DEFAULT 'x'", "a INT DEFAULT array(1)", "a INT DEFAULT (SELECT 1)", "a INT DEFAULT a"):
            with pytest.raises(TidemillError):
                wh.sql(f"CREATE TABLE e ({wrong})")


def test_insert_by_name(wh: tidemill.Warehouse) -> None:
    wh.sql("INSERT INTO orders BY NAME SELECT 7 AS amount, 8 AS id")
    assert answers(wh, "SELECT * FROM orders WHERE id = 8") == [(8, None, 7)]
    with pytest.raises(UnknownName):
        wh.sql("INSERT INTO orders BY NAME SELECT 7 AS other")
    wh.sql("CREATE TABLE copy (id INT, customer STRING, amount INT); INSERT INTO copy TABLE orders")
    assert answers(wh, "SELECT count(*) FROM copy") == [(5,)]


def test_tables_are_described(wh: tidemill.Warehouse) -> None:
    wh.sql("CREATE TEMP VIEW v AS SELECT id, amount * 1.5 AS x FROM orders")
    assert ("id", "int", None) in wh.sql("DESCRIBE TABLE orders")
    assert list(wh.sql("SHOW COLUMNS IN v")) == [("id",), ("x",)]


@pytest.mark.parametrize(
    "text",
    [
        "CACHE TABLE x",
        "RESET",
        "UPDATE orders SET s.a = 1",
        "CREATE SCHEMA s",
        "DROP DATABASE IF EXISTS s",
        "ALTER TABLE orders SET TBLPROPERTIES ('a' = 'b')",
        "REFRESH TABLE orders",
        "CREATE OR REPLACE TABLE t (a INT)",
        "SET spark.sql.shuffle.partitions = 2",
        "SELECT struct(1, 2).*",
        "SELECT count(orders.*) FROM orders",
        "SELECT IDENTIFIER(id) FROM orders",
    ],
)
def test_what_is_refused_says_what_to_do_instead(wh: tidemill.Warehouse, text: str) -> None:
    with pytest.raises(TidemillError) as error:
        wh.sql(text)
    assert error.value.hint


def test_names_with_the_schema(wh: tidemill.Warehouse) -> None:
    wh.sql("CREATE TABLE default.items (id INT) USING parquet; INSERT INTO spark_catalog.default.items VALUES (1)")
    assert answers(wh, "SELECT * FROM default.items") == answers(wh, "TABLE items") == [(1,)]
    assert list(wh.sql("SHOW SCHEMAS")) == [("default",)]
    wh.sql("USE default; USE SCHEMA spark_catalog.default")
    with pytest.raises(TidemillError):
        wh.sql("CREATE TABLE other.items (id INT)")
    with pytest.raises(UnknownName):
        wh.sql("USE other")
    with pytest.raises(Unsupported, match="SET"):
        wh.sql("SET spark.sql.ansi.enabled = false")
