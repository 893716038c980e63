"""INSERT ... ON CONFLICT against DuckDB's, INSERT OVERWRITE, ``upsert``, ``delete`` and ``apply(mode="upsert")``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidemill
from tests.answers import empty_duckdb
from tidemill.model.errors import (
    AppendOnlyViolation,
    BadValue,
    DuplicateKey,
    InvalidArgument,
    NameTaken,
    NullViolation,
    ParseError,
    TidemillError,
    UnknownName,
    Unsupported,
)

NUMBERS = st.one_of(st.none(), st.integers(0, 4))
ROWS = st.dictionaries(st.tuples(st.integers(0, 3), st.integers(0, 1)), st.tuples(NUMBERS, NUMBERS), max_size=6)
ACTIONS = [
    "DO NOTHING",
    "DO UPDATE SET a = excluded.a, b = excluded.b",
    "DO UPDATE SET a = a + excluded.a",
    "DO UPDATE SET a = excluded.b, b = t.a WHERE t.a < excluded.b",
    "DO UPDATE SET b = excluded.a WHERE excluded.a IS NULL OR a IS NULL",
    "DO UPDATE SET k = t.k + 10, a = CASE WHEN excluded.a > 2 THEN 0 ELSE t.b END",
]
TARGETS = ["", "(k, m)", "(m, k)"]


def flat(rows: dict[tuple[int, int], tuple[Any, Any]]) -> list[tuple[Any, ...]]:
    return [(*key, *values) for key, values in rows.items()]


@settings(max_examples=60, deadline=None)
@given(own=ROWS, news=ROWS, action=st.sampled_from(ACTIONS), target=st.sampled_from(TARGETS))
def test_rows_are_those_of_duckdb(own: Any, news: Any, action: str, target: str) -> None:
    table = "CREATE TABLE t (k INT, m INT, a INT, b INT, PRIMARY KEY (k, m))"
    with tidemill.open(":memory:", runtime="native", backend="python") as wh, empty_duckdb() as duckdb:
        wh.sql(f"{table}; CREATE TABLE s (k INT, m INT, a INT, b INT)")
        wh.sql("CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS n, SUM(a) AS a FROM t GROUP BY k")
        wh.apply({"t": [(+1, row) for row in flat(own)], "s": [(+1, row) for row in flat(news)]})
        duckdb.execute(f"{table}; CREATE TABLE s (k INT, m INT, a INT, b INT)")
        for name, rows in (("t", own), ("s", news)):
            for row in flat(rows):
                duckdb.execute(f"INSERT INTO {name} VALUES (?, ?, ?, ?)", row)
        statement = f"INSERT INTO t SELECT k, m, a, b FROM s ON CONFLICT {target or '(k, m)'} {action}"
        wh.sql(statement.replace("(k, m) DO", "DO") if not target else statement)
        duckdb.execute(statement)
        assert Counter(wh.table("t").rows()) == Counter(duckdb.execute("FROM t").fetchall()), statement
        assert all(wh.verify())


@pytest.fixture
def wh() -> Iterator[tidemill.Warehouse]:
    with tidemill.open(":memory:", runtime="native", backend="python") as warehouse:
        warehouse.sql("CREATE TABLE t (k INT PRIMARY KEY, a STRING, b INT DEFAULT 7); CREATE TABLE u (k INT)")
        warehouse.sql("CREATE TABLE log (k INT PRIMARY KEY, a INT) APPEND ONLY; CREATE STREAM clicks (k INT)")
        warehouse.sql("CREATE MATERIALIZED VIEW v AS SELECT a, COUNT(*) AS n FROM t GROUP BY a")
        warehouse.sql("INSERT INTO t VALUES (1, 'x', 1), (2, 'y', 2); INSERT INTO log VALUES (1, 1)")
        yield warehouse
        assert all(warehouse.verify())


def rows(wh: tidemill.Warehouse) -> list[Any]:
    return sorted(wh.table("t").rows())


def test_defaults_and_aliases_in_on_conflict(wh: tidemill.Warehouse) -> None:
    wh.sql(
        "INSERT INTO t AS old (k, a) VALUES (1, 'z'), (3, 'n') ON CONFLICT (k) DO UPDATE SET b = old.b + 1, a = DEFAULT"
    )
    assert rows(wh) == [(1, None, 2), (2, "y", 2), (3, "n", 7)]
    wh.sql("INSERT INTO t (k) VALUES (3) ON CONFLICT DO UPDATE SET b = (SELECT MAX(x.b) FROM t AS x) + t.k")
    assert rows(wh) == [(1, None, 2), (2, "y", 2), (3, "n", 10)]
    wh.sql("INSERT INTO log VALUES (1, 5), (2, 6) ON CONFLICT DO NOTHING")
    assert sorted(wh.table("log").rows()) == [(1, 1), (2, 6)]
    wh.sql("INSERT INTO t VALUES (9, 'q', 9), (9, 'q', 9) ON CONFLICT DO NOTHING")
    assert (9, "q", 9) in rows(wh)


@pytest.mark.parametrize(
    ("statement", "error", "what"),
    [
        ("INSERT INTO t VALUES (1, 'a', 1) ON CONFLICT (a) DO NOTHING", Unsupported, "one of the primary key"),
        ("INSERT INTO u VALUES (1) ON CONFLICT DO NOTHING", Unsupported, "needs a table with a primary key"),
        ("INSERT INTO clicks VALUES (1) ON CONFLICT DO NOTHING", UnknownName, "is a stream"),
        ("INSERT INTO log VALUES (1, 2) ON CONFLICT DO UPDATE SET a = 1", AppendOnlyViolation, "APPEND ONLY"),
        ("INSERT OVERWRITE log VALUES (1, 2)", AppendOnlyViolation, "APPEND ONLY"),
        ("INSERT INTO t VALUES (5, 'a', 1), (5, 'b', 1) ON CONFLICT DO NOTHING", DuplicateKey, "two of the rows"),
        ("INSERT INTO t VALUES (1, 'a', 1) ON CONFLICT DO UPDATE SET zz = 1", UnknownName, "zz"),
        ("INSERT INTO t VALUES (1, 'a', 1) ON CONFLICT DO UPDATE SET b = other.b", UnknownName, "other"),
        ("INSERT INTO t VALUES (1, 'a', 1) ON CONFLICT DO UPDATE SET b = 1, b = 2", ParseError, "assigned twice"),
        ("INSERT INTO t VALUES (1, 'a', 1) ON CONFLICT DO UPDATE SET k = NULL", NullViolation, "cannot be NULL"),
        ("INSERT INTO t VALUES (1, 'a', 1) ON CONFLICT DO UPDATE SET k = 2", DuplicateKey, "primary key"),
        ("INSERT INTO t AS excluded VALUES (1, 'a', 1) ON CONFLICT DO UPDATE SET b = 1", NameTaken, "to be inserted"),
        ("INSERT OVERWRITE t VALUES (1, 'a', 1) ON CONFLICT DO NOTHING", ParseError, "none conflicts"),
        ("INSERT OVERWRITE t PARTITION (k = 1) SELECT 'a', 1", Unsupported, "PARTITION"),
    ],
)
def test_what_is_refused(wh: tidemill.Warehouse, statement: str, error: type[TidemillError], what: str) -> None:
    before = rows(wh), wh.epoch
    with pytest.raises(error, match=what):
        wh.sql(statement)
    assert (rows(wh), wh.epoch) == before


def test_overwriting_changes_the_difference(wh: tidemill.Warehouse) -> None:
    since = wh.epoch
    wh.sql("INSERT OVERWRITE TABLE t SELECT k, a, b FROM t WHERE k = 1 UNION ALL SELECT 3, 'z', 3")
    assert rows(wh) == [(1, "x", 1), (3, "z", 3)] and wh.epoch == since + 1
    assert Counter(wh.view("v").changes(since=since)) == Counter([(-1, ("y", 1)), (1, ("z", 1))])
    wh.sql("INSERT OVERWRITE t (k, a) VALUES (1, 'x')")
    assert rows(wh) == [(1, "x", 7)]


FORMS: list[Callable[[list[dict[str, Any]]], Any]] = [
    lambda rows: rows,
    lambda rows: [tuple(row.values()) for row in rows],
    lambda rows: iter(rows),
    pa.Table.from_pylist,
    lambda rows: pa.RecordBatch.from_pylist(rows),
    lambda rows: pa.Table.from_pylist(rows).to_reader(),
    pd.DataFrame,
]


@pytest.mark.parametrize("form", FORMS)
def test_upsert_takes_rows_in_every_form(wh: tidemill.Warehouse, form: Callable[[list[dict[str, Any]]], Any]) -> None:
    epoch = wh.upsert("t", form([{"k": 2, "a": "new", "b": 5}, {"k": 3, "a": "z", "b": 6}]))
    assert epoch == wh.epoch and rows(wh) == [(1, "x", 1), (2, "new", 5), (3, "z", 6)]
    wh.delete("t", form([{"k": 2}, {"k": 44}]))
    assert rows(wh) == [(1, "x", 1), (3, "z", 6)]


def test_upserts_change_no_more_than_they_must(wh: tidemill.Warehouse) -> None:
    since = wh.epoch
    wh.upsert("t", [(1, "x", 1), (2, "y", 3)])
    assert wh.view("v").changes(since=since) == []
    wh.apply({"t": [(+1, (2, "w", 4)), (-1, (2, "?", None)), (-1, {"k": 1, "a": None})]}, mode="upsert")
    assert rows(wh) == [(2, "w", 4)]
    assert wh.delete("t", [2, (7,)]) == wh.epoch and rows(wh) == []


def test_upserts_that_are_refused(wh: tidemill.Warehouse) -> None:
    for call, error, what in [
        (lambda: wh.upsert("u", [(1,)]), Unsupported, "needs a table with a primary key"),
        (lambda: wh.upsert("t", [(1, "a", 1), (1, "b", 1)]), DuplicateKey, "two of the rows"),
        (lambda: wh.upsert("t", [(None, "a", 1)]), NullViolation, "NULL"),
        (lambda: wh.upsert("t", 7), BadValue, "cannot come from"),
        (lambda: wh.upsert("t", {"k": 1}), BadValue, "cannot come from"),
        (lambda: wh.upsert("log", [(1, 9)]), AppendOnlyViolation, "APPEND ONLY"),
        (lambda: wh.delete("t", [(1, "x", 1)]), BadValue, "3 values for 1 columns"),
        (lambda: wh.delete("clicks", [1]), Unsupported, "is a stream"),
        (lambda: wh.delete("t", 1), BadValue, "cannot come from a int"),
        (lambda: wh.delete("t", "x"), BadValue, "cannot come from a str"),
        (lambda: wh.delete("t", [None]), NullViolation, "NULL"),
        (lambda: wh.delete("t", [{"a": 1}]), UnknownName, 'no column "a"'),
        (lambda: wh.apply({"t": []}, mode="replace"), InvalidArgument, "no mode"),
    ]:
        before = rows(wh), wh.epoch
        with pytest.raises(error, match=what):
            call()
        assert (rows(wh), wh.epoch) == before
