"""A warehouse in an object store whose process dies, whose requests fail, whose listings are late, at every request.

Objects are in memory, so that each point can be tried. Whatever happens, the next process finds a committed epoch, and
every one that was acknowledged.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from tests.storage.crashing import LAST, live
from tests.storage.object_stores import Killed, MemoryObjects, no_answer, root
from tests.storage.test_crash import check
from tidemill.model.errors import StorageError
from tidemill.storage.filesystem.objects import requests
from tidemill.storage.folder_store import FolderStore

STEP = 61
"""One request in so many is tried; ``make fuzz`` tries all."""


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TIDEMILL_CACHE", str(tmp_path))
    monkeypatch.setattr(requests, "PAUSES", (0.0, 0.0, 0.0, 0.0))


class Faults:
    """Lets request ``at`` fail with ``error``, or all from there on: before it is carried out, or once it has been."""

    def __init__(
        self, objects: MemoryObjects, at: int, error: type[BaseException], *, done: bool, lasting: bool
    ) -> None:
        self.count, self.fired = 0, False
        self._at, self._error, self._lasting = at, error, lasting
        if done:
            objects.after = self._request
        else:
            objects.before = self._request

    def _request(self, kind: str, name: str) -> None:
        self.count += 1
        if self.count == self._at or (self._lasting and self.fired):
            self.fired = True
            raise Killed if self._error is Killed else no_answer(name)


def life(objects: MemoryObjects, acknowledged: list[int]) -> None:
    """A writer from its first epoch to its last, in two processes."""
    for last in (LAST // 2, LAST):
        with FolderStore.open(root(objects)) as store:
            live(store, last, acknowledged.append)


def points(step: int, *, done: bool) -> range:
    """Numbers of requests of a life: all that are begun, or those that are carried out."""
    objects = MemoryObjects()
    counted = Faults(objects, -1, Killed, done=done, lasting=False)
    life(objects, [])
    return range(1, counted.count + 1, step)


def survives(objects: MemoryObjects, acknowledged: list[int]) -> None:
    """Another process finds what was acknowledged, and at most one epoch more, and goes on to the end."""
    objects.before = objects.after = lambda kind, name: None
    last = max(acknowledged, default=0)
    with FolderStore.open(root(objects)) as store:
        assert store.epoch in (last, last + 1)
        check(store)
        live(store, LAST, acknowledged.append)
        check(store)
        store.vacuum(keep=2)
        assert store.check().strays == ()
    with FolderStore.open(root(objects), read_only=True) as reader:
        assert reader.epoch == LAST
        check(reader)


def killed(at: int, *, done: bool) -> None:
    objects, acknowledged = MemoryObjects(), list[int]()
    faults = Faults(objects, at, Killed, done=done, lasting=True)
    with suppress(Killed):
        life(objects, acknowledged)
    assert faults.fired
    survives(objects, acknowledged)


def unanswered(at: int, *, done: bool, lasting: bool) -> bool:
    """True if the writer was told."""
    objects, acknowledged, told = MemoryObjects(), list[int](), False
    faults = Faults(objects, at, StorageError, done=done, lasting=lasting)
    try:
        life(objects, acknowledged)
    except StorageError:
        told = True
    assert faults.fired
    survives(objects, acknowledged)
    return told


@pytest.mark.parametrize("done", [False, True])
def test_killed_at_a_request(done: bool) -> None:
    for at in points(STEP, done=done):
        killed(at, done=done)


@pytest.mark.parametrize("done", [False, True])
def test_a_request_without_an_answer_is_made_again(done: bool) -> None:
    for at in points(STEP, done=done):
        assert not unanswered(at, done=done, lasting=False), at


@pytest.mark.parametrize("done", [False, True])
def test_a_store_that_does_not_answer_is_told(done: bool) -> None:
    assert all(unanswered(at, done=done, lasting=True) for at in points(STEP, done=done))


@pytest.mark.long
@pytest.mark.parametrize("done", [False, True])
def test_every_request(done: bool) -> None:
    for at in points(1, done=done):
        killed(at, done=done)
        assert not unanswered(at, done=done, lasting=False), at
        unanswered(at, done=done, lasting=True)


@pytest.mark.parametrize("late", [1, 20, 150])
def test_late_listings_lose_nothing_and_double_nothing(late: int) -> None:
    """A listing shows how it was ``late`` requests ago: new objects are missing, and deleted ones are there."""
    objects, acknowledged = MemoryObjects(), list[int]()
    history: list[dict[str, bytes]] = []

    def note(kind: str, name: str) -> None:
        history.append(dict(objects.contents))

    objects.before = note
    objects.listed = lambda contents: history[max(len(history) - late, 0)]
    reader: FolderStore | None = None
    for last in range(1, LAST + 1):
        with FolderStore.open(root(objects)) as store:
            assert store.epoch == last - 1
            live(store, last, acknowledged.append)
            reader = reader or FolderStore.open(root(objects), read_only=True)
            reader.refresh()
            assert reader.epoch <= last
            check(store)
    assert acknowledged == list(range(1, LAST + 1))
    assert reader is not None
    history.clear()
    objects.listed = lambda contents: contents
    reader.refresh()
    assert reader.epoch == LAST
