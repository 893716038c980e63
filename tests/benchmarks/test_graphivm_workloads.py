"""The social data, and what is made of it: seeded, shaped as it says, with the fan-out that a figure is named after."""

from __future__ import annotations

import duckdb
import numpy as np
import pytest

from benchmarks.graphivm.data import SMALL, Sizes, latest, social
from benchmarks.graphivm.queries import SIMPLE
from benchmarks.graphivm.workload import MODIFICATIONS, Workload, fanout, followers, modifications, retweets, simple
from tidemill.model.schema import WEIGHT

SIZES = SMALL.scaled(0.1)
DATA = social(SIZES)


def test_the_sizes_are_those_asked_for() -> None:
    assert [DATA[name].num_rows for name in ("users", "follower", "tweet", "retweet")] == [1000, 33_333, 6000, 7000]


def test_the_same_seed_gives_the_same_rows() -> None:
    again, other = social(SIZES), social(SIZES, seed=1)
    assert all(again[name].equals(DATA[name]) for name in DATA)
    assert not other["follower"].equals(DATA["follower"])


def test_few_users_have_most_followers_and_their_followers_are_mostly_not_followed() -> None:
    users, of = DATA["follower"]["userid"].to_numpy(), DATA["follower"]["followerid"].to_numpy()
    followers_of = np.bincount(users, minlength=SIZES.users)
    assert (followers_of > 0).sum() == SIZES.users // 3
    assert np.sort(followers_of)[-SIZES.users // 10 :].sum() > 0.5 * len(users)
    assert followers_of[of].mean() == pytest.approx(1.0, abs=0.3)


def test_retweets_are_of_what_was_there_and_chains_halve_with_every_step() -> None:
    dates = np.concatenate([DATA[name]["tweetdate"].to_numpy() for name in ("tweet", "retweet")])
    above = DATA["retweet"]["retweettweetid"].to_numpy()
    passed = DATA["retweet"]["tweetdate"].to_numpy()
    # The first tweets are passed on even by those who were earlier: there is nothing else yet.
    assert (dates[above] <= passed)[above > 10].all()
    deep = above - SIZES.tweet
    share, place = 1.0, np.arange(SIZES.retweet)
    for _ in range(3):
        place = deep[place][deep[place] >= 0]
        assert len(place) / SIZES.retweet == pytest.approx(share / 2, rel=0.15)
        share = len(place) / SIZES.retweet


def test_the_latest_are_the_last_by_date() -> None:
    before, after = latest(DATA, 500)
    assert sum(table.num_rows for table in after.values()) == 500
    for name in ("tweet", "retweet"):
        assert before[name].num_rows + after[name].num_rows == DATA[name].num_rows
    earliest = min(table["tweetdate"].to_numpy().min() for table in after.values())
    assert max(before[name]["tweetdate"].to_numpy().max() for name in ("tweet", "retweet")) <= earliest


def test_simple_queries_get_their_own_events_in_order() -> None:
    one, three = simple("q1", DATA, 500), simple("q3", DATA, 500)
    assert set(one.events.tables) == {"tweet"} and set(three.events.tables) == {"tweet", "retweet"}
    assert len(three.events) == 500 > len(one.events)
    dates = [row[2] for _, _, row in three.events.events(0, 500)]
    assert dates == sorted(dates)


@pytest.mark.parametrize("shape", ["first", "last"])
def test_a_tweet_of_a_new_user_reaches_as_many_as_the_fan_out_says(shape: str) -> None:
    workload = fanout(7, shape, DATA, 5)
    assert _rows_of_one_event(workload) == 7
    following = workload.base["follower"]["userid"].to_numpy()
    author = workload.events.tables["tweet"]["userid"][0].as_py()
    assert (following == author).sum() == (1 if shape == "last" else 7)


@pytest.mark.parametrize("joins", [2, 3, 4, 5])
def test_chains_have_the_fan_out_that_they_say(joins: int) -> None:
    for make in (followers, retweets):
        workload = make(joins, DATA, 5)
        assert workload.fanout and _rows_of_one_event(workload) == workload.fanout


def test_fan_outs_grow_and_shrink_as_in_the_thesis() -> None:
    data = social(SMALL)
    grown = [followers(joins, data, 1).fanout or 0 for joins in (2, 3, 4, 5)]
    shrunk = [retweets(joins, data, 1).fanout or 0 for joins in (2, 3, 4, 5)]
    assert np.allclose(grown, (182, 381, 445, 545), rtol=0.3)
    assert np.allclose(shrunk, (110, 56, 24, 11), rtol=0.4)


@pytest.mark.parametrize("query", list(SIMPLE))
def test_modifications_come_and_go(query: str) -> None:
    workload = modifications(query, DATA, 10)
    assert len(workload.events) == 10 * len(MODIFICATIONS)
    (events,) = workload.events.tables.values()
    assert events[WEIGHT].to_pylist() == [1] * 20 + [-1] * 20
    joined = "retweettweetid" if "retweettweetid" in events.column_names else "userid"
    first, second = events[joined].to_pylist()[:10], events[joined].to_pylist()[10:20]
    # The second of each meets the same others as the first, and is another row.
    assert first == second and len(set(first)) == 10
    assert len(set(events["tweetid"].to_pylist())) == 20


def test_scaled_down_there_is_still_room_for_followers() -> None:
    assert Sizes(100, 10_000, 10, 10).scaled(1).follower == 333


def _rows_of_one_event(workload: Workload) -> int:
    """How many rows the first event adds to the view, by DuckDB."""
    connection = duckdb.connect()
    ((relation, happened),) = workload.events.cut(0, 1).tables.items()
    counts = []
    for more in (False, True):
        for name, table in workload.base.items():
            connection.register("base", table)
            connection.execute(f"CREATE OR REPLACE TABLE {name} AS FROM base")
        if more:
            connection.register("happened", happened.drop_columns([WEIGHT]))
            connection.execute(f"INSERT INTO {relation} FROM happened")
        counts.append(connection.execute(f"SELECT COUNT(*) FROM ({workload.query})").fetchall()[0][0])
    return int(counts[1] - counts[0])
