"""Writing a repair: one manifest of what is intact, and the damaged files moved to quarantine.

The manifest is full and newer than all others, so it needs none of them, and it is written first: a crash on the way
leaves damaged files in place, but unreferenced.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from tidemill.model.errors import Corrupt
from tidemill.storage.commits.commit_mark import read_mark
from tidemill.storage.commits.format import write_format
from tidemill.storage.commits.layout import CommittedState, Layout
from tidemill.storage.commits.log import log_files
from tidemill.storage.commits.manifest import LostEpochs, manifest_file, manifest_sequences, read_manifest
from tidemill.storage.filesystem.durable_files import translate_os_errors
from tidemill.storage.filesystem.file_system import FilePath, WriterToken, system_of
from tidemill.storage.folder_writer import FolderWriter
from tidemill.storage.repair.examine import Damage, Examination, FileKind
from tidemill.storage.repair.salvage import salvage
from tidemill.storage.runs import RunEntry, RunSegment


@dataclass(frozen=True, slots=True)
class RepairContent:
    """The content of a repair's manifest: the epoch from which it continues, its catalog, and what cannot be read.

    The intact rows of the runs ``saved`` are kept; other damaged runs are dropped entirely.
    """

    epoch: int
    catalog: Mapping[str, object]
    losses: tuple[LostEpochs, ...]
    saved: tuple[RunSegment, ...] = ()


@contextmanager
def exclusive_lock(layout: Layout) -> Iterator[WriterToken]:
    """The writer's lock of a folder in any state; ``LockHeld`` if there is a writer."""
    with translate_os_errors(
        "repair the warehouse", layout.root, "Nothing was changed. Look at the folder and its rights."
    ):
        lock = system_of(layout.root).lock(layout.root, lambda: _highest_token(layout))
    try:
        yield lock
    finally:
        lock.release()


def _highest_token(layout: Layout) -> int:
    mark = read_mark(layout.root)
    tokens = [mark.token if mark else 0, *(token for _, token, _ in log_files(layout.log))]
    for sequence in manifest_sequences(layout.manifests):
        with suppress(Corrupt):
            tokens.append(read_manifest(layout.manifests, sequence).token)
    return max(tokens)


def write_repair(layout: Layout, lock: WriterToken, found: Examination, remedy: RepairContent) -> tuple[FilePath, ...]:
    """Commit what can be read and move damaged files to quarantine; returns their new paths."""
    assert found.now is not None
    with translate_os_errors(
        "repair the warehouse", layout.root, "Run the repair again once there is room and the right to write."
    ):
        layout.create()
        if any(damage.kind is FileKind.FORMAT for damage in found.damages):
            write_format(layout.root)
        _publish(layout, lock, found, remedy)
        return tuple(_set_aside(layout, _bad_files(layout, found)))


def _publish(layout: Layout, lock: WriterToken, found: Examination, remedy: RepairContent) -> None:
    assert found.now is not None
    counts = {name: known for name, known in found.now.state.counts.items() if name not in _damaged_maps(found)}
    now = replace(found.now, state=replace(found.now.state, sequence=found.top, counts=counts))
    writer = FolderWriter(layout, lock, now, synced=True)
    gone = [damage.part.run.file for damage in found.damages if damage.part is not None]
    manifest = replace(
        writer.next(now),
        epoch=remedy.epoch,
        catalog=remedy.catalog,
        removed=tuple(gone),
        added=_saved(writer, now, remedy.saved),
        losses=(*now.state.losses, *remedy.losses),
    )
    try:
        writer.publish(now, manifest, whole=True)
    finally:
        writer.close()


def _damaged_maps(found: Examination) -> set[str]:
    """The maps with damaged runs: what was counted of them may be lost, so they start with the rows that are left."""
    return {damage.part.name for damage in found.damages if damage.part is not None}


def _saved(writer: FolderWriter, now: CommittedState, parts: Sequence[RunSegment]) -> dict[str, tuple[RunEntry, ...]]:
    """New runs of the intact rows of damaged ones."""
    added: dict[str, tuple[RunEntry, ...]] = {}
    for part in parts:
        found = salvage(part)
        if found is not None:
            added[part.name] = (*added.get(part.name, ()), writer.write(found.rows, now, part.name, part.run.altered))
    return added


def _bad_files(layout: Layout, found: Examination) -> list[FilePath]:
    """The damaged files, and manifests and logs that are newer than the state that could be read."""
    assert found.now is not None
    last = found.now.state.sequence
    newer = [manifest_file(layout.manifests, n) for n in manifest_sequences(layout.manifests) if last < n <= found.top]
    orphans = [file for sequence, _, file in log_files(layout.log) if sequence > last]
    damaged = [
        damage.file for damage in found.damages if damage.kind in (FileKind.MANIFEST, FileKind.LOG, FileKind.RUN)
    ]
    return list(dict.fromkeys([*damaged, *newer, *orphans]))


def _set_aside(layout: Layout, files: Sequence[FilePath]) -> Iterator[FilePath]:
    for file in files:
        target = _free(layout.quarantine / str(file.relative_to(layout.root)))
        with suppress(FileNotFoundError):
            system_of(file).move(file, target)
            yield target


def _free(file: FilePath) -> FilePath:
    """An unused name in quarantine: a second repair may move a file of the same name."""
    number = 1
    while file.exists():
        file, number = file.with_name(f"{file.name}.{number}"), number + 1
    return file


def unrepairable(layout: Layout, damages: Sequence[Damage]) -> Corrupt:
    """The error for a folder without any readable manifest."""
    return Corrupt(
        "no manifest can be read",
        where=str(layout.manifests),
        detail=f"{len(damages)} files are damaged, and nothing says which of the others count.",
        hint="Restore the folder of manifests from a backup of the warehouse.",
    )
