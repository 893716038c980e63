"""CREATE TABLE: types, keys and constraints, and what it refuses."""

from __future__ import annotations

import pytest

from tidemill.compiler.frontends.script.statements import CreateLakeTable, CreateTable
from tidemill.compiler.frontends.translate import parse
from tidemill.engine.catalog.ddl import ddl
from tidemill.model import types as t
from tidemill.model.errors import NameTaken, ParseError, TidemillError, TypeMismatch, UnknownName, Unsupported
from tidemill.model.schema import CheckConstraint, ReferentialConstraint, Table
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
        ("SMALLINT", t.SMALLINT),
        ("TINYINT", t.TINYINT),
        ("BINARY", t.BINARY),
        ("TIMESTAMP_NTZ", t.TIMESTAMP_NTZ),
        ("MAP<STRING, ARRAY<INT>>", t.Map(t.STRING, t.Array(t.INT))),
        ("REAL", t.FLOAT),
        ("BIGINT", t.BIGINT),
        ("LONG", t.BIGINT),
        ("DECIMAL", t.Decimal(10, 0)),
        ("DECIMAL(7)", t.Decimal(7, 0)),
        ("DECIMAL(38, 38)", t.Decimal(38, 38)),
        ("NUMERIC(12,2)", t.Decimal(12, 2)),
        ("DEC(3,1)", t.Decimal(3, 1)),
        ("DOUBLE", t.DOUBLE),
        ("STRING", t.STRING),
        ("TEXT", t.STRING),
        ("DATE", t.DATE),
        ("TIMESTAMP", t.TIMESTAMP),
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
    assert orders.references == (ReferentialConstraint(("customer",), "customers", ("id",), "orders_customer_fkey"),)
    assert orders.kept


def test_keys_and_references_after_the_columns() -> None:
    items = table(
        "CREATE TABLE items (o INT, line INT COMMENT 'from 1', a STRING, b STRING, CONSTRAINT pk PRIMARY KEY (line, O),"
        " FOREIGN KEY (a, b) REFERENCES parts (x, y)) COMMENT 'the lines'"
    )
    assert items.primary_key == ("line", "o")
    assert items.key_positions == (1, 0)
    assert [f.nullable for f in items.fields] == [False, False, True, True]
    assert items.references == (ReferentialConstraint(("a", "b"), "parts", ("x", "y"), "items_a_b_fkey"),)


def test_a_reference_without_columns_is_to_the_primary_key() -> None:
    assert table("CREATE TABLE t (a INT REFERENCES u)").references == (
        ReferentialConstraint(("a",), "u", (), "t_a_fkey"),
    )


def test_varchar_is_a_string_of_a_length() -> None:
    assert table("CREATE TABLE t (x VARCHAR(20))").fields == (Field("x", t.STRING, length=20),)
    assert table("CREATE TABLE t (x CHARACTER VARYING(3) NOT NULL)").fields == (Field("x", t.STRING, False, 3),)
    assert table("CREATE TABLE t (x CHAR(3))").fields == (Field("x", t.STRING, length=3, char=3),)
    assert table("CREATE TABLE t (x CHAR(3))").fields[0].declared == "CHAR(3)"


@pytest.mark.parametrize(
    ("constraint", "expected"),
    [
        ("CHECK (a > 1)", CheckConstraint("t_check", "a > 1")),
        (
            "CONSTRAINT Big CHECK ((a > 1) AND (b /* or */ < 2)  )",
            CheckConstraint("big", "(a > 1) AND (b /* or */ < 2)"),
        ),
        ("CHECK (a > 1 -- positive\n)", CheckConstraint("t_check", "a > 1")),
        ("CHECK (t.a > 1) ENFORCED", CheckConstraint("t_check", "t.a > 1")),
        ("CHECK (a > 1) NOT ENFORCED", CheckConstraint("t_check", "a > 1", enforced=False)),
        ("CONSTRAINT c CHECK (a > 1) NOT ENFORCED RELY", CheckConstraint("c", "a > 1", enforced=False, rely=True)),
        ("CONSTRAINT f FOREIGN KEY (a) REFERENCES u", ReferentialConstraint(("a",), "u", (), "f")),
        ("FOREIGN KEY (a) REFERENCES u ENFORCED", ReferentialConstraint(("a",), "u", (), "t_a_fkey")),
        (
            "FOREIGN KEY (a) REFERENCES u NOT ENFORCED NORELY",
            ReferentialConstraint(("a",), "u", (), "t_a_fkey", enforced=False),
        ),
        (
            "FOREIGN KEY (a) REFERENCES u (x) NOT ENFORCED RELY",
            ReferentialConstraint(("a",), "u", ("x",), "t_a_fkey", False, True),
        ),
        (
            "FOREIGN KEY (a) REFERENCES u MATCH FULL ON DELETE NO ACTION",
            ReferentialConstraint(("a",), "u", (), "t_a_fkey"),
        ),
        (
            "FOREIGN KEY (a) REFERENCES u DEFERRABLE INITIALLY DEFERRED",
            ReferentialConstraint(("a",), "u", (), "t_a_fkey"),
        ),
    ],
)
def test_constraints(constraint: str, expected: CheckConstraint | ReferentialConstraint) -> None:
    declared = table(f"CREATE TABLE t (a INT, b INT, {constraint})")
    assert (*declared.checks, *declared.references) == (expected,)
    assert table(ddl(declared)) == declared


def test_constraints_without_a_name_get_one_each() -> None:
    declared = table(
        "CREATE TABLE t (a INT CHECK (a > 0) CHECK (a < 9), CONSTRAINT t_check CHECK (a <> 3), CHECK (a <> 4))"
    )
    assert [check.name for check in declared.checks] == ["t_a_check", "t_a_check_2", "t_check", "t_check_2"]


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
        ("a MAP<MAP<INT, INT>, STRING>", TypeMismatch, "a key of a map"),
        ("a INT DEFAULT (SELECT 3)", Unsupported, "DEFAULT"),
        ("a BIGINT GENERATED ALWAYS AS IDENTITY", Unsupported, "GENERATED"),
        ("a INT, b INT GENERATED ALWAYS AS (a + 1)", Unsupported, "GENERATED"),
        ("a STRING COLLATE x", Unsupported, "Collations are"),
        ("a VARCHAR", ParseError, "VARCHAR needs a length"),
        ("a VARCHAR(x)", ParseError, "VARCHAR needs a length"),
        ("a ARRAY<VARCHAR(3)>", Unsupported, "Use STRING."),
        ("a STRUCT<b: CHAR(3)>", Unsupported, "Use STRING."),
        ("a INT PRIMARY KEY NOT ENFORCED", Unsupported, "always enforced"),
        ("a INT, PRIMARY KEY (a) NORELY", Unsupported, "always enforced"),
        ("a INT, PRIMARY KEY (a, a)", ParseError, "twice"),
        ("a INT PRIMARY KEY DESC", Unsupported, "DESC"),
        ("a INT, PRIMARY KEY (a) INCLUDE (b), b INT", Unsupported, "INCLUDE"),
        ("a INT, FOREIGN KEY (a)", ParseError, "REFERENCES"),
        ("a INT REFERENCES u ON DELETE CASCADE", Unsupported, "ON DELETE CASCADE"),
        ("a INT REFERENCES u ON UPDATE SET NULL", Unsupported, "ON UPDATE SET NULL"),
        ("a INT, b INT, FOREIGN KEY (a, b) REFERENCES u MATCH FULL", Unsupported, "MATCH FULL"),
        ("a INT, CONSTRAINT c CHECK (a > 1), CONSTRAINT c CHECK (a > 2)", NameTaken, '"c"'),
        ("a INT CHECK (a)", TypeMismatch, "BOOLEAN"),
        ("a INT CHECK (b > 1)", UnknownName, '"b"'),
        ("a INT CHECK (SUM(a) > 1)", Unsupported, "SUM"),
        ("a INT CHECK (a > (SELECT 1))", Unsupported, "subquery"),
        ("a INT CHECK (a IN (SELECT 1))", Unsupported, "subquery"),
        ("a INT CHECK (RANK() OVER (ORDER BY a) > 1)", Unsupported, "window"),
        ("a INT CHECK (rand() < a)", Unsupported, "rand"),
        ("a INT CHECK (a > 1) DEFERRABLE", Unsupported, "DEFERRABLE"),
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
        "CREATE TABLE t (a INT) USING parquet PARTITIONED BY (a) LOCATION 'x'",
        "CREATE TABLE t (a INT) PARTITIONED BY (a)",
        "CREATE TABLE t LOCATION 'x' AS SELECT 1 AS a",
    ],
)
def test_refused_clauses(text: str) -> None:
    with pytest.raises(Unsupported):
        parse(text)


def test_lake_tables() -> None:
    (bare,) = parse("CREATE TABLE IF NOT EXISTS `T` USING Delta LOCATION 'lake/t'")
    assert isinstance(bare, CreateLakeTable)
    assert (bare.name, bare.table, bare.format, bare.location, bare.if_not_exists) == (
        "t",
        None,
        "delta",
        "lake/t",
        True,
    )
    (keyed,) = parse("CREATE TABLE t (PRIMARY KEY (a, B)) USING delta COMMENT 'x' LOCATION 'y' OPTIONS (sync = manual)")
    assert isinstance(keyed, CreateLakeTable)
    assert (keyed.table, keyed.primary_key, keyed.options) == (None, ("a", "b"), {"sync": "manual"})
    (declared,) = parse("CREATE TABLE t (location INT, PRIMARY KEY (location)) USING csv LOCATION 'it\\'s'")
    assert isinstance(declared, CreateLakeTable) and declared.table is not None
    assert (declared.table.primary_key, declared.location) == (("location",), "it's")
    (own,) = parse("CREATE TABLE t (location INT) USING parquet")
    assert isinstance(own, CreateTable), "a column may have that name"
    for text in ("t (a INT) LOCATION 'x'", "t USING delta LOCATION x", "t USING delta LOCATION 'x' AS SELECT 1 AS a"):
        with pytest.raises(TidemillError):
            parse(f"CREATE TABLE {text}")


@pytest.mark.parametrize("rest", ["t", "t ()", "a.t (x INT)", "`a/1` (x INT)"])
def test_not_a_table(rest: str) -> None:
    with pytest.raises(ParseError):
        parse(f"CREATE TABLE {rest}")
