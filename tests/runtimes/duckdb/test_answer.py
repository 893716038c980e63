"""Queries handed to DuckDB: weights, names that users chose, refusals, and a connection that sees nothing else."""

from __future__ import annotations

import math
from collections.abc import Sequence

import duckdb
import pyarrow as pa
import pytest

from tests.runtimes.duckdb.asked import asked
from tidemill.algebra.evaluate import evaluate
from tidemill.changes.arrow import to_arrow
from tidemill.changes.zset import Row, ZSet
from tidemill.compiler.frontends.translate import translate
from tidemill.model import types as t
from tidemill.model.schema import WEIGHT
from tidemill.model.types import Field
from tidemill.runtimes.duckdb.answer import answer, connected
from tidemill.runtimes.duckdb.sql_text import NotLowered
from tidemill.runtimes.runtime import NotAnswered

FIELDS = {"t": (Field("k", t.INT), Field("x", t.DOUBLE), Field("s", t.STRING))}
QUERIES = [
    "SELECT * FROM t",
    "SELECT COUNT(*) AS n FROM t",
    "SELECT k, COUNT(*) AS n, MAX(x) AS most FROM t GROUP BY k",
    "SELECT DISTINCT s FROM t",
    "SELECT a.k, b.s FROM t a JOIN t b ON a.k = b.k",
]
STORED: dict[str, list[tuple[Row, int]]] = {
    "once": [((1, 1.5, "a"), 1), ((2, math.nan, None), 1)],
    "several times": [((1, 1.5, "a"), 3), ((None, None, None), 2), ((1, 1.5, "a"), 1)],
    "deleted": [((1, 1.5, "a"), 1), ((2, math.nan, None), 1), ((2, math.nan, None), -1), ((3, 0.0, "c"), 1)],
    "deleted in part": [((1, 1.5, "a"), 3), ((1, 1.5, "a"), -1), ((1, 1.5, "b"), 2), ((None, 2.0, "a"), 1)],
    "deleted and back": [((None, None, None), 1), ((None, None, None), -1), ((None, None, None), 1)],
    "all deleted": [((1, 1.5, "a"), 1), ((1, 1.5, "a"), -1)],
    "zero of both signs": [((1, 0.0, "a"), 1), ((1, -0.0, "a"), 1)],
    "none": [],
}


def _stored(pairs: Sequence[tuple[Row, int]]) -> pa.Table:
    return to_arrow(pairs, FIELDS["t"])


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("name", STORED)
def test_weights_of_stored_rows_are_summed(query: str, name: str) -> None:
    relation = translate(query, FIELDS).relation
    stored = _stored(STORED[name])
    found = answer(relation, lambda _, columns: stored.select([*(column.name for column in columns), WEIGHT]))
    assert found.zset() == evaluate(relation, {"t": ZSet.summed(STORED[name])})


def test_names_are_not_part_of_the_text() -> None:
    fields = {"t": (Field('a"; drop table x; --', t.INT), Field("select", t.INT))}
    relation = translate(
        'SELECT `a"; drop table x; --` + `select` AS `c"d`, `select` AS `from` FROM t', fields
    ).relation
    assert asked(relation, {"t": ZSet.of([(1, 2)])}, fields).zset() == ZSet.of([(3, 2)])


def test_texts_are_quoted() -> None:
    relation = translate("SELECT k FROM t WHERE s = \"it's; -- \" OR s = ''", FIELDS).relation
    rows = ZSet.of([(1, None, "it's; -- "), (2, None, ""), (3, None, "'")])
    assert asked(relation, {"t": rows}, FIELDS).zset() == ZSet.of([(1,), (2,)])


@pytest.mark.parametrize(
    "query",
    [
        "SELECT SUM(x) AS n FROM t",
        "SELECT AVG(x) AS n FROM t",
        "SELECT CAST(s AS INT) AS n FROM t",
        "SELECT exp(x) AS n FROM t",
        "SELECT array(k) AS n FROM t",
        "SELECT COLLECT_LIST(k) AS n FROM t",
    ],
)
def test_what_is_not_declared_is_refused(query: str) -> None:
    with pytest.raises(NotLowered):
        asked(translate(query, FIELDS).relation, {"t": ZSet()}, FIELDS)


@pytest.mark.parametrize("expression", ["k + 2147483647", "k / 0", "k % 0", "CAST(k * 3000000000L AS INT)"])
def test_an_error_is_left_to_others(expression: str) -> None:
    with pytest.raises(NotAnswered):
        asked(translate(f"SELECT {expression} AS n FROM t", FIELDS).relation, {"t": ZSet.of([(1, 1.0, "")])}, FIELDS)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM '/etc/hostname'",
        "COPY (SELECT 1) TO '/tmp/out.csv'",
        "INSTALL httpfs",
        "ATTACH '/tmp/x.db'",
        "SET enable_external_access = true",
        "SELECT * FROM QUERIES",
    ],
)
def test_the_connection_sees_nothing_else(statement: str) -> None:
    with connected() as connection, pytest.raises(duckdb.Error):
        connection.execute(statement)


def test_connections_do_not_see_each_others_tables() -> None:
    with connected() as one, connected() as other:
        one.register("rows_of_one", pa.table({"n": [1]}))
        assert one.sql("SELECT n FROM rows_of_one").fetchall() == [(1,)]
        with pytest.raises(duckdb.CatalogException):
            other.sql("SELECT n FROM rows_of_one")
    with connected() as later, pytest.raises(duckdb.CatalogException):
        later.sql("SELECT n FROM rows_of_one")
