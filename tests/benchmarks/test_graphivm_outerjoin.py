"""The full outer join table, the baseline of GraphIVM."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import tidemill
from benchmarks.graphivm import outerjoin
from tests.compiler.social import chain, social_program
from tests.matrix.expected import expected
from tests.matrix.together import Talk, hold
from tests.ways import opened

GOLDEN = Path(__file__).parents[1] / "golden"

JOINS = (
    "graph_tweets",
    "graph_tweets_counted",
    "graph_retweet_tracker",
    "graph_inequality",
    "graph_cross",
    "join_null_keys",
    "join_self_bag",
    "stream_joined",
    "epoch_of_many_tables",
)

TIMELINE = """CREATE MATERIALIZED VIEW timeline WITH (strategy = 'outerjoin')
              AS SELECT f.username, f.followername, t.tweet FROM follower f JOIN tweet t ON f.username = t.username"""


@pytest.fixture(autouse=True)
def declared() -> Iterator[None]:
    with outerjoin.declared():
        yield


def answer(paths: Sequence[Path], form: str) -> None:
    with opened("held") as warehouse:
        talks = [Talk(warehouse, expected(path), "outerjoin", form) for path in paths]
        hold(talks)
    assert not [str(talk.failure) for talk in talks if talk.failure is not None]


def test_answers_are_right() -> None:
    answer([GOLDEN / f"{name}.test" for name in JOINS], "whole")


def test_answers_are_right_row_by_row() -> None:
    answer(sorted(GOLDEN.glob("graph_*.test")), "rows")


def test_every_row_is_held_with_all_that_it_meets() -> None:
    """The example of a timeline: three followers of joe meet each of his tweets, and the others meet nothing."""
    with tidemill.open(":memory:") as warehouse:
        warehouse.sql("CREATE TABLE follower (username STRING, followername STRING)")
        warehouse.sql("CREATE TABLE tweet (username STRING, tweet STRING)")
        warehouse.sql(TIMELINE)
        pairs = [("joe", "bob"), ("joe", "alice"), ("joe", "cathy"), ("cathy", "bob"), ("bob", "alice")]
        warehouse.apply({"follower": [(1, pair) for pair in pairs]})
        assert sizes(warehouse)["timeline/groups"] == 5
        warehouse.apply({"tweet": [(1, ("joe", "t1")), (1, ("joe", "t9"))]})
        assert sizes(warehouse)["timeline/groups"] == 3 * 2 + 2
        assert len(warehouse.view("timeline").rows()) == 6


def sizes(warehouse: tidemill.Warehouse) -> dict[str, int]:
    warehouse.compact()
    return {size.map: size.entries for size in warehouse.view("timeline").sizes()}


def test_only_joins_by_equality_have_a_table() -> None:
    assert [s.strategy for s in social_program(chain(1), "outerjoin").stages] == ["delta", "delta", "outerjoin"]
    for sql in ("SELECT f.userid FROM follower f CROSS JOIN tweet t", "SELECT userid FROM follower", chain(4)):
        assert [stage.strategy for stage in social_program(sql, "outerjoin").stages] == ["delta"]
