"""UPDATE of members of a struct."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import tidemill
from tidemill.model.errors import ParseError, TidemillError, TypeMismatch, UnknownName

TYPE = "STRUCT<a: INT, b: STRING, c: STRUCT<x: BIGINT, y: INT>>"


@pytest.fixture
def warehouse() -> Iterator[tidemill.Warehouse]:
    """A table with a struct in a struct, and a view that reads members."""
    made = tidemill.open(":memory:", runtime="native")
    made.sql(f"CREATE TABLE t (id INT PRIMARY KEY, s {TYPE}, n ARRAY<STRUCT<a: INT>>)")
    made.sql("CREATE MATERIALIZED VIEW members AS SELECT id, s.a, s.c.x FROM t")
    made.sql("INSERT INTO t SELECT 1, named_struct('a', 1, 'b', 'p', 'c', named_struct('x', 2L, 'y', 3)), NULL")
    made.sql("INSERT INTO t VALUES (2, NULL, NULL)")
    yield made
    made.close()


def struct(a: Any, b: Any, c: Any) -> dict[str, Any]:
    """A value of the column."""
    return {"a": a, "b": b, "c": c}


@pytest.mark.parametrize(
    ("changed", "first"),
    [
        ("s.a = 9", struct(9, "p", {"x": 2, "y": 3})),
        ("s.a = s.a + 1, s.c.y = s.a", struct(2, "p", {"x": 2, "y": 1})),
        ("t.s.c.x = '7'", struct(1, "p", {"x": 7, "y": 3})),
        ("s.c = NULL", struct(1, "p", None)),
        ("s.c = named_struct('x', 5L, 'y', 6), s.b = upper(s.b)", struct(1, "P", {"x": 5, "y": 6})),
        ("S.C.Y = (SELECT COUNT(*) FROM t)", struct(1, "p", {"x": 2, "y": 2})),
    ],
)
def test_members(warehouse: tidemill.Warehouse, changed: str, first: dict[str, Any]) -> None:
    """The other members stay, and views follow."""
    warehouse.sql(f"UPDATE t SET {changed} WHERE id = 1")
    assert warehouse.sql("SELECT s FROM t WHERE id = 1").rows() == [(first,)]
    inner = first["c"] or {"x": None}
    assert (1, first["a"], inner["x"]) in warehouse.view("members").rows()


def test_a_member_of_null(warehouse: tidemill.Warehouse) -> None:
    """A column that was NULL becomes a struct whose other members are NULL."""
    warehouse.sql("UPDATE t AS u SET u.s.c.x = 4 WHERE id = 2")
    assert warehouse.sql("SELECT s FROM t WHERE id = 2").rows() == [(struct(None, None, {"x": 4, "y": None}),)]


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ("s.z = 1", UnknownName),
        ("s.a.q = 1", TypeMismatch),
        ("n.a = 1", TypeMismatch),
        ("n[0].a = 1", ParseError),
        ("s = NULL, s.a = 1", ParseError),
        ("s.a = 1, t.s.a = 2", ParseError),
        ("s.c = 1", TypeMismatch),
        ("s.a = DEFAULT", ParseError),
        ("q.s.a = 1", UnknownName),
    ],
)
def test_what_is_refused(warehouse: tidemill.Warehouse, changed: str, error: type[TidemillError]) -> None:
    """Elements of arrays, unknown members, and what is assigned twice."""
    with pytest.raises(error):
        warehouse.sql(f"UPDATE t SET {changed}")
