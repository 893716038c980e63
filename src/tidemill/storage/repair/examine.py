"""Examining a folder: every referenced file is read, and all damage is reported together.

Opening stops at the first damaged file. This goes on: it finds the newest state that can still be read, what was
acknowledged after it, and which of the files that it references are damaged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.model.errors import Corrupt, StorageError
from tidemill.model.paths import Progress
from tidemill.model.schema import EPOCH, WEIGHT
from tidemill.storage.commits.commit_mark import MARK_FILE, CommitMark, read_mark
from tidemill.storage.commits.format import FORMAT_FILE, read_format
from tidemill.storage.commits.layout import (
    CommittedState,
    Layout,
    has_data_without_manifest,
    newest_log,
    unacknowledged,
    with_log,
)
from tidemill.storage.commits.log import ReplayedLog, log_files
from tidemill.storage.commits.manifest import (
    Manifest,
    WarehouseState,
    is_whole,
    manifest_file,
    manifest_sequences,
    read_manifest,
    state_at,
)
from tidemill.storage.compaction.vacuum import unnamed_files
from tidemill.storage.filesystem.checksums import MISSING_DETAIL
from tidemill.storage.filesystem.file_path import FilePath
from tidemill.storage.filesystem.writer_lock import LOCK_FILE, WRITERS_FOLDER
from tidemill.storage.runs import RunSegment, open_run, translate_read_errors


class FileKind(Enum):
    """The use of a file."""

    FORMAT = "format number"
    MARK = "mark of what was acknowledged"
    MANIFEST = "manifest"
    LOG = "log of small epochs"
    RUN = "rows"


@dataclass(frozen=True, slots=True)
class Damage:
    """A damaged or missing file. For a run, also its map and epochs."""

    kind: FileKind
    file: FilePath
    wrong: str
    part: RunSegment | None = None


@dataclass(frozen=True)
class Examination:
    """The files that were read, those that are damaged, and the newest state that can be read, if any.

    ``acknowledged`` is the last epoch known to have been committed; ``top`` the highest number that a manifest has or
    had.
    """

    damages: tuple[Damage, ...]
    now: CommittedState | None
    acknowledged: int
    top: int
    manifests: int
    records: int
    parts: tuple[RunSegment, ...]
    unknown: tuple[FilePath, ...]
    log: ReplayedLog | None = field(default=None, repr=False)

    @property
    def epoch(self) -> int:
        """The last epoch that can be read."""
        return self.now.epoch if self.now else 0

    @property
    def bytes(self) -> int:
        """Total size of all runs in bytes."""
        return sum(part.run.bytes for part in self.parts)


def examine(layout: Layout, *, full: bool = False, progress: Progress | None = None) -> Examination:
    """Read manifests, log and runs and verify their checksums; with ``full``, also the rows against their manifest.

    If a writer deletes files meanwhile that were referenced a moment ago, the examination is repeated.
    """
    while True:
        newest = manifest_sequences(layout.manifests)[-1:]
        found = _examine(layout, full=full, progress=progress)
        if not found.damages or manifest_sequences(layout.manifests)[-1:] == newest:
            return found


def _examine(layout: Layout, *, full: bool, progress: Progress | None) -> Examination:
    mark = read_mark(layout.root)
    damages = [*_damaged_format(layout), *_damaged_mark(layout, mark)]
    known = manifest_sequences(layout.manifests)
    manifests, bad = _read_manifests(layout, known)
    state = _newest_state(layout, known, mark)
    log = newest_log(layout, state) if state else None
    now = with_log(state, log) if state else None
    damages += [*bad, *_lost_epochs(layout, mark, now, log, bad)]
    parts = [part for name in state.runs for part in CommittedState.of(state).parts(layout.maps, name)] if state else []
    damages += _damaged_runs(parts, full, progress)
    later = [record.epoch for record in log.later] if log and log.lost else []
    said = [manifest.epoch for manifest in manifests.values()] + ([mark.reached] if mark else [])
    return Examination(
        damages=tuple(damages),
        now=now,
        acknowledged=max([now.epoch if now else 0, *said, *later]),
        top=max([0, *known, mark.sequence if mark else 0, *(sequence for sequence, _, _ in log_files(layout.log))]),
        manifests=len(known),
        records=len(log.records) if log else 0,
        parts=tuple(parts),
        unknown=tuple(_unknown(layout, state)),
        log=log,
    )


def _damaged_format(layout: Layout) -> Iterator[Damage]:
    try:
        read_format(layout.root)
    except Corrupt as fault:
        yield Damage(FileKind.FORMAT, layout.root / FORMAT_FILE, str(fault.detail))
    except FileNotFoundError:
        yield Damage(FileKind.FORMAT, layout.root / FORMAT_FILE, MISSING_DETAIL)


def _damaged_mark(layout: Layout, mark: CommitMark | None) -> Iterator[Damage]:
    if mark is None and (layout.root / MARK_FILE).exists():
        yield Damage(FileKind.MARK, layout.root / MARK_FILE, "Its checksum differs.")


def _read_manifests(layout: Layout, known: list[int]) -> tuple[dict[int, Manifest], list[Damage]]:
    """The intact manifests, and the damage: manifests that are not intact, missing in between, or have another
    parent."""
    found: dict[int, Manifest] = {}
    bad: dict[int, str] = {}
    for sequence in known:
        try:
            found[sequence] = read_manifest(layout.manifests, sequence)
            if not is_whole(layout.manifests, sequence):
                bad[sequence] = "One of its two copies is damaged, the other is whole."
        except Corrupt as fault:
            bad[sequence] = str(fault.detail)
    last_full = max((manifest.sequence for manifest in found.values() if manifest.full), default=0)
    for manifest in found.values():
        parent = found.get(manifest.parent)
        if parent is not None and manifest.previous not in (None, parent.seal):
            bad[manifest.parent] = f"It is not the one that manifest {manifest.sequence} was built on."
        needed = not manifest.full and manifest.sequence > last_full
        if parent is None and needed and manifest.parent not in bad:
            bad[manifest.parent] = f"It is missing, and manifest {manifest.sequence} builds on it."
    return found, [
        Damage(FileKind.MANIFEST, manifest_file(layout.manifests, n), wrong) for n, wrong in sorted(bad.items())
    ]


def _newest_state(layout: Layout, known: list[int], mark: CommitMark | None) -> WarehouseState | None:
    """The newest state that the manifests still describe; the empty state if there never was a manifest."""
    for sequence in reversed(known):
        try:
            return state_at(layout.manifests, sequence)
        except Corrupt:
            continue
    new = (
        not known
        and (mark is None or mark.sequence == 0)
        and not has_data_without_manifest(layout, CommittedState.of(WarehouseState()))
    )
    return WarehouseState() if new else None


def _lost_epochs(
    layout: Layout, mark: CommitMark | None, now: CommittedState | None, log: ReplayedLog | None, bad: list[Damage]
) -> Iterator[Damage]:
    """Epochs of the log, or a newest manifest, that were acknowledged and are missing."""
    if now is None:
        if not bad:
            yield Damage(FileKind.MANIFEST, layout.manifests, "All manifests are missing.")
        return
    if log is not None and log.lost:
        yield Damage(FileKind.LOG, log.file, f"The record at byte {log.length} is damaged.")
        return
    gone = unacknowledged(layout, mark, now, log)
    if gone is not None and not any(str(damage.file) == gone.where for damage in bad):
        manifest = str(gone.where).startswith(str(layout.manifests))
        folder = layout.manifests if manifest else layout.log
        file = folder / str(gone.where).rpartition("/")[2]
        yield Damage(FileKind.MANIFEST if manifest else FileKind.LOG, file, str(gone.detail))


def _damaged_runs(parts: list[RunSegment], full: bool, progress: Progress | None) -> Iterator[Damage]:
    done, whole = 0, sum(part.run.bytes for part in parts)
    for part in parts:
        wrong = part.damage() or (_differs(part) if full else None)
        if wrong is not None:
            yield Damage(FileKind.RUN, part.path, wrong, part)
        done += part.run.bytes
        if progress is not None:
            progress(done, whole)


def _differs(part: RunSegment) -> str | None:
    """Describe a run whose row count or epochs differ from its manifest; None if they agree."""
    try:
        with translate_read_errors(part.path), open_run(part.local) as parquet:
            rows = parquet.read()
    except StorageError as fault:
        return str(fault.detail)
    since = pa.scalar(part.run.first, pa.int64())  # rows may have been written before the epoch that took them in
    epochs = pc.min_max(pc.max_element_wise(rows.column(EPOCH), since)).as_py()
    retracted = pc.sum(pc.less(rows.column(WEIGHT), 0)).as_py() or 0
    found = (rows.num_rows, epochs["min"], epochs["max"], retracted)
    said = (part.run.rows, part.run.first, part.run.last, part.run.retracted)
    if found == said:
        return None
    return f"Rows, first and last epoch and retracted rows are {found}, where its manifest says {said}."


def _unknown(layout: Layout, state: WarehouseState | None) -> Iterator[FilePath]:
    """Unreferenced files: from failed commits, merged runs before a vacuum, or foreign files."""
    yield from unnamed_files(layout, state.files() if state else ())
    folders = (layout.manifests, layout.maps, layout.log, layout.quarantine, layout.checkpoints)
    ours = {*(folder.name for folder in (*folders, layout.staging, layout.mapped, layout.published))}
    ours |= {FORMAT_FILE, LOCK_FILE, MARK_FILE, WRITERS_FOLDER}
    yield from sorted((entry for entry in layout.root.iterdir() if entry.name not in ours), key=str)
