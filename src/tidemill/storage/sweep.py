"""Sweeping a folder: what nothing names, and whether what is named is there."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from tidemill.model.errors import Corrupt
from tidemill.storage.files import RESTORE, fault
from tidemill.storage.layout import Current, Layout
from tidemill.storage.log import logs
from tidemill.storage.manifest import State, manifest_file, sequences


@dataclass(frozen=True, slots=True)
class Inspection:
    """What ``check`` has read, and the files below the folder of maps that no manifest names."""

    files: int
    bytes: int
    strays: tuple[Path, ...]


def inspect(layout: Layout, state: State) -> Inspection:
    """Read every run and compare it with its checksum; ``Corrupt`` lists all that differ."""
    parts = [part for name in state.runs for part in Current.of(state).parts(layout.maps, name)]
    found = [(part, part.wrong(again=True)) for part in parts]
    bad = [f"{part.run.file}: {wrong} {part.holds}" for part, wrong in found if wrong]
    if bad:
        raise Corrupt(
            f"{len(bad)} of {len(parts)} files are damaged", where=str(layout.maps), detail=" ".join(bad), hint=RESTORE
        )
    return Inspection(len(parts), sum(part.run.bytes for part in parts), tuple(strays(layout, state.files())))


def strays(layout: Layout, named: Collection[str]) -> list[Path]:
    """Files below the folder of maps that are not among ``named``: from commits that failed, or merged since."""
    layout.refuse_links()
    files = (file for file in layout.maps.rglob("*") if file.is_file() or file.is_symlink())
    return sorted(file for file in files if str(file.relative_to(layout.maps)) not in named)


def sweep(layout: Layout, named: Collection[str], state: State) -> int:
    """Delete runs that are not ``named`` and manifests and logs before ``state``; returns the bytes of all.

    Its manifest must be a full one. What is deleted is named by nothing, so a crash on the way is harmless.
    """
    return sweep_runs(layout, named) + _delete(_passed(layout, state))


def sweep_runs(layout: Layout, named: Collection[str]) -> int:
    """Delete runs that are not ``named``; returns their bytes."""
    freed = _delete(strays(layout, named))
    for folder in layout.maps.iterdir():
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
    return freed


def _delete(files: Iterable[Path]) -> int:
    freed = 0
    for file in files:
        freed += file.lstat().st_size
        file.unlink()
        fault("during-vacuum")
    return freed


def _passed(layout: Layout, state: State) -> list[Path]:
    passed = (number for number in sequences(layout.manifests) if number < state.sequence)
    manifests = [manifest_file(layout.manifests, number) for number in passed]
    return [*manifests, *layout.manifests.glob(".*.draft"), *passed_logs(layout, state)]


def passed_logs(layout: Layout, state: State) -> list[Path]:
    """Logs that a manifest has taken in, left by a crash right after it."""
    return [file for number, _, file in logs(layout.log) if number < state.log_start[0]]
