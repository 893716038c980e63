"""EXPLAIN CREATE: what a definition would do, beside what it then does."""

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
        ("EXPLAIN SELECT 1", ParseError),
    ],
)
def test_what_is_refused(wh: tidemill.Warehouse, statement: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        wh.sql(statement)
