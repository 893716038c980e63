"""Snapshots of an Iceberg table: its files, and commits of files that are added and removed together.

The package ``pyiceberg`` reads position deletes and does not write them. So the manifests of a snapshot are written
here, by the writers of the package, and committed by its catalog: all files of a commit are in one snapshot.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, pairwise
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan, _dataframe_to_data_files, _pyarrow_to_schema_without_ids
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.snapshots import (
    Operation,
    Snapshot,
    SnapshotSummaryCollector,
    Summary,
    ancestors_of,
    update_snapshot_summaries,
)
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotsUpdate,
    SetCurrentSchemaUpdate,
    SetSnapshotRefUpdate,
    update_table_metadata,
)
from pyiceberg.typedef import Record

from tidemill.sources.lake.position_deletes import DELETE_SCHEMA, PATH_ID, read_deletes

__all__ = ["FileChange", "IcebergFiles", "bytes_written", "commit_snapshot", "expire_snapshots", "other_columns"]

MAIN = "main"
MANY_MANIFESTS = 100
"""Number of manifests from which on they are written as one."""


def bytes_written(table: Table) -> int:
    """The bytes of all files that the current snapshot added, of data and of metadata."""
    current = table.current_snapshot()
    manifests = [one for one in current.manifests(table.io) if one.added_snapshot_id == current.snapshot_id]
    data: int = int(current.summary.additional_properties.get("added-files-size", 0))
    about = [table.metadata_location, current.manifest_list]
    lengths: list[int] = [one.manifest_length for one in manifests] + [len(table.io.new_input(one)) for one in about]
    return data + sum(lengths)


@dataclass(frozen=True)
class FileChange:
    """Files that a commit adds, and those that it removes."""

    added: Sequence[DataFile] = ()
    removed: Sequence[ManifestEntry] = ()


class IcebergFiles:
    """The files of the current snapshot of a table, and files that are written for the next one."""

    def __init__(self, table: Table) -> None:
        self._table = table
        current = table.current_snapshot()
        self.manifests: list[ManifestFile] = [] if current is None else current.manifests(table.io)
        entries = [one for listed in self.manifests for one in listed.fetch_manifest_entry(table.io)]
        self.data = {one.data_file.file_path: one for one in entries if one.data_file.content is DataFileContent.DATA}
        self.deletes = {one.data_file.file_path: one for one in entries if one.data_file.file_path not in self.data}

    @property
    def entries(self) -> list[ManifestEntry]:
        """All files."""
        return [*self.data.values(), *self.deletes.values()]

    def read(self, path: str, names: Sequence[str]) -> pa.Table:
        """All rows of a data file in order, also those that are marked as deleted."""
        metadata, schema = self._table.metadata, self._table.schema().select(*names)
        scan = ArrowScan(metadata, self._table.io, schema, AlwaysTrue())
        return scan.to_table([FileScanTask(self.data[path].data_file)])

    def marked(self, deletes: Iterable[str]) -> pa.Table:
        """The places of deleted rows that these files have."""
        return read_deletes(self._table.io, deletes)

    def write_rows(self, rows: pa.Table, schema: Schema | None = None) -> list[DataFile]:
        """Write data files."""
        metadata = self._table.metadata
        if schema is not None:
            metadata = update_table_metadata(metadata, _columns(schema))
        return list(_dataframe_to_data_files(metadata, rows, self._table.io)) if rows.num_rows else []

    def write_deletes(self, places: pa.Table) -> list[DataFile]:
        """Write a file with the places of deleted rows."""
        if not places.num_rows:
            return []
        places = places.cast(DELETE_SCHEMA).sort_by([("file_path", "ascending"), ("pos", "ascending")])
        path = self._table.location_provider().new_data_location(f"{uuid4()}-deletes.parquet")
        with self._table.io.new_output(path).create() as out:
            pq.write_table(places, out, compression="zstd")
        paths = places.column("file_path")
        file = DataFile.from_args(
            content=DataFileContent.POSITION_DELETES,
            file_path=path,
            file_format=FileFormat.PARQUET,
            partition=Record(),
            record_count=places.num_rows,
            file_size_in_bytes=len(self._table.io.new_input(path)),
            lower_bounds={PATH_ID: paths[0].as_py().encode()},
            upper_bounds={PATH_ID: paths[-1].as_py().encode()},
        )
        file.spec_id = 0
        return [file]


def other_columns(table: Table, rows: pa.Schema) -> Schema | None:
    """The schema of a table whose rows are replaced by others with these columns; None if it has them already."""
    wanted = _pyarrow_to_schema_without_ids(rows)
    if assign_fresh_schema_ids(table.schema()).fields == assign_fresh_schema_ids(wanted).fields:
        return None
    numbers = count(table.metadata.last_column_id + 1)
    fresh = assign_fresh_schema_ids(wanted, lambda: next(numbers))
    return Schema(*fresh.fields, schema_id=max(one.schema_id for one in table.metadata.schemas) + 1)


def commit_snapshot(
    table: Table, files: IcebergFiles, change: FileChange, properties: Mapping[str, str], schema: Schema | None = None
) -> None:
    """Commit files that are added and removed as one snapshot; ``Conflict`` if somebody else committed meanwhile."""
    writing = _Writing(table, table.metadata.new_snapshot_id(), schema or table.schema())
    parent = table.current_snapshot()
    number = table.metadata.last_sequence_number + 1
    listed = writing.place(f"snap-{writing.snapshot}-0-{uuid4()}.avro")
    with write_manifest_list(
        2, table.io.new_output(listed), writing.snapshot, parent and parent.snapshot_id, number, "gzip"
    ) as out:
        out.add_manifests(_manifests(writing, files, change))
    made = Snapshot(
        snapshot_id=writing.snapshot,
        parent_snapshot_id=parent and parent.snapshot_id,
        sequence_number=number,
        manifest_list=listed,
        summary=_summary(table, change, properties),
        schema_id=writing.schema.schema_id,
    )
    current = SetSnapshotRefUpdate(
        ref_name=MAIN, type="branch", snapshot_id=made.snapshot_id, parent_snapshot_id=made.parent_snapshot_id
    )
    unchanged = AssertRefSnapshotId(ref=MAIN, snapshot_id=made.parent_snapshot_id)
    same = AssertTableUUID(uuid=table.metadata.table_uuid)
    table.catalog.commit_table(table, (same, unchanged), (*_columns(schema), AddSnapshotUpdate(snapshot=made), current))


def _columns(schema: Schema | None) -> tuple[Any, ...]:
    return () if schema is None else (AddSchemaUpdate(schema=schema), SetCurrentSchemaUpdate(schema_id=-1))


def expire_snapshots(table: Table, seconds: float, keep: int) -> None:
    """Remove snapshots that another one followed so many seconds ago, but for the last ones, and delete their files."""
    line = list(ancestors_of(table.current_snapshot(), table.metadata))
    before = (time.time() - seconds) * 1000
    old = [one for newer, one in pairwise(line) if newer.timestamp_ms < before][max(0, keep - 1) :]
    if not old:
        return
    removed = RemoveSnapshotsUpdate(snapshot_ids=[one.snapshot_id for one in old])
    table.catalog.commit_table(table, (AssertTableUUID(uuid=table.metadata.table_uuid),), (removed,))
    gone = {one.snapshot_id for one in old}
    left = _paths(table, [one for one in table.metadata.snapshots if one.snapshot_id not in gone])
    for path in _paths(table, old) - left:
        table.io.delete(path)


def _paths(table: Table, snapshots: Sequence[Snapshot]) -> set[str]:
    """All files that snapshots need, of data and of metadata."""
    manifests = {one.manifest_path: one for snapshot in snapshots for one in snapshot.manifests(table.io)}
    entries = (entry for one in manifests.values() for entry in one.fetch_manifest_entry(table.io))
    lists = {snapshot.manifest_list for snapshot in snapshots}
    return {*manifests, *lists, *(entry.data_file.file_path for entry in entries)}


class _Manifest(ManifestWriterV2):  # type: ignore[misc]
    """A writer of manifests of data files or of delete files."""

    def __init__(self, kind: ManifestContent, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._kind = kind

    def content(self) -> ManifestContent:
        """Data files or delete files."""
        return self._kind

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "data" if self._kind is ManifestContent.DATA else "deletes"}


@dataclass(frozen=True)
class _Writing:
    """The snapshot that is written."""

    table: Table
    snapshot: int
    schema: Schema

    def place(self, name: str) -> str:
        return str(self.table.location_provider().new_metadata_location(name))

    def manifest(self, entries: Iterable[tuple[ManifestEntry, ManifestEntryStatus]]) -> Iterator[ManifestFile]:
        """Manifests of entries, each with its new status; one of data files and one of delete files."""
        kinds: dict[ManifestContent, list[tuple[ManifestEntry, ManifestEntryStatus]]] = {}
        for entry, status in entries:
            is_data = entry.data_file.content is DataFileContent.DATA
            kinds.setdefault(ManifestContent.DATA if is_data else ManifestContent.DELETES, []).append((entry, status))
        for kind, some in kinds.items():
            out = self.table.io.new_output(self.place(f"{uuid4()}-m0.avro"))
            with _Manifest(kind, self.table.spec(), self.schema, out, self.snapshot, "gzip") as writer:
                for entry, status in some:
                    writer.add_entry(self._entry(entry, status))
            yield writer.to_manifest_file()

    def _entry(self, entry: ManifestEntry, status: ManifestEntryStatus) -> ManifestEntry:
        kept = status is ManifestEntryStatus.EXISTING
        return ManifestEntry.from_args(
            status=status,
            snapshot_id=entry.snapshot_id if kept else self.snapshot,
            sequence_number=entry.sequence_number,
            file_sequence_number=entry.file_sequence_number,
            data_file=entry.data_file,
        )


def _manifests(writing: _Writing, files: IcebergFiles, change: FileChange) -> list[ManifestFile]:
    """The manifests of the new snapshot: old ones stay, unless files are removed or there are many."""
    added = [ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, data_file=file) for file in change.added]
    fresh = list(writing.manifest((entry, ManifestEntryStatus.ADDED) for entry in added))
    if not change.removed and len(files.manifests) < MANY_MANIFESTS:
        return [*fresh, *files.manifests]
    gone = {entry.data_file.file_path for entry in change.removed}
    status = {False: ManifestEntryStatus.EXISTING, True: ManifestEntryStatus.DELETED}
    return [*fresh, *writing.manifest((one, status[one.data_file.file_path in gone]) for one in files.entries)]


def _summary(table: Table, change: FileChange, properties: Mapping[str, str]) -> Summary:
    counted = SnapshotSummaryCollector()
    for file in change.added:
        counted.add_file(file, table.schema(), table.spec())
    for entry in change.removed:
        counted.remove_file(entry.data_file, table.schema(), table.spec())
    before = table.current_snapshot()
    kind = Operation.OVERWRITE if change.removed or _deletes(change) else Operation.APPEND
    said = Summary(kind, **counted.build(), **properties)
    return update_snapshot_summaries(said, before.summary.additional_properties if before else None)


def _deletes(change: FileChange) -> bool:
    return any(file.content is not DataFileContent.DATA for file in change.added)
