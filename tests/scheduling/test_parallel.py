"""Independent views refreshed in processes of their own: when, and that they show what one process would show."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import tidemill
from tests.scheduling import test_random
from tidemill.engine.refresh import forked_jobs, parallel_refresh
from tidemill.model.errors import ArithmeticFault

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="views are refreshed in forked processes on Linux only")


class Forks:
    """The results of all refreshes that have forked processes: the number of jobs, None of those that failed."""

    def __init__(self) -> None:
        self.jobs: list[int | None] = []


@pytest.fixture
def forks(monkeypatch: pytest.MonkeyPatch) -> Forks:
    """Have every refresh of independent views forked, however little there is to do."""
    found = Forks()
    results_of = parallel_refresh.results_of

    def noted(jobs: Sequence[Callable[[], object]], *more: object) -> list[object] | None:
        results = results_of(jobs, *more)  # type: ignore[arg-type]
        found.jobs.append(None if results is None else len(jobs))
        return results

    monkeypatch.setenv(forked_jobs.PROCESSES, "3")
    monkeypatch.setattr(parallel_refresh, "results_of", noted)
    monkeypatch.setattr(parallel_refresh, "LEAST_SECONDS", 0.0)
    return found


TABLES = """
CREATE TABLE t (id INT, k STRING, n INT, x DOUBLE);
CREATE TABLE u (k STRING PRIMARY KEY, w INT);
CREATE TABLE p (ts TIMESTAMP, k STRING, n INT) PARTITION BY ts EVERY 1 MINUTE
"""

VIEWS = {
    "sums": "SELECT k, SUM(n) AS n, COUNT(*) AS c, AVG(x) AS x FROM t GROUP BY k",
    "orders": "SELECT k, percentile(n, 0.5) AS m, MAX(x) AS x, COLLECT_LIST(n) AS ns FROM t GROUP BY k",
    "ranks": "SELECT k, id, RANK() OVER (PARTITION BY k ORDER BY n) AS r FROM t",
    "joined": "SELECT t.id, t.n, u.w FROM t JOIN u ON t.k = u.k",
    "pairs": "SELECT a.k, COUNT(*) AS c FROM t a JOIN t b ON a.n = b.n AND a.id <> b.id GROUP BY a.k",
    "sliding": "UPDATE sliding[i] AS SELECT k, SUM(n) AS n, COUNT(*) AS c FROM p[i-2 .. i] GROUP BY k",
    "outer_join": "SELECT p.k, p.n, t.x FROM p LEFT JOIN t ON p.n = t.n",
    "large": "SELECT k, n FROM sums WHERE n > 5",
    "both": "SELECT large.k, COUNT(*) AS c FROM large JOIN orders ON large.k = orders.k GROUP BY large.k",
}
"""Independent views, a join of what others share with the table as well, and views over late ones."""


class Life:
    """Random changes of the tables, with duplicates and NULLs."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.rows: dict[str, Counter[tuple[object, ...]]] = {"t": Counter(), "u": Counter(), "p": Counter()}

    def _row(self, table: str) -> tuple[object, ...]:
        pick = self.random
        key, number = pick.choice(("a", "b", "c", None)), pick.choice((1, 2, 3, None))
        if table == "t":
            return pick.randrange(6), key, number, pick.choice((0.1, 0.2, 1e16, None))
        if table == "p":
            return f"2024-01-01 00:{pick.randrange(7):02}:00" if pick.random() < 0.9 else None, key, number
        return pick.choice("abc"), number

    def change(self, wh: tidemill.Warehouse) -> None:
        changes: dict[str, list[tuple[int, tuple[object, ...]]]] = {}
        for table, rows in self.rows.items():
            some = changes[table] = []
            for _ in range(self.random.randrange(4)):
                if rows and self.random.random() < 0.4:
                    row, weight = self.random.choice(list(rows)), -1
                else:
                    row, weight = self._row(table), +1
                if table == "u" and weight > 0 and any(row[0] == other[0] for other in rows):
                    continue
                rows[row] += weight
                self.rows[table] = rows = +rows
                some.append((weight, row))
        wh.apply(changes)


@pytest.mark.parametrize("backend", ["python", "auto"])
@pytest.mark.parametrize("place", ["memory", "folder"])
def test_views_are_as_one_process_computes_them(backend: str, place: str, tmp_path: Path, forks: Forks) -> None:
    life = Life(len(backend) + len(place))
    pick = life.random
    where = tmp_path if place == "folder" else ":memory:"
    wh = tidemill.open(where, runtime="native", backend=backend)
    try:
        wh.sql(TABLES)
        for name, query in VIEWS.items():
            when = "immediate" if name == "both" else "scheduled" if name in ("sums", "large") else "deferred"
            wh.sql(f"CREATE MATERIALIZED VIEW {name} WITH (refresh = '{when}') AS {query}")
        for step in range(25):
            life.change(wh)
            match pick.randrange(4):
                case 0:
                    wh.schedule()
                case 1 | 2:
                    wh._engine.refresh(*pick.sample(list(VIEWS), pick.randrange(2, 7)))
            if step == 15 and place == "folder":
                wh.close()
                wh = tidemill.open(where, runtime="native", backend=backend)
            if step % 4 == 3:
                assert [name for name in VIEWS if not wh.view(name).verify()] == [], step
        for _ in range(2):
            wh.schedule()
            wh._engine.refresh(*VIEWS)
        assert [name for name in VIEWS if not wh.view(name).verify()] == []
        assert {wh.view(name).staleness().epochs for name in VIEWS} == {0}
    finally:
        wh.close()
    assert len(forks.jobs) > 3 and None not in forks.jobs and max(job or 0 for job in forks.jobs) > 2


@pytest.mark.parametrize("seed", [3, 4])
def test_random_lives(seed: int, forks: Forks) -> None:
    test_random.test_views_show_the_epochs_that_they_name(seed)
    assert forks.jobs and None not in forks.jobs


def independent(wh: tidemill.Warehouse, refresh: str = "scheduled") -> None:
    for name in "ab":
        wh.sql(f"CREATE TABLE {name} (n INT)")
        wh.sql(
            f"CREATE MATERIALIZED VIEW of_{name} WITH (refresh = '{refresh}') AS SELECT SUM(10 / n) AS n FROM {name}"
        )


def feed(wh: tidemill.Warehouse, n: int = 5) -> None:
    wh.apply({"a": [(+1, (n,))]})
    wh.apply({"b": [(+1, (5,))]})


def test_the_limit_is_that_of_views_at_the_same_time(forks: Forks) -> None:
    with tidemill.open(":memory:", runtime="native") as wh:
        independent(wh)
        feed(wh)
        assert [wh._engine.scheduler.turn(limit=1) for _ in range(3)] == [["of_a"], ["of_b"], []]
        assert forks.jobs == []
        feed(wh)
        epoch = wh.epoch
        assert wh._engine.scheduler.turn() == ["of_a", "of_b"]
        assert forks.jobs == [2] and wh.epoch == epoch + 1, "both are computed at once, and are one epoch"
        assert wh.view("of_a").rows() == wh.view("of_b").rows() == [(4.0,)]
        assert sorted(wh.view("of_b").changes(since=epoch)) == [(-1, (2.0,)), (+1, (4.0,))]
        [entry] = wh.refreshes("of_a", limit=1)
        assert (entry.rows_in, entry.rows_out, entry.way) == (1, 2, "caught up")
        assert entry.reason == "in a process of its own, beside 1 more"


def test_views_that_take_little_stay_in_this_process(forks: Forks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel_refresh, "LEAST_SECONDS", 0.2)
    with tidemill.open(":memory:", runtime="native") as wh:
        independent(wh, "deferred")
        for _ in range(2):
            feed(wh)
            wh._engine.refresh("of_a", "of_b")
        assert forks.jobs == []
        for name in ("of_a", "of_b"):  # as if the last refresh had taken long
            measured = wh._engine.state.pipeline[name].measured
            measured.last_seconds, measured.seconds = 1.0, 100.0
        feed(wh)
        wh._engine.refresh("of_a", "of_b")
        assert forks.jobs == [2]
        assert wh.view("of_a").verify() and wh.view("of_b").verify()


def test_views_that_one_immediate_view_reads_are_refreshed_together(forks: Forks) -> None:
    with tidemill.open(":memory:", runtime="native") as wh:
        independent(wh, "deferred")
        wh.sql("CREATE MATERIALIZED VIEW ratio AS SELECT of_a.n / of_b.n AS r FROM of_a CROSS JOIN of_b")
        feed(wh)
        wh._engine.refresh("of_a", "of_b")
        assert forks.jobs == []
        assert wh.view("ratio").rows() == [(1.0,)]


def test_a_row_that_a_view_cannot_compute_is_its_error(forks: Forks) -> None:
    with tidemill.open(":memory:", runtime="native") as wh:
        independent(wh, "deferred")
        feed(wh, n=0)
        with pytest.raises(ArithmeticFault, match="division by zero"):
            wh._engine.refresh("of_a", "of_b")
        assert forks.jobs == [None]
        wh.apply({"a": [(-1, (0,)), (+1, (2,))]})
        wh._engine.refresh("of_a", "of_b")
        assert wh.view("of_a").rows() == [(5.0,)]
        assert wh.view("of_a").verify() and wh.view("of_b").verify()


def test_a_process_that_is_killed_costs_nothing_but_time(forks: Forks, monkeypatch: pytest.MonkeyPatch) -> None:
    with tidemill.open(":memory:", runtime="native") as wh:
        independent(wh, "deferred")
        feed(wh)
        here, compute = os.getpid(), parallel_refresh.ParallelRefresh._compute

        def killed(*given: object) -> object:
            if os.getpid() != here:
                os.kill(os.getpid(), signal.SIGKILL)
            return compute(*given)  # type: ignore[arg-type]

        monkeypatch.setattr(parallel_refresh.ParallelRefresh, "_compute", killed)
        wh._engine.refresh("of_a", "of_b")
        assert forks.jobs == [None]
        assert wh.view("of_a").rows() == wh.view("of_b").rows() == [(2.0,)]


def test_a_process_that_does_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forked_jobs, "STUCK_SECONDS", 0.5)
    started = time.monotonic()
    assert forked_jobs.results_of([lambda: time.sleep(60), lambda: None], 2) is None
    assert time.monotonic() - started < 30


def test_an_interrupt_ends_the_processes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupted(*_: object) -> bool:
        raise KeyboardInterrupt

    def slow() -> None:
        time.sleep(60)
        (tmp_path / "done").touch()

    started = list[int]()
    start = forked_jobs._start

    def noted(*given: object) -> object:
        process = start(*given)  # type: ignore[arg-type]
        started.append(process.pid)
        return process

    monkeypatch.setattr(forked_jobs, "_start", noted)
    monkeypatch.setattr(forked_jobs._ProcessorTimes, "is_stuck", interrupted)
    with pytest.raises(KeyboardInterrupt):
        forked_jobs.results_of([slow], 1)
    [pid] = started
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert not (tmp_path / "done").exists()


def test_processes_take_idle_cores_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(forked_jobs.PROCESSES, raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3})
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    found = []
    for busy in (0, 1, 3, 9):
        monkeypatch.setattr(forked_jobs, "_busy_elsewhere", lambda busy=busy: busy)
        found.append(forked_jobs.most_processes())
    assert found == [4, 3, 1, 1]
    monkeypatch.setattr(threading, "active_count", lambda: 2)
    monkeypatch.setattr(forked_jobs, "_busy_elsewhere", lambda: 0)
    assert forked_jobs.most_processes() == 1
    monkeypatch.setenv(forked_jobs.PROCESSES, "2")
    assert forked_jobs.most_processes() == 2


def test_one_process_is_enough_where_that_is_said(forks: Forks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(forked_jobs.PROCESSES, "1")
    with tidemill.open(":memory:", runtime="native") as wh:
        independent(wh, "deferred")
        feed(wh)
        wh._engine.refresh("of_a", "of_b")
        assert forks.jobs == []
        assert wh.view("of_a").verify() and wh.view("of_b").verify()
