"""Readers beside a writer: they see whole epochs, and no writer disturbs them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.storage.samples import FIELDS, PEOPLE, change, contents
from tidemill.changes.changeset import Epoch
from tidemill.model.errors import EpochGone
from tidemill.storage.folder_store import FolderStore
from tidemill.storage.snapshot import StoreSnapshot
from tidemill.storage.store import Store

EPOCHS = 150


def write(store: FolderStore, done: threading.Event) -> None:
    """Each epoch adds one row to two maps and takes one away; now and then files are merged and deleted."""
    for number in range(1, EPOCHS + 1):
        pairs = [((number, "x"), 1), *([((number - 5, "x"), -1)] if number > 5 else [])]
        store.commit(Epoch(number, {"people": change(pairs), "copy": change(pairs)}))
        if number % 7 == 0:
            store.checkpoint()
            store.compact({"people": PEOPLE, "copy": PEOPLE})
        if number % 20 == 0:
            store.vacuum(keep=3)
    done.set()


def whole(store: Store | StoreSnapshot) -> None:
    """Both maps show the same epoch, and all of it."""
    epoch = store.epoch
    people, copy = contents(store, "people", until=epoch), contents(store, "copy", until=epoch)
    assert people == copy
    assert sorted(row[0] for row in people) == list(range(max(1, epoch - 4), epoch + 1))


def read_unless_vacuumed(store: FolderStore) -> None:
    """A reader without the lock may find that the writer has deleted what it opened; anything else is wrong."""
    try:
        whole(store)
    except EpochGone:
        return


@contextmanager
def beside(store: FolderStore, *readers: Callable[[threading.Event], int]) -> Iterator[None]:
    """Run readers while the writer works; each must have read something."""
    done = threading.Event()
    with ThreadPoolExecutor() as pool:
        writing = pool.submit(write, store, done)
        reading = [pool.submit(reader, done) for reader in readers]
        try:
            writing.result()
        finally:
            done.set()
        assert all(future.result() > 0 for future in reading)
    yield


def test_readers_of_the_same_process(tmp_path: Path) -> None:
    with FolderStore.open(tmp_path) as store:

        def read(done: threading.Event) -> int:
            rounds = 0
            while not done.is_set():
                with store.pin() as snapshot:
                    whole(snapshot)
                    whole(snapshot)
                rounds += 1
            return rounds

        with beside(store, read, read):
            whole(store)
            assert store.epoch == EPOCHS


def test_readers_without_the_lock(tmp_path: Path) -> None:
    """They share nothing with the writer but the folder; a vacuum may take their files, and then they look again."""
    with FolderStore.open(tmp_path) as store, FolderStore.open(tmp_path, read_only=True) as follower:

        def follow(done: threading.Event) -> int:
            seen = [follower.epoch]
            while not done.is_set():
                if not follower.refresh():
                    continue
                assert follower.epoch >= seen[-1]
                seen.append(follower.epoch)
                read_unless_vacuumed(follower)
            return len(set(seen)) - 1

        def reopen(done: threading.Event) -> int:
            rounds = 0
            while not done.is_set():
                with FolderStore.open(tmp_path, read_only=True) as reader:
                    read_unless_vacuumed(reader)
                    rounds += 1
            return rounds

        with beside(store, follow, reopen):
            follower.refresh()
            whole(follower)
            assert follower.epoch == EPOCHS


def test_files_named_during_a_pin_outlive_a_vacuum(tmp_path: Path) -> None:
    with FolderStore.open(tmp_path) as store:
        write(store, threading.Event())
        pin = store.pin()
        store.commit(Epoch(EPOCHS + 1, {"people": change([((0, "x"), 1)])}))
        named = store.runs("people")
        store.commit(Epoch(EPOCHS + 1, replaced=("people",)))
        store.vacuum(keep=1)
        assert all(run.file.exists() for run in named)
        pin.close()
        store.vacuum(keep=1)
        assert not any(run.file.exists() for run in named)
        assert store.read("people", FIELDS).num_rows == 0
