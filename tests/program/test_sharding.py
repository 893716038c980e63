"""Which stages run in shards, and by which keys."""

from __future__ import annotations

import pytest

from tidemill.compiler.frontends.script.statements import CreateTable
from tidemill.compiler.frontends.translate import parse, translate
from tidemill.compiler.passes import compile_view
from tidemill.program.sharding import has_distinct_shards, needs_whole_change, shard_widths, why_not_sharded
from tidemill.program.stages import Stage

TABLES = {
    one.table.name: one.table
    for one in parse("CREATE TABLE t (id INT PRIMARY KEY, k INT, x INT); CREATE STREAM s (k INT, y INT)")
    if isinstance(one, CreateTable)
}

CHAIN = "SELECT b.k, COUNT(*) AS n FROM t a JOIN s ON a.k = s.k JOIN t b ON b.id = s.y GROUP BY b.k"


def stages(query: str, strategy: str = "delta") -> tuple[Stage, ...]:
    relation = translate(query, {name: table.fields for name, table in TABLES.items()}).relation
    return compile_view("v", relation, TABLES, strategy).stages


@pytest.mark.parametrize(
    ("query", "strategy", "reason"),
    [
        ("SELECT k, SUM(x) AS n FROM t GROUP BY k", "delta", ""),
        ("SELECT a.id FROM t a JOIN t b ON a.x = b.x", "delta", ""),
        ("SELECT s.y FROM s JOIN t ON s.k = t.k", "delta", ""),
        ("SELECT s.y FROM s JOIN t ON s.k = t.k", "joingraph", ""),
        (CHAIN, "joingraph", ""),
        (CHAIN, "viewlet", "its triggers read v:s_t, v:s_t_2, which they add to by joins"),
        ("SELECT k, SUM(x) AS n FROM t GROUP BY k", "recompute", "a trigger recomputes all of a map"),
    ],
)
def test_what_is_not_sharded(query: str, strategy: str, reason: str) -> None:
    found = [why_not_sharded(stage) for stage in stages(query, strategy)]
    assert any(found) == bool(reason)
    assert any(one.startswith(reason) for one in found)


def test_multisets_are_where_their_groups_are() -> None:
    (stage,) = stages("SELECT k, COUNT(*) AS n, MAX(x) AS most FROM t GROUP BY k")
    assert {map_.name: len(map_.keys) for map_ in stage.maps} != shard_widths(stage)
    assert set(shard_widths(stage).values()) == {1}


def test_partitions_of_a_window_are_whole() -> None:
    widths = [
        shard_widths(stage) for stage in stages("SELECT id, SUM(x) OVER (PARTITION BY k ORDER BY id) AS r FROM t")
    ]
    assert 1 in widths[-1].values()


def test_a_change_that_meets_itself_is_not_cut() -> None:
    (alone,) = stages("SELECT k, SUM(x) AS n FROM t GROUP BY k")
    (pairs,) = stages("SELECT a.id, b.id AS other FROM t a JOIN t b ON a.x = b.x")
    assert not any(map(needs_whole_change, alone.triggers))
    assert any(map(needs_whole_change, pairs.triggers))


def test_rows_that_hide_their_group_may_come_from_two_shards() -> None:
    (shown,) = stages("SELECT k, COUNT(*) AS n FROM t GROUP BY k")
    (hidden,) = stages("SELECT COUNT(*) AS n FROM t GROUP BY k")
    assert has_distinct_shards(shown)
    assert not has_distinct_shards(hidden)
