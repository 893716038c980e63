"""Aggregates over DISTINCT, before and after they become plain ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.algebra.evaluate import evaluate
from tidemill.algebra.node import Relation
from tidemill.algebra.relational.relations import Aggregate, Distinct, UnionAll
from tidemill.algebra.relational.walk import walk
from tidemill.changes.zset import ZSet
from tidemill.compiler.frontends.translate import translate
from tidemill.compiler.rewrites.expand_distinct_aggregates import expand_distinct_aggregates
from tidemill.model import types as t
from tidemill.model.types import Field

TABLES = {"t": (Field("k", t.INT), Field("x", t.INT), Field("s", t.STRING))}

QUERIES = [
    "SELECT k, COUNT(DISTINCT x) FROM t GROUP BY k",
    "SELECT COUNT(DISTINCT x), COUNT(*), SUM(x) FROM t",
    "SELECT k, SUM(DISTINCT x), COUNT(DISTINCT s), MAX(s) FROM t GROUP BY k",
    "SELECT k, COUNT(DISTINCT x) FILTER (WHERE s = 'a'), COUNT(DISTINCT x) FILTER (WHERE s = 'b') FROM t GROUP BY k",
    "SELECT k, COUNT(DISTINCT x, s), AVG(DISTINCT x), COUNT(x) FROM t GROUP BY k HAVING COUNT(DISTINCT x) > 1",
    "SELECT k, CORR(DISTINCT x, k), MIN_BY(s, x), COUNT(DISTINCT s) FROM t GROUP BY k",
    "SELECT k, x, COUNT(DISTINCT s), COUNT(*) FROM t GROUP BY ROLLUP (k, x)",
]

ROWS = st.lists(
    st.tuples(st.none() | st.integers(0, 2), st.none() | st.integers(0, 3), st.none() | st.sampled_from("ab"))
)


def relation_of(query: str) -> Relation:
    return translate(query, TABLES, name="v").relation


@pytest.mark.parametrize("query", QUERIES)
@given(rows=ROWS)
def test_the_meaning_stays(query: str, rows: list[tuple[int | None, int | None, str | None]]) -> None:
    before = relation_of(query)
    after = expand_distinct_aggregates(before)
    assert evaluate(after, {"t": ZSet.of(rows)}) == evaluate(before, {"t": ZSet.of(rows)})
    assert after.fields == before.fields


@pytest.mark.parametrize("query", QUERIES)
def test_no_sum_over_distinct_is_left(query: str) -> None:
    groups = [node for node in walk(expand_distinct_aggregates(relation_of(query))) if isinstance(node, Aggregate)]
    assert not any(call.distinct for node in groups for call in node.aggregates)


def test_alone_it_needs_no_other_rows() -> None:
    nodes = list(walk(expand_distinct_aggregates(relation_of(QUERIES[0]))))
    assert not any(isinstance(node, UnionAll) for node in nodes)
    assert sum(isinstance(node, Distinct) for node in nodes) == 1


def test_arguments_that_agree_share_their_rows() -> None:
    relation = expand_distinct_aggregates(relation_of("SELECT k, COUNT(DISTINCT x), SUM(DISTINCT x) FROM t GROUP BY k"))
    assert sum(isinstance(node, Distinct) for node in walk(relation)) == 1


def test_bags_know_what_is_distinct() -> None:
    relation = relation_of("SELECT k, COLLECT_SET(x) FROM t GROUP BY k")
    assert expand_distinct_aggregates(relation) == relation
