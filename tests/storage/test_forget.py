"""Forgetting: rows leave a map, of all epochs, and nothing else changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidemill.changes.changeset import ChangeSet, Epoch
from tidemill.model.types import BIGINT, STRING, Field
from tidemill.program.expiry.entries import ExpiredEntries
from tidemill.storage.folder_store import FolderStore
from tidemill.storage.memory_store import MemoryStore
from tidemill.storage.store import Store

FIELDS = (Field("partition", BIGINT), Field("k", STRING))


@pytest.fixture(params=["memory", "folder"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else FolderStore.open(tmp_path / "wh")


def commit(store: Store, number: int, *rows: tuple[int | None, int], dropped: tuple[str, ...] = ()) -> None:
    change = ChangeSet.of([((partition, "a"), weight) for partition, weight in rows], FIELDS)
    store.commit(Epoch(number, {"m": change, "other": change}, dropped=dropped))


def rows(store: Store, name: str = "m") -> list[tuple[int | None, int, int]]:
    table = store.read(name, FIELDS)
    return sorted(zip(*(table[c].to_pylist() for c in ("partition", "_weight", "_epoch")), strict=True), key=repr)


def test_rows_below_are_gone_and_others_stay(store: Store) -> None:
    commit(store, 1, (1, 1), (2, 1), (None, 1))
    commit(store, 2, (2, -1), (3, 1))
    store.forget([ExpiredEntries("m", 0, "partition", below=3)], now=True)
    assert rows(store) == [(3, 1, 2), (None, 1, 1)]
    assert len(rows(store, "other")) == 5
    commit(store, 3, (1, 1))
    assert rows(store) == [(1, 1, 3), (3, 1, 2), (None, 1, 1)]
    assert store.epoch == 3


def test_ends_stay_where_they_are_there(store: Store) -> None:
    """What has come and gone is no end: only the sum of all epochs tells."""
    commit(store, 1, (1, 1), (2, 1), (4, 1), (6, 1), (8, 1))
    commit(store, 2, (1, -1), (6, -1), (4, 1))
    store.forget([ExpiredEntries("m", 0, "partition", below=7, ends=True)], now=True)
    assert rows(store) == [(2, 1, 1), (4, 1, 1), (4, 1, 2), (8, 1, 1)]
    store.forget([ExpiredEntries("m", 0, "partition", below=9, ends=True)], now=True)
    assert rows(store) == [(2, 1, 1), (8, 1, 1)]


def test_a_folder_forgets_with_the_next_checkpoint(tmp_path: Path) -> None:
    store = FolderStore.open(tmp_path / "wh")
    commit(store, 1, (1, 1), (5, 1))
    store.forget([ExpiredEntries("m", 0, "partition", below=4)])
    assert rows(store) == [(1, 1, 1), (5, 1, 1)]
    store.close()
    store = FolderStore.open(tmp_path / "wh")
    assert rows(store) == [(5, 1, 1)] and rows(store, "other") == [(1, 1, 1), (5, 1, 1)]
    store.forget([ExpiredEntries("m", 0, "partition", below=9)])
    commit(store, 2, (2, 1), dropped=("m",))
    store.close()
    store = FolderStore.open(tmp_path / "wh")
    assert rows(store) == [(2, 1, 2)], "a new map of an old name is something else"
    store.close()
