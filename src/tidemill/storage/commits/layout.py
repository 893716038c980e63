"""The files of a warehouse folder, and recovery of its state.

::

    warehouse/
      tidemill.json                         the format number
      lock                                  who writes, on a disk
      writers/00000007.json                 who writes, in an object store
      acknowledged                          how far commits have returned
      manifests/00000000000000000042.json   one per commit; the newest is the warehouse
      maps/<id>/<token>-<number>.parquet    runs: weighted rows with their epochs
      log/<sequence>-<token>.log            small epochs that wait for the next manifest
      mapped/<id>/                          columns and lookup indexes of runs, which can be made again
      published/<id>/                       the same of published tables, by which rows are found there
      staging/                              files that runtimes write for an epoch to come
      quarantine/                           damaged files that a repair has set aside
      checkpoints/                          Spark's checkpoints of streaming queries
      refreshes/                            the refresh log, on which nothing depends

In an object store a log is a folder of numbered pieces. Staged and mapped files, checkpoints and the refresh log are on
a disk of this machine. Files of other names are never read and never deleted, except below ``maps``, ``mapped``,
``published`` and ``staging``. Symbolic links are refused (``filesystem/symlinks.py``).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tidemill.model.errors import Corrupt
from tidemill.storage.commits.commit_mark import MARK_FILE, CommitMark, read_mark
from tidemill.storage.commits.format import FORMAT_FILE
from tidemill.storage.commits.log import ReplayedLog, log_file, log_files, replay
from tidemill.storage.commits.manifest import (
    WarehouseState,
    latest_state,
    manifest_file,
    manifest_sequences,
    read_manifest,
)
from tidemill.storage.filesystem.durable_files import damaged, missing
from tidemill.storage.filesystem.file_system import DISK, FilePath, system_of
from tidemill.storage.filesystem.writer_lock import LOCK_FILE
from tidemill.storage.mapped.run_lookups import RunLookups
from tidemill.storage.runs import RunSegment
from tidemill.storage.segments import RecentEpochs

RETRIES = 100

FIRST_COMMIT_WAIT = 2.0
"""Seconds that a reader waits for the manifest of a first commit whose runs it sees."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The folders of a warehouse, on the file system of ``root``."""

    root: FilePath

    @property
    def manifests(self) -> FilePath:
        """One file per commit."""
        return self.root / "manifests"

    @property
    def maps(self) -> FilePath:
        """A folder of runs for each map."""
        return self.root / "maps"

    @property
    def mapped(self) -> Path:
        """A folder of derived files for each map, on a disk of this machine."""
        return system_of(self.root).mapped(self.root)

    @property
    def published(self) -> Path:
        """A folder of derived files for each published table, on a disk of this machine."""
        return self.mapped.parent / "published"

    @property
    def log(self) -> FilePath:
        """Epochs that are not in a manifest yet."""
        return self.root / "log"

    @property
    def staging(self) -> Path:
        """Files for the next epoch, on a disk of this machine."""
        return system_of(self.root).staging(self.root)

    @property
    def quarantine(self) -> FilePath:
        """Damaged files that a repair has set aside."""
        return self.root / "quarantine"

    @property
    def checkpoints(self) -> FilePath:
        """One folder for each streaming query, written by Spark."""
        return self.root / "checkpoints"

    def refuse_links(self) -> None:
        """Refuse a warehouse with symbolic links among its files and folders; runs are checked when they are read."""
        folders = (self.manifests, self.maps, self.log, self.quarantine, self.checkpoints)
        system_of(self.root).refuse_links(self.root, (FORMAT_FILE, LOCK_FILE, MARK_FILE), folders)
        for local in (self.staging, self.mapped, self.published):
            DISK.refuse_links(local.parent, (), (local,))

    def create(self) -> None:
        """Create the folders that do not exist."""
        for folder in (self.manifests, self.maps, self.log):
            system_of(folder).make_folder(folder)
        DISK.make_folder(self.staging)


@dataclass(frozen=True, slots=True)
class CommittedState:
    """The last committed epoch: the newest manifest's state and the epochs in the log after it."""

    state: WarehouseState
    tail: RecentEpochs
    epoch: int
    positions: Mapping[str, str]

    @classmethod
    def of(cls, state: WarehouseState) -> CommittedState:
        """The state right after a manifest: the log is empty."""
        return cls(state, RecentEpochs(), state.epoch, state.positions)

    def parts(self, maps: FilePath, name: str, lookups: RunLookups | None = None) -> list[RunSegment]:
        """The runs of a map; ``lookups`` find rows in their mapped files."""
        state = self.state
        return [
            RunSegment(run, maps / run.file, name, lookups, state.later_alterations(name, run))
            for run in state.runs.get(name, ())
        ]


def recover(layout: Layout) -> CommittedState:
    """The committed state of a folder: the newest manifest, and the whole records of the log after it.

    A reader holds no lock, so a writer may commit between reading the two; then there is a newer manifest, and reading
    starts again. The mark is read first, so whatever it covers existed before everything else is read.
    """
    for _ in range(RETRIES):
        mark, newest = read_mark(layout.root), _newest(layout)
        try:
            state = latest_state(layout.manifests)
            log = newest_log(layout, state)
            found = with_log(state, log)
            gone = _damage(log, state) or unacknowledged(layout, mark, found, log)
        except (Corrupt, FileNotFoundError):
            if _newest(layout) == newest:
                raise
            continue
        if found.state.sequence == _newest(layout):
            if gone is not None:
                raise gone if newest else _no_manifests(layout)
            if not has_data_without_manifest(layout, found):
                return found
            # A writer's first commit may be in progress: its runs are written before its manifest.
            time.sleep(FIRST_COMMIT_WAIT / RETRIES)
    if _newest(layout) == 0:
        raise _no_manifests(layout)
    raise Corrupt(
        "the warehouse changes faster than it can be read",
        where=str(layout.root),
        hint="Try again when its writer is less busy.",
    )


def _no_manifests(layout: Layout) -> Corrupt:
    return Corrupt(
        "the manifests are missing",
        where=str(layout.manifests),
        detail="The folder has data, but nothing says which of it counts.",
        hint="Restore the folder of manifests from a backup of the warehouse.",
    )


def unacknowledged(
    layout: Layout, mark: CommitMark | None, found: CommittedState, log: ReplayedLog | None
) -> Corrupt | None:
    """The error for epochs or manifests that were acknowledged and are missing; None if none are."""
    sequence = found.state.sequence
    later = [number for number, _, file in log_files(layout.log) if number > sequence and replay(file).records]
    named = max([*later, mark.sequence if mark else 0])
    if named > sequence:
        return _missing_manifest(layout, named, found.epoch, mark.reached if mark else None)
    if mark is None or mark.sequence < sequence:
        return None
    if mark.seal != found.state.seal:
        return damaged(manifest_file(layout.manifests, sequence), "It is not the one that was committed.")
    if mark.counts and not _reaches(log, mark):
        return _missing_epochs(log_file(layout.log, found.state.log_start[0], mark.token), found.epoch, mark.epoch)
    return None


def _reaches(log: ReplayedLog | None, mark: CommitMark) -> bool:
    """True if the log has the record that the mark names, or another writer has continued from it."""
    if log is None or log.token != mark.token:
        return log is not None and log.token > mark.token
    return any((record.end, record.crc) == (mark.length, mark.tip) for record in log.records)


def _missing_manifest(layout: Layout, sequence: int, epoch: int, acknowledged: int | None) -> Corrupt:
    newer = acknowledged is not None and acknowledged > epoch
    lost = _spoken(epoch, acknowledged or 0) if newer else f"What was committed after epoch {epoch} is missing."
    return missing(manifest_file(layout.manifests, sequence), f"Manifest {sequence} was committed. {lost}")


def _missing_epochs(file: FilePath, epoch: int, acknowledged: int, at: int | None = None) -> Corrupt:
    if not file.exists():
        return missing(file, _spoken(epoch, acknowledged))
    place = "" if at is None else f"The record at byte {at} is damaged. "
    return damaged(file, place + _spoken(epoch, acknowledged))


def _spoken(epoch: int, acknowledged: int) -> str:
    many = acknowledged > epoch + 1
    lost = f"Epochs {epoch + 1} to {acknowledged} were" if many else f"Epoch {acknowledged} was"
    return f"{lost} acknowledged and {'are' if many else 'is'} missing."


def has_data_without_manifest(layout: Layout, found: CommittedState) -> bool:
    """True if a warehouse without manifests has data: taken for a new one it would appear empty, and a vacuum would
    delete the data. An interrupted first commit also leaves runs without a manifest, but its epochs are in the log."""
    new = found.state.sequence == 0 and not any(sequence == 0 for sequence, _, _ in log_files(layout.log))
    return new and any(file.name.endswith(".parquet") for file in system_of(layout.maps).files_below(layout.maps))


def _newest(layout: Layout) -> int:
    return max(manifest_sequences(layout.manifests), default=0)


def commit_fingerprint(layout: Layout) -> tuple[int, int] | None:
    """Fingerprint by which a reader detects a commit: the newest manifest and the length of the log. None while a
    writer is between the two."""
    newest = _newest(layout)
    try:
        return newest, sum(file.stat().st_size for _, _, file in log_files(layout.log))
    except FileNotFoundError:
        return None


def last_token(layout: Layout) -> int:
    """The highest fencing token found in the folder."""
    written = [token for _, token, _ in log_files(layout.log)]
    newest = _newest(layout)
    return max([*written, *([read_manifest(layout.manifests, newest).token] if newest else [])], default=0)


def newest_log(layout: Layout, state: WarehouseState) -> ReplayedLog | None:
    """The log after a manifest. A superseded writer may have left one of the same sequence; the highest token is the
    valid one."""
    begin, seal = state.log_start
    files = [file for sequence, _, file in log_files(layout.log) if sequence == begin]
    # The log that writers share is asked for by name, too: a listing may be older than it is.
    files = files or [file for file in [log_file(layout.log, begin, 0)] if file.exists()]
    return replay(files[-1], seal or None) if files else None


def recover_to_write(layout: Layout) -> CommittedState:
    """The committed state, once no earlier writer can append to its log any more."""
    found = recover(layout)
    while system_of(layout.log).end_log(log_file(layout.log, found.state.log_start[0], 0)):
        found = recover(layout)
    return found


def log_is_ended(layout: Layout, state: WarehouseState) -> bool:
    """True if the log after a state takes no more records, so that the next one begins after another manifest."""
    return system_of(layout.log).is_ended(log_file(layout.log, state.log_start[0], 0))


def with_log(state: WarehouseState, log: ReplayedLog | None) -> CommittedState:
    """The state of a manifest, with the whole records of its log applied."""
    tail, epoch, positions = RecentEpochs(), state.epoch, dict(state.positions)
    for record in log.records if log else ():
        for name, change in record.changes.items():
            tail.add(record.epoch, name, change)
        tail.epochs += 1
        epoch = record.epoch
        if record.positions:
            tail.reached.append((epoch, record.positions))
            positions |= record.positions
    return CommittedState(state, tail, epoch, positions)


def _damage(log: ReplayedLog | None, state: WarehouseState) -> Corrupt | None:
    """The error for a log that has lost a durable record; None if it has not."""
    if log is None or not log.lost:
        return None
    good = log.records[-1].epoch if log.records else state.epoch
    return _missing_epochs(log.file, good, max(record.epoch for record in log.later), at=log.length)
