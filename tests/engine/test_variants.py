"""Tables with VARIANT columns: plain Python values in and out, through storage, statements and views."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path

import pytest

import tidemill
from tidemill.model.errors import BadValue, TidemillError, TypeMismatch

VALUES = [
    {"b": [1, None, {"c": "x"}], "a": Decimal("1.50")},
    [True, 2.5, "text", b"\x00\xff"],
    "a text, and not JSON",
    2**63 - 1,
    10**20,
    datetime.date(2024, 2, 29),
    datetime.datetime(2024, 2, 29, 10, 11, 12, 345678, tzinfo=datetime.UTC),
    datetime.datetime(2024, 2, 29, 10, 11, 12),
    {},
    [],
]


def test_values_come_back_from_storage(tmp_path: Path) -> None:
    with tidemill.open(tmp_path) as warehouse:
        warehouse.sql("CREATE TABLE t (id INT PRIMARY KEY, v VARIANT)")
        warehouse.sql(
            "CREATE MATERIALIZED VIEW kinds AS SELECT SCHEMA_OF_VARIANT(v) AS kind, COUNT(*) AS n FROM t GROUP BY 1"
        )
        warehouse.apply({"t": [(1, (place, value)) for place, value in enumerate(VALUES)]})
        warehouse.apply({"t": [(1, (len(VALUES), None))]})
    with tidemill.open(tmp_path) as warehouse:
        found = dict(warehouse.sql("SELECT * FROM t").rows())
        assert [found[place] for place in range(len(VALUES))] == VALUES
        assert found[len(VALUES)] is None
        warehouse.apply({"t": [(-1, (0, VALUES[0]))]})
        kinds = dict(warehouse.sql("SELECT * FROM kinds").rows())
        assert kinds[None] == 1
        assert kinds["TIMESTAMP_NTZ"] == 1
        assert kinds["DECIMAL(21,0)"] == 1
        assert not any((kind or "").startswith("OBJECT<a") for kind in kinds)


def test_statements(tmp_path: Path) -> None:
    with tidemill.open(tmp_path) as warehouse:
        warehouse.sql("CREATE TABLE t (id INT PRIMARY KEY, v VARIANT)")
        warehouse.sql(
            """INSERT INTO t VALUES (1, PARSE_JSON('{"a": [1, 2.50]}')), (2, NULL), (3, PARSE_JSON('null'))"""
        )
        warehouse.sql("UPDATE t SET v = PARSE_JSON('\"x\"') WHERE id = 2")
        warehouse.sql("DELETE FROM t WHERE v:a[0]::int = 1")
        assert sorted(warehouse.sql("SELECT * FROM t").rows()) == [
            (2, "x"),
            (3, None),
        ]
        assert warehouse.sql("SELECT id FROM t WHERE v IS NULL").rows() == []


@pytest.mark.parametrize("value", [{1: 2}, object(), Decimal("NaN"), {"a": {"b": set()}}])
def test_what_no_variant_holds(value: object) -> None:
    with tidemill.open(":memory:") as warehouse:
        warehouse.sql("CREATE TABLE t (id INT PRIMARY KEY, v VARIANT)")
        with pytest.raises(BadValue):
            warehouse.apply({"t": [(1, (1, value))]})


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE u (v VARIANT PRIMARY KEY)",
        "CREATE MATERIALIZED VIEW w AS SELECT v, COUNT(*) AS n FROM t GROUP BY v",
        "CREATE MATERIALIZED VIEW w AS SELECT DISTINCT v FROM t",
        "CREATE MATERIALIZED VIEW w AS SELECT a.id FROM t a JOIN t b ON a.v = b.v",
        "CREATE MATERIALIZED VIEW w AS SELECT id FROM t ORDER BY v LIMIT 1",
    ],
)
def test_variants_are_not_compared(statement: str) -> None:
    with tidemill.open(":memory:") as warehouse:
        warehouse.sql("CREATE TABLE t (id INT PRIMARY KEY, v VARIANT)")
        with pytest.raises(TypeMismatch if "VIEW" in statement else TidemillError):
            warehouse.sql(statement)
