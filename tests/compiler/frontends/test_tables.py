"""CREATE TABLE: types, keys and references, and what it refuses."""

from __future__ import annotations

import pytest

from tidemill.compiler.frontends.sql import parse
from tidemill.compiler.frontends.statements import CreateTable
from tidemill.model import types as t
from tidemill.model.errors import NameTaken, ParseError, TidemillError, UnknownName, Unsupported
from tidemill.model.schema import Reference, Table
from tidemill.model.types import Field


def table(text: str) -> Table:
    (statement,) = parse(text)
    assert isinstance(statement, CreateTable)
    return statement.table


@pytest.mark.parametrize(
    ("spelling", "expected"),
    [
        ("BOOLEAN", t.BOOLEAN),
        ("INT", t.INT),
        ("INTEGER", t.INT),
        ("SMALLINT", t.INT),
        ("TINYINT", t.INT),
        ("BIGINT", t.BIGINT),
        ("LONG", t.BIGINT),
        ("DECIMAL", t.Decimal(10, 0)),
        ("DECIMAL(7)", t.Decimal(7, 0)),
        ("DECIMAL(38, 38)", t.Decimal(38, 38)),
        ("NUMERIC(12,2)", t.Decimal(12, 2)),
        ("DEC(3,1)", t.Decimal(3, 1)),
        ("DOUBLE", t.DOUBLE),
        ("STRING", t.STRING),
        ("VARCHAR(20)", t.STRING),
        ("CHAR(3)", t.STRING),
        ("TEXT", t.STRING),
        ("DATE", t.DATE),
        ("TIMESTAMP", t.TIMESTAMP),
        ("TIMESTAMP_NTZ", t.TIMESTAMP),
        ("TIMESTAMP_LTZ", t.TIMESTAMP),
        ("ARRAY<INT>", t.Array(t.INT)),
        ("ARRAY<ARRAY<DECIMAL(4,1)>>", t.Array(t.Array(t.Decimal(4, 1)))),
        (
            "STRUCT<A: INT, b: STRUCT<c: STRING NOT NULL>>",
            t.Struct((Field("a", t.INT), Field("b", t.Struct((Field("c", t.STRING, nullable=False),))))),
        ),
        ("STRUCT<a INT, b STRING>", t.Struct((Field("a", t.INT), Field("b", t.STRING)))),
    ],
)
def test_types(spelling: str, expected: t.Type) -> None:
    assert table(f"CREATE TABLE t (x {spelling})").fields == (Field("x", expected),)


@pytest.mark.parametrize("spelling", ["BOOLEAN", "DECIMAL(12,2)", "ARRAY<STRUCT<a: INT, b: ARRAY<DATE>>>"])
def test_a_type_reads_what_it_prints(spelling: str) -> None:
    (field,) = table(f"CREATE TABLE t (x {spelling})").fields
    assert table(f"CREATE TABLE t (x {field.type})").fields == (field,)


def test_keys_and_references_beside_their_columns() -> None:
    orders = table("CREATE TABLE Orders (ID BIGINT PRIMARY KEY, customer INT NOT NULL REFERENCES Customers(Id))")
    assert orders.name == "orders"
    assert orders.fields == (Field("id", t.BIGINT, nullable=False), Field("customer", t.INT, nullable=False))
    assert orders.primary_key == ("id",)
    assert orders.references == (Reference(("customer",), "customers", ("id",)),)
    assert orders.kept


def test_keys_and_references_after_the_columns() -> None:
    items = table(
        "CREATE TABLE items (o INT, line INT COMMENT 'from 1', a STRING, b STRING, CONSTRAINT pk PRIMARY KEY (line, O),"
        " FOREIGN KEY (a, b) REFERENCES parts (x, y)) COMMENT 'the lines'"
    )
    assert items.primary_key == ("line", "o")
    assert items.key_positions() == (1, 0)
    assert [f.nullable for f in items.fields] == [False, False, True, True]
    assert items.references == (Reference(("a", "b"), "parts", ("x", "y")),)


def test_a_reference_without_columns_is_to_the_primary_key() -> None:
    assert table("CREATE TABLE t (a INT REFERENCES u)").references == (Reference(("a",), "u", ()),)


@pytest.mark.parametrize(
    ("columns", "error", "part"),
    [
        ("a INT, A STRING", NameTaken, '"a" is declared twice'),
        ("_weight INT", NameTaken, "_weight"),
        ("a INT, _EPOCH INT", NameTaken, "_epoch"),
        ("amount INT, PRIMARY KEY (amuont)", UnknownName, 'Did you mean "amount"?'),
        ("a INT, FOREIGN KEY (b) REFERENCES u (c)", UnknownName, '"b"'),
        ("a INT PRIMARY KEY, b INT PRIMARY KEY", ParseError, "one primary key"),
        ("a INT PRIMARY KEY, b INT, PRIMARY KEY (b)", ParseError, "one primary key"),
        ("a INT REFERENCES u (x, y)", ParseError, "one column for each"),
        ("a DECIMAL(39, 2)", ParseError, "DECIMAL(39,2)"),
        ("a DECIMAL(4, 5)", ParseError, "DECIMAL(4,5)"),
        ("a FLOAT", Unsupported, "DOUBLE"),
        ("a REAL", Unsupported, "DOUBLE"),
        ("a MAP<INT, STRING>", Unsupported, "ARRAY of STRUCT"),
        ("a BINARY", Unsupported, "Types are"),
        ("a INT DEFAULT 3", Unsupported, "NOT NULL"),
        ("a INT CHECK (a > 1)", Unsupported, "NOT NULL"),
        ("a INT UNIQUE", Unsupported, "NOT NULL"),
        ("a INT, UNIQUE (a)", Unsupported, "constraint"),
        ("a", ParseError, "type"),
    ],
)
def test_refused_columns(columns: str, error: type[TidemillError], part: str) -> None:
    with pytest.raises(error) as caught:
        parse(f"CREATE TABLE t ({columns})")
    assert part in caught.value.render()
    assert caught.value.where is not None


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE t (a INT) USING parquet",
        "CREATE TABLE t (a INT) PARTITIONED BY (a)",
        "CREATE TABLE t AS SELECT 1 AS a",
    ],
)
def test_refused_clauses(text: str) -> None:
    with pytest.raises(Unsupported):
        parse(text)


@pytest.mark.parametrize("rest", ["t", "t ()", "a.t (x INT)", "`a/1` (x INT)"])
def test_not_a_table(rest: str) -> None:
    with pytest.raises(ParseError):
        parse(f"CREATE TABLE {rest}")
