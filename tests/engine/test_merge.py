"""MERGE INTO against DuckDB's, on random tables: duplicates, NULLs, conditions that hold for some rows or are NULL."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidemill
from tests.answers import empty_duckdb
from tidemill.model.errors import DuplicateKey, ParseError, UnknownName, Unsupported

NUMBERS = st.one_of(st.none(), st.integers(0, 4))
ROWS = st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), max_size=6)
CONDITIONS = ["", "AND s.a > 1", "AND s.b IS NULL", "AND s.a = s.b"]
OWN_CONDITIONS = ["", "AND t.a > 1", "AND t.b IS NULL"]
MATCHED = ["DELETE", "UPDATE SET a = t.a + s.a", "UPDATE SET a = s.b, b = t.a", "UPDATE SET k = s.k, a = 9"]
NEW = ["INSERT (k, a, b) VALUES (s.k, s.a, s.b)", "INSERT (k, a) VALUES (s.k, s.a + 1)"]
OWN = ["DELETE", "UPDATE SET b = t.a, a = 0"]


def clauses(rows: str, conditions: list[str], actions: list[str]) -> st.SearchStrategy[list[str]]:
    """Up to two clauses for the same rows, of which only the last may be without a condition."""
    guarded = st.tuples(st.sampled_from(conditions[1:]), st.sampled_from(actions))
    last = st.tuples(st.sampled_from(conditions), st.sampled_from(actions))
    chosen = st.tuples(st.lists(guarded, max_size=1), st.lists(last, max_size=1))
    return chosen.map(lambda parts: [f"WHEN {rows} {when} THEN {then}" for when, then in (*parts[0], *parts[1])])


STATEMENTS = (
    st.tuples(
        st.sampled_from(["t.k = s.k", "t.k = s.k AND t.a <> s.b", "t.k <=> s.k"]),
        clauses("MATCHED", CONDITIONS, MATCHED),
        clauses("NOT MATCHED", CONDITIONS, NEW),
        clauses("NOT MATCHED BY SOURCE", OWN_CONDITIONS, OWN),
    )
    .filter(lambda parts: any(parts[1:]))
    .map(lambda parts: (parts[0], " ".join(clause for group in parts[1:] for clause in group)))
)


@settings(max_examples=60)
@given(own=ROWS, news=ROWS, statement=STATEMENTS)
def test_rows_are_those_of_duckdb(own: list[Any], news: list[Any], statement: tuple[str, str]) -> None:
    """Where each row matches once; DuckDB does not refuse the others."""
    condition, whens = statement
    distinct = {row[0]: row for row in news}.values()
    with tidemill.open(":memory:", runtime="native") as wh, empty_duckdb() as duckdb:
        wh.sql("CREATE TABLE t (k INT, a INT, b INT); CREATE TABLE s (k INT, a INT, b INT)")
        wh.sql("CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS n, SUM(a) AS a FROM t GROUP BY k")
        wh.apply({"t": [(+1, row) for row in own], "s": [(+1, row) for row in distinct]})
        duckdb.execute("CREATE TABLE t (k INT, a INT, b INT); CREATE TABLE s (k INT, a INT, b INT)")
        for name, rows in (("t", own), ("s", distinct)):
            for row in rows:
                duckdb.execute(f"INSERT INTO {name} VALUES (?, ?, ?)", row)
        wh.sql(f"MERGE INTO t USING s ON {condition} {whens}")
        same = condition.replace("<=>", "IS NOT DISTINCT FROM")
        duckdb.execute(f"MERGE INTO t USING s ON {same} {whens}")
        assert Counter(wh.table("t").rows()) == Counter(duckdb.execute("FROM t").fetchall()), whens
        assert all(wh.verify())


@pytest.fixture
def warehouse() -> tidemill.Warehouse:
    wh = tidemill.open(":memory:", runtime="native")
    wh.sql("CREATE TABLE t (k INT, a INT); CREATE TABLE s (k INT, a INT)")
    wh.apply({"t": [(+2, (1, 1)), (+1, (2, 2))], "s": [(+1, (1, 5)), (+2, (2, 6))]})
    return wh


def test_a_row_that_matches_several_is_refused(warehouse: tidemill.Warehouse) -> None:
    """Two equal rows that match one are not several; and all that match may be deleted, as often as they like."""
    merge = "MERGE INTO t USING (SELECT * FROM s WHERE k = {0}) AS s ON t.k = s.k WHEN MATCHED THEN "
    warehouse.sql(merge.format(1) + "UPDATE SET a = s.a")
    with pytest.raises(DuplicateKey, match="matches several rows of the source"):
        warehouse.sql(merge.format(2) + "UPDATE SET a = s.a")
    assert sorted(warehouse.table("t").rows()) == [(1, 5), (1, 5), (2, 2)]
    warehouse.sql(merge.format(1) + "DELETE")
    assert warehouse.table("t").rows() == [(2, 2)]


@pytest.mark.parametrize(
    ("whens", "error", "text"),
    [
        ("WHEN MATCHED THEN UPDATE SET c = 1", UnknownName, 'no column "c"'),
        ("WHEN MATCHED THEN UPDATE SET a = 1, a = 2", ParseError, "assigned twice"),
        ("WHEN MATCHED THEN INSERT *", ParseError, "WHEN MATCHED cannot do this"),
        ("WHEN NOT MATCHED THEN DELETE", ParseError, "WHEN NOT MATCHED cannot do this"),
        ("WHEN NOT MATCHED THEN INSERT (k, a) VALUES (1)", ParseError, "1 values are given for 2 columns"),
        ("WHEN NOT MATCHED THEN INSERT (k) VALUES (t.k)", UnknownName, "t.k"),
        ("WHEN MATCHED THEN DELETE WHEN MATCHED THEN DELETE", ParseError, "only the last WHEN MATCHED"),
    ],
)
def test_what_makes_no_sense_is_refused(
    warehouse: tidemill.Warehouse, whens: str, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        warehouse.sql(f"MERGE INTO t USING s ON t.k = s.k {whens}")


def test_schemas_do_not_evolve_by_merge(warehouse: tidemill.Warehouse) -> None:
    with pytest.raises(Unsupported, match="SCHEMA EVOLUTION"):
        warehouse.sql("MERGE WITH SCHEMA EVOLUTION INTO t USING s ON t.k = s.k WHEN MATCHED THEN DELETE")


def test_all_columns_by_name(warehouse: tidemill.Warehouse) -> None:
    """``*`` takes the columns of the source by their names; one that it lacks is an error, others are left."""
    source = "(SELECT a * 10 AS a, DATE '2024-01-01' AS day, k FROM s WHERE k = 1 UNION ALL SELECT 7, NULL, 3)"
    merge = "MERGE INTO t USING {0} ON t.k = source.k WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    warehouse.sql(merge.format(source))
    assert sorted(warehouse.table("t").rows()) == [(1, 50), (1, 50), (2, 2), (3, 7)]
    with pytest.raises(UnknownName, match='no column in source called "a"'):
        warehouse.sql(merge.format("(SELECT k FROM s)"))
