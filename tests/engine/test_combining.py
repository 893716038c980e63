"""Threads that commit at the same time: one runs the epochs of all, and each has its own answer."""

from __future__ import annotations

import errno
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

import tidemill
from tests import forked_children
from tidemill.engine.epochs.concurrent_changes import combining
from tidemill.engine.epochs.concurrent_changes.combining import EpochCombiner
from tidemill.model.errors import CommitUnknown, DataError, StorageError
from tidemill.storage.filesystem.durable_files import FAULT_VARIABLE

WAIT = 10
GATE, SECOND, TRAP = 1_000, 1_001, 2_000
"""Values of rows whose epochs wait until the gate opens, or a second one; and of one that ends the thread that runs
it."""


class Stop(BaseException):
    """Ends a thread, as an interruption does."""


class Gated:
    """A warehouse with a view that records which thread runs an epoch, and in which an epoch can be held up."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entered = threading.Event()
        self.gate = threading.Event()
        self.second_entered = threading.Event()
        self.second_gate = threading.Event()
        self.ran_in: dict[int, int] = {}
        self.wh = tidemill.open(path, runtime="native")
        self.wh.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, a BIGINT)")
        self.wh.register_function("noted", self._note, arguments=["BIGINT"], returns="BIGINT")
        self.wh.sql("CREATE MATERIALIZED VIEW v AS SELECT noted(a) AS a, COUNT(*) AS n FROM t GROUP BY noted(a)")

    def _note(self, value: int) -> int:
        self.ran_in[value] = threading.get_ident()
        if value == GATE:
            self.entered.set()
            assert self.gate.wait(WAIT)
        if value == SECOND:
            self.second_entered.set()
            assert self.second_gate.wait(WAIT)
        if value == TRAP:
            raise Stop
        return value

    def apply(self, value: int, key: int | None = None) -> int:
        return self.wh.apply({"t": [(+1, (value if key is None else key, value))]})

    def await_waiting(self, count: int) -> None:
        waiting = self.wh._engine._combiner._waiting
        for _ in range(1000):
            if len(waiting) == count:
                return
            threading.Event().wait(WAIT / 1000)
        pytest.fail(f"{len(waiting)} epochs wait, not {count}")

    def rows(self) -> set[int]:
        return {key for key, _ in self.wh.table("t").rows()}


@pytest.fixture
def gated(tmp_path: Path) -> Iterator[Gated]:
    opened = Gated(tmp_path / "w")
    yield opened
    opened.gate.set()
    opened.wh.close()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(12) as threads:
        yield threads


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads are woken, and do not look for themselves."""
    monkeypatch.setattr(combining, "PATIENCE_SECONDS", 60)


@pytest.fixture
def interrupted() -> Iterator[None]:
    """SIGINT is KeyboardInterrupt, also where the tests were started in the background of a shell."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def behind(gated: Gated, pool: ThreadPoolExecutor, *steps: Callable[[], int]) -> list[Future[int]]:
    """The results of an epoch that is held up until all ``steps`` wait, and of these, in that order."""
    results = [pool.submit(gated.apply, GATE)]
    assert gated.entered.wait(WAIT)
    for count, step in enumerate(steps, 1):
        results.append(pool.submit(step))
        gated.await_waiting(count)
    gated.gate.set()
    return results


def test_one_thread_runs_the_epochs_of_all_and_syncs_once(
    gated: Gated, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    gated.apply(1)
    syncs: list[int] = []
    real = os.fdatasync

    def counted(handle: int) -> None:
        syncs.append(handle)
        real(handle)

    monkeypatch.setattr(os, "fdatasync", counted)
    before = gated.wh.epoch
    feed = gated.wh.subscribe("v", timeout=WAIT)
    results = behind(gated, pool, *(lambda v=v: gated.apply(v) for v in range(10, 16)))
    assert [result.result(WAIT) for result in results] == list(range(before + 1, before + 8))
    assert len(syncs) == 1
    assert {gated.ran_in[value] for value in range(10, 16)} == {gated.ran_in[GATE]}
    assert [next(feed).epoch for _ in results] == list(range(before + 1, before + 8))
    assert gated.wh.view("v").verify().ok


def test_those_who_come_during_a_sync_are_run_together_after_it(
    gated: Gated, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    gated.apply(1)
    begun, go_on = threading.Semaphore(0), threading.Event()

    def slow(handle: int) -> None:
        begun.release()
        assert go_on.wait(WAIT)

    monkeypatch.setattr(os, "fdatasync", slow)
    first = pool.submit(gated.apply, 2)
    assert begun.acquire(timeout=WAIT)
    others = [pool.submit(gated.apply, value) for value in range(3, 7)]
    gated.await_waiting(4)
    go_on.set()
    assert sorted([first.result(WAIT), *(other.result(WAIT) for other in others)]) == [2, 3, 4, 5, 6]
    assert len({gated.ran_in[value] for value in range(3, 7)}) == 1
    assert begun.acquire(blocking=False) and not begun.acquire(blocking=False), "one sync for all four"


def test_an_error_reaches_the_thread_that_it_belongs_to(gated: Gated, pool: ThreadPoolExecutor) -> None:
    gated.apply(1)
    first, twice, last, again = behind(
        gated, pool, lambda: gated.apply(2, key=1), lambda: gated.apply(3), lambda: gated.apply(4, key=GATE)
    )
    assert last.result(WAIT) == first.result(WAIT) + 1
    for refused in (twice, again):
        error = refused.exception(WAIT)
        assert isinstance(error, DataError)
        named = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
        assert "apply_changes" in named and "apply" in named, "both where it happened and who called"
    assert gated.rows() == {1, 3, GATE} and gated.wh.view("v").verify().ok


def test_a_leader_whose_own_epoch_is_refused_leaves_the_others_to_the_next(
    gated: Gated, pool: ThreadPoolExecutor
) -> None:
    gated.wh.sql("CREATE MATERIALIZED VIEW w AS SELECT 1 DIV (a - 1000) AS q, COUNT(*) AS n FROM t GROUP BY 1")
    refused, *others = behind(gated, pool, lambda: gated.apply(1), lambda: gated.apply(2))
    assert isinstance(refused.exception(WAIT), DataError)
    assert sorted(other.result(WAIT) for other in others) == [1, 2]
    assert gated.rows() == {1, 2} and all(view.ok for view in gated.wh.verify())


def test_a_sync_that_fails_reaches_all_that_share_it(
    gated: Gated, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    gated.apply(1)

    def fails(handle: int) -> None:
        raise OSError(errno.EIO, "the disk is gone")

    monkeypatch.setattr(os, "fdatasync", fails)
    results = behind(gated, pool, *(lambda v=v: gated.apply(v) for v in (2, 3)))
    assert [type(result.exception(WAIT)) for result in results] == [CommitUnknown] * 3


def test_an_epoch_of_many_rows_is_run_by_its_own_thread(gated: Gated, pool: ThreadPoolExecutor) -> None:
    many = [(+1, (row, row)) for row in range(500)]
    first = pool.submit(gated.apply, GATE)
    assert gated.entered.wait(WAIT)
    large = pool.submit(gated.wh.apply, {"t": many})
    small = pool.submit(gated.apply, 600)
    gated.await_waiting(1)
    gated.gate.set()
    assert {first.result(WAIT), large.result(WAIT), small.result(WAIT)} == {1, 2, 3}
    assert gated.ran_in[600] == gated.ran_in[GATE] != gated.ran_in[0]


def test_the_main_thread_runs_no_epoch_of_others(gated: Gated, pool: ThreadPoolExecutor) -> None:
    def come() -> list[int]:
        assert gated.entered.wait(WAIT)
        others = [pool.submit(gated.apply, value) for value in range(5)]
        gated.await_waiting(5)
        gated.gate.set()
        return [other.result(WAIT) for other in others]

    came = pool.submit(come)
    assert gated.apply(GATE) == 1
    assert sorted(came.result(WAIT)) == [2, 3, 4, 5, 6]
    assert len({gated.ran_in[value] for value in range(5)}) == 1, "the first of them runs all"
    assert gated.ran_in[0] != gated.ran_in[GATE]


@pytest.mark.usefixtures("interrupted")
def test_a_waiting_thread_that_is_interrupted_takes_its_epoch_back(gated: Gated, pool: ThreadPoolExecutor) -> None:
    first = pool.submit(gated.apply, GATE)
    assert gated.entered.wait(WAIT)
    second = pool.submit(gated.apply, 1)
    gated.await_waiting(1)

    def interrupt() -> None:
        gated.await_waiting(2)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    pool.submit(interrupt)
    with pytest.raises(KeyboardInterrupt):
        gated.apply(2)
    gated.await_waiting(1)
    gated.gate.set()
    assert (first.result(WAIT), second.result(WAIT)) == (1, 2)
    assert gated.rows() == {1, GATE} and gated.apply(3) == 3


@pytest.mark.usefixtures("interrupted")
def test_an_epoch_whose_thread_was_interrupted_is_made_if_it_was_begun_and_subscribers_see_it(
    gated: Gated, pool: ThreadPoolExecutor
) -> None:
    feed = gated.wh.subscribe("v", timeout=WAIT)
    first = pool.submit(gated.apply, GATE)
    assert gated.entered.wait(WAIT)

    def interrupt() -> None:
        gated.await_waiting(1)
        gated.gate.set()
        assert gated.second_entered.wait(WAIT)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    pool.submit(interrupt)
    with pytest.raises(KeyboardInterrupt):
        gated.apply(SECOND)
    gated.second_gate.set()
    assert first.result(WAIT) == 1
    assert [next(feed).epoch, next(feed).epoch] == [1, 2]
    assert gated.rows() == {GATE, SECOND}


def test_a_leader_that_is_ended_spoils_no_epoch_but_the_one_it_was_running(
    gated: Gated, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader, before, trapped, *after = behind(gated, pool, *(lambda v=v: gated.apply(v) for v in (1, TRAP, 3, 4)))
    assert isinstance(leader.exception(WAIT), Stop)
    assert before.result(WAIT) == 2
    with pytest.raises(StorageError, match="interrupted"):
        trapped.result(WAIT)
    assert [one.result(WAIT) for one in after] == [3, 4]
    assert gated.rows() == {GATE, 1, 3, 4}
    gated.wh.close()
    with tidemill.open(gated.path, runtime="native") as again:
        assert {key for key, _ in again.table("t").rows()} == {GATE, 1, 3, 4}


def test_a_thread_that_nobody_wakes_runs_its_epoch_itself(gated: Gated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(combining, "PATIENCE_SECONDS", 0.01)
    gated.wh._engine._combiner.leader = -1  # a leader that was interrupted before it could leave
    assert gated.apply(1) == 1
    assert gated.wh._engine._combiner.leader == 0 and gated.apply(2) == 2


def test_a_leader_that_leaves_does_not_end_the_lead_of_another(pool: ThreadPoolExecutor) -> None:
    combiner = EpochCombiner(threading.RLock())
    synced = [threading.Event(), threading.Event()]
    syncing = [threading.Event(), threading.Event()]

    def sync(place: int) -> None:
        syncing[place].set()
        assert synced[place].wait(WAIT)

    results = []
    for place in range(2):
        results.append(pool.submit(combiner.lead, lambda n=place: (n, lambda: sync(n))))
        assert syncing[place].wait(WAIT)
    first, second = results
    synced[0].set()
    assert first.result(WAIT) == 0 and combiner.leader != 0, "who comes now waits for the second"
    synced[1].set()
    assert second.result(WAIT) == 1 and combiner.leader == 0


def test_closing_leaves_what_was_acknowledged(gated: Gated, pool: ThreadPoolExecutor) -> None:
    first = pool.submit(gated.apply, GATE)
    assert gated.entered.wait(WAIT)
    closing = pool.submit(gated.wh.close)
    waiting = [pool.submit(gated.apply, value) for value in range(6)]
    gated.await_waiting(6)
    gated.gate.set()
    closing.result(WAIT)
    made = {value for value, result in enumerate(waiting) if result.exception(WAIT) is None}
    assert all(isinstance(one.exception(), StorageError | None) for one in waiting)
    assert first.result(WAIT) == 1
    with pytest.raises(StorageError, match="closed"):
        gated.apply(7)
    with tidemill.open(gated.path, runtime="native") as again:
        assert {key for key, _ in again.table("t").rows()} == {GATE, *made}


@pytest.mark.parametrize("fault", ["before-log:40", "torn-log:41", "after-log:33"])
def test_a_process_that_is_killed_has_what_it_acknowledged(fault: str, tmp_path: Path) -> None:
    done = forked_children.run("tests.engine.combining_threads", tmp_path, 300, timeout=60, **{FAULT_VARIABLE: fault})
    assert done.returncode == -signal.SIGKILL, done.stderr
    acknowledged = set(map(int, done.stdout.split()))
    with tidemill.open(tmp_path, runtime="native") as wh:
        rows = {key for key, _ in wh.table("t").rows()}
        assert acknowledged <= rows and len(rows - acknowledged) <= 6
        assert wh.epoch == len(rows) and wh.view("v").verify().ok
