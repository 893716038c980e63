"""The scheduler: the order of views, views refreshed together, views that fail, and the thread."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidemill
from tidemill.engine.epochs import staleness_marks
from tidemill.engine.inspect import staleness
from tidemill.engine.inspect.staleness import Staleness
from tidemill.engine.refresh import scheduler
from tidemill.model.errors import Unsupported


class Clock:
    """The time, as the test says it."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(scheduler, "time", clock)
    monkeypatch.setattr(staleness_marks, "time", clock)
    monkeypatch.setattr(staleness, "time", clock)
    return clock


@pytest.fixture
def wh() -> Iterator[tidemill.Warehouse]:
    with tidemill.open(":memory:", runtime="native", backend="python") as wh:
        for name in "ab":
            wh.sql(f"CREATE STREAM {name} (ts TIMESTAMP, n INT) PARTITION BY ts EVERY 1 MINUTE")
        yield wh


def scheduled(wh: tidemill.Warehouse, name: str, query: str, weight: float = 1) -> None:
    wh.sql(f"CREATE MATERIALIZED VIEW {name} WITH (refresh = 'scheduled', weight = {weight}) AS {query}")


def feed(wh: tidemill.Warehouse, stream: str, minute: int = 0, n: int = 1) -> int:
    return wh.apply({stream: [(+1, (f"2026-01-01 00:{minute:02}:00", n))]})


def turn(wh: tidemill.Warehouse, limit: int | None = None) -> list[str]:
    return wh._engine.scheduler.turn(limit)


def test_the_greatest_weight_times_staleness_is_first(wh: tidemill.Warehouse, clock: Clock) -> None:
    scheduled(wh, "x", "SELECT SUM(n) AS n FROM a")
    scheduled(wh, "y", "SELECT SUM(n) AS n FROM b", weight=3)
    feed(wh, "a")
    clock.now += 10
    feed(wh, "b")
    clock.now += 4  # x is 14 s behind, y 4 s of weight 3
    assert turn(wh) == ["x"]
    feed(wh, "a")
    clock.now += 4  # 4 against 24
    assert wh.schedule() == ["y", "x"]
    assert turn(wh) == []


def test_what_a_view_reads_is_refreshed_before_it_and_as_urgently(wh: tidemill.Warehouse, clock: Clock) -> None:
    scheduled(wh, "low", "SELECT n, COUNT(*) AS c FROM a GROUP BY n")
    scheduled(wh, "other", "SELECT SUM(n) AS n FROM b", weight=5)
    scheduled(wh, "high", "SELECT MAX(c) AS c FROM low", weight=10)
    feed(wh, "a")
    feed(wh, "b")
    clock.now += 1
    assert wh.view("high").staleness() == Staleness(1, 1, 1.0)
    assert wh.schedule(limit=1) == ["low", "high", "other"]
    feed(wh, "a")
    epoch = wh.epoch
    assert turn(wh) == ["low", "high"], "a chain is one epoch"
    assert wh.epoch == epoch + 1
    assert wh.view("high").rows() == [(2,)]


def test_views_of_one_feed_share_an_epoch_up_to_the_limit(wh: tidemill.Warehouse, clock: Clock) -> None:
    for place in range(5):
        scheduled(wh, f"v{place}", f"SELECT SUM(n + {place}) AS n FROM a")
    scheduled(wh, "w", "SELECT SUM(n) AS n FROM b")
    feed(wh, "a")
    feed(wh, "b")
    reads: Counter[str] = Counter()
    store = wh._engine.store
    read = store.read

    def counted(name: str, *arguments: object, **options: object) -> object:
        reads[name] += "since" in options
        return read(name, *arguments, **options)  # type: ignore[arg-type]

    store.read = counted  # type: ignore[method-assign]
    assert turn(wh) == ["v0", "v1", "v2", "v3", "v4"]
    assert reads == {"a": 1}, "the changes are read once for all"
    feed(wh, "a")
    assert [turn(wh, limit=2) for _ in range(4)] == [["w"], ["v0", "v1"], ["v2", "v3"], ["v4"]]


def test_equals_take_turns_and_none_starves(wh: tidemill.Warehouse, clock: Clock) -> None:
    for name, weight in (("x", 1), ("y", 1), ("z", 8)):
        scheduled(wh, name, f"SELECT SUM(n) AS {name} FROM a", weight)
    turns: Counter[str] = Counter()
    for _ in range(60):
        feed(wh, "a")
        clock.now += 1
        turns.update(turn(wh, limit=1))
    assert abs(turns["x"] - turns["y"]) <= 1
    assert turns["z"] > turns["x"] >= 5


def test_a_view_that_cannot_be_refreshed_delays_no_other(wh: tidemill.Warehouse, clock: Clock) -> None:
    scheduled(wh, "shares", "SELECT 10 / n AS share FROM a")
    scheduled(wh, "total", "SELECT SUM(n) AS n FROM a")
    feed(wh, "a", n=0)
    assert set(wh.schedule()) == {"shares", "total"}
    assert wh.view("total").rows() == [(0,)]
    trouble = wh.troubles()["shares"]
    assert trouble.tries == 1 and "division by zero" in str(trouble).lower()
    assert turn(wh) == [], "it is not tried again at once"
    wh.apply({"a": [(-1, ("2026-01-01 00:00:00", 0)), (+1, ("2026-01-01 00:00:00", 5))]})
    clock.now += 1
    assert set(wh.schedule()) == {"shares", "total"}
    assert wh.view("shares").rows() == [(2.0,)]
    assert wh.troubles() == {}


def test_views_with_an_interval_share_the_thread(wh: tidemill.Warehouse, clock: Clock) -> None:
    for name in ("x", "y"):
        wh.sql(f"CREATE MATERIALIZED VIEW {name} WITH (refresh = 'every 1 minute') AS SELECT SUM(n) AS n FROM a")
    feed(wh, "a")  # the first epoch refreshes them
    feed(wh, "a")
    wh._engine.scheduler.look()
    assert wh.view("x").rows() == wh.view("y").rows() == [(1,)]
    epoch = wh.epoch
    clock.now += 60
    wh._engine.scheduler.look()
    assert wh.view("x").rows() == wh.view("y").rows() == [(2,)]
    assert wh.epoch == epoch + 1


def test_options_are_checked(wh: tidemill.Warehouse) -> None:
    for weight in ("0", "-1", "'much'"):
        with pytest.raises(Unsupported, match="cannot have the weight"):
            scheduled(wh, "v", "SELECT n FROM a", weight)  # type: ignore[arg-type]
    with pytest.raises(Unsupported, match="is no refresh rule"):
        wh.sql("CREATE MATERIALIZED VIEW v WITH (refresh = 'sometimes') AS SELECT n FROM a")


def test_views_say_how_far_they_are_behind(wh: tidemill.Warehouse, clock: Clock) -> None:
    scheduled(wh, "v", "SELECT SUM(n) AS n FROM a")
    wh.sql("CREATE TABLE t (n INT); CREATE MATERIALIZED VIEW d WITH (refresh = 'deferred') AS SELECT n FROM t")
    wh.sql("CREATE MATERIALIZED VIEW now AS SELECT n FROM v")
    for minute in (3, 4, 4):
        feed(wh, "a", minute)
        clock.now += 2
    wh.apply({"t": [(+1, (1,))]})
    shown = {row[0]: row[5:8] for row in wh.sql("SHOW VIEWS")}
    assert shown == {"v": (3, 2, 6.0), "d": (1, None, 0.0), "now": (3, 2, 6.0)}
    assert not any(name.startswith("late") for name in wh.positions)
    wh.schedule()
    wh.view("d").refresh()
    assert {row[0]: row[5:8] for row in wh.sql("SHOW VIEWS")} == {
        "v": (0, 0, 0.0),
        "d": (0, None, 0.0),
        "now": (0, 0, 0.0),
    }
    wh.sql("DROP VIEW now; DROP VIEW v")
    feed(wh, "a", 9)
    scheduled(wh, "v", "SELECT SUM(n) AS n FROM a")
    assert wh.view("v").staleness().epochs == 0, "a view that is recomputed is fresh"


def test_no_reader_sees_half_a_partition(tmp_path: Path) -> None:
    """Partitions come in several files while the scheduler runs: each is shown whole, or not at all."""
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    with tidemill.open(tmp_path / "w", runtime="native", backend="python") as wh:
        wh.sql("CREATE STREAM s (ts TIMESTAMP, n INT) PARTITION BY ts EVERY 1 MINUTE")
        wh.sql(f"CREATE FEED f INTO s FROM '{inbox}'")
        scheduled(wh, "counts", "SELECT ts, COUNT(*) AS c FROM s GROUP BY ts")
        scheduled(wh, "highest", "SELECT MAX(c) AS c FROM counts")
        heard = wh.subscribe("counts", timeout=2)
        wh.follow()
        for minute in range(6):
            part = inbox / f".{minute}"
            part.mkdir()
            for file in range(3):
                (part / f"{file}.csv").write_text("ts,n\n" + f"2026-01-01 00:{minute:02}:00,{file}\n" * 5)
            part.rename(inbox / f"minute-{minute}")
        seen = []
        while len(seen) < 6:
            seen += [row for _, row in next(heard)]
            assert wh.view("highest").rows() in ([(15,)], [(None,)], [])
        assert {count for _, count in seen} == {15}
        deadline = time.monotonic() + 5
        while wh.view("highest").rows() != [(15,)] and time.monotonic() < deadline:
            time.sleep(0.01)
        assert wh.view("highest").rows() == [(15,)]
        assert wh.troubles() == {}
