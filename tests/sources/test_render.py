"""What is asked of a source means there what it means here: thousands of conditions, on both databases."""

from __future__ import annotations

import math
import random
import sqlite3
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.sources.following import Follower, columns, orders_of_customers, scan, view
from tests.sources.server import Server
from tidemill.algebra.expressions.call import call
from tidemill.algebra.expressions.scalars import Cast, Literal, Scalar
from tidemill.changes.zset import ZSet
from tidemill.model import types as t
from tidemill.model.schema import Table
from tidemill.model.types import Field
from tidemill.sources.postgres.connection import Address
from tidemill.sources.postgres.source import PostgresSource
from tidemill.sources.remote_queries.dialects import POSTGRES, SQLITE, Dialect
from tidemill.sources.remote_queries.remote_tables import RemoteColumn, RemoteTable
from tidemill.sources.remote_queries.render_sql import plan_remote
from tidemill.sources.remote_queries.signed_query import SpjView
from tidemill.sources.source import Source
from tidemill.sources.sqlite.source import SqliteSource

VALUES: dict[str, list[Any]] = {
    "n": [None, -1, 0, 1, 2, 2**53 + 1, 2**63 - 1],
    "s": [None, "", "a", "A", "b", "Z", "ä", "Ä", "a ", "\U0001f600", "\uffff", "10", "9"],
    "x": [None, -0.0, 0.1, 0.1 + 0.2, 1e300, math.inf, -5e-324],
    "b": [None, True, False],
    "d": [None, date(2024, 2, 29), date(1, 1, 1), date(9999, 12, 31)],
    "p": [None, Decimal("0.00"), Decimal("-1.50"), Decimal("1.00"), Decimal("9999.99")],
    "at": [None, datetime(2024, 2, 29, 12), datetime(2024, 2, 29, 12, 0, 0, 1)],
}
TYPES: dict[str, t.Type] = {
    "n": t.BIGINT, "s": t.STRING, "x": t.DOUBLE, "b": t.BOOLEAN, "d": t.DATE, "p": t.Decimal(9, 2), "at": t.TIMESTAMP,
}  # fmt: skip
ROWS = 14


def rows(chance: random.Random) -> list[tuple[Any, ...]]:
    return [tuple(chance.choice(values) for values in VALUES.values()) for _ in range(ROWS)]


@pytest.fixture(params=["sqlite", "postgres"])
def source(request: pytest.FixtureRequest, tmp_path: Path, password: str) -> Iterator[Source]:
    kept = [(*row,) for name in ("one", "two") for row in rows(random.Random(name))]
    opened: Source
    if request.param == "sqlite":
        connection = sqlite3.connect(tmp_path / "s.db")
        for number, name in enumerate(("one", "two")):
            connection.execute(
                f"CREATE TABLE {name} (n INTEGER, s TEXT COLLATE NOCASE, x DOUBLE, b BOOLEAN, d DATE, p DECIMAL(9, 2),"
                " at TIMESTAMP)"
            )
            stored = [tuple(map(SQLITE.encode, row)) for row in kept[number * ROWS : (number + 1) * ROWS]]
            connection.executemany(f"INSERT INTO {name} VALUES (?, ?, ?, ?, ?, ?, ?)", stored)
        connection.commit()
        connection.close()
        opened = SqliteSource("s", tmp_path / "s.db", setup="create")
        yield opened
        opened.close()
        return
    server: Server = request.getfixturevalue("server")
    with server.connect() as owner:
        owner.execute("CREATE SCHEMA render")
        for number, name in enumerate(("one", "two")):
            owner.execute(
                f"CREATE TABLE render.{name} (n int8, s text, x float8, b bool, d date, p numeric(9,2), at timestamptz)"
            )
            owner.execute("SET timezone = 'UTC'")
            with owner.cursor() as cursor:
                sql = f"INSERT INTO render.{name} VALUES (%s, %s, %s, %s, %s, %s, %s)"
                cursor.executemany(sql.encode(), kept[number * ROWS : (number + 1) * ROWS])
        opened = PostgresSource("s", Address(server.options), schema="render", changes="outbox", setup="create")
        yield opened
        opened.close()
        owner.execute("DROP SCHEMA render CASCADE")


def test_conditions_mean_there_what_they_mean_here(source: Source) -> None:
    """The same rows pass, whatever part of a condition is evaluated there."""
    state = {name: ZSet.of(rows(random.Random(name))) for name in ("one", "two")}
    state = {name: ZSet({_inner(row): weight for row, weight in some.items()}) for name, some in state.items()}
    follower = Follower(source, state, source.start(None))
    one, two = scan(source.tables["one"], "o"), scan(source.tables["two"], "w")
    at = columns(one, two)
    outputs = {"a": at["o.n"], "b": at["w.s"], "c": at["o.x"], "d": at["w.p"], "e": at["o.at"], "f": at["o.b"]}
    chance = random.Random(7)
    for _ in range(150):
        conditions = [condition(chance, at, depth=2) for _ in range(2)]
        product = view([one, two], conditions, outputs)
        follower.ask(product.query if chance.random() < 0.7 else product.query.after("two", state["two"]))
        follower.catch_up(0)
    assert len(follower.answers) == 150


def _inner(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(0.0 if value == 0 and isinstance(value, float) else value for value in row)


def condition(chance: random.Random, at: dict[str, Any], depth: int) -> Scalar:
    """A condition over the columns of both tables: mostly one that can be asked there, sometimes one that cannot."""
    if depth and chance.random() < 0.5:
        function = chance.choice(["and", "or", "not"])
        parts = [condition(chance, at, depth - 1) for _ in range(1 if function == "not" else 2)]
        return call(function, *parts)
    name = chance.choice(list(VALUES))
    column = at[f"{chance.choice('ow')}.{name}"]
    match chance.randint(0, 6):
        case 0:
            return call(chance.choice(["is_null", "is_not_null"]), column)
        case 1:
            return call("in", column, *(literal(chance, name) for _ in range(3)))
        case 2 if name == "b":
            return column
        case 3 if name == "s":
            return call("eq", call("upper", column), literal(chance, name))
        case 4 if name == "n":
            wide = t.Decimal(38, 2)
            return call(chance.choice(["lt", "eq"]), Cast(column, wide), Cast(at["w.p"], wide))
    other = at[f"{chance.choice('ow')}.{name}"] if chance.random() < 0.4 else literal(chance, name)
    return call(chance.choice(["eq", "ne", "lt", "le", "gt", "ge", "null_safe_eq"]), column, other)


def literal(chance: random.Random, name: str) -> Literal:
    return Literal(_inner((chance.choice(VALUES[name]),))[0], TYPES[name])


TABLES = {
    name: RemoteTable("main", name.title(), tuple(RemoteColumn(f.name.upper(), f, "int8") for f in fields), ("ID",))
    for name, fields in {
        "orders": [Field("id", t.BIGINT), Field("customer", t.BIGINT), Field("amount", t.BIGINT)],
        "customers": [Field("id", t.BIGINT), Field("name", t.STRING)],
    }.items()
}


@pytest.mark.parametrize(
    ("dialect", "sql"),
    [
        (
            SQLITE,
            "WITH b1(w, c0, c1, c2) AS (VALUES (?1, ?2, ?3, ?4))\n"
            'SELECT -1 * "o".w, "o".c0, "o".c2, "c"."NAME" FROM b1 AS "o", "main"."Customers" AS "c"'
            ' WHERE ("o".c1 = "c"."ID") AND ("o".c2 > ?5)',
        ),
        (
            POSTGRES,
            "WITH b1(w, c0, c1, c2) AS (VALUES ($1::int8, $2::int8, $3::int8, $4::int8))\n"
            'SELECT -1 * "o".w, "o".c0, "o".c2, "c"."NAME" FROM b1 AS "o", ONLY "main"."Customers" AS "c"'
            ' WHERE ("o".c1 = "c"."ID") AND ("o".c2 > $5::int8)',
        ),
    ],
)
def test_the_text_of_a_term(dialect: Dialect, sql: str) -> None:
    tables: dict[str, Table] = {name: remote.table for name, remote in TABLES.items()}
    product: SpjView = orders_of_customers(tables)
    query = -product.query.after("orders", ZSet({(7, 1, 70): 2}))
    (statement,) = plan_remote(product, dialect, TABLES, "shop").statements(query)
    assert statement.sql == sql
    assert [int(value) for value in statement.parameters] == [2, 7, 1, 70, 20]
