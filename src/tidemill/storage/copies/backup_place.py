"""A folder of backups: each is a full manifest, and all share the files that they have in common.

::

    place/
      backup.json                          says what the folder is
      lock                                 who makes a backup
      backups/00000000000000000003.json    one for each backup, written last
      maps/<id>/<name>-<checksum>.parquet  their runs

A run is named after its checksum as well, so a file of that name and length is the same, whoever wrote it. A backup
that was interrupted has no manifest: its files are used by the next one, or deleted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from tidemill.model.errors import StorageError
from tidemill.storage.commits.format import FORMAT, FORMAT_FILE
from tidemill.storage.commits.layout import CommittedState, Layout
from tidemill.storage.commits.manifest import (
    Manifest,
    WarehouseState,
    manifest_file,
    manifest_sequences,
    read_manifest,
    write_manifest,
)
from tidemill.storage.copies.copied_state import CopiedFiles, CopyPlan, copy_runs
from tidemill.storage.filesystem.durable_files import fault
from tidemill.storage.filesystem.file_path import FilePath
from tidemill.storage.filesystem.file_system import system_of
from tidemill.storage.runs import RunEntry

__all__ = ["BackupPlace", "StoredBackup"]

PLACE_FILE = "backup.json"

COPY_OF = "copy_of"
"""The key of a stored catalog that names the warehouse that it was copied from."""


@dataclass(frozen=True, slots=True)
class StoredBackup:
    """A backup: its number, the epoch that it holds, the warehouse that it is of, and when it was made."""

    number: int
    epoch: int
    source: str
    made: str
    files: int
    bytes: int

    def __str__(self) -> str:
        return f"backup {self.number}: epoch {self.epoch} of {self.source}, {self.made}, {self.bytes:,} bytes"


@dataclass(frozen=True, slots=True)
class BackupPlace:
    """The folder ``root`` of backups."""

    root: FilePath

    @property
    def layout(self) -> Layout:
        """The folders that it has in common with a warehouse."""
        return Layout(self.root)

    @property
    def manifests(self) -> FilePath:
        """One file for each backup."""
        return self.root / "backups"

    def stored(self) -> list[StoredBackup]:
        """All backups, the oldest first."""
        return [_described(read_manifest(self.manifests, number)) for number in manifest_sequences(self.manifests)]

    def find(self, number: int | None = None) -> Manifest:
        """The manifest of a backup, by default the newest."""
        known = manifest_sequences(self.manifests) if (self.root / PLACE_FILE).exists() else []
        if not known:
            raise StorageError(
                "there is no backup", where=str(self.root), hint="Name the folder that `tidemill backup` wrote to."
            )
        if number is not None and number not in known:
            raise StorageError(
                f"there is no backup {number}", where=str(self.root), hint=f"There are {', '.join(map(str, known))}."
            )
        return read_manifest(self.manifests, number or known[-1])

    def plan(self, number: int | None = None) -> CopyPlan:
        """The commit that a backup holds, by default the newest, to be copied."""
        found = self.find(number)
        now = CommittedState.of(found.apply(WarehouseState()))
        return CopyPlan(self.layout, now, dict(found.reached), now.epoch)

    def create(self) -> None:
        """Make a new or empty folder one of backups; refuse one that holds anything else."""
        system_of(self.root).make_folder(self.root)
        if (self.root / PLACE_FILE).exists():
            return
        if any(not entry.name.startswith(".") for entry in self.root.iterdir()):
            kind = "is a warehouse" if (self.root / FORMAT_FILE).exists() else "has other files"
            raise StorageError(
                f"the folder {kind}, and cannot take backups", where=str(self.root), hint="Name a folder for backups."
            )
        with suppress(FileExistsError):
            content = json.dumps({"backups": "tidemill", "format": FORMAT}).encode()
            system_of(self.root).create(self.root / PLACE_FILE, content)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Context in which no other process makes a backup here."""
        lock = system_of(self.root).lock(self.root, lambda: 0)
        try:
            yield
        finally:
            lock.release()

    def add(self, plan: CopyPlan, keep: int | None = None) -> tuple[StoredBackup, CopiedFiles]:
        """Add a backup; all but the last ``keep`` are then deleted. The caller is ``writing``."""
        self._require_same_source(plan)
        system_of(self.manifests).make_folder(self.manifests)
        runs, ids, copied = copy_runs(plan, self.layout.maps, _name_by_content, verify=True)
        number = max(manifest_sequences(self.manifests), default=0) + 1
        catalog = {**plan.now.state.catalog, COPY_OF: str(plan.source.root)}
        manifest = plan.manifest(number, runs, ids, catalog)
        fault("before-manifest")
        write_manifest(self.manifests, manifest)
        fault("after-manifest")
        self._forget(keep)
        return _described(manifest), copied

    def _require_same_source(self, plan: CopyPlan) -> None:
        for other in {backup.source for backup in self.stored()} - {str(plan.source.root)}:
            raise StorageError(
                "the folder has backups of another warehouse",
                where=str(self.root),
                detail=f"They are of {other}.",
                hint="Name another folder for backups.",
            )

    def _forget(self, keep: int | None) -> None:
        """Delete old backups, and files that no backup has."""
        numbers = manifest_sequences(self.manifests)
        for number in numbers[: -keep if keep else 0]:
            manifest_file(self.manifests, number).unlink(missing_ok=True)
        kept = [read_manifest(self.manifests, number) for number in manifest_sequences(self.manifests)]
        named = {run.file for manifest in kept for runs in manifest.added.values() for run in runs}
        for file in system_of(self.layout.maps).files_below(self.layout.maps):
            if str(file.relative_to(self.layout.maps)) not in named:
                file.unlink(missing_ok=True)


def _name_by_content(run: RunEntry) -> str:
    """The name of a run among backups.

    >>> _name_by_content(RunEntry("a1/00000001-00000002.parquet", 1, 100, 255, 1, 1))
    'a1/00000001-00000002-000000ff.parquet'
    >>> _name_by_content(RunEntry("a1/00000001-00000002-000000ff.parquet", 1, 100, 255, 1, 1))
    'a1/00000001-00000002-000000ff.parquet'
    """
    stem, mark = run.file.removesuffix(".parquet"), f"-{run.checksum:08x}"
    return f"{stem.removesuffix(mark)}{mark}.parquet"


def _described(manifest: Manifest) -> StoredBackup:
    runs = {run.file: run.bytes for some in manifest.added.values() for run in some}
    catalog: Mapping[str, object] = manifest.catalog or {}
    source = str(catalog.get(COPY_OF, "?"))
    return StoredBackup(manifest.sequence, manifest.epoch, source, manifest.written, len(runs), sum(runs.values()))
