"""The running example of chapter 5: what the join graph of RetweetTracker is made of, figure by figure."""

from __future__ import annotations

from tests.runtimes.native.joingraph.social import FIGURE_5_2, RETWEET_TRACKER, join_tuples, view_of
from tidemill.changes.zset import ZSet
from tidemill.runtimes.native.operators.joingraph.materialize import materialize
from tidemill.runtimes.native.operators.joingraph.walk import GraphWalk

TRACKER = view_of(RETWEET_TRACKER, FIGURE_5_2)
USER_TWEET, TWEET_RETWEET = TRACKER.compiled.graph.vertices


def test_vertices_are_the_pairs_of_columns_on_which_relations_join() -> None:
    """Example 6."""
    assert (USER_TWEET.members, USER_TWEET.columns) == (("u", "t"), (("username", "username"),))
    assert (TWEET_RETWEET.members, TWEET_RETWEET.columns) == (("t", "r"), (("tweet", "tweet"),))


def test_vertex_values_are_there_once_for_all_rows_that_share_them() -> None:
    """Example 7 and Figure 5.3."""
    assert set(TRACKER.joined.vertex_values[USER_TWEET]) == {("joe",), ("bob",), ("alice",), ("cathy",)}
    assert set(TRACKER.joined.vertex_values[TWEET_RETWEET]) == {("t1",), ("t9",), ("t3",)}


def test_join_tuples_are_made_of_shared_vertex_values() -> None:
    """Example 8: the user joe and both of his tweets touch in one object."""
    joe = TRACKER.member("u").join_tuples[("joe",)]
    first, second = (TRACKER.member("t").join_tuples["joe", tweet] for tweet in ("t1", "t9"))
    assert joe.vertices == (first.vertices[0],) == (second.vertices[0],)
    assert joe.vertices[0].tuples == ({joe: None}, {first: None, second: None})
    assert [vertex.values for vertex in first.vertices] == [("joe",), ("t1",)]


def test_projected_tuples_have_what_the_view_shows_and_how_often() -> None:
    """Examples 9 and 10: bob has retweeted t1 twice, so his projected tuple has the count 2."""
    assert join_tuples(TRACKER.member("u")) == {
        ("joe",): {("joe", "male", "USA"): 1},
        ("bob",): {("bob", "male", "USA"): 1},
        ("alice",): {("alice", "female", "USA"): 1},
        ("cathy",): {("cathy", "male", "Canada"): 1},
    }
    assert join_tuples(TRACKER.member("t")) == {
        ("joe", "t1"): {("joe", "t1", "2/2/15"): 1},
        ("joe", "t9"): {("joe", "t9", "2/3/15"): 1},
    }
    assert join_tuples(TRACKER.member("r")) == {
        ("t1",): {("t1", "bob"): 2, ("t1", "alice"): 1},
        ("t3",): {("t3", "bob"): 1},
    }


def test_paths_are_complete_with_a_join_tuple_of_each_relation() -> None:
    """Examples 11 and 12: joe, t1 and its retweets are a complete path; joe and t9 a partial one."""
    joe = TRACKER.member("u").join_tuples[("joe",)]
    walk = GraphWalk(TRACKER.compiled.routes["u"], [joe], TRACKER.joined.lookahead)
    assert [[met.values for met in path] for path in walk.paths(joe)] == [[("joe",), ("joe", "t1"), ("t1",)]]


def test_the_view_is_what_complete_paths_say() -> None:
    """Figure 5.2 (b)."""
    sums: dict[tuple[str, ...], int] = {}
    materialize(TRACKER.compiled, TRACKER.joined, sums)
    joe = ("joe", "male", "USA", "t1", "2/2/15")
    assert sums == {(*joe, "bob"): 2, (*joe, "alice"): 1}


def test_a_count_needs_one_projected_tuple_for_all_rows_of_a_join_tuple() -> None:
    """Example 13: four retweets of t1, of which nothing is asked but how many they are."""
    counter = view_of(
        "SELECT u.username, COUNT(r.tweet) AS n FROM users u, tweets t, retweets r "
        "WHERE u.username = t.username AND t.tweet = r.tweet GROUP BY u.username",
        FIGURE_5_2
        | {"retweets": [("t2", "bob", "t1"), ("t3", "bob", "t1"), ("t4", "alice", "t1"), ("t5", "joe", "t1")]},
    )
    assert join_tuples(counter.member("r")) == {("t1",): {("t1",): 4}}


def test_an_extended_projected_tuple_has_a_sum_beside_its_count() -> None:
    """Definition 11: the likes of all tweets of joe are summed up where his tweets are held."""
    likes = view_of(
        "SELECT f.follower, SUM(t.likes) AS likes, COUNT(*) AS n FROM followers f, tweets t "
        "WHERE f.username = t.username GROUP BY f.follower",
        FIGURE_5_2,
    )
    assert join_tuples(likes.member("t")) == {("joe",): {("joe",): (2, 12)}}
    assert likes.harness.apply(
        {"tweets": ZSet({("joe", "t9", "2/3/15", 7): -1, ("joe", "t9", "2/3/15", 8): 1})}
    ) == ZSet({("bob", 12, 2): -1, ("bob", 13, 2): 1, ("alice", 12, 2): -1, ("alice", 13, 2): 1})
    assert join_tuples(likes.member("t")) == {("joe",): {("joe",): (2, 13)}}
