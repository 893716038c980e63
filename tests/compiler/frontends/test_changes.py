"""INSERT, UPDATE and DELETE as algebra: which rows come, which go."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest

from tidemill.algebra.evaluate import evaluate
from tidemill.changes.zset import ZSet
from tidemill.compiler.frontends.script import statements as st
from tidemill.compiler.frontends.translate import parse, translate_delete, translate_insert, translate_update
from tidemill.model.errors import ParseError, SqlError, TypeMismatch, UnknownName, Unsupported
from tidemill.model.schema import Table


def declared(text: str) -> Table:
    (statement,) = parse(text)
    assert isinstance(statement, st.CreateTable)
    return statement.table


ORDERS = declared("CREATE TABLE orders (id INT NOT NULL, amount DECIMAL(8,2), placed DATE, note STRING)")
RELATIONS = {"orders": ORDERS.fields}
DAY = datetime.date(2024, 5, 6)
ANN = (1, Decimal("2.50"), DAY, "ann")
BOB = (2, None, None, "bob")
TABLES = {"orders": ZSet({ANN: 2, BOB: 1})}


def inserted(text: str) -> ZSet:
    (statement,) = parse(text)
    assert isinstance(statement, st.Insert)
    relation = translate_insert(statement, ORDERS, RELATIONS)
    assert [(f.name, f.type) for f in relation.fields] == [(f.name, f.type) for f in ORDERS.fields]
    return evaluate(relation, TABLES)


def deleted(text: str) -> ZSet:
    (statement,) = parse(text)
    assert isinstance(statement, st.Delete)
    return evaluate(translate_delete(statement, ORDERS, RELATIONS), TABLES)


def updated(text: str) -> ZSet:
    (statement,) = parse(text)
    assert isinstance(statement, st.Update)
    relation = translate_update(statement, ORDERS, RELATIONS)
    assert [f.type for f in relation.fields] == [f.type for f in ORDERS.fields] * 2
    return evaluate(relation, TABLES)


class TestInsert:
    def test_values_are_converted(self) -> None:
        rows = inserted("INSERT INTO orders VALUES (1, 2, DATE '2024-05-06', 7), (3L, 1.239, NULL, NULL)")
        assert rows == ZSet({(1, Decimal("2.00"), DAY, "7"): 1, (3, Decimal("1.24"), None, None): 1})

    def test_missing_columns_are_null(self) -> None:
        assert inserted("INSERT INTO orders (Note, id) VALUES ('x', 1 + 1)") == ZSet({(2, None, None, "x"): 1})

    def test_duplicates_are_kept(self) -> None:
        assert inserted("INSERT INTO orders (id) VALUES (1), (1)") == ZSet({(1, None, None, None): 2})

    def test_a_query(self) -> None:
        rows = inserted("INSERT INTO orders SELECT id + 10, amount, placed, UPPER(note) FROM orders WHERE id = 1")
        assert rows == ZSet({(11, Decimal("2.50"), DAY, "ANN"): 2})

    def test_a_query_after_with(self) -> None:
        rows = inserted("WITH w AS (SELECT COUNT(*) AS n FROM orders) INSERT INTO orders (id) SELECT n FROM w")
        assert rows == ZSet({(3, None, None, None): 1})

    @pytest.mark.parametrize(
        ("text", "error"),
        [
            ("INSERT INTO orders VALUES (1)", TypeMismatch),
            ("INSERT INTO orders (id) VALUES (1, 2)", TypeMismatch),
            ("INSERT INTO orders (id) VALUES (1), (2, 3)", TypeMismatch),
            ("INSERT INTO orders (placed) VALUES (5)", TypeMismatch),
            ("INSERT INTO orders (iid) VALUES (5)", UnknownName),
            ("INSERT INTO orders (id, ID) VALUES (5, 5)", ParseError),
            ("INSERT INTO orders (id) SELECT x FROM nowhere", UnknownName),
        ],
    )
    def test_refused(self, text: str, error: type[SqlError]) -> None:
        with pytest.raises(error) as caught:
            inserted(text)
        assert caught.value.where is not None


class TestDelete:
    def test_all(self) -> None:
        assert deleted("DELETE FROM orders") == TABLES["orders"]
        assert deleted("TRUNCATE TABLE orders") == TABLES["orders"]

    def test_only_where_the_condition_is_true(self) -> None:
        assert deleted("DELETE FROM orders WHERE amount > 1") == ZSet({ANN: 2})
        assert deleted("DELETE FROM orders AS o WHERE NOT o.amount > 1") == ZSet()

    @pytest.mark.parametrize(
        ("text", "error"),
        [
            ("DELETE FROM orders WHERE nothing = 1", UnknownName),
            ("DELETE FROM orders WHERE id", TypeMismatch),
            ("DELETE FROM orders WHERE id IN (SELECT 1, 2)", TypeMismatch),
        ],
    )
    def test_refused(self, text: str, error: type[SqlError]) -> None:
        with pytest.raises(error) as caught:
            deleted(text)
        assert caught.value.where is not None


class TestUpdate:
    def test_old_row_and_new_row(self) -> None:
        rows = updated("UPDATE orders SET amount = amount + id, note = 9 WHERE note LIKE 'a%'")
        assert rows == ZSet({(*ANN, 1, Decimal("3.50"), DAY, "9"): 2})

    def test_assignments_see_the_old_row(self) -> None:
        rows = updated("UPDATE orders o SET id = o.id + 1, o.note = CAST(id AS STRING) WHERE id = 2")
        assert rows == ZSet({(*BOB, 3, None, None, "2"): 1})

    def test_the_alias_may_be_new(self) -> None:
        assert updated("UPDATE orders AS new SET id = 5 WHERE new.id = 2") == ZSet({(*BOB, 5, None, None, "bob"): 1})

    @pytest.mark.parametrize(
        ("text", "error"),
        [
            ("UPDATE orders SET nothing = 1", UnknownName),
            ("UPDATE orders SET id = nothing", UnknownName),
            ("UPDATE orders SET id = 1, ID = 2", ParseError),
            ("UPDATE orders SET placed = 1", TypeMismatch),
            ("UPDATE orders SET id = SUM(id)", Unsupported),
        ],
    )
    def test_refused(self, text: str, error: type[SqlError]) -> None:
        with pytest.raises(error) as caught:
            updated(text)
        assert caught.value.where is not None
