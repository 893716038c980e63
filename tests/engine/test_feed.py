"""Events one at a time: a reader sees each, a commit holds many, a bad one is refused alone."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import tidemill
from tidemill.model.errors import ArithmeticFault, BadValue, MissingRow

DDL = """
    CREATE TABLE bids (id BIGINT PRIMARY KEY, broker STRING, price DECIMAL(10,2));
    CREATE MATERIALIZED VIEW best AS SELECT broker, SUM(price) AS total, COUNT(*) AS n FROM bids GROUP BY broker;
"""


def test_every_look_sees_every_event_before_it() -> None:
    with tidemill.open(":memory:") as wh:
        wh.sql(DDL)
        bid = wh.feed("bids")
        seen = []
        for number in range(1, 4):
            bid(+1, number, "ann", "1.50")
            seen.append(wh.view("best").rows()[0][2])
        assert seen == [1, 2, 3]
        bid(-1, 2, "ann", "1.50")
        assert [row[2] for row in wh.sql("SELECT * FROM best").rows()] == [2]


def test_events_between_two_looks_are_one_epoch() -> None:
    with tidemill.open(":memory:") as wh:
        wh.sql(DDL)
        bid = wh.feed("bids")
        for number in range(100):
            bid(+1, number, "ann", 1)
        assert wh.epoch == 1
        assert len(wh.view("best").changes(since=0)) == 1
        assert wh.flush() == 1


def test_a_bad_event_is_refused_alone() -> None:
    with tidemill.open(":memory:") as wh:
        wh.sql(DDL)
        bid = wh.feed("bids")
        bid(+1, 1, "ann", 1)
        with pytest.raises(MissingRow, match="bob"):
            bid(-1, 7, "bob", 1)
        bid(+1, 2, "ann", 1)
        assert [row[2] for row in wh.view("best").rows()] == [2]
        assert wh.epoch == 1


def test_an_event_that_some_view_cannot_show_is_refused_alone() -> None:
    with tidemill.open(":memory:") as wh:
        wh.sql("""
            CREATE TABLE t (k INT, n BIGINT);
            CREATE MATERIALIZED VIEW v AS SELECT k, SUM(n) AS total FROM t GROUP BY k;
        """)
        event = wh.feed("t")
        for n in (1, (1 << 63) - 1, 5):
            event(+1, 7, n)
        with pytest.raises(ArithmeticFault):
            wh.flush()
        assert wh.view("v").rows() == [(7, 6)]
        assert wh.table("t").rows() == [(7, 1), (7, 5)]


@pytest.mark.parametrize("event", [(+1, 1, "ann", "dear"), (+1, 1, "ann"), ("+1", 1, "ann", 1), (True, 1, "ann", 1)])
def test_a_value_that_does_not_fit_is_refused_at_once(event: tuple[object, ...]) -> None:
    with tidemill.open(":memory:") as wh:
        wh.sql(DDL)
        with pytest.raises(BadValue):
            wh.feed("bids")(*event)  # type: ignore[arg-type]
        assert wh.epoch == 0


def test_closing_commits_what_was_fed(tmp_path: Path) -> None:
    with tidemill.open(tmp_path / "wh", runtime="native") as wh:
        wh.sql(DDL)
        wh.feed("bids")(+1, 1, "ann", 1)
    with tidemill.open(tmp_path / "wh", runtime="native") as wh:
        assert [row[2] for row in wh.view("best").rows()] == [1]


def test_threads_may_feed_together() -> None:
    with tidemill.open(":memory:") as wh:
        wh.sql(DDL)

        def work(first: int) -> None:
            bid = wh.feed("bids")
            for number in range(first, first + 200):
                bid(+1, number, "ann", 1)
                if number % 50 == 0:
                    wh.flush()

        threads = [threading.Thread(target=work, args=(first,)) for first in (0, 1000, 2000)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [row[2] for row in wh.view("best").rows()] == [600]
