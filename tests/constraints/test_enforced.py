"""Constraints that are accepted are enforced, whichever way rows come in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

import tidemill
from tests import ways
from tidemill.engine.catalog.ddl import ddl
from tidemill.model.errors import (
    ArithmeticFault,
    BadValue,
    CheckViolation,
    DanglingReference,
    DataError,
    NullViolation,
    Unsupported,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHOP = """
CREATE TABLE customers (id INT PRIMARY KEY, code VARCHAR(3) NOT NULL);
CREATE TABLE orders (id INT PRIMARY KEY, customer INT REFERENCES customers, amount INT,
  CONSTRAINT positive CHECK (amount > 0));
CREATE MATERIALIZED VIEW spend AS
  SELECT c.code, SUM(o.amount) AS total FROM orders o JOIN customers c ON o.customer = c.id GROUP BY c.code;
"""


@pytest.fixture(params=ways.NATIVE)
def wh(request: pytest.FixtureRequest) -> Iterator[tidemill.Warehouse]:
    with ways.opened(request.param) as opened:
        opened.sql(SHOP)
        opened.sql("INSERT INTO customers VALUES (1, 'ann'), (2, 'bob')")
        opened.sql("INSERT INTO orders VALUES (1, 1, 5)")
        yield opened


def unchanged(wh: tidemill.Warehouse) -> None:
    assert sorted(wh.table("customers").rows()) == [(1, "ann"), (2, "bob")]
    assert wh.table("orders").rows() == [(1, 1, 5)]
    assert wh.view("spend").rows() == [("ann", 5)]
    assert wh.view("spend").verify().ok


# -- lengths ----------------------------------------------------------------------------------------------------------


TAKEN = [("abc", "abc"), ("abc   ", "abc"), ("ab ", "ab "), ("", ""), ("ééé", "ééé"), ("𝒳𝒳𝒳", "𝒳𝒳𝒳"), ("  ", "  ")]
REFUSED = ["abcd", "éééé", "abc\t", "abc d", "𝒳𝒳𝒳𝒳"]
"""Values for VARCHAR(3) that Spark's own tables take, with what they store, and that they refuse: by characters."""


@pytest.mark.parametrize(("given", "stored"), TAKEN)
def test_spaces_beyond_the_length_are_cut_off(given: str, stored: str) -> None:
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql("CREATE TABLE t (id INT, x VARCHAR(3))")
        wh.apply({"t": [(1, (1, given)), (1, (2, None))]})
        wh.apply({"t": pa.table({"id": [1, 2], "x": [given, None]})})
        wh.sql(f"INSERT INTO t VALUES (1, '{given}'), (2, NULL)")
        wh.feed("t")(1, 1, given)
        assert sorted(wh.table("t").rows()) == [(1, stored)] * 4 + [(2, None)] * 3
        wh.apply({"t": [(-1, (1, given))] * 4})
        assert wh.table("t").rows() == [(2, None)] * 3


@pytest.mark.parametrize("given", REFUSED)
def test_longer_texts_are_refused(given: str) -> None:
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql("CREATE TABLE t (x VARCHAR(3)); CREATE STREAM s (x VARCHAR(3))")
        wh.sql("CREATE MATERIALIZED VIEW v AS SELECT x, COUNT(*) AS n FROM s GROUP BY x")
        rows = pa.table({"x": ["abc", given], "_weight": [1, 1]})
        whole = pa.table({"x": pa.array(["abc", given], pa.string()), "_weight": pa.array([1, 1], pa.int64())})
        for attempt in (
            lambda: wh.apply({"t": [(1, (given,))]}),
            lambda: wh.apply({"t": rows}),
            lambda: wh.apply({"t": whole}),
            lambda: wh.apply({"s": whole}),
            lambda: wh.apply({"t": rows.to_pandas()}),
            lambda: wh.sql(f"INSERT INTO t VALUES ('{given}')"),
            lambda: wh.feed("t")(1, given),
            lambda: wh.feed("s")(1, given),
            lambda: wh.replay({"s": whole}, np.array([0, 0], dtype=np.uint8)),
        ):
            with pytest.raises(BadValue, match=r"VARCHAR\(3\)"):
                attempt()
        assert wh.table("t").rows() == wh.view("v").rows() == []


def test_update_is_held_to_the_length(wh: tidemill.Warehouse) -> None:
    with pytest.raises(BadValue, match=r"VARCHAR\(3\)"):
        wh.sql("UPDATE customers SET code = code || 'x'")
    unchanged(wh)
    wh.sql("UPDATE customers SET code = code || '  '")
    unchanged(wh)


def test_views_see_strings(wh: tidemill.Warehouse) -> None:
    wh.sql("CREATE MATERIALIZED VIEW codes AS SELECT code, code || '!' AS loud FROM customers")
    assert [f.declared for f in wh.view("codes").fields] == ["STRING", "STRING"]
    assert ("ann", "ann!") in wh.view("codes").rows()
    assert wh.sql("SELECT CAST('abcd' AS VARCHAR(3)) AS x").rows() == [("abcd",)]


# -- conditions -------------------------------------------------------------------------------------------------------


def test_a_check_is_violated_by_false_alone(wh: tidemill.Warehouse) -> None:
    with pytest.raises(CheckViolation) as caught:
        wh.sql("INSERT INTO orders VALUES (2, 1, 7), (3, 1, 0)")
    assert caught.value.render() == (
        'error: a row of "orders" violates "positive"\n  orders (3, 1, 0)\ndetail: CHECK (amount > 0) is false.'
    )
    with pytest.raises(CheckViolation):
        wh.sql("UPDATE orders SET amount = -amount")
    unchanged(wh)
    wh.apply({"orders": [(1, (2, 1, None))]})
    assert wh.view("spend").rows() == [("ann", 5)]


def test_only_what_arrives_on_balance_is_checked(wh: tidemill.Warehouse) -> None:
    wh.apply({"orders": [(1, (9, 7, -1)), (-1, (9, 7, -1))]})
    unchanged(wh)


def test_a_fault_in_a_check_names_it() -> None:
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql("CREATE TABLE t (a INT, b INT, CONSTRAINT ratio CHECK (a / b > 1))")
        with pytest.raises(ArithmeticFault, match="ratio"):
            wh.apply({"t": [(1, (1, 0))]})
        wh.apply({"t": [(1, (4, 2))]})
        assert wh.table("t").rows() == [(4, 2)]


def test_a_check_over_every_kind_of_expression() -> None:
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql(
            """CREATE TABLE t (d DATE, s STRING, a ARRAY<INT>, m DECIMAL(10,2),
              CHECK (d >= DATE '2020-01-01' AND year(d) < 2030),
              CHECK (s IN ('x', 'y') OR s LIKE 'z%'),
              CHECK (exists(a, v -> v > 0)),
              CHECK (CASE WHEN s = 'x' THEN m BETWEEN 0 AND 1.5 ELSE TRUE END))"""
        )
        good = ("2024-02-29", "x", [0, 1], "1.50")
        wh.apply({"t": [(1, good), (1, (None, None, None, None))]})
        for place, value in enumerate(("2031-01-01", "w", [0], "1.51")):
            with pytest.raises(CheckViolation):
                wh.apply({"t": [(1, (*good[:place], value, *good[place + 1 :]))]})


def test_streams_are_held_to_their_checks() -> None:
    with tidemill.open(":memory:", runtime="native", backend="llvm") as wh:
        wh.sql("CREATE STREAM s (a INT CHECK (a > 0), b STRING)")
        wh.sql("CREATE MATERIALIZED VIEW v AS SELECT b, SUM(a) AS n FROM s GROUP BY b")
        feed = wh.feed("s")
        feed(1, 2, "x")
        with pytest.raises(CheckViolation):
            feed(1, 0, "x")
        with pytest.raises(CheckViolation):
            wh.apply({"s": [(1, (3, "x")), (1, (-1, "x"))]})
        with pytest.raises(CheckViolation):
            wh.replay({"s": [(1, (3, "y")), (1, (-1, "x"))]}, ["s", "s"])
        assert sorted(wh.view("v").rows()) == [("x", 2), ("y", 3)]


# -- foreign keys -----------------------------------------------------------------------------------------------------


def test_a_row_needs_its_parent(wh: tidemill.Warehouse) -> None:
    with pytest.raises(DanglingReference) as caught:
        wh.sql("INSERT INTO orders VALUES (2, 7, 1)")
    assert caught.value.render() == (
        'error: a row of "orders" violates "orders_customer_fkey": "customers" has no row with id = 7\n'
        "  orders (2, 7, 1)\n"
        "hint: Send the row that it names in the same epoch, or before."
    )
    with pytest.raises(DanglingReference):
        wh.sql("UPDATE orders SET customer = 3")
    unchanged(wh)
    wh.sql("INSERT INTO orders VALUES (2, NULL, 1)")


def test_a_parent_that_is_named_stays(wh: tidemill.Warehouse) -> None:
    with pytest.raises(DanglingReference) as caught:
        wh.sql("DELETE FROM customers WHERE id = 1")
    assert caught.value.render() == (
        'error: a row cannot leave "customers": it would violate "orders_customer_fkey" of "orders"\n'
        "  customers id = 1\n"
        "detail: 1 row names it by customer.\n"
        'hint: Take these rows of "orders" out in the same epoch, or before.'
    )
    with pytest.raises(DanglingReference):
        wh.sql("UPDATE customers SET id = 9 WHERE id = 1")
    unchanged(wh)
    wh.sql("UPDATE customers SET code = 'eve' WHERE id = 1")
    wh.sql("DELETE FROM customers WHERE id = 2")
    assert wh.view("spend").rows() == [("eve", 5)]


def test_the_state_after_the_epoch_counts(wh: tidemill.Warehouse) -> None:
    wh.apply({"orders": [(1, (2, 3, 4))], "customers": [(1, (3, "cyd"))]})
    wh.apply({"customers": [(-1, (1, "ann"))], "orders": [(-1, (1, 1, 5)), (1, (1, 2, 5))]})
    assert sorted(wh.view("spend").rows()) == [("bob", 5), ("cyd", 4)]
    wh.apply({"customers": [(-1, (2, "bob")), (-1, (3, "cyd"))], "orders": [(-1, (1, 2, 5)), (-1, (2, 3, 4))]})
    assert wh.view("spend").rows() == []


def test_events_are_judged_one_by_one(wh: tidemill.Warehouse) -> None:
    order, customer = wh.feed("orders"), wh.feed("customers")
    with pytest.raises(DanglingReference):
        order(1, 2, 3, 4)
    customer(1, 3, "cyd")
    order(1, 2, 3, 4)
    with pytest.raises(DanglingReference):
        customer(-1, 3, "cyd")
    with pytest.raises(CheckViolation):
        order(1, 4, 3, 0)
    assert sorted(wh.view("spend").rows()) == [("ann", 5), ("cyd", 4)]


def test_what_cannot_be_held_is_refused(wh: tidemill.Warehouse) -> None:
    wh.sql("CREATE STREAM clicks (id INT)")
    wh.sql("CREATE TABLE days (ts TIMESTAMP PRIMARY KEY) PARTITION BY ts EVERY 1 DAY RETAIN 3 DAYS")
    wh.sql("CREATE TABLE bag (id INT)")
    for columns, detail in {
        "a INT REFERENCES clicks": "stream",
        "a TIMESTAMP REFERENCES days": "RETAIN",
        "a INT REFERENCES bag": "no primary key",
        "a STRING REFERENCES customers (code)": "primary key of",
        "a BIGINT REFERENCES customers": "BIGINT",
        "a INT, b INT, FOREIGN KEY (a, b) REFERENCES customers": "primary key of",
        "a STRING REFERENCES spend": "view",
    }.items():
        with pytest.raises(Unsupported, match=detail):
            wh.sql(f"CREATE TABLE refused ({columns})")
    with pytest.raises(Unsupported, match="stream"):
        wh.sql("CREATE STREAM refused (a INT REFERENCES customers)")
    wh.sql("CREATE STREAM informs (a INT REFERENCES customers NOT ENFORCED RELY)")
    wh.sql("DROP VIEW spend")
    with pytest.raises(Unsupported, match='A foreign key of "orders" refers to it'):
        wh.sql("DROP TABLE customers")
    wh.sql("DROP TABLE orders; DROP TABLE customers")


def test_a_table_may_be_referred_to_before_it_is_there() -> None:
    with tidemill.open(":memory:", runtime="native") as wh:
        said = wh.sql("CREATE TABLE hen (id INT PRIMARY KEY, egg INT REFERENCES egg)").message
        assert said == "created table hen; it refers to egg, which is not there yet"
        wh.apply({"hen": [(1, (1, None))]})
        with pytest.raises(DanglingReference, match='no table "egg" yet'):
            wh.apply({"hen": [(1, (2, 1))]})
        with pytest.raises(Unsupported, match="BIGINT"):
            wh.sql("CREATE TABLE egg (id BIGINT PRIMARY KEY)")
        with pytest.raises(Unsupported, match="view"):
            wh.sql("CREATE MATERIALIZED VIEW egg AS SELECT id FROM hen")
        wh.sql("CREATE TABLE egg (id INT PRIMARY KEY, hen INT NOT NULL REFERENCES hen)")
        wh.apply({"hen": [(1, (2, 1))], "egg": [(1, (1, 2))]})
        with pytest.raises(DanglingReference):
            wh.apply({"hen": [(-1, (2, 1))]})
        with pytest.raises(Unsupported, match='Delete the rows of "egg" first'):
            wh.sql("DROP TABLE hen")
        wh.apply({"hen": [(-1, (2, 1))], "egg": [(-1, (1, 2))]})
        wh.sql("DROP TABLE hen")
        with pytest.raises(DanglingReference):
            wh.apply({"egg": [(1, (1, 2))]})
        wh.sql("DROP TABLE egg")


def test_what_is_not_enforced_informs() -> None:
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql("CREATE TABLE t (a INT REFERENCES u NOT ENFORCED RELY, CONSTRAINT c CHECK (a > 0) NOT ENFORCED)")
        wh.apply({"t": [(1, (-1,))]})
        assert wh.sql("SHOW CREATE TABLE t").rows()[0] == (
            "CREATE TABLE `t` (`a` INT, CONSTRAINT `t_a_fkey` FOREIGN KEY (`a`) REFERENCES `u` NOT ENFORCED RELY, "
            "CONSTRAINT `c` CHECK (a > 0) NOT ENFORCED)",
        )


# -- files and catalogs -----------------------------------------------------------------------------------------------


def test_bad_rows_of_files_are_set_aside_with_the_reason(wh: tidemill.Warehouse, tmp_path: Path) -> None:
    rows = tmp_path / "orders.csv"
    rows.write_text("id,customer,amount\n2,1,3\n3,1,0\n4,2,8\n1,1,1\n")
    with pytest.raises(DataError):
        wh.load("orders", rows)
    unchanged(wh)
    wh.load("orders", rows, reject=tmp_path / "bad.jsonl")
    bad = [json.loads(line) for line in (tmp_path / "bad.jsonl").read_text().splitlines()]
    assert [(reject["line"], reject["reason"].partition(" (")[0]) for reject in bad] == [
        (3, 'a row of "orders" violates "positive"'),
        (5, "the primary key"),
    ]
    codes = tmp_path / "customers.jsonl"
    codes.write_text('{"id": 3, "code": "long"}\n{"id": 4}\n{"id": 5, "code": "eve"}\n')
    wh.load("customers", codes, reject=tmp_path / "bad.jsonl")
    assert len((tmp_path / "bad.jsonl").read_text().splitlines()) == 2
    assert (5, "eve") in wh.table("customers").rows()
    rows.write_text("id,customer,amount\n9,99,3\n")
    with pytest.raises(DanglingReference):  # a property of the epoch, not of the row
        wh.load("orders", rows, reject=tmp_path / "bad.jsonl")


def test_a_feed_sets_files_aside_that_violate_constraints(wh: tidemill.Warehouse, tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("id,customer,amount\n2,1,0\n")
    (tmp_path / "2.csv").write_text("id,customer,amount\n3,9,1\n")
    (tmp_path / "3.csv").write_text("id,customer,amount\n4,2,1\n")
    wh.sql(f"CREATE FEED f INTO orders FROM '{tmp_path}'")
    wh.sync("f")
    assert sorted(wh.table("orders").rows()) == [(1, 1, 5), (4, 2, 1)]
    assert sorted(path.name for path in (tmp_path / "_aside").iterdir() if path.suffix == ".csv") == ["1.csv", "2.csv"]


def test_constraints_outlive_the_process(tmp_path: Path) -> None:
    with tidemill.open(tmp_path, runtime="native") as wh:
        wh.sql(SHOP)
        wh.sql("INSERT INTO customers VALUES (1, 'ann')")
    with tidemill.open(tmp_path, runtime="native") as wh:
        for bad in (
            {"customers": [(1, (2, "long"))]},
            {"customers": [(1, (2, None))]},
            {"orders": [(1, (1, 2, 3))]},
            {"orders": [(1, (1, 1, 0))]},
        ):
            with pytest.raises(DataError):
                wh.apply(bad)
        wh.apply({"orders": [(1, (1, 1, 5))]})
        assert wh.view("spend").rows() == [("ann", 5)]


def test_foreign_keys_of_older_catalogs_inform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They were declared when nothing was checked, so rows may be there that violate them."""
    from tidemill.engine.catalog import serialization

    monkeypatch.setattr(
        serialization,
        "_entry_to_json",
        lambda table: {"kind": "table", "ddl": ddl(table).replace("`t_a_fkey` ", "`f` ")},
    )
    with tidemill.open(tmp_path, runtime="native") as wh:
        wh.sql("CREATE TABLE t (a INT REFERENCES u)")
    monkeypatch.undo()
    with tidemill.open(tmp_path, runtime="native") as wh:
        wh.apply({"t": [(1, (1,))]})
        wh.sql("CREATE TABLE other (a INT)")
        assert "NOT ENFORCED" in ddl(wh._engine.catalog.table("t"))


def test_null_is_refused_in_required_columns(wh: tidemill.Warehouse) -> None:
    for attempt in (
        lambda: wh.apply({"customers": [(1, (3, None))]}),
        lambda: wh.apply({"customers": pa.table({"id": [3], "code": pa.array([None], pa.string())})}),
        lambda: wh.sql("INSERT INTO customers (id) VALUES (3)"),
        lambda: wh.sql("UPDATE customers SET code = NULL"),
        lambda: wh.feed("customers")(1, 3, None),
    ):
        with pytest.raises(NullViolation):
            attempt()
    unchanged(wh)


# -- Spark ------------------------------------------------------------------------------------------------------------


@pytest.mark.turns("way", 2)
@pytest.mark.spark
@pytest.mark.parametrize("way", ways.SPARK)
def test_spark_enforces_the_same(way: str, spark: SparkSession, tmp_path: Path) -> None:
    with ways.opened(way, spark, tmp_path) as wh:
        wh.sql(SHOP)
        wh.apply({"customers": [(1, (1, "ann")), (1, (2, "bob  "))], "orders": [(1, (1, 1, 5))]})
    with ways.opened(way, spark, tmp_path) as wh:
        for changes, error, part in (
            ({"orders": [(1, (2, 1, 0)), (1, (3, 1, 1))]}, CheckViolation, "orders (2, 1, 0)"),
            ({"orders": [(1, (2, 7, 1)), (1, (3, None, 1))]}, DanglingReference, "no row with id = 7"),
            ({"customers": [(-1, (1, "ann"))]}, DanglingReference, "1 row names it"),
            ({"customers": [(-1, (1, "ann")), (1, (9, "ann"))]}, DanglingReference, "customers id = 1"),
            ({"customers": [(1, (3, "long"))]}, BadValue, "VARCHAR(3)"),
        ):
            with pytest.raises(error) as caught:
                wh.apply(changes)
            assert part in str(caught.value)
        wh.apply({"customers": [(-1, (1, "ann"))], "orders": [(-1, (1, 1, 5)), (1, (1, 2, 6))]})
        assert wh.costs().jobs or way == "driver"
        assert wh.view("spend").rows() == [("bob", 6)]


@pytest.mark.spark
def test_large_frames_are_held_to_lengths(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tidemill.runtimes.spark.execution import ingest

    monkeypatch.setattr(ingest, "COLLECT_ROWS", 0)
    with ways.opened("frames", spark, tmp_path) as wh:
        wh.sql("CREATE TABLE t (id INT, x VARCHAR(3))")
        wh.apply({"t": spark.createDataFrame([*enumerate(text for text, _ in TAKEN), (99, None)], "id INT, x STRING")})
        stored = [*enumerate(text for _, text in TAKEN), (99, None)]
        assert sorted(wh.table("t").rows()) == stored
        with pytest.raises(BadValue, match=r"VARCHAR\(3\)"):
            wh.apply({"t": spark.createDataFrame([(1, "abc"), (2, "abc\t")], "id INT, x STRING")})
        assert sorted(wh.table("t").rows()) == stored


def test_a_deep_check() -> None:
    with tidemill.open(":memory:", runtime="native") as wh:
        wh.sql(f"CREATE TABLE t (a INT, b INT, CHECK ({'(' * 100}a{' + b)' * 100} > 100))")
        wh.apply({"t": [(+1, (5, 1))]})
        with pytest.raises(CheckViolation):
            wh.apply({"t": [(+1, (0, 1))]})
