"""CHAR(n) and VARCHAR(n): what is stored, and what comparisons find. The answers are Spark's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tidemill
from tidemill.model.errors import BadValue, Unsupported

ROWS = """INSERT INTO t VALUES
    (1, 'ab', 'ab', 'ab', 'ab'), (2, 'abc  ', 'abc ', 'abc', 'abc  '), (3, NULL, NULL, NULL, NULL), (4, '', '', '', ''),
    (5, 'abcde', 'abcd', 'xyz', 'ab   '), (6, 'abcde     ', 'abcd     ', 'abc   ', ''), (8, '12', '34', '5', '6')"""

FOUND = {
    "c = 'ab'": {1},
    "c = 'ab      '": {1},
    "'ab' = c": {1},
    "c <=> 'ab'": {1},
    "c <> 'ab'": {2, 4, 5, 6, 8},
    "c < 'abc'": {1, 4, 8},
    "c >= 'abc'": {2, 5, 6},
    "v = 'ab'": {1},
    "v = 'abc'": set(),
    "c IN ('ab', 'abc', 'abcdefgh')": {1, 2},
    "c NOT IN ('ab', 'abc')": {4, 5, 6, 8},
    "c IN ('ab', s)": {2},
    "c = d": {1, 2, 4},
    "c = v": set(),
    "c = s": {2},
    "c < d": {5, 8},
    "c LIKE 'ab'": set(),
    "c LIKE 'ab   '": {1},
    "upper(c) = 'AB'": set(),
    "trim(c) = 'ab'": {1},
    "c || '' = 'ab'": set(),
    "c = CAST('ab' AS CHAR(5))": {1},
    "c BETWEEN 'ab' AND 'abc'": {1},
    "CASE c WHEN 'ab' THEN true ELSE false END": {1},
    "decode(c, 'ab', true, false)": {1},
    "nullif(c, 'ab') IS NULL": {3},
    "c = (SELECT 'ab')": set(),
    "c IN (SELECT d FROM t)": set(),
    "EXISTS (SELECT 1 FROM t o WHERE o.d = t.c)": {1, 2, 4},
    "struct(c, k) = struct('ab', 1)": set(),
}
"""Conditions, and the rows for which they are true in Spark."""

QUERIES = {
    "SELECT k FROM (SELECT k, c AS e FROM t) WHERE e = 'ab'": [(1,)],
    "SELECT k FROM (SELECT k, coalesce(c, 'x') AS e FROM t) WHERE e = 'ab'": [],
    "SELECT k FROM (SELECT k, c FROM t UNION ALL SELECT k, d FROM t) WHERE c = 'ab'": [(1,)],
    "SELECT k FROM (SELECT k, c FROM t UNION ALL SELECT k, s FROM t) WHERE c = 'ab'": [(1,), (5,)],
    "SELECT c, count(*) AS n FROM t GROUP BY c HAVING c = 'ab'": [("ab   ", 1)],
    "SELECT max(c) = 'ab' AS found FROM t WHERE k = 1": [(False,)],
    "SELECT a.k, b.k AS other FROM t a JOIN t b ON a.c = b.d": [(1, 1), (2, 2), (2, 6), (4, 4)],
    "SELECT a.k, b.k AS other FROM t a JOIN t b ON a.c = b.s": [(1, 5), (2, 2)],
    "SELECT length(c) AS n, length(v) AS m, typeof(c) AS kind FROM t WHERE k = 6": [(5, 4, "string")],
}
"""Queries, and their rows in Spark."""


@pytest.fixture
def warehouse() -> Iterator[tidemill.Warehouse]:
    with tidemill.open() as opened:
        opened.sql("CREATE TABLE t (k INT, c CHAR(5), v VARCHAR(4), d CHAR(3), s STRING)")
        yield opened


@pytest.mark.parametrize("condition", FOUND)
def test_comparisons_fill_up_what_spark_fills_up(warehouse: tidemill.Warehouse, condition: str) -> None:
    warehouse.sql(f"CREATE VIEW found AS SELECT k FROM t WHERE {condition}")
    warehouse.sql(ROWS)
    assert {k for (k,) in warehouse.sql("SELECT k FROM found")} == FOUND[condition]
    warehouse.sql("DELETE FROM t WHERE k < 5")
    assert {k for (k,) in warehouse.sql("SELECT k FROM found")} <= FOUND[condition] | {5, 6, 8}


@pytest.mark.parametrize("query", QUERIES)
def test_a_char_is_known_under_other_names(warehouse: tidemill.Warehouse, query: str) -> None:
    warehouse.sql(f"CREATE VIEW found AS {query}")
    warehouse.sql(ROWS)
    assert sorted(map(tuple, warehouse.sql("SELECT * FROM found"))) == QUERIES[query]


def test_what_is_too_long_is_refused(warehouse: tidemill.Warehouse) -> None:
    with pytest.raises(BadValue, match=r"CHAR\(5\)"):
        warehouse.sql("INSERT INTO t VALUES (1, 'abcdef', '', '', '')")
    with pytest.raises(BadValue, match=r"VARCHAR\(4\)"):
        warehouse.apply({"t": [(1, (1, "", "abcde", "", ""))]})


def test_a_computed_constant_is_refused(warehouse: tidemill.Warehouse) -> None:
    with pytest.raises(Unsupported, match="computed constant"):
        warehouse.sql("CREATE VIEW found AS SELECT k FROM t WHERE c = lower('AB')")


def test_rows_that_leave_need_no_spaces(warehouse: tidemill.Warehouse) -> None:
    warehouse.apply({"t": [(1, (1, "a", "b", "c", "d"))]})
    assert list(warehouse.sql("SELECT c, d FROM t")) == [("a    ", "c  ")]
    warehouse.sql("UPDATE t SET c = 'xy' WHERE c = 'a'")
    assert list(warehouse.sql("SELECT c FROM t")) == [("xy   ",)]
