"""Iceberg tables, read by the package ``pyiceberg``.

The change between two snapshots is the rows of the data files that only the new one has, less those of the files that
only the old one has. Of a file that both have with other delete files, the rows at the positions that only some of
these have. The package's scan of appended files is not used: it leaves deletes out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import chain
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from tidemill.model.errors import HistoryGone, Unsupported
from tidemill.model.schema import Table
from tidemill.sources.lake.data_files import weighted
from tidemill.sources.lake.iceberg_package import (
    AlwaysTrue,
    ArrowScan,
    FileScanTask,
    open_table,
    schema_to_pyarrow,
    translated,
)
from tidemill.sources.lake.lake_table import LakeChange, together
from tidemill.sources.lake.marked_rows import ChangedMarks, Positions
from tidemill.sources.lake.position_deletes import FilesInPart, changed_marks
from tidemill.sources.lake.rewritten_files import Extent, extent_of, net_rows, side_by_side

__all__ = ["IcebergTable"]

READABLE_VERSIONS = (1, 2)
"""Versions of the format whose meaning the package knows whole; version 3 has defaults of columns."""

EMPTY = "empty"
"""The version of a table without a snapshot."""

Tasks = Mapping[str, FileScanTask]
"""The data files of a snapshot by their paths, with the delete files that apply to them."""


class IcebergTable:
    """An Iceberg table at its current snapshot.

    ``location`` is its name in a catalog; without a catalog it is a metadata file, or the folder of a table with a
    version hint.
    """

    HAS_HISTORY: ClassVar[bool] = True
    HAS_SCHEMA: ClassVar[bool] = True

    def __init__(self, location: str, options: Mapping[str, str]) -> None:
        self._location = location
        with translated(location):
            self._table = open_table(location, options)
        version = self._table.metadata.format_version
        if version not in READABLE_VERSIONS:
            raise Unsupported(f"version {version} of the Iceberg format is not supported", where=location)

    def schema(self) -> pa.Schema:
        """The current columns, in order."""
        with translated(self._location):
            return schema_to_pyarrow(self._table.schema())

    def is_newer(self, since: str) -> bool:
        """True if there is a snapshot that was not taken."""
        return self.position != since

    @property
    def position(self) -> str:
        """The current snapshot, and the identity of the table: another one of its name has another history."""
        current = self._table.current_snapshot()
        version = EMPTY if current is None else current.snapshot_id
        return f"{version} {self._table.metadata.table_uuid} {json.dumps(self._columns, separators=(',', ':'))}"

    @property
    def _columns(self) -> dict[str, str]:
        """For each column what tells it from others of its name: files know columns by their numbers, not names."""
        marks = {f.name.lower(): f"{f.field_id} {f.field_type}" for f in self._table.schema().fields}
        return {name: sha256(mark.encode()).hexdigest()[:8] for name, mark in marks.items()}

    def contents(self, table: Table) -> LakeChange:
        """All rows of the current snapshot."""
        parts, files = self._difference({}, table)
        return LakeChange(table, parts, self.position, "all files", whole=True, files=files)

    def contents_at(self, table: Table, position: str) -> pa.Table:
        """All rows of an earlier snapshot."""
        version = self._require_same(position, table)
        return together(self._weighted(self._tasks_at(version).values(), table, 1), table)

    def change(self, table: Table, since: str) -> LakeChange:
        """The change from the snapshot ``since`` to the current one, by the files that only one of them has."""
        version = self._require_same(since, table)
        parts, files = self._difference(self._tasks_at(version), table)
        return LakeChange(table, parts, self.position, "difference of files", files=files)

    def _require_same(self, position: str, table: Table) -> str:
        """The version of a position; refused if it is of another table, or had other columns of the same names."""
        version, identity, told = position.split(" ", 2)
        columns: dict[str, str] = json.loads(told)
        if identity != str(self._table.metadata.table_uuid):
            raise HistoryGone(
                "another Iceberg table has this name",
                where=self._location,
                detail="It was dropped and created again, so its history says nothing of the rows that are kept.",
            )
        for field in table.fields:
            # A column that was added since is NULL in files from before.
            if field.name in columns and columns[field.name] != self._columns.get(field.name):
                raise HistoryGone(
                    f'another column is called "{field.name}" now',
                    where=self._location,
                    detail="It was dropped or renamed, so rows that no snapshot changed have other values.",
                )
        return version

    def _tasks_at(self, version: str) -> Tasks:
        """The files of the snapshot that was taken last."""
        if version == EMPTY:
            return {}
        if self._table.snapshot_by_id(int(version)) is None:
            raise HistoryGone(
                f"snapshot {version} of the Iceberg table is gone", where=self._location, detail="It has expired."
            )
        return self._tasks(int(version))

    def _tasks(self, snapshot: int | None) -> Tasks:
        with translated(self._location):
            planned = self._table.scan(snapshot_id=snapshot).plan_files()
            return {_path(one): one for one in planned}

    def _difference(self, old: Tasks, table: Table) -> tuple[Iterator[pa.Table], int]:
        """The rows that only one of two snapshots has, signed; and the number of files that are read for them."""
        new = {} if self._table.current_snapshot() is None else self._tasks(None)
        added = [new[path] for path in new.keys() - old.keys()]
        removed = [old[path] for path in old.keys() - new.keys()]
        marked = self._changed_marks(old, new)
        parts = self._rows_marked_anew(marked, new, table)
        if added and removed:
            parts = chain(parts, self._rewritten(removed, added, table))
        else:
            parts = chain(parts, self._weighted(added, table, 1), self._weighted(removed, table, -1))
        return parts, len(marked) + len(added) + len(removed)

    def _changed_marks(self, old: Tasks, new: Tasks) -> dict[str, ChangedMarks]:
        """The marks that have changed of the files that both snapshots have."""
        deletes = {path: (_deletes(old[path]), _deletes(new[path])) for path in old.keys() & new.keys()}
        with translated(self._location):
            return changed_marks(self._table.io, {path: both for path, both in deletes.items() if both[0] != both[1]})

    def _rows_marked_anew(self, marked: Mapping[str, ChangedMarks], new: Tasks, table: Table) -> Iterator[pa.Table]:
        for path, marks in marked.items():
            rows = self._read([FileScanTask(new[path].file)], table, {path: marks.positions})
            for part, weights in marks.weights_of(rows):
                yield weighted(part, table, weights, self._location)

    def _rewritten(
        self, removed: Sequence[FileScanTask], added: Sequence[FileScanTask], table: Table
    ) -> Iterator[pa.Table]:
        """The rows that are left of files that were removed and added."""
        sides = [[(one, self._extent(one)) for one in sorted(side, key=_path)] for side in (removed, added)]
        totals = [sum(extent.rows for _, extent in side) for side in sides]
        old, new = (self._read(side, table) for side in side_by_side(*sides))
        yield from net_rows((old, totals[0]), (new, totals[1]), table)

    def _extent(self, task: FileScanTask) -> Extent:
        """The extent of a data file. Values of columns are in its footer by the names that they have in the file."""
        with translated(self._location), self._table.io.new_input(task.file.file_path).open() as file:
            return extent_of(pq.ParquetFile(file))

    def _weighted(self, tasks: Iterable[FileScanTask], table: Table, weight: int) -> Iterator[pa.Table]:
        return (weighted(part, table, weight, self._location) for part in self._read(tasks, table))

    def _read(
        self, tasks: Iterable[FileScanTask], table: Table, positions: Mapping[str, Positions] | None = None
    ) -> Iterator[pa.Table]:
        """The rows of data files, or those at some positions, a file at a time: the package would read all at once."""
        wanted = {f.name for f in table.fields}
        schema = self._table.schema().select(*(f.name for f in self._table.schema().fields if f.name.lower() in wanted))
        io = self._table.io
        if positions is not None:
            io = FilesInPart(io, positions, frozenset(f.field_id for f in schema.fields))
        with translated(self._location):
            scan = ArrowScan(self._table.metadata, io, schema, AlwaysTrue())
            for task in tasks:
                for batch in scan.to_record_batches([task]):
                    yield pa.Table.from_batches([batch])


def _path(task: FileScanTask) -> str:
    return str(task.file.file_path)


def _deletes(task: FileScanTask) -> frozenset[str]:
    """The delete files that apply to a data file."""
    return frozenset(one.file_path for one in task.delete_files)
