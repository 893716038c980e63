"""Threads that wait for a sync: one syncs for all, nobody waits for more than that, and a failure reaches everybody."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tidemill.storage.commits import group_sync
from tidemill.storage.commits.group_sync import GroupSync
from tidemill.storage.filesystem.small_writes import SMALL_BYTES, pwrite

WAIT = 5


class Disk:
    """A file that threads write to, whose syncs go on when they are told to."""

    def __init__(self) -> None:
        self.written = 0
        self.begun: list[int] = []
        self._started = threading.Semaphore(0)
        self._go_on: list[Callable[[], None]] = []
        self._allowed = threading.Semaphore(0)

    def sync(self) -> int:
        reached = self.written
        self.begun.append(reached)
        self._started.release()
        assert self._allowed.acquire(timeout=WAIT)
        if self._go_on:
            self._go_on.pop(0)()
        return reached

    def await_sync(self) -> None:
        assert self._started.acquire(timeout=WAIT)

    def let_sync(self, how: Callable[[], None] = lambda: None) -> None:
        self._go_on.append(how)
        self._allowed.release()


@contextmanager
def writers(disk: Disk, group: GroupSync) -> Iterator[Callable[[], Future[None]]]:
    """Gives a function that lets another thread write a byte, and wait for it."""
    with ThreadPoolExecutor(8) as pool:

        def write() -> Future[None]:
            disk.written += 1
            return pool.submit(group.wait, disk.written)

        yield write


def await_sleepers(group: GroupSync, count: int) -> None:
    deadline = threading.Event()
    for _ in range(1000):
        if len(group._sleeping) == count:
            return
        deadline.wait(WAIT / 1000)
    pytest.fail(f"{len(group._sleeping)} threads sleep, not {count}")


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads are woken, and do not look for themselves."""
    monkeypatch.setattr(group_sync, "PATIENCE_SECONDS", 60)


def test_those_who_come_during_a_sync_share_the_next() -> None:
    disk = Disk()
    group = GroupSync(disk.sync)
    with writers(disk, group) as write:
        first = write()
        disk.await_sync()
        others = [write() for _ in range(4)]
        await_sleepers(group, 4)
        disk.let_sync()
        first.result(WAIT)
        disk.await_sync()
        assert disk.begun == [1, 5]
        assert not any(other.done() for other in others)
        disk.let_sync()
        for other in others:
            other.result(WAIT)
    assert group.durable == 5


def test_nobody_waits_for_the_sync_of_later_bytes() -> None:
    disk = Disk()
    group = GroupSync(disk.sync)
    with writers(disk, group) as write:
        first = write()
        disk.await_sync()
        disk.written += 1
        early = [write() for _ in range(3)]
        await_sleepers(group, 3)
        disk.let_sync()
        first.result(WAIT)
        disk.await_sync()
        late = write()
        await_sleepers(group, 3)
        disk.let_sync()
        disk.await_sync()  # the sync for the last one is under way, and the others have gone
        for one in early:
            one.result(WAIT)
        assert not late.done()
        disk.let_sync()
        late.result(WAIT)


def test_a_failure_reaches_all_that_wait_and_all_that_come() -> None:
    def fail() -> None:
        raise OSError(errno.EIO, "Input/output error")

    disk = Disk()
    group = GroupSync(disk.sync)
    with writers(disk, group) as write:
        waiting = [write()]
        disk.await_sync()
        waiting += [write() for _ in range(3)]
        await_sleepers(group, 3)
        disk.let_sync(fail)
        for one in (*waiting, write()):
            with pytest.raises(OSError, match="Input/output"):
                one.result(WAIT)
    assert disk.begun == [1]


def test_an_interrupted_sync_is_made_by_another_thread() -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    disk = Disk()
    group = GroupSync(disk.sync)
    with writers(disk, group) as write:
        first = write()
        disk.await_sync()
        second = write()
        await_sleepers(group, 1)
        disk.let_sync(interrupt)
        with pytest.raises(KeyboardInterrupt):
            first.result(WAIT)
        disk.await_sync()
        disk.let_sync()
        second.result(WAIT)


def test_a_thread_that_nobody_wakes_looks_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_sync, "PATIENCE_SECONDS", 0.01)
    monkeypatch.setattr(GroupSync, "_wake", lambda self: None)
    disk = Disk()
    group = GroupSync(disk.sync)
    with writers(disk, group) as write:
        first = write()
        disk.await_sync()
        second = write()
        disk.let_sync()
        first.result(WAIT)
        disk.await_sync()
        disk.let_sync()
        second.result(WAIT)


def test_those_who_wait_are_released_where_their_bytes_are_durable_elsewhere() -> None:
    group = GroupSync(lambda: pytest.fail("synced"))
    group.finish(10)
    group.wait(10)


@pytest.mark.parametrize("length", [0, 7, SMALL_BYTES, SMALL_BYTES + 1])
def test_small_and_large_writes_are_the_same(length: int, tmp_path: Path) -> None:
    handle = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    content = os.urandom(length)
    assert pwrite(handle, content, 3) == length
    assert (tmp_path / "file").read_bytes() == (b"\0\0\0" + content if length else b"")
    os.close(handle)
    with pytest.raises(OSError, match="Bad file descriptor"):
        pwrite(handle, content, 0)
