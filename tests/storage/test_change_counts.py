"""Counts of changes: the same whether epochs are in the log, in runs, in memory, or were read from a folder again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tidemill.changes.changeset import ChangeSet, Epoch
from tidemill.model.types import BIGINT, Field
from tidemill.storage.change_counts import HALF_LIFE, NO_CHANGES, ChangeCounts
from tidemill.storage.commits.manifest import Manifest, WarehouseState, read_manifest, write_manifest
from tidemill.storage.folder_store import FolderStore
from tidemill.storage.memory_store import MemoryStore
from tidemill.storage.runs import RunEntry
from tidemill.storage.store import Store

FIELDS = (Field("a", BIGINT),)


def history(epochs: int) -> list[list[tuple[tuple[int], int]]]:
    """Changes of a map, epoch by epoch: some insert, some delete, some do both."""
    random = Random(5)
    return [
        [((random.randrange(9),), random.choice((-2, -1, 1, 1, 3))) for _ in range(random.randrange(1, 4))]
        for _ in range(epochs)
    ]


def commit(store: Store, number: int, pairs: list[tuple[tuple[int], int]]) -> None:
    change = ChangeSet.of(pairs, FIELDS)
    if number % 3 == 0:
        change = ChangeSet.of_arrow(change.arrow(), FIELDS)
    store.commit(Epoch(number, {"t": change}))


def expected(changes: list[list[tuple[tuple[int], int]]]) -> ChangeCounts:
    """The same counts, by the definition of each."""
    found = NO_CHANGES
    for number, pairs in enumerate(changes, 1):
        came = sum(weight for _, weight in pairs if weight > 0)
        left = -sum(weight for _, weight in pairs if weight < 0)
        both = min(came, left)
        kinds = (came - both, both, left - both)
        found += ChangeCounts(*kinds, 1, number, (float(kinds[0]), float(kinds[1]), float(kinds[2])))
    return found


def same(one: ChangeCounts, other: ChangeCounts) -> bool:
    assert one.recent == pytest.approx(other.recent)
    return replace(one, recent=(0, 0, 0)) == replace(other, recent=(0, 0, 0))


@pytest.mark.parametrize("kind", ["memory", "folder"])
def test_counts_follow_the_changes_through_log_runs_and_merges(kind: str, tmp_path: Path) -> None:
    changes = history(200)
    store: Store = MemoryStore() if kind == "memory" else FolderStore.open(tmp_path)
    for number, pairs in enumerate(changes, 1):
        commit(store, number, pairs)
        if number == 70 and isinstance(store, FolderStore):
            store.checkpoint()
        if number in (100, 150):
            store.read("t", FIELDS)
            assert same(store.counts("t"), expected(changes[:number]))
        if number == 120 and isinstance(store, FolderStore):
            store.close()
            store = FolderStore.open(tmp_path)
    assert same(store.counts("t"), expected(changes))
    assert store.bytes("t") > 0
    store.commit(Epoch(200, dropped=("t",)))
    assert store.counts("t").changes == 0
    store.close()


def test_a_reader_and_a_crash_see_the_counts_of_committed_epochs(tmp_path: Path) -> None:
    changes = history(20)
    with FolderStore.open(tmp_path) as store:
        for number, pairs in enumerate(changes, 1):
            commit(store, number, pairs)
        reader = FolderStore.open(tmp_path, read_only=True)  # nothing but the log has them yet
        assert same(reader.counts("t"), expected(changes))


def test_recent_changes_halve() -> None:
    counts = ChangeCounts(inserted=8, epochs=1, last=10, recent=(8.0, 0.0, 0.0))
    assert counts.recent_at(10 + HALF_LIFE) == (4.0, 0.0, 0.0)
    assert counts.recent_at(10 + 3 * HALF_LIFE) == (1.0, 0.0, 0.0)


def test_a_map_that_was_never_counted_starts_with_its_rows() -> None:
    run = RunEntry("x/1.parquet", rows=10, bytes=1, checksum=0, first=1, last=3, retracted=2)
    before = WarehouseState(sequence=1, epoch=3, ids={"t": "x"}, runs={"t": (run,)})
    assert before.counts_of("t").rows == 6
    new = ChangeCounts(inserted=1, epochs=1, last=4, recent=(1.0, 0.0, 0.0))
    after = Manifest(2, 1, full=False, token=1, epoch=4, oldest=0, written="", counts={"t": new}).apply(before)
    assert (after.counts["t"].rows, after.counts["t"].last) == (7, 4)


def test_manifests_of_older_formats_have_no_counts(tmp_path: Path) -> None:
    counts = {"t": ChangeCounts(1, 2, 3, 4, 5, (0.5, 0.25, 0.0))}
    write_manifest(tmp_path, Manifest(1, 0, full=True, token=1, epoch=5, oldest=0, written="", counts=counts))
    write_manifest(tmp_path, Manifest(2, 1, full=False, token=1, epoch=5, oldest=0, written=""))
    assert read_manifest(tmp_path, 1).counts == counts
    line = next(tmp_path.glob("*2.json")).read_text().splitlines()[0]
    assert "counts" not in json.loads(line)
    assert read_manifest(tmp_path, 2).apply(read_manifest(tmp_path, 1).apply(WarehouseState())).counts == counts
