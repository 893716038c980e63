"""A joint commit: several commits of one thread become one, or none."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.storage.samples import FIELDS, change, commit, contents, feed
from tests.storage.test_store import ANN, BOB, EVE, store
from tidemill.changes.alterations import Alteration
from tidemill.changes.changeset import Epoch
from tidemill.changes.zset import ZSet
from tidemill.model.errors import StorageError
from tidemill.model.types import BIGINT, Field
from tidemill.storage.folder_store import FolderStore
from tidemill.storage.store import Store

__all__ = ["store"]

SAID: dict[str, Any] = {"catalog": {"of": "then"}, "positions": {"source": "1"}}


def begin(store: Store) -> None:
    commit(store, 1, [(ANN, 1), (BOB, 1)], **SAID)
    commit(store, 2, [(EVE, 1)], name="others")
    commit(store, 3, [(EVE, 1)])


def redefine(store: Store) -> None:
    """Commits of each kind, all of the next epoch."""
    assert store.epoch == 4
    commit(store, 4, [(ANN, -1)], catalog={"of": "now"}, positions={"source": "2"})
    commit(store, 4, [(BOB, 1)], name="fresh")
    commit(store, 4, [(BOB, 1)], name="people", replaced=("people",), dropped=("others",))
    store.commit(Epoch(4, renamed={"fresh": "renamed"}))
    store.commit(Epoch(4, {"renamed": change([(EVE, 1)])}, altered={"people": (Alteration("drop", "name"),)}))


def fail(store: Store, then: Callable[[], None]) -> None:
    """A joint commit in which something goes wrong."""
    with store.joint():
        redefine(store)
        then()
        raise ZeroDivisionError


def seen_elsewhere(store: Store) -> list[Any]:
    """What another thread sees meanwhile."""
    found: list[Any] = []
    look = Thread(target=lambda: found.extend([store.epoch, store.catalog, store.positions, contents(store)]))
    look.start()
    look.join()
    return found


def before(store: Store) -> list[Any]:
    return [3, {"of": "then"}, {"source": "1"}, ZSet.of([ANN, BOB, EVE])]


def test_it_is_one_commit_and_nobody_sees_half_of_it(store: Store) -> None:
    begin(store)
    with store.joint():
        redefine(store)
        assert contents(store, "renamed") == ZSet.of([BOB, EVE]) and not store.rows("others")
        assert seen_elsewhere(store) == before(store)
    assert (store.epoch, store.catalog, store.positions) == (4, {"of": "now"}, {"source": "2"})
    assert store.read("people", FIELDS[:1]).to_pylist() == [{"id": 2, "_weight": 1, "_epoch": 4}]
    assert contents(store, "renamed") == ZSet.of([BOB, EVE]) and not store.rows("others")
    assert store.read("people", FIELDS[:1], until=3).num_rows == 3
    assert feed(store, 3, "renamed") == {4: ZSet.of([BOB, EVE])}
    assert list(store.history()) == [1, 4]
    commit(store, 5, [(EVE, 1)], name="others")
    assert contents(store, "others") == ZSet.of([EVE])


def test_an_error_undoes_all_of_it(store: Store) -> None:
    begin(store)
    with pytest.raises(ZeroDivisionError):
        fail(store, lambda: None)
    store.recover()
    assert [store.epoch, store.catalog, store.positions, contents(store)] == before(store)
    assert contents(store, "others") == ZSet.of([EVE]) and not store.rows("renamed") and list(store.history()) == [1]
    commit(store, 4, [(ANN, -1)])
    assert contents(store) == ZSet.of([BOB, EVE])
    with store.joint():
        commit(store, 5, [(ANN, 1)])
    assert feed(store, 3) == {4: ZSet({ANN: -1}), 5: ZSet({ANN: 1})}


def recover_within(store: Store) -> None:
    with store.joint():
        redefine(store)
        store.recover()


def test_what_an_error_has_undone_is_not_committed(store: Store) -> None:
    begin(store)
    with pytest.raises(StorageError, match="undone"):
        recover_within(store)
    store.recover()
    assert [store.epoch, store.catalog, store.positions, contents(store)] == before(store)


def test_it_is_there_when_the_folder_is_opened_again(tmp_path: Path) -> None:
    for number in range(2):
        with FolderStore.open(tmp_path / f"{number}") as first:
            begin(first)
            with first.joint():
                redefine(first)
            if number:
                commit(first, 5, [(EVE, 1)], name="later")
        with FolderStore.open(tmp_path / f"{number}") as again:
            assert (again.epoch, again.catalog) == (4 + number, {"of": "now"})
            assert contents(again, "renamed") == ZSet.of([BOB, EVE])
            assert again.read("people", (Field("id", BIGINT),)).num_rows == 1
            again.check()
            again.vacuum(1)
            assert contents(again, "renamed") == ZSet.of([BOB, EVE])


@pytest.mark.parametrize("is_new", [True, False])
def test_a_process_that_dies_in_the_middle_leaves_what_was(tmp_path: Path, is_new: bool) -> None:
    with FolderStore.open(tmp_path / "w") as first:
        if not is_new:
            begin(first)
        with first.joint():
            commit(first, first.epoch, [(EVE, 1)], name="fresh")
            shutil.copytree(tmp_path / "w", tmp_path / "then")
    with FolderStore.open(tmp_path / "then") as again:
        assert again.epoch == (0 if is_new else 3) and not again.rows("fresh")
        assert len(contents(again)) == (0 if is_new else 3)


def test_files_of_a_joint_commit_that_was_not_made_are_gone(tmp_path: Path) -> None:
    with FolderStore.open(tmp_path) as first:
        begin(first)
        first.checkpoint()
        files, more = {*tmp_path.rglob("*.parquet")}, set[Path]()
        with pytest.raises(ZeroDivisionError):
            fail(first, lambda: more.update(tmp_path.rglob("*.parquet")))
        assert more > files
        first.recover()
        assert {*tmp_path.rglob("*.parquet")} == files
