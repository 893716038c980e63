"""OVER in a SELECT: which nodes it becomes, what they are given, and what is refused."""

from __future__ import annotations

import pytest

from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Aggregate, Filter, Project, TopK, Window
from tidemill.algebra.relational.walk import walk
from tidemill.algebra.relational.windows import WHOLE, Frame
from tidemill.compiler.frontends.translate import translate
from tidemill.model import types as t
from tidemill.model.errors import ParseError, SqlError, TypeMismatch, UnknownName
from tidemill.model.types import Field, Type

TABLES = {
    "t": (
        Field("id", t.INT, nullable=False),
        Field("g", t.STRING),
        Field("v", t.INT),
        Field("m", t.Decimal(8, 2)),
        Field("d", t.DATE),
        Field("at", t.TIMESTAMP),
    )
}


def relation(query: str) -> Relation:
    return translate(query, TABLES, name="v").relation


def windows(query: str) -> list[Window]:
    return [node for node in walk(relation(query)) if isinstance(node, Window)]


def frame(clause: str) -> Frame:
    ((window,),) = [windows(f"SELECT SUM(v) OVER ({clause}) AS s FROM t")]
    return window.calls[0].frame


@pytest.mark.parametrize(
    ("call", "of", "nullable"),
    [
        ("ROW_NUMBER()", t.INT, False),
        ("CUME_DIST()", t.DOUBLE, False),
        ("NTILE(4)", t.INT, False),
        ("COUNT(v)", t.BIGINT, False),
        ("SUM(m)", t.Decimal(18, 2), True),
        ("AVG(v)", t.DOUBLE, True),
        ("LAG(g, 1, 7)", t.STRING, True),
        ("NTH_VALUE(d, 2)", t.DATE, True),
        ("MAX(at)", t.TIMESTAMP, True),
    ],
)
def test_types_are_those_of_spark(call: str, of: Type, nullable: bool) -> None:
    (field,) = relation(f"SELECT {call} OVER (ORDER BY id) AS x FROM t").fields
    assert (field.type, field.nullable) == (of, nullable)


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        ("", WHOLE),
        ("ORDER BY id", Frame(False, None, 0)),
        ("ORDER BY id ROWS 2 PRECEDING", Frame(True, -2, 0)),
        ("ORDER BY id ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING", Frame(True, 1, None)),
        ("ORDER BY id RANGE BETWEEN 1 + 1 PRECEDING AND CURRENT ROW", Frame(False, -2, 0)),
        ("ORDER BY d RANGE BETWEEN CURRENT ROW AND INTERVAL '1' WEEK FOLLOWING", Frame(False, 0, 7)),
        ("ORDER BY at RANGE BETWEEN INTERVAL '2' SECOND PRECEDING AND CURRENT ROW", Frame(False, -2_000_000, 0)),
    ],
)
def test_frames(clause: str, expected: Frame) -> None:
    assert frame(clause) == expected


def test_one_node_for_each_parting_and_order() -> None:
    query = """SELECT id, SUM(v) OVER (PARTITION BY g ORDER BY id) AS a, RANK() OVER (PARTITION BY g ORDER BY id) AS b,
        LAG(v) OVER (ORDER BY id) AS c, SUM(v) OVER (PARTITION BY g ORDER BY id) + 1 AS d FROM t"""
    assert [[call.function for call in window.calls] for window in windows(query)] == [["lag"], ["sum", "rank"]]


def test_a_total_of_the_part_goes_with_a_window_that_has_an_order() -> None:
    (window,) = windows("SELECT SUM(v) OVER (PARTITION BY g) AS a, RANK() OVER (PARTITION BY g ORDER BY v) AS b FROM t")
    assert [(call.function, call.frame) for call in window.calls] == [("rank", WHOLE), ("sum", WHOLE)]


def test_a_window_sees_the_columns_that_are_read_in_their_order() -> None:
    (window,) = windows("SELECT v, id, ROW_NUMBER() OVER (PARTITION BY g ORDER BY d) AS n FROM t WHERE m > 0")
    assert [field.name for field in window.input.fields] == ["t.v", "t.id", "t.g", "t.d"]


def test_windows_stand_above_groups_and_their_having() -> None:
    tree = relation("SELECT g, RANK() OVER (ORDER BY SUM(v)) AS r FROM t GROUP BY g HAVING COUNT(*) > 1 QUALIFY r = 1")
    kinds = [type(node) for node in walk(tree) if not isinstance(node, Project)]
    assert kinds[:4] == [Filter, Window, Filter, Aggregate]


def test_a_limit_is_a_top_k_over_what_is_shown_and_ordered_by() -> None:
    tree = relation("SELECT v FROM t ORDER BY id DESC LIMIT 2 OFFSET 1")
    assert isinstance(tree, Project)
    assert isinstance(tree.input, TopK)
    assert (tree.input.limit, tree.input.offset) == (2, 1)
    assert [field.name for field in tree.input.fields] == ["v", "order_1"]
    assert relation("SELECT v FROM t ORDER BY id") == relation("SELECT v FROM t")


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ("SELECT NTILE(0) OVER (ORDER BY id) FROM t", TypeMismatch),
        ("SELECT LAG(v, id) OVER (ORDER BY id) FROM t", TypeMismatch),
        ("SELECT NTH_VALUE(v, 0) OVER (ORDER BY id) FROM t", TypeMismatch),
        ("SELECT SUM(v) OVER (ORDER BY id ROWS BETWEEN 1 FOLLOWING AND 1 PRECEDING) FROM t", TypeMismatch),
        ("SELECT SUM(v) OVER (ORDER BY id ROWS -1 PRECEDING) FROM t", TypeMismatch),
        ("SELECT SUM(v) OVER (ORDER BY g RANGE 1 PRECEDING) FROM t", TypeMismatch),
        ("SELECT SUM(v) OVER (ORDER BY id, v RANGE 1 PRECEDING) FROM t", TypeMismatch),
        ("SELECT SUM(v) OVER (ORDER BY id RANGE INTERVAL '1' DAY PRECEDING) FROM t", TypeMismatch),
        ("SELECT FROB(v) OVER (ORDER BY id) FROM t", UnknownName),
        ("SELECT SUM(v) OVER w FROM t", UnknownName),
        ("SELECT SUM(v) OVER w FROM t WINDOW w AS (w ORDER BY id)", UnknownName),
        ("SELECT SUM(v) OVER (w ORDER BY v) FROM t WINDOW w AS (ORDER BY id)", ParseError),
        ("SELECT v FROM t LIMIT -1", ParseError),
        ("SELECT v FROM t LIMIT v", ParseError),
        ("SELECT session_window(at, '0 seconds') FROM t GROUP BY 1", TypeMismatch),
        ("SELECT session_window(v, '1 second') FROM t GROUP BY 1", TypeMismatch),
    ],
)
def test_refused(query: str, error: type[SqlError]) -> None:
    with pytest.raises(error) as caught:
        relation(query)
    assert caught.value.where is not None
