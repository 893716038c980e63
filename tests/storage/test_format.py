"""The folder's format: newer ones are refused, older ones brought along."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tidemill.model.errors import Corrupt, FormatMismatch, StorageError
from tidemill.storage.commits import format as format_
from tidemill.storage.folder_store import FolderStore


def test_a_new_folder_says_its_format(tmp_path: Path) -> None:
    FolderStore.open(tmp_path / "deep" / "inside").close()
    said = json.loads((tmp_path / "deep" / "inside" / "tidemill.json").read_text())
    assert said["format"] == format_.FORMAT == format_.read_format(tmp_path / "deep" / "inside")


@pytest.mark.parametrize("read_only", [True, False])
def test_a_newer_format_is_refused(tmp_path: Path, read_only: bool) -> None:
    FolderStore.open(tmp_path).close()
    (tmp_path / "tidemill.json").write_bytes(format_._encoded(99))
    with pytest.raises(FormatMismatch, match="format 99") as caught:
        FolderStore.open(tmp_path, read_only=read_only)
    assert "upgrade" in str(caught.value.hint)


def test_an_older_format_is_migrated_in_steps(tmp_path: Path) -> None:
    (tmp_path / "tidemill.json").write_text('{"format": -1}')
    steps: list[str] = []
    migrations = {-1: lambda folder: steps.append("-1 to 0"), 0: lambda folder: steps.append("0 to 1")}
    format_.migrate(tmp_path, {**migrations, **format_.MIGRATIONS})
    assert steps == ["-1 to 0", "0 to 1"]
    assert format_.read_format(tmp_path) == format_.FORMAT


def test_a_migration_that_fails_runs_again(tmp_path: Path) -> None:
    (tmp_path / "tidemill.json").write_text('{"format": 0}')

    def fail(folder: Path) -> None:
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        format_.migrate(tmp_path, {0: fail})
    assert format_.read_format(tmp_path) == 0


def test_an_older_format_without_a_way_is_refused(tmp_path: Path) -> None:
    FolderStore.open(tmp_path).close()
    (tmp_path / "tidemill.json").write_text('{"format": 0}')
    with pytest.raises(FormatMismatch, match="no way from format 0"):
        FolderStore.open(tmp_path)
    with pytest.raises(FormatMismatch, match="means writing"):
        FolderStore.open(tmp_path, read_only=True)


@pytest.mark.parametrize("content", ["", "[]", "{}", "nonsense"])
def test_a_damaged_format_file_is_named(tmp_path: Path, content: str) -> None:
    FolderStore.open(tmp_path).close()
    (tmp_path / "tidemill.json").write_text(content)
    with pytest.raises(Corrupt, match=r"tidemill\.json is damaged"):
        FolderStore.open(tmp_path)


def test_a_folder_of_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.doc").write_text("mine")
    with pytest.raises(StorageError, match="not a warehouse"):
        FolderStore.open(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.doc"]


@pytest.mark.parametrize("options", [{"create": False}, {"read_only": True}])
def test_nothing_is_made_where_nothing_should_be(tmp_path: Path, options: dict[str, bool]) -> None:
    with pytest.raises(StorageError, match="no warehouse"):
        FolderStore.open(tmp_path / "absent", **options)
    assert not (tmp_path / "absent").exists()


def test_a_path_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot open"):
        FolderStore.open(tmp_path / "file")
