"""Two writers of one warehouse in an object store: the second comes at any request of the first, and one of the two is
refused. What was acknowledged is there once, what was refused is not."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.storage.object_stores import MemoryObjects, no_answer, root
from tests.storage.samples import PEOPLE, change, commit, contents
from tidemill.changes.changeset import Epoch
from tidemill.changes.zset import ZSet
from tidemill.model.errors import CommitUnknown, LockHeld, StorageError
from tidemill.storage.filesystem.objects import requests
from tidemill.storage.folder_store import FolderStore

BEFORE, FIRST, SECOND = (1, "before"), (2, "first"), (3, "second")


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TIDEMILL_CACHE", str(tmp_path))
    monkeypatch.setattr(requests, "PAUSES", (0.0, 0.0))


def small(store: FolderStore) -> Iterator[None]:
    commit(store, store.epoch + 1, [(FIRST, 1)])
    yield


def by_manifest(store: FolderStore) -> Iterator[None]:
    commit(store, store.epoch + 1, [(FIRST, 1)], catalog={"by": "first"})
    yield


def with_checkpoint(store: FolderStore) -> Iterator[None]:
    yield from small(store)
    store.checkpoint()


def with_vacuum(store: FolderStore) -> Iterator[None]:
    yield from small(store)
    store.compact({"people": PEOPLE})
    store.vacuum(keep=1)


Work = Callable[[FolderStore], Iterator[None]]
"""What the first writer does; it yields once its epoch is acknowledged."""


def second_writer(objects: MemoryObjects, *, vacuums: bool) -> int:
    """Another process opens the warehouse, commits an epoch and closes; returns the epoch."""
    with FolderStore.open(root(objects)) as store:
        commit(store, store.epoch + 1, [(SECOND, 1)])
        if vacuums:
            for _ in range(3):  # manifests of the first writer's numbers are gone afterwards
                store.vacuum(keep=1)
        return store.epoch


def interrupted(work: Work, at: int, *, done: bool, vacuums: bool) -> bool:
    """The second writer comes before or after request ``at`` of the first one; False if there is no such request."""
    objects = MemoryObjects()
    first = FolderStore.open(root(objects))
    commit(first, 1, [(BEFORE, 1)])
    count, came = 0, list[StorageError | int]()

    def come(kind: str, name: str) -> None:
        nonlocal count
        count += 1
        if count == at:
            objects.before = objects.after = lambda kind, name: None
            try:
                came.append(second_writer(objects, vacuums=vacuums))
            except StorageError as refused:
                came.append(refused)

    objects.before, objects.after = (objects.before, come) if done else (come, objects.after)
    outcome: StorageError | None = None
    acknowledged = False
    try:
        for _ in work(first):
            acknowledged = True
    except StorageError as refused:
        outcome = refused
    objects.before = objects.after = lambda kind, name: None
    if not came:
        first.close()
        return False
    expect(objects, acknowledged, outcome, came[0])
    if outcome is not None:
        for _ in range(2):  # and it stays refused
            with pytest.raises(StorageError):
                next(small(first))
    expect(objects, acknowledged, outcome, came[0])
    return True


def expect(objects: MemoryObjects, acknowledged: bool, first: StorageError | None, second: StorageError | int) -> None:
    with FolderStore.open(root(objects), read_only=True) as reader:
        found = contents(reader)
    assert found[BEFORE] == 1
    if acknowledged:
        assert found[FIRST] == 1
    elif isinstance(first, LockHeld):
        assert "Nothing was written" in str(first.hint)
        assert FIRST not in found
    else:
        assert isinstance(first, CommitUnknown)
    if isinstance(second, int):
        assert found[SECOND] == 1
    else:
        assert isinstance(second, LockHeld | CommitUnknown)
        assert first is None
    assert set(found.values()) == {1}


@pytest.mark.parametrize("vacuums", [False, True])
@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("work", [small, by_manifest, with_checkpoint, with_vacuum])
def test_a_second_writer_at_every_request(work: Work, done: bool, vacuums: bool) -> None:
    at = 1
    while interrupted(work, at, done=done, vacuums=vacuums):
        at += 1
    assert at > 1


def test_the_first_writer_is_told_who_has_taken_over() -> None:
    objects = MemoryObjects()
    first = FolderStore.open(root(objects))
    commit(first, 1, [(BEFORE, 1)])
    with FolderStore.open(root(objects)) as second:
        commit(second, 2, [(SECOND, 1)])
        with pytest.raises(LockHeld, match="taken over") as caught:
            commit(first, 2, [(FIRST, 1)])
        told = caught.value.render()
        assert "s3://bucket/shop/log/" in told
        assert "process" in told
        assert "Nothing was written. Open the warehouse again." in told
        with pytest.raises(LockHeld):
            contents(first)
        with pytest.raises(LockHeld):
            first.close()
    with FolderStore.open(root(objects)) as store:
        assert contents(store) == ZSet({BEFORE: 1, SECOND: 1})
        commit(store, 3, [(FIRST, 1)])


def test_a_reader_follows() -> None:
    objects = MemoryObjects()
    with FolderStore.open(root(objects)) as store, FolderStore.open(root(objects), read_only=True) as reader:
        for number in range(1, 6):
            commit(store, number, [((number, "x"), 1)], **({"catalog": {"n": number}} if number % 2 else {}))
            assert reader.refresh()
            assert (reader.epoch, len(contents(reader))) == (number, number)
            assert not reader.refresh()


def test_what_is_done_takes_few_requests() -> None:
    objects = MemoryObjects()

    def requests_of(work: Callable[[], object]) -> int:
        objects.requests.clear()
        work()
        return len(objects.requests)

    opened: list[FolderStore] = []
    assert requests_of(lambda: opened.append(FolderStore.open(root(objects)))) <= 50
    (store,) = opened
    commit(store, 1, [((1, "x"), 1)])
    assert requests_of(lambda: commit(store, 2, [((2, "x"), 1)])) == 1
    reader = FolderStore.open(root(objects), read_only=True)
    reader.refresh()
    assert requests_of(reader.refresh) == 3
    commit(store, 3, [((3, "x"), 1)])
    assert requests_of(reader.refresh) <= 16
    assert reader.epoch == 3
    store.close()


def test_a_commit_without_an_answer_is_asked_for() -> None:
    """It was carried out, and the answer was lost: the next attempt finds its own content."""
    objects = MemoryObjects()
    with FolderStore.open(root(objects)) as store:
        for number, more in ((1, {}), (2, {"catalog": {"x": 1}})):
            lost: list[str] = []

            def lose(kind: str, name: str, lost: list[str] = lost) -> None:
                if kind == "create" and not lost:
                    lost.append(name)
                    raise no_answer(name)

            objects.after = lose
            commit(store, number, [((number, "x"), 1)], **more)
            objects.after = lambda kind, name: None
            assert lost
        assert len(contents(store)) == 2


def test_a_put_that_is_refused_for_a_moment_is_made_again() -> None:
    """S3 refuses puts of one name that meet, though none of them may be carried out."""
    objects = MemoryObjects()
    with FolderStore.open(root(objects)) as store:
        refused: list[str] = []

        def meet(kind: str, name: str) -> None:
            if kind == "create" and name not in refused:
                refused.append(name)
                raise FileExistsError(errno.EEXIST, "the object exists", name)

        objects.before = meet
        for number in range(1, 5):
            commit(store, number, [((number, "x"), 1)], **({"catalog": {"n": 1}} if number == 3 else {}))
        objects.before = lambda kind, name: None
        assert len(refused) == 4
        assert len(contents(store)) == 4


@pytest.mark.parametrize("done", [False, True])
def test_an_interrupted_put_is_found_by_the_next_one(done: bool) -> None:
    objects = MemoryObjects()
    with FolderStore.open(root(objects)) as store:
        commit(store, 1, [((1, "x"), 1)])

        def interrupt(kind: str, name: str) -> None:
            raise KeyboardInterrupt

        objects.before, objects.after = (objects.before, interrupt) if done else (interrupt, objects.after)
        with pytest.raises(KeyboardInterrupt):
            commit(store, 2, [((2, "x"), 1)])
        objects.before = objects.after = lambda kind, name: None
        commit(store, 3, [((3, "x"), 1)])
        with FolderStore.open(root(objects), read_only=True) as reader:
            assert (reader.epoch, len(contents(reader))) == (3, 3)


def test_threads_share_a_put_to_a_slow_store() -> None:
    objects = MemoryObjects()
    with FolderStore.open(root(objects)) as store:
        commit(store, 1, [((1, "x"), 1)])
        objects.requests.clear()
        objects.before = lambda kind, name: time.sleep(0.05)
        epochs = [Epoch(number, {"people": change([((number, "x"), 1)])}) for number in range(2, 18)]
        waiting = [store.append(epoch) for epoch in epochs]
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda durable: durable(), waiting))
        objects.before = lambda kind, name: None
        assert len(objects.requests) <= 2
        with FolderStore.open(root(objects), read_only=True) as reader:
            assert reader.epoch == 17


def test_a_store_that_stays_silent_leaves_the_warehouse_to_be_opened_again() -> None:
    objects = MemoryObjects()
    store = FolderStore.open(root(objects))
    commit(store, 1, [(BEFORE, 1)])

    def silent(kind: str, name: str) -> None:
        raise no_answer(name)

    objects.before = silent
    with pytest.raises(CommitUnknown, match="may or may not") as caught:
        commit(store, 2, [(FIRST, 1)])
    assert "open it again" in caught.value.render()
    objects.before = lambda kind, name: None
    store.close()
    with FolderStore.open(root(objects)) as store:
        assert contents(store) == ZSet({BEFORE: 1})
        commit(store, 2, [(FIRST, 1)])


def test_runs_that_cannot_be_put_refuse_their_epoch_alone() -> None:
    """They can be put any number of times: the same warehouse goes on once the store answers."""
    objects = MemoryObjects()
    with FolderStore.open(root(objects)) as store:
        commit(store, 1, [(BEFORE, 1)], catalog={"n": 1})

        def silent(kind: str, name: str) -> None:
            if name.startswith("maps/"):
                raise no_answer(name)

        objects.before = silent
        with pytest.raises(StorageError, match="cannot commit epoch 2") as caught:
            commit(store, 2, [(FIRST, 1)], catalog={"n": 2})
        assert not isinstance(caught.value, CommitUnknown)
        objects.before = lambda kind, name: None
        commit(store, 2, [(SECOND, 1)], catalog={"n": 2})
        assert contents(store) == ZSet({BEFORE: 1, SECOND: 1})


def test_unsynced_epochs_need_a_disk() -> None:
    with pytest.raises(StorageError, match="needs a disk"):
        FolderStore.open(root(MemoryObjects()), durability="checkpoint")
