"""What the look-aheads save, on the example of Figure 7.1, by the join tuples that a walk follows."""

from __future__ import annotations

import pytest

from tests.runtimes.native.joingraph.social import View, view_of
from tidemill.changes.zset import ZSet
from tidemill.runtimes.native.operators.joingraph.walk import GraphWalk

TWEET_REACH = """
SELECT t.username, t.tweet, f.follower FROM tweets t, retweets r1, retweets r2, followers f
WHERE t.tweet = r1.tweet AND r1.retweet = r2.tweet AND r2.username = f.username
"""

FIGURE_7_1 = {
    "tweets": [("joe", "t9", "2/3/15", 0)],
    "retweets": [
        ("t4", "charlie", "t1"),  # r1: no retweet t1 is there to be retweeted
        ("t8", "charlie", "t6"),  # r2: t6 is one ...
        ("t6", "alice", "t3"),  # r3: ... but of a tweet t3 that is not there
        ("t5", "charlie", "t2"),  # this one leads on
        ("t2", "alice", "t9"),  # and this one to the tweet t9
    ],
    "followers": [("charlie", "bob")],
}


def reach(view: View) -> int:
    """How many join tuples a walk from the followers of charlie comes to."""
    followers = view.member("f").join_tuples[("charlie",)]
    return GraphWalk(view.compiled.routes["f"], [followers], view.joined.lookahead).visited


def dead(view: View, alias: str) -> set[tuple[object, ...]]:
    return {found.values for found in view.member(alias).join_tuples.values() if found.dead}


@pytest.mark.parametrize(("lookahead", "first", "later"), [("none", 6, 6), ("local", 4, 4), ("global", 4, 3)])
def test_example_14(lookahead: str, first: int, later: int) -> None:
    """Without look-ahead r1, r2 and r3 are followed in vain, with the local one r2, with the global one none."""
    view = view_of(TWEET_REACH, FIGURE_7_1, lookahead)
    assert (reach(view), reach(view)) == (first, later)
    new, walk = view.change("f", {("charlie", "dora"): 1})
    assert (new, walk.visited) == (ZSet({("joe", "t9", "dora"): 1}), later)


def test_what_led_nowhere_is_marked_with_all_that_leads_to_it() -> None:
    view = view_of(TWEET_REACH, FIGURE_7_1)
    assert not dead(view, "r1") | dead(view, "r2")
    reach(view)
    assert dead(view, "r2") == {("t1", "charlie"), ("t6", "charlie")}
    assert dead(view, "r1") == {("t6", "t3")}


def test_what_arrives_revives_what_waited_for_it_and_nothing_else() -> None:
    """The tweet t3 arrives: r3 and so r2 lead on, and r1 still does not."""
    view = view_of(TWEET_REACH, FIGURE_7_1)
    reach(view)
    assert view.harness.apply({"tweets": ZSet({("ann", "t3", None, 0): 1})}) == ZSet({("ann", "t3", "bob"): 1})
    assert (dead(view, "r1"), dead(view, "r2")) == (set(), {("t1", "charlie")})
    assert reach(view) == 6


def test_what_leaves_is_noticed_by_the_next_walk() -> None:
    view = view_of(TWEET_REACH, FIGURE_7_1)
    reach(view)
    assert view.harness.apply({"tweets": ZSet({("joe", "t9", "2/3/15", 0): -1})}) == ZSet({("joe", "t9", "bob"): -1})
    assert ("t2", "t9") not in dead(view, "r1")
    assert reach(view) == 1
    assert ("t2", "t9") in dead(view, "r1")
    assert reach(view) == 0


def test_a_filter_on_paths_marks_nothing() -> None:
    """A follower who may not see a tweet does not hide it from others."""
    view = view_of(TWEET_REACH + " AND t.username <> f.follower", FIGURE_7_1)
    rows, walk = view.change("f", {("charlie", "joe"): 1})
    assert (rows, walk.visited) == (ZSet(), 4)
    assert view.change("f", {("charlie", "dora"): 1})[0] == ZSet({("joe", "t9", "dora"): 1})
