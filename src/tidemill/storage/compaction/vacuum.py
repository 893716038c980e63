"""Vacuum: finding and deleting unreferenced files, and checking the referenced ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatch

from tidemill.model.errors import Corrupt
from tidemill.storage.commits.layout import CommittedState, Layout
from tidemill.storage.commits.log import log_files
from tidemill.storage.commits.manifest import WarehouseState, manifest_file, manifest_sequences
from tidemill.storage.filesystem.durable_files import RESTORE_HINT, fault
from tidemill.storage.filesystem.file_system import FilePath, system_of
from tidemill.storage.mapped.run_lookups import delete_unnamed


@dataclass(frozen=True, slots=True)
class Inspection:
    """The files that ``check`` has read, and those below the folder of maps that no manifest references."""

    files: int
    bytes: int
    strays: tuple[FilePath, ...]


def inspect_files(layout: Layout, state: WarehouseState) -> Inspection:
    """Read every run and compare it with its checksum; ``Corrupt`` lists all that differ."""
    parts = [part for name in state.runs for part in CommittedState.of(state).parts(layout.maps, name)]
    found = [(part, part.damage()) for part in parts]
    bad = [f"{part.run.file}: {wrong} {part.holds}" for part, wrong in found if wrong]
    if bad:
        raise Corrupt(
            f"{len(bad)} of {len(parts)} files are damaged",
            where=str(layout.maps),
            detail=" ".join(bad),
            hint=RESTORE_HINT,
        )
    return Inspection(len(parts), sum(part.run.bytes for part in parts), tuple(unnamed_files(layout, state.files())))


def unnamed_files(layout: Layout, named: Collection[str]) -> list[FilePath]:
    """Files below the folder of maps that are not in ``named``: left by failed commits, or merged since."""
    layout.refuse_links()
    files = system_of(layout.maps).files_below(layout.maps)
    return sorted((file for file in files if str(file.relative_to(layout.maps)) not in named), key=str)


def vacuum_files(layout: Layout, named: Collection[str], state: WarehouseState, token: int) -> int:
    """Delete runs that are not in ``named``, and manifests and logs older than ``state``; returns the bytes freed.

    The manifest of ``state`` must be a full one. Only unreferenced files are deleted, so a crash on the way is
    harmless.
    """
    return delete_unnamed_runs(layout, named, token) + _delete(_absorbed_files(layout, state))


def delete_unnamed_runs(layout: Layout, named: Collection[str], token: int) -> int:
    """Delete runs that are not in ``named``, and what was derived from them; returns the bytes freed.

    Runs of writers with a greater token stay: one of them may have taken over, and this writer not know it yet.
    """
    freed = _delete(file for file in unnamed_files(layout, named) if _token_of(file) <= token)
    freed += delete_unnamed(layout.mapped, named)
    system_of(layout.maps).delete_empty_folders(layout.maps)
    return freed


def _token_of(run: FilePath) -> int:
    """The token of the writer of a run, by its name; 0 for a file of another name."""
    first, _, _ = run.name.partition("-")
    return int(first) if first.isdigit() else 0


def _delete(files: Iterable[FilePath]) -> int:
    freed = 0
    for file in files:
        with suppress(FileNotFoundError):  # another writer was faster
            freed += file.lstat().st_size
            file.unlink()
        fault("during-vacuum")
    return freed


def _absorbed_files(layout: Layout, state: WarehouseState) -> list[FilePath]:
    drafts = [file for file in system_of(layout.manifests).entries(layout.manifests) if fnmatch(file.name, ".*.draft")]
    passed = (number for number in manifest_sequences(layout.manifests) if number < state.sequence)
    manifests = [manifest_file(layout.manifests, number) for number in passed]
    return [*manifests, *drafts, *absorbed_logs(layout, state)]


def absorbed_logs(layout: Layout, state: WarehouseState) -> list[FilePath]:
    """Logs whose epochs are all in a manifest: a crash right after that manifest leaves them behind."""
    return [file for number, _, file in log_files(layout.log) if number < state.log_start[0]]
