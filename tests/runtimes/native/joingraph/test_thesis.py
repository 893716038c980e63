"""The running example of chapter 5: what the join graph of RetweetTracker is made of, figure by figure."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runtimes.native.harness import Harness
from tidemill.changes.zset import Row, ZSet
from tidemill.compiler.frontends.script.statements import CreateTable
from tidemill.compiler.frontends.translate import parse, translate
from tidemill.compiler.passes import compile_view

DDL = """
CREATE TABLE users (username STRING NOT NULL, gender STRING, country STRING);
CREATE TABLE followers (username STRING NOT NULL, follower STRING);
CREATE TABLE tweets (username STRING NOT NULL, tweet STRING NOT NULL, day STRING, likes BIGINT NOT NULL);
CREATE TABLE retweets (retweet STRING NOT NULL, username STRING NOT NULL, tweet STRING NOT NULL);
"""
TABLES = {s.table.name: s.table for s in parse(DDL) if isinstance(s, CreateTable)}

FIGURE_5_2 = {
    "users": [
        ("joe", "male", "USA"), ("bob", "male", "USA"), ("alice", "female", "USA"), ("cathy", "male", "Canada"),
    ],
    "followers": [("joe", "bob"), ("joe", "alice"), ("cathy", "bob")],
    "tweets": [("joe", "t1", "2/2/15", 5), ("joe", "t9", "2/3/15", 7)],
    "retweets": [("t2", "bob", "t1"), ("t3", "bob", "t1"), ("t4", "alice", "t1"), ("t6", "bob", "t3")],
}  # fmt: skip

RETWEET_TRACKER = """
SELECT u.username, u.gender, u.country, t.tweet, t.day, r.username AS retweeter
FROM users u, tweets t, retweets r WHERE u.username = t.username AND t.tweet = r.tweet
"""
JOE = ("joe", "male", "USA")
JOE_ABROAD = ("joe", "male", "Canada")


class View:
    """A view over the figure's rows, and the maps of its members."""

    def __init__(self, sql: str, **other: list[tuple[Any, ...]]) -> None:
        relation = translate(sql, {name: table.fields for name, table in TABLES.items()}, name="v").relation
        self.harness = Harness(compile_view("v", relation, TABLES, "joingraph"), TABLES)
        self.harness.seed({name: ZSet.of(rows) for name, rows in (FIGURE_5_2 | other).items()})
        self.rows = self.harness.load()
        (self.graph,) = self.harness.program.stages[-1].graphs

    def projected(self, alias: str) -> dict[Row, Any]:
        """The projected tuples of a member with their counts, and their sums where they are extended."""
        compiled = self.harness.runtime._compiled["v"]
        (map_,) = [member.map for member in self.graph.members if member.alias == alias]
        return dict(self.harness.runtime._state.maps(compiled)[map_].entries)

    def change(self, relation: str, rows: dict[Row, int]) -> ZSet:
        return self.harness.apply({relation: ZSet(rows)})


@pytest.fixture
def tracker() -> View:
    return View(RETWEET_TRACKER)


def test_vertices_are_the_pairs_of_columns_on_which_relations_join(tracker: View) -> None:
    """Example 6."""
    users, retweets = tracker.graph.vertices
    assert (users.members, users.columns) == (("u", "t"), (("username", "username"),))
    assert (retweets.members, retweets.columns) == (("t", "r"), (("tweet", "tweet"),))


def test_projected_tuples_have_what_the_view_shows_and_how_often(tracker: View) -> None:
    """Examples 9 and 10: bob has retweeted t1 twice, so his projected tuple has the count 2."""
    assert tracker.projected("u") == dict.fromkeys(FIGURE_5_2["users"], 1)
    assert tracker.projected("t") == {("joe", "t1", "2/2/15"): 1, ("joe", "t9", "2/3/15"): 1}
    assert tracker.projected("r") == {("t1", "bob"): 2, ("t1", "alice"): 1, ("t3", "bob"): 1}


def test_the_view_is_what_complete_paths_say(tracker: View) -> None:
    """Figure 5.2 (b)."""
    joe = (*JOE, "t1", "2/2/15")
    assert tracker.rows == ZSet({(*joe, "bob"): 2, (*joe, "alice"): 1})


def test_a_count_needs_one_projected_tuple_for_all_rows_of_a_join_tuple() -> None:
    """Example 13: four retweets of t1, of which nothing is asked but how many they are."""
    counter = View(
        "SELECT u.username, COUNT(r.tweet) AS n FROM users u, tweets t, retweets r "
        "WHERE u.username = t.username AND t.tweet = r.tweet GROUP BY u.username",
        retweets=[("t2", "bob", "t1"), ("t3", "bob", "t1"), ("t4", "alice", "t1"), ("t5", "joe", "t1")],
    )
    assert counter.projected("r") == {("t1",): 4}


def test_an_extended_projected_tuple_has_a_sum_beside_its_count() -> None:
    """Definition 11: the likes of all tweets of joe are summed up where his tweets are held."""
    likes = View(
        "SELECT f.follower, SUM(t.likes) AS likes, COUNT(*) AS n FROM followers f, tweets t "
        "WHERE f.username = t.username GROUP BY f.follower"
    )
    assert likes.projected("t") == {("joe",): (2, 12)}
    assert likes.change("tweets", {("joe", "t9", "2/3/15", 7): -1, ("joe", "t9", "2/3/15", 8): 1}) == ZSet(
        {("bob", 12, 2): -1, ("bob", 13, 2): 1, ("alice", 12, 2): -1, ("alice", 13, 2): 1}
    )
    assert likes.projected("t") == {("joe",): (2, 13)}


@pytest.mark.parametrize(
    ("before", "after", "moved"),
    [
        (JOE, ("joe", "other", "USA"), {JOE: -1, ("joe", "other", "USA"): 1}),
        (JOE, JOE_ABROAD, {JOE: -1}),
        (("cathy", "male", "Canada"), ("cathy", "male", "USA"), {("cathy", "male", "USA"): 1}),
        (("cathy", "male", "Canada"), ("cathy", "female", "Canada"), {}),
        (JOE, ("jim", "male", "USA"), {JOE: -1, ("jim", "male", "USA"): 1}),
    ],
    ids=["both pass", "only the old row", "only the new row", "none", "another join tuple"],
)
def test_algorithm_1_splits_updates_by_what_they_satisfy(before: Row, after: Row, moved: dict[Row, int]) -> None:
    americans = View(RETWEET_TRACKER + " AND u.country = 'USA'")
    held = ZSet(americans.projected("u"))
    americans.change("users", {before: -1, after: 1})
    country = len(next(iter(held)))
    assert ZSet(americans.projected("u")) - held == ZSet({row[:country]: weight for row, weight in moved.items()})


def test_algorithm_1_takes_no_notice_of_columns_that_the_view_does_not_use(tracker: View) -> None:
    assert tracker.change("tweets", {("joe", "t1", "2/2/15", 5): -1, ("joe", "t1", "2/2/15", 6): 1}) == ZSet()


def test_algorithms_2_and_3_count_projected_tuples_up_and_down(tracker: View) -> None:
    tracker.change("retweets", {("t7", "alice", "t1"): 1, ("t7", "alice", "t5"): 1, ("t2", "bob", "t1"): -1})
    assert tracker.projected("r") == {("t1", "bob"): 1, ("t1", "alice"): 2, ("t3", "bob"): 1, ("t5", "alice"): 1}
    tracker.change("retweets", {("t6", "bob", "t3"): -1})
    assert ("t3", "bob") not in tracker.projected("r")


def test_algorithm_5_multiplies_counts_along_complete_paths(tracker: View) -> None:
    """Nobody has retweeted t9, so it is on no complete path."""
    shown = (*JOE, "t1", "2/2/15")
    assert tracker.change("users", {JOE: 2}) == ZSet({(*shown, "bob"): 4, (*shown, "alice"): 2})


def test_algorithm_5_takes_an_update_for_what_leaves_and_what_comes(tracker: View) -> None:
    shown = {(*JOE, "t1", "2/2/15"): -1, (*JOE_ABROAD, "t1", "2/2/15"): 1}
    assert tracker.change("users", {JOE: -1, JOE_ABROAD: 1}) == ZSet(
        {(*row, who): sign * n for row, sign in shown.items() for who, n in [("bob", 2), ("alice", 1)]}
    )
