"""What is refused: the kind of error, where it points, and what it suggests."""

from __future__ import annotations

import pytest

from tidemill.compiler.frontends.translate import translate
from tidemill.model import types as t
from tidemill.model.errors import (
    ParseError,
    SqlError,
    TextLocation,
    TidemillError,
    TypeMismatch,
    UnknownName,
    Unsupported,
)
from tidemill.model.types import Field

TABLES = {
    "orders": (
        Field("id", t.INT),
        Field("amount", t.Decimal(12, 2)),
        Field("placed", t.DATE),
        Field("note", t.STRING),
        Field("spot", t.Struct((Field("x", t.INT),))),
        Field("tags", t.Array(t.STRING)),
    ),
    "customers": (Field("id", t.INT), Field("name", t.STRING)),
}


def refused(query: str, name: str | None = "v") -> TidemillError:
    with pytest.raises(SqlError) as caught:
        translate(query, TABLES, name=name)
    return caught.value


def pointed(error: TidemillError) -> str:
    """The text that an error underlines."""
    assert isinstance(error.where, TextLocation)
    start = error.where.column - 1
    return error.where.text[start : start + error.where.length]


UNSUPPORTED = [
    ("SELECT (SELECT SUM(o.id) FROM customers) FROM orders o", "SUM(o.id)"),
    ("SELECT RANK() FROM orders", "RANK"),
    ("SELECT id FROM orders WHERE RANK() OVER (ORDER BY id) = 1", "RANK"),
    ("SELECT SUM(RANK() OVER (ORDER BY id)) OVER () FROM orders", "RANK"),
    ("SELECT RANK() OVER (ORDER BY id) AS r, SUM(r) OVER () FROM orders", "SUM"),
    ("SELECT COUNT(DISTINCT id) OVER () FROM orders", "COUNT(DISTINCT id)"),
    ("SELECT SUM(id) IGNORE NULLS OVER () FROM orders", "SUM(id)"),
    ("SELECT RANK() FILTER (WHERE id > 1) OVER (ORDER BY id) FROM orders", "RANK"),
    ("SELECT SUM(id) OVER (ORDER BY id ROWS 2 PRECEDING EXCLUDE CURRENT ROW) FROM orders", "2"),
    ("SELECT SUM(id) OVER (ORDER BY placed RANGE INTERVAL '1' MONTH PRECEDING) FROM orders", "INTERVAL '1' MONTH"),
    ("SELECT session_window(placed, '1 hour') FROM orders", "session_window(placed, '1 hour')"),
    ("SELECT id FROM orders ORDER BY id FETCH FIRST 3 ROWS WITH TIES", "FETCH"),
    ("SELECT FIRST(id) FROM orders", "FIRST"),
    ("SELECT LENGTH(note) FILTER (WHERE id > 1) FROM orders", "LENGTH"),
    ("SELECT SIZE(tags) + EXPLODE(tags) FROM orders", "EXPLODE"),
    ("SELECT id FROM orders WHERE EXPLODE(tags) = 'a'", "EXPLODE"),
    ("SELECT t FROM orders LATERAL VIEW UPPER(note) x AS t", "UPPER"),
    ("SELECT TRANSFORM(tags, t -> (SELECT 1)) FROM orders", "SELECT"),
    ("SELECT window(placed, '1 day'), window(placed, '2 days') FROM orders", "window(placed, '2 days')"),
    ("SELECT id FROM orders WHERE window(placed, '1 day').start > placed", "window"),
    ("SELECT NOW() FROM orders", "NOW"),
    ("SELECT CURRENT_DATE FROM orders", "CURRENT_DATE"),
    ("SELECT id FROM orders WHERE RAND() < 0.5", "RAND"),
    ("SELECT * FROM SQL_KEYWORDS()", "SQL_KEYWORDS"),
    ("SELECT CAST(amount AS UUID) FROM orders", "UUID"),
]


@pytest.mark.parametrize(("query", "underlined"), UNSUPPORTED)
def test_unsupported(query: str, underlined: str) -> None:
    error = refused(query)
    assert isinstance(error, Unsupported)
    assert pointed(error) == underlined
    assert error.hint or error.detail


def test_an_error_reads_like_this() -> None:
    query = "SELECT o.id,\n  rand()\nFROM orders o"
    assert refused(query, name="leaders").render() == (
        "error: rand() cannot be used in a view\n"
        "  leaders:2:3   rand()\n"
        "                ^^^^\n"
        "detail: Its value changes although no row changes, so no change would ever carry the new value.\n"
        "hint: Keep the value in a column or a table, and change it there."
    )


@pytest.mark.parametrize(
    ("query", "underlined", "hint"),
    [
        ("SELECT amuont FROM orders", "amuont", 'Did you mean "amount"?'),
        ("SELECT o.nam FROM orders o", "o.nam", None),
        ("SELECT c.nam FROM customers c", "c.nam", 'Did you mean "name"?'),
        ("SELECT x.id FROM orders o", "x.id", None),
        ("SELECT id FROM order", "order", 'Did you mean "orders"?'),
        ("SELECT id FROM orders o, customers c", "id", "It may be o.id, c.id."),
        (
            "SELECT s.a FROM (SELECT id AS a, note AS a FROM orders) s",
            "s.a",
            "Give the columns different names, with AS.",
        ),
        ("SELECT orders.id FROM orders o", "orders.id", None),
        ("SELECT x.* FROM orders o", "x.*", "There is: o."),
        ("SELECT lenght(note) FROM orders", "lenght(note)", None),
        ("SELECT spot.y FROM orders", "spot.y", None),
        ("SELECT id FROM orders JOIN customers USING (name)", "customers USING (name)", None),
        ("WITH w AS (SELECT 1 AS a) SELECT b FROM w", "b", None),
        ("SELECT o.id FROM orders o JOIN (SELECT o.id FROM customers) c ON TRUE", "o.id", None),
        ("SELECT * EXCEPT (nothing) FROM orders", "*", None),
    ],
)
def test_unknown_names(query: str, underlined: str, hint: str | None) -> None:
    error = refused(query)
    assert isinstance(error, UnknownName)
    assert pointed(error).startswith(underlined)
    assert hint is None or error.hint == hint


@pytest.mark.parametrize(
    ("query", "underlined"),
    [
        ("SELECT id FROM orders WHERE id", "id"),
        ("SELECT id FROM orders WHERE amount + 1", "amount + 1"),
        ("SELECT o.id FROM orders o JOIN customers c ON o.id", "o.id"),
        ("SELECT id + TRUE FROM orders", "id + TRUE"),
        ("SELECT SUM(placed) FROM orders", "SUM(placed)"),
        ("SELECT SUM(id, amount) FROM orders", "SUM(id, amount)"),
        ("SELECT COUNT() FROM orders", "COUNT"),
        ("SELECT BOOL_OR(id) FROM orders", "BOOL_OR(id)"),
        ("SELECT CORR(id, placed) FROM orders", "CORR(id, placed)"),
        ("SELECT MAX_BY(id) FROM orders", "MAX_BY(id)"),
        ("SELECT MEDIAN(placed) FROM orders", "MEDIAN(placed)"),
        ("SELECT PERCENTILE(id, 2) FROM orders", "PERCENTILE(id, 2)"),
        ("SELECT PERCENTILE(id, id) FROM orders", "PERCENTILE(id, id)"),
        ("SELECT PERCENTILE_CONT(0.5) FROM orders", "PERCENTILE_CONT(0.5)"),
        ("SELECT STRING_AGG(note, note) FROM orders", "STRING_AGG(note, note)"),
        ("SELECT LISTAGG(DISTINCT note) WITHIN GROUP (ORDER BY id) FROM orders", "LISTAGG(DISTINCT note)"),
        ("SELECT MAX(id) WITHIN GROUP (ORDER BY id) FROM orders", "MAX(id)"),
        ("SELECT placed = id FROM orders", "placed = id"),
        ("SELECT CASE WHEN id = 1 THEN placed ELSE id END FROM orders", "id = 1 THEN placed ELSE id"),
        ("SELECT UPPER(note, note) FROM orders", "UPPER(note, note)"),
        ("SELECT CAST(placed AS INT) FROM orders", "placed"),
        ("SELECT id.x FROM orders", "id.x"),
        ("SELECT id[0] FROM orders", "id[0]"),
        ("SELECT note + INTERVAL 1 DAY, id + INTERVAL 1 DAY FROM orders", "id"),
        ("SELECT id FROM orders UNION ALL SELECT id, name FROM customers", "UNION"),
        ("SELECT placed FROM orders UNION ALL SELECT id FROM customers", "id FROM customers"),
        ("SELECT * FROM (SELECT id FROM orders) AS q (a, b)", "q (a, b)"),
        ("SELECT * FROM (VALUES (1, 2), (3)) AS v", "3"),
    ],
)
def test_types_that_do_not_fit(query: str, underlined: str) -> None:
    error = refused(query)
    assert isinstance(error, TypeMismatch)
    assert pointed(error).startswith(underlined)


@pytest.mark.parametrize(
    ("query", "underlined"),
    [
        ("SELECT note, COUNT(*) FROM orders GROUP BY id", "note"),
        ("SELECT id FROM orders HAVING COUNT(*) > 1", "id"),
        ("SELECT * FROM orders GROUP BY id", "*"),
        ("SELECT COUNT(*) FROM orders GROUP BY id HAVING note = 'x'", "note = 'x'"),
        ("SELECT SUM(id) FROM orders GROUP BY SUM(id)", "SUM"),
        ("SELECT SUM(id) AS s FROM orders GROUP BY s", "s"),
        ("SELECT id FROM orders WHERE SUM(id) > 1", "SUM"),
        ("SELECT SUM(COUNT(*)) FROM orders", "COUNT"),
        ("SELECT COUNT(*) FILTER (WHERE MAX(id) > 1) FROM orders", "MAX"),
        ("SELECT GROUPING(id) FROM orders GROUP BY id", "GROUPING(id)"),
        ("SELECT GROUPING(note) FROM orders GROUP BY ROLLUP (id)", "GROUPING(note)"),
        ("SELECT GROUPING_ID(note, id) FROM orders GROUP BY ROLLUP (id, note)", "GROUPING_ID(note, id)"),
        ("SELECT id FROM orders WHERE GROUPING(id) = 1", "GROUPING"),
        ("SELECT amount FROM orders GROUP BY CUBE (id)", "amount"),
        ("SELECT o.id FROM orders o JOIN customers c ON COUNT(*) = 1", "COUNT"),
    ],
)
def test_groups(query: str, underlined: str) -> None:
    error = refused(query)
    assert isinstance(error, Unsupported)
    assert pointed(error).startswith(underlined)


@pytest.mark.parametrize(
    "query",
    [
        "",
        "SELECT",
        "SELECT FROM WHERE",
        "SELECT id FROM orders WHERE",
        "SELECT id FROM orders; SELECT 1",
        "SHOW TABLES",
        "SELECT COUNT(*) FROM orders GROUP BY 2",
        "SELECT 123456789012345678901234567890123456789",
        "SELECT *",
    ],
)
def test_not_a_query(query: str) -> None:
    assert isinstance(refused(query), ParseError)


def test_order_of_a_distinct_takes_its_columns_only() -> None:
    assert isinstance(refused("SELECT DISTINCT id FROM orders ORDER BY amount", name=None), Unsupported)


def test_a_limit_is_a_number() -> None:
    assert isinstance(refused("SELECT id FROM orders LIMIT id", name=None), ParseError)
