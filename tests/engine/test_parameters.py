"""Parameters of statements: by name and by place, typed, never text; statements that are prepared once."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidemill
from tidemill.compiler.frontends import translate
from tidemill.engine.statements.prepared_statements import prepared
from tidemill.model.errors import BadValue, InvalidArgument, TidemillError, TypeMismatch, UnknownName, Unsupported


@pytest.fixture
def wh() -> Iterator[tidemill.Warehouse]:
    with tidemill.open(":memory:", runtime="native", backend="python") as warehouse:
        warehouse.sql("CREATE TABLE t (id INT PRIMARY KEY, name STRING, price DECIMAL(10, 2)); CREATE TABLE u (id INT)")
        warehouse.sql("INSERT INTO t VALUES (1, 'ann', 1.50), (2, 'bob', 2.50), (3, NULL, 3.50)")
        yield warehouse


def test_values_by_name_and_by_place(wh: tidemill.Warehouse) -> None:
    for _ in range(3):  # read, prepared, run again
        assert wh.sql("SELECT name FROM t WHERE id = :id", id=2).rows() == [("bob",)]
        assert wh.sql("SELECT name FROM t WHERE id = :ID", {"id": 1}).rows() == [("ann",)]
        assert wh.sql("SELECT id FROM t WHERE name = ? OR price > ?", ["ann", Decimal("3.1")]).rows() == [(1,), (3,)]
        assert wh.sql("SELECT id FROM t WHERE id IN (SELECT ? UNION ALL SELECT id FROM u)", [3]).rows() == [(3,)]
        assert wh.sql("SELECT COUNT(*), :n FROM t LIMIT :n", n=1).rows() == [(3, 1)]


VALUES = [
    (True, "BOOLEAN"),
    (7, "INT"),
    (2**40, "BIGINT"),
    (10**20, "DECIMAL(21,0)"),
    (np.int64(3), "INT"),
    (0.5, "DOUBLE"),
    (Decimal("1.250"), "DECIMAL(4,3)"),
    (Decimal("1E+3"), "DECIMAL(4,0)"),
    ("it's; DROP TABLE t --", "STRING"),
    (b"\x00", "BINARY"),
    (datetime.date(2024, 2, 29), "DATE"),
    (datetime.datetime(2024, 2, 29, 12), "TIMESTAMP"),
    (datetime.timedelta(hours=1), "INTERVAL DAY TO SECOND"),
    ([1, 2**40, None], "ARRAY<BIGINT>"),
    (None, "VOID"),
]


@pytest.mark.parametrize(("value", "of"), VALUES)
def test_types_are_those_of_the_values(wh: tidemill.Warehouse, value: Any, of: str) -> None:
    for _ in range(3):
        found = wh.sql("SELECT :x AS x, typeof(:x) AS of", x=value)
        assert found.rows() == [(value, of.lower())], value


def test_changes_have_parameters(wh: tidemill.Warehouse) -> None:
    for number in (10, 11, 12):
        wh.sql("INSERT INTO t VALUES (?, ?, ?)", [number, "new", 0.125])
        wh.sql("UPDATE t SET name = concat(name, :more) WHERE id = :id", more=str(number), id=number)
        wh.sql(
            "MERGE INTO t USING (SELECT :id AS id) AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET price = :p",
            id=number,
            p=number,
        )
        wh.sql("INSERT INTO t (id) VALUES (:id) ON CONFLICT DO UPDATE SET price = price + :p", id=number, p=1)
    wh.sql("DELETE FROM t WHERE id < :low OR id = :high", low=11, high=12)
    assert wh.table("t").rows() == [(11, "new11", Decimal("12.00"))]
    assert wh.sql("SELECT ?; SELECT ? + 1", [1, 2]).rows() == [(3,)]


@pytest.mark.parametrize(
    ("text", "given", "error", "what"),
    [
        ("SELECT :a", {}, UnknownName, '":a" has no value'),
        ("SELECT ?, ?", [1], UnknownName, r'"\?2" has no value'),
        ("SELECT ?", [1, 2], InvalidArgument, r'no parameter "\?2"'),
        ("SELECT 1", {"a": 1}, InvalidArgument, 'no parameter ":a"'),
        ("SELECT id FROM t WHERE name = :a", {"a": object()}, BadValue, "cannot be the value of a parameter"),
        ("SELECT id FROM t WHERE name = :a", {"a": {}}, BadValue, "cannot be the value of a parameter"),
        ("SELECT id FROM t WHERE :a", {"a": 1}, TypeMismatch, "BOOLEAN"),
        ("SELECT ?", "x", InvalidArgument, "dictionary or a list"),
        ("CREATE MATERIALIZED VIEW v AS SELECT * FROM t WHERE id = :a", {"a": 1}, Unsupported, "of a view cannot hold"),
        ("CREATE VIEW v AS SELECT * FROM t WHERE id = ?", [1], Unsupported, "of a view cannot hold"),
        ("CREATE FUNCTION f(x INT) RETURNS INT RETURN x + :a", {"a": 1}, Unsupported, "of a function cannot hold"),
        (
            "EXECUTE IMMEDIATE 'CREATE MATERIALIZED VIEW v AS SELECT * FROM t WHERE id = ?' USING 1",
            None,
            Unsupported,
            "of a view cannot hold",
        ),
    ],
)
def test_what_is_refused(wh: tidemill.Warehouse, text: str, given: Any, error: type[TidemillError], what: str) -> None:
    for _ in range(2):
        with pytest.raises(error, match=what):
            wh.sql(text, given)


def test_names_of_arguments_are_given_in_a_dictionary(wh: tidemill.Warehouse) -> None:
    assert wh.sql("SELECT :name", {"name": 1}, name="mine").rows() == [(1,)]
    with pytest.raises(InvalidArgument, match="given twice"):
        wh.sql("SELECT :a", {"a": 1}, a=2)
    with pytest.raises(InvalidArgument, match="by place or by name"):
        wh.sql("SELECT :a, ?", [1], a=2)


def test_a_statement_is_translated_once(wh: tidemill.Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    find = wh.prepare("SELECT name FROM t WHERE id = :id")
    assert find.run(id=1).rows() == [("ann",)]
    monkeypatch.setattr(prepared, "parse", None)
    monkeypatch.setattr(translate, "parse", None)
    assert [find.run(id=one).rows() for one in (2, 3, 4)] == [[("bob",)], [(None,)], []]


def test_a_prepared_statement_sees_new_definitions(wh: tidemill.Warehouse) -> None:
    find, star = wh.prepare("SELECT now() > :then, v.x + ? FROM t"), wh.prepare("SELECT * FROM u WHERE id > ?")
    assert star.run([0]).columns == ("id",)
    wh.sql("DROP TABLE u; CREATE TABLE u (id BIGINT, more INT)")
    assert star.run([0]).columns == ("id", "more")
    with pytest.raises(TidemillError):
        find.run([1])
    wh.sql("DECLARE VARIABLE least INT DEFAULT 2")
    counted = wh.prepare("SELECT COUNT(*) FROM t WHERE id >= least")
    assert counted.run().rows() == [(2,)]
    wh.sql("SET VAR least = 3")
    assert counted.run().rows() == [(1,)]
    moment = wh.prepare("SELECT now() AS n")
    assert moment.run().rows() != moment.run().rows()


def test_threads_do_not_see_the_values_of_others(wh: tidemill.Warehouse) -> None:
    wrong: list[Any] = []

    def ask(number: int) -> None:
        for _ in range(20):
            found = wh.sql("SELECT :x AS x LIMIT :one", x=number, one=1).rows()
            wrong.extend(row for row in found if row != (number,))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


NUMBERS = st.one_of(
    st.none(), st.integers(-9, 9), st.integers(2**31, 2**33), st.floats(-9, 9), st.decimals(-9, 9, places=2)
)
TEMPLATES = [
    "SELECT id, {0} + 1, {0} * price FROM t WHERE price > {1} OR id = {0}",
    "SELECT name, COUNT(*), SUM(price) + {0} FROM t GROUP BY name HAVING SUM(price) < {1}",
    "SELECT id FROM t WHERE id IN ({0}, {1}, 2) AND NOT (price <=> {0})",
    "SELECT id FROM t AS o WHERE EXISTS (SELECT 1 FROM t AS i WHERE i.id = o.id AND i.price >= {0}) ORDER BY id",
    "SELECT COALESCE(name, CAST({0} AS STRING)), CASE WHEN id > {1} THEN {0} ELSE id END FROM t",
    "SELECT id, SUM(price) OVER (ORDER BY id) - {0} FROM t WHERE id BETWEEN {1} AND {0}",
    "WITH c AS (SELECT id + {0} AS x FROM t) SELECT MAX(x), {1} FROM c",
]


def in_text(value: Any) -> str:
    """A value as a literal of the type that a parameter has."""
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return f"CAST('{value!r}' AS DOUBLE)"
    if isinstance(value, Decimal):
        return f"CAST('{value}' AS DECIMAL({max(len(value.as_tuple().digits), 2)},2))"
    return f"CAST({value} AS {'INT' if abs(value) < 2**31 else 'BIGINT'})"


def outcome(run: Callable[[], Any]) -> Any:
    """Rows and types of an answer, or the kind of its error."""
    try:
        found = run()
        return sorted(map(repr, found.rows())), [str(f.type) for f in found.fields]
    except TidemillError as error:
        return type(error)


def compare_with_text(template: str, first: Any, second: Any) -> None:
    with tidemill.open(":memory:", runtime="native", backend="python") as wh:
        wh.sql("CREATE TABLE t (id INT PRIMARY KEY, name STRING, price DECIMAL(10, 2))")
        wh.sql("INSERT INTO t VALUES (1, 'ann', 1.50), (2, 'bob', 2.50), (3, NULL, 3.50), (4, 'ann', NULL)")
        marked, text = template.format(":a", ":b"), template.format(in_text(first), in_text(second))
        given = {marker: value for marker, value in (("a", first), ("b", second)) if f":{marker}" in marked}
        wanted = outcome(lambda: wh.sql(text))
        for _ in range(3):
            assert outcome(lambda: wh.sql(marked, given)) == wanted, text
        assert outcome(lambda: wh.prepare(marked).run(given)) == wanted, text


@settings(max_examples=15, deadline=None)
@given(template=st.sampled_from(TEMPLATES), first=NUMBERS, second=NUMBERS)
def test_answers_are_those_of_values_in_the_text(template: str, first: Any, second: Any) -> None:
    compare_with_text(template, first, second)


@pytest.mark.long
@settings(max_examples=600, deadline=None)
@given(template=st.sampled_from(TEMPLATES), first=NUMBERS, second=NUMBERS)
def test_many_answers_are_those_of_values_in_the_text(template: str, first: Any, second: Any) -> None:
    compare_with_text(template, first, second)
