"""EXPLAIN: what a definition would do, beside what it then does, and how a query would be answered."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tidemill
from tidemill.model.errors import NameTaken, ParseError, SqlError, UnknownName, Unsupported


@pytest.fixture
def wh() -> Iterator[tidemill.Warehouse]:
    with tidemill.open(":memory:", runtime="native", backend="python") as opened:
        opened.sql("CREATE TABLE t (a INT, b INT); INSERT INTO t VALUES (1, 2)")
        opened.sql("CREATE VIEW s AS SELECT a, b FROM t")
        opened.sql("CREATE MATERIALIZED VIEW m AS SELECT a, SUM(b) AS b FROM s GROUP BY a")
        opened.sql("CREATE MATERIALIZED VIEW n AS SELECT MAX(b) AS b FROM m")
        yield opened


@pytest.mark.parametrize(
    ("definition", "action", "reason", "used_by"),
    [
        ("MATERIALIZED VIEW m AS select a,  sum(b) as b -- all\nFROM s GROUP BY a", "unchanged", "", "n"),
        (
            "OR REPLACE MATERIALIZED VIEW m AS SELECT a, MAX(b) AS b FROM s GROUP BY a",
            "replace",
            "its query differs",
            "n",
        ),
        (
            "MATERIALIZED VIEW m WITH (strategy = 'viewlet') AS SELECT a, SUM(b) AS b FROM s GROUP BY a",
            "alter",
            "option strategy",
            "n",
        ),
        ("MATERIALIZED VIEW new AS SELECT a FROM m", "create", "", ""),
        ("VIEW s AS SELECT a,\n b FROM t", "unchanged", "", "m, n"),
        ("VIEW s AS SELECT a, b + 1 AS b FROM t", "replace", "its text differs", "m, n"),
        ("TABLE t (a INT, b INT, c INT)", "alter", "adds c", "m, n"),
    ],
)
def test_what_a_definition_would_do(
    wh: tidemill.Warehouse, definition: str, action: str, reason: str, used_by: str
) -> None:
    before = (wh.epoch, wh.views(), wh.view("m").definition)
    found = dict(zip((r := wh.sql(f"EXPLAIN CREATE {definition}")).columns, r.rows()[0], strict=True))
    assert (found["action"], found["reason"], found["used_by"]) == (action, reason, used_by)
    assert (found["visits"] is not None) == (found["kind"] == "materialized view" and action in ("create", "replace"))
    assert (wh.epoch, wh.views(), wh.view("m").definition) == before


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("EXPLAIN CREATE MATERIALIZED VIEW x AS SELECT nope FROM t", UnknownName),
        ("EXPLAIN CREATE VIEW x AS SELECT nope FROM t", UnknownName),
        ("EXPLAIN CREATE VIEW s AS SELECT a, a FROM t", NameTaken),
        ("EXPLAIN CREATE MATERIALIZED VIEW t AS SELECT a FROM m", UnknownName),
        ("EXPLAIN CREATE VIEW m AS SELECT a FROM t", SqlError),
        ("EXPLAIN CREATE TABLE x AS SELECT a FROM t", Unsupported),
        ("EXPLAIN CREATE TEMPORARY VIEW x AS SELECT a FROM t", Unsupported),
        ("EXPLAIN CREATE", ParseError),
        ("EXPLAIN", ParseError),
        ("EXPLAIN INSERT INTO t VALUES (1, 2)", Unsupported),
        ("EXPLAIN ALTER TABLE t ADD COLUMN c INT", Unsupported),
        ("EXPLAIN ALTER VIEW m SET (serve = 'read')", Unsupported),
        ("EXPLAIN ALTER VIEW m SET (refesh = 'deferred')", Unsupported),
        ("EXPLAIN SELECT nope FROM t", UnknownName),
        ("EXPLAIN SELECT * FROM t VERSION AS OF 0", Unsupported),
    ],
)
def test_what_is_refused(wh: tidemill.Warehouse, statement: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        wh.sql(statement)


@pytest.mark.parametrize(
    ("statement", "action", "reason"),
    [
        ("ALTER VIEW m SET (on_error = 'null', weight = 2)", "alter", "option on_error, weight"),
        ("ALTER VIEW m RESET (on_error)", "unchanged", ""),
        ("ALTER VIEW m AS SELECT a, SUM(b) AS b FROM s GROUP BY a", "unchanged", ""),
        ("ALTER VIEW m AS SELECT a, MAX(b) AS b FROM s GROUP BY a", "replace", "its query differs"),
        ("ALTER VIEW s AS SELECT a, b + 1 AS b FROM t", "replace", "its text differs"),
    ],
)
def test_what_an_alteration_would_do(wh: tidemill.Warehouse, statement: str, action: str, reason: str) -> None:
    before = wh.view("m").definition
    found = wh.sql(f"EXPLAIN {statement}").rows()[0]
    assert (found[0], found[3]) == (action, reason)
    assert wh.view("m").definition == before


def test_how_a_query_would_be_answered() -> None:
    with tidemill.open(":memory:") as wh:
        wh.sql("CREATE TABLE t (id INT PRIMARY KEY, k INT); CREATE MATERIALIZED VIEW v AS SELECT k FROM t WHERE id > 1")
        wh.sql("INSERT INTO t SELECT id, id % 7 FROM (SELECT EXPLODE(SEQUENCE(1, 60000)) AS id)")

        def plan(query: str) -> list[str]:
            (text,) = wh.sql(f"EXPLAIN {query}").rows()[0]
            return [line.rstrip() for line in text.split("\n")]

        by_key = plan("SELECT k FROM t WHERE id = 7")
        assert by_key[:2] == ["answered by: lookup by key in t", "reads: t, 60,000 rows"]
        scanned = plan(
            "SELECT v.k, COUNT(*) AS n FROM v JOIN t ON t.k = v.k WHERE t.id > 5 GROUP BY v.k ORDER BY n LIMIT 3"
        )
        assert scanned == [
            "answered by: DuckDB, over columns",
            "reads: t, 60,000 rows; v, 59,999 rows",
            "plan:",
            "  first 3 by n",
            "    select v.k, count AS n",
            "      group by v.k: COUNT(*)",
            "        join on t.k = v.k",
            "          read v",
            "          where t.id > 5",
            "            read t",
        ]
        assert plan("SELECT 1")[0] == "answered by: constants alone"
        assert plan("SELECT MODE() WITHIN GROUP (ORDER BY k) FROM t")[0].startswith("answered by: ")
