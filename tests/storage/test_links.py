"""Symbolic links below a warehouse folder: refused at every level, and what they lead to is left alone."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.storage.samples import FIELDS, commit, contents, files
from tidemill.changes.changeset import ChangeSet, Epoch
from tidemill.changes.zset import ZSet
from tidemill.model.errors import Corrupt, StorageError
from tidemill.storage.commits.manifest import Manifest, manifest_file, read_manifest, write_manifest
from tidemill.storage.folder_store import FolderStore

ANN, BOB = (1, "ann"), (2, "bob")
REFUSED = "a symbolic link in a warehouse is not followed"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A warehouse with a run in files, an epoch in the log, and every folder that there can be."""
    folder = tmp_path / "warehouse"
    with FolderStore.open(tmp_path / "open") as store:
        store.commit(Epoch(1, {"people": ChangeSet.of([(ANN, 1)], FIELDS)}, catalog={}))
        commit(store, 2, [(BOB, 1)])
        shutil.copytree(tmp_path / "open", folder)  # as a crash leaves it
    (folder / "checkpoints" / "query").mkdir(parents=True)
    (folder / "staging" / "ab-1").mkdir()
    return folder


def moved_behind_a_link(path: Path, elsewhere: Path) -> Path:
    """Put what is at ``path`` elsewhere, and a link to it in its place."""
    target = elsewhere / path.name
    elsewhere.mkdir(exist_ok=True)
    shutil.move(path, target)
    path.symlink_to(target)
    return target


PLACES: dict[str, Callable[[Path], Path]] = {
    "format": lambda folder: folder / "tidemill.json",
    "lock": lambda folder: folder / "lock",
    "the mark": lambda folder: folder / "acknowledged",
    "manifests": lambda folder: folder / "manifests",
    "a manifest": lambda folder: files(folder / "manifests", ".json")[0],
    "maps": lambda folder: folder / "maps",
    "the folder of a map": lambda folder: next((folder / "maps").iterdir()),
    "log": lambda folder: folder / "log",
    "a log": lambda folder: files(folder, ".log")[0],
    "staging": lambda folder: folder / "staging",
    "a staged folder": lambda folder: folder / "staging" / "ab-1",
    "checkpoints": lambda folder: folder / "checkpoints",
    "a checkpoint": lambda folder: folder / "checkpoints" / "query",
}


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("place", PLACES)
def test_a_warehouse_with_a_link_is_not_opened(folder: Path, place: str, read_only: bool) -> None:
    target = moved_behind_a_link(PLACES[place](folder), folder.parent / "elsewhere")
    before = snapshot(folder.parent / "elsewhere")
    with pytest.raises(StorageError, match=REFUSED) as caught:
        FolderStore.open(folder, read_only=read_only)
    assert str(caught.value.where).startswith(str(folder))
    assert target.exists()
    assert snapshot(folder.parent / "elsewhere") == before


def snapshot(folder: Path) -> dict[str, bytes | None]:
    """Everything below a folder, with its content."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def test_a_folder_behind_staging_keeps_its_files(folder: Path) -> None:
    """Opening clears what a crash left in staging."""
    precious = folder.parent / "precious"
    (precious / "photos").mkdir(parents=True)
    (precious / "photos" / "1.jpg").write_bytes(b"smile")
    shutil.rmtree(folder / "staging")
    (folder / "staging").symlink_to(precious)
    with pytest.raises(StorageError, match=REFUSED):
        FolderStore.open(folder)
    assert (precious / "photos" / "1.jpg").read_bytes() == b"smile"


def test_a_run_behind_a_link_is_not_read(folder: Path) -> None:
    target = moved_behind_a_link(files(folder)[0], folder.parent / "elsewhere")
    with FolderStore.open(folder) as store:
        for reading in (lambda: contents(store), lambda: store.runs("people"), store.check):
            with pytest.raises(StorageError, match=REFUSED):
                reading()
        store.vacuum(keep=1)
    assert target.exists()


def test_a_stray_link_goes_and_what_it_leads_to_stays(folder: Path) -> None:
    target = folder.parent / "elsewhere.txt"
    target.write_text("mine")
    stray = next((folder / "maps").iterdir()) / "stray.parquet"
    with FolderStore.open(folder) as store:
        stray.symlink_to(target)
        store.vacuum(keep=1)
    assert not stray.is_symlink()
    assert target.read_text() == "mine"


def test_a_link_that_comes_while_the_warehouse_is_open_is_not_written_through(folder: Path) -> None:
    target = folder.parent / "elsewhere.txt"
    target.write_text("mine")
    with FolderStore.open(folder) as store:
        manifest = max((folder / "manifests").glob("*.json"))
        draft = manifest.with_name(f".{int(manifest.stem) + 1:020}.json.{os.getpid()}.draft")
        draft.symlink_to(target)
        store.commit(Epoch(2, catalog={"a": 1}))
    assert target.read_text() == "mine"


def test_the_folder_itself_may_be_reached_by_a_link(folder: Path) -> None:
    link = folder.parent / "link"
    link.symlink_to(folder)
    with FolderStore.open(link) as store:
        assert contents(store) == ZSet({ANN: 1, BOB: 1})
        commit(store, 3, [(ANN, -1)])
        store.vacuum(keep=1)
    with FolderStore.open(folder, read_only=True) as store:
        assert contents(store) == ZSet({BOB: 1})


@pytest.mark.parametrize("wrong", ["../../people.parquet", "/etc/passwd", "ab/../../x", ".", "ab", "ab/.x"])
def test_a_manifest_cannot_name_files_outside(folder: Path, wrong: str) -> None:
    found = taken_out(folder)
    (runs,) = found.added.values()
    write_manifest(folder / "manifests", replace(found, added={"people": tuple(replace(r, file=wrong) for r in runs)}))
    with pytest.raises(Corrupt, match="is damaged"):
        FolderStore.open(folder)


def taken_out(folder: Path) -> Manifest:
    """The newest manifest, which is gone then."""
    newest = max(int(file.stem) for file in (folder / "manifests").glob("*.json"))
    found = read_manifest(folder / "manifests", newest)
    manifest_file(folder / "manifests", newest).unlink()
    return found


@pytest.mark.parametrize("wrong", ["..", "a/b", "/tmp", ""])
def test_a_manifest_cannot_name_folders_outside(folder: Path, wrong: str) -> None:
    write_manifest(folder / "manifests", replace(taken_out(folder), ids={"people": wrong}))
    with pytest.raises(Corrupt, match="is damaged"):
        FolderStore.open(folder)
