"""Algorithms 1 to 6, each on small cases of the running example."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runtimes.native.joingraph.social import FIGURE_5_2, RETWEET_TRACKER, TABLES, View, join_tuples, view_of
from tidemill.changes.zset import Row, ZSet
from tidemill.runtimes.native.operators.joingraph.diff_filter import DiffKind
from tidemill.runtimes.native.operators.joingraph.maintenance import maintain
from tidemill.runtimes.native.operators.joingraph.materialize import materialize

AMERICANS = RETWEET_TRACKER + " AND u.country = 'USA'"
JOE = ("joe", "male", "USA")
JOE_ABROAD = ("joe", "male", "Canada")
T1 = ("joe", "t1", "2/2/15", 5)


@pytest.fixture
def tracker() -> View:
    return view_of(RETWEET_TRACKER, FIGURE_5_2)


@pytest.mark.parametrize(
    ("before", "after", "kinds"),
    [
        (("joe", "male", "USA"), ("joe", "other", "USA"), [DiffKind.UPDATE]),
        (JOE, JOE_ABROAD, [DiffKind.DELETE]),
        (("cathy", "male", "Canada"), ("cathy", "male", "USA"), [DiffKind.INSERT]),
        (("cathy", "male", "Canada"), ("cathy", "female", "Canada"), []),
        (JOE, ("jim", "male", "USA"), [DiffKind.DELETE, DiffKind.INSERT]),
    ],
    ids=["both pass", "only the old row", "only the new row", "none", "another join tuple"],
)
def test_algorithm_1_splits_updates_by_what_they_satisfy(before: Row, after: Row, kinds: list[DiffKind]) -> None:
    view = view_of(AMERICANS, FIGURE_5_2)
    assert [diff.kind for diff in view.diffs("u", {before: -1, after: 1})] == kinds


@pytest.mark.parametrize(("weight", "kind"), [(1, DiffKind.INSERT), (-1, DiffKind.DELETE)])
def test_algorithm_1_lets_pass_what_satisfies_all_conditions(weight: int, kind: DiffKind) -> None:
    view = view_of(AMERICANS, FIGURE_5_2)
    assert [diff.kind for diff in view.diffs("u", {JOE: weight, ("cathy", "male", "Canada"): weight})] == [kind]


def test_algorithm_1_takes_no_notice_of_columns_that_the_view_does_not_use(tracker: View) -> None:
    assert tracker.diffs("t", {T1: -1, (*T1[:3], 6): 1}) == []


def test_algorithm_2_counts_up_a_projected_tuple_that_is_there(tracker: View) -> None:
    (diff,) = tracker.diffs("r", {("t7", "alice", "t1"): 1})
    modification = maintain(tracker.member("r"), diff)
    assert (modification.kind, modification.projected) == (DiffKind.INSERT, [(("t1", "alice"), 1)])
    assert join_tuples(tracker.member("r"))[("t1",)] == {("t1", "bob"): 2, ("t1", "alice"): 2}


def test_algorithm_2_makes_what_is_missing(tracker: View) -> None:
    (diff,) = tracker.diffs("r", {("t7", "alice", "t5"): 1})
    modification = maintain(tracker.member("r"), diff)
    assert modification.join_tuple is tracker.member("r").join_tuples[("t5",)]
    assert modification.join_tuple.vertices == (tracker.member("r").vertex_values[0][("t5",)],)
    assert modification.join_tuple.projected == {("t5", "alice"): 1}


def test_algorithm_3_counts_down(tracker: View) -> None:
    (diff,) = tracker.diffs("r", {("t2", "bob", "t1"): -1})
    assert maintain(tracker.member("r"), diff).kind is DiffKind.DELETE
    assert join_tuples(tracker.member("r"))[("t1",)] == {("t1", "bob"): 1, ("t1", "alice"): 1}


def test_algorithm_3_removes_what_is_left_empty(tracker: View) -> None:
    """The last retweet of t3 leaves, and nobody else has the vertex value; t1 is still a tweet."""
    for change in ({("t6", "bob", "t3"): -1}, {("t2", "bob", "t1"): -2, ("t4", "alice", "t1"): -1}):
        (diff,) = tracker.diffs("r", change)
        assert not maintain(tracker.member("r"), diff).join_tuple.projected
    assert tracker.member("r").join_tuples == {}
    assert set(tracker.member("r").vertex_values[0]) == {("t1",), ("t9",)}


def test_algorithm_4_keeps_the_join_tuple_where_join_columns_stay(tracker: View) -> None:
    joe = tracker.member("u").join_tuples[("joe",)]
    (diff,) = tracker.diffs("u", {JOE: -1, JOE_ABROAD: 1})
    modification = maintain(tracker.member("u"), diff)
    assert (modification.kind, modification.join_tuple) == (DiffKind.UPDATE, joe)
    assert sorted(modification.projected) == [(JOE_ABROAD, 1), (JOE, -1)]
    assert joe.projected == {JOE_ABROAD: 1}


def test_algorithm_4_moves_a_row_whose_join_columns_change(tracker: View) -> None:
    diffs = tracker.diffs("u", {JOE: -1, ("jim", "male", "USA"): 1})
    assert [maintain(tracker.member("u"), diff).kind for diff in diffs] == [DiffKind.DELETE, DiffKind.INSERT]
    assert ("joe",) not in tracker.member("u").join_tuples
    assert join_tuples(tracker.member("u"))[("jim",)] == {("jim", "male", "USA"): 1}


def test_algorithm_5_multiplies_counts_along_complete_paths(tracker: View) -> None:
    new, walk = tracker.change("u", {JOE: 2})
    assert new == ZSet({(*JOE, "t1", "2/2/15", "bob"): 4, (*JOE, "t1", "2/2/15", "alice"): 2})
    assert walk.visited == 2  # the tweet t1 and its retweets; nobody has retweeted t9, so it is not followed


def test_algorithm_5_walks_once_for_an_update(tracker: View) -> None:
    changed, walk = tracker.change("u", {JOE: -1, JOE_ABROAD: 1})
    shown = [(*user, "t1", "2/2/15") for user in (JOE, JOE_ABROAD)]
    assert changed == ZSet(
        {
            (*row, who): sign * n
            for row, sign in zip(shown, (-1, 1), strict=True)
            for who, n in [("bob", 2), ("alice", 1)]
        }
    )
    assert walk.visited == 2


def test_algorithm_5_meets_each_vertex_value_once_for_all_that_change(tracker: View) -> None:
    """Three retweets of t1 belong to one join tuple, so one tweet and one user are visited."""
    changed, walk = tracker.change("r", {("t2", "bob", "t1"): -1, ("t4", "alice", "t1"): -1, ("t5", "joe", "t1"): 1})
    assert changed == ZSet({(*JOE, "t1", "2/2/15", who): n for who, n in [("bob", -1), ("alice", -1), ("joe", 1)]})
    assert walk.visited == 2


def test_algorithm_6_starts_from_the_member_with_the_fewest_join_tuples(tracker: View) -> None:
    """Both tweets and both sets of retweets are fewer than the four users; tweets come first."""
    sums: dict[Row, Any] = {}
    walk = materialize(tracker.compiled, tracker.joined, sums)
    assert ZSet(sums) == ZSet({(*JOE, "t1", "2/2/15", "bob"): 2, (*JOE, "t1", "2/2/15", "alice"): 1})
    assert walk.visited == 2
    assert [len(member.join_tuples) for member in tracker.joined.members.values()] == [4, 2, 2]


def test_indices_find_join_tuples_projected_tuples_and_vertex_values(tracker: View) -> None:
    """Section 6.5."""
    t1 = tracker.member("t").join_tuples["joe", "t1"]
    assert t1.projected["joe", "t1", "2/2/15"] == 1
    vertex = tracker.compiled.graph.vertices[1]
    assert tracker.joined.vertex_values[vertex][("t1",)] is t1.vertices[1]
    assert TABLES.keys() >= {member.relation for member in tracker.compiled.graph.members}
