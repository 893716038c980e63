"""Sweeping a folder: what nothing names, and whether what is named is there."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from tidemill.model.errors import Corrupt
from tidemill.storage.files import fault
from tidemill.storage.layout import Layout
from tidemill.storage.log import logs
from tidemill.storage.manifest import State, manifest_file, sequences
from tidemill.storage.runs import verify_run


@dataclass(frozen=True, slots=True)
class Inspection:
    """What ``check`` has read, and the files below the folder of maps that no manifest names."""

    files: int
    bytes: int
    strays: tuple[Path, ...]


def inspect(layout: Layout, state: State) -> Inspection:
    """Read every run and compare it with its checksum; ``Corrupt`` lists all that differ."""
    runs = [run for runs in state.runs.values() for run in runs]
    wrong = [trouble for run in runs if (trouble := verify_run(layout.maps / run.file, run))]
    if wrong:
        raise Corrupt(
            f"{len(wrong)} of {len(runs)} files are damaged",
            where=str(layout.maps),
            detail="; ".join(wrong) + ".",
            hint="Restore them from a backup, or drop the views that they belong to and create them again.",
        )
    return Inspection(len(runs), sum(run.bytes for run in runs), tuple(strays(layout, state.files())))


def strays(layout: Layout, named: Collection[str]) -> list[Path]:
    """Files below the folder of maps that are not among ``named``: from commits that failed, or merged since."""
    files = (file for file in layout.maps.rglob("*") if file.is_file())
    return sorted(file for file in files if str(file.relative_to(layout.maps)) not in named)


def sweep(layout: Layout, named: Collection[str], state: State) -> int:
    """Delete runs that are not ``named`` and manifests and logs before ``state``; returns the bytes of all.

    Its manifest must be a full one. What is deleted is named by nothing, so a crash on the way is harmless.
    """
    freed = 0
    for file in [*strays(layout, named), *_passed(layout, state)]:
        freed += file.stat().st_size
        file.unlink()
        fault("during-vacuum")
    for folder in layout.maps.iterdir():
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
    return freed


def _passed(layout: Layout, state: State) -> list[Path]:
    passed = (number for number in sequences(layout.manifests) if number < state.sequence)
    manifests = [manifest_file(layout.manifests, number) for number in passed]
    return [*manifests, *layout.manifests.glob(".*.draft"), *passed_logs(layout, state)]


def passed_logs(layout: Layout, state: State) -> list[Path]:
    """Logs that a manifest has taken in, left by a crash right after it."""
    return [file for number, _, file in logs(layout.log) if number < state.log]
