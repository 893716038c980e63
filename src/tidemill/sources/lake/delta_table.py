"""Delta tables, read by the package ``deltalake``.

The change data feed tells the rows that changed. Where it is off, or not to be believed, the files that a version
removed and added are compared; that is exact too, at the cost of reading the files that were rewritten. Of files whose
deletion vectors changed, the rows that one of both versions marks are read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property
from typing import ClassVar

import pyarrow as pa
import pyarrow.fs as pa_fs

from tidemill.model.errors import HistoryGone, Unsupported
from tidemill.model.paths import url_scheme
from tidemill.model.schema import Table
from tidemill.model.types import Array, Map, Struct, Type
from tidemill.sources.lake.data_files import FileSet, read_signed, weighted
from tidemill.sources.lake.delta_feed import COLUMN_MAPPING, read_feed
from tidemill.sources.lake.delta_files import file_set
from tidemill.sources.lake.delta_package import DeltaError, DeltaStorageHandler, first_line, translated
from tidemill.sources.lake.delta_package import DeltaTable as RawTable
from tidemill.sources.lake.lake_table import LakeChange, together

__all__ = ["DeltaTable"]

READABLE_FEATURES = frozenset(
    ("columnMapping", "deletionVectors", "timestampNtz", "vacuumProtocolCheck", "variantType", "variantType-preview")
)
"""Features of Delta that a reader must know, and that we do, or refuse by name."""

PHYSICAL_NAME = "delta.columnMapping.physicalName"


class DeltaTable:
    """A Delta table at its newest version."""

    HAS_HISTORY: ClassVar[bool] = True
    HAS_SCHEMA: ClassVar[bool] = True

    def __init__(self, location: str) -> None:
        self._location = location
        with translated(location):
            self._table = RawTable(location)
        _require_readable(self._table, location)

    @cached_property
    def _id(self) -> str:
        return str(self._table.metadata().id)

    @cached_property
    def _files(self) -> pa_fs.FileSystem:
        if url_scheme(self._location) is None:
            return pa_fs.SubTreeFileSystem(self._location, pa_fs.LocalFileSystem())
        return pa_fs.PyFileSystem(DeltaStorageHandler(self._location))

    def schema(self) -> pa.Schema:
        """The columns of the newest version, in order."""
        return pa.schema(self._table.schema().to_arrow())

    def is_newer(self, since: str) -> bool:
        """True if there is a version that was not taken."""
        return self.position != since

    @property
    def position(self) -> str:
        """The newest version, and the identity of the table: another one at this location has another history.

        Where files have other names for columns, these too: such a column can be renamed without a change of files.
        """
        mapped = f" {json.dumps(self._names, separators=(',', ':'))}" if self._names else ""
        return f"{self._table.version()} {self._id}{mapped}"

    @cached_property
    def _names(self) -> dict[str, str]:
        """The names of columns in files, by their names in lower case, if there is a column mapping."""
        if self._table.metadata().configuration.get(COLUMN_MAPPING, "none") == "none":
            return {}
        return {f.name.lower(): str(f.metadata.get(PHYSICAL_NAME, f.name)) for f in self._table.schema().fields}

    def contents(self, table: Table) -> LakeChange:
        """All rows of the newest version."""
        parts, files = self._difference({}, table)
        return LakeChange(table, parts, self.position, "all files", whole=True, files=files)

    def contents_at(self, table: Table, position: str) -> pa.Table:
        """All rows of an earlier version."""
        old = self._at(position, table)
        self._require_flat(table)
        with translated(self._location):
            parts, _ = read_signed({}, self._files_of(old), table, self._files)
            return together(parts, table)

    def change(self, table: Table, since: str) -> LakeChange:
        """The change from ``since`` to the newest version: by the change feed if possible, or else by files."""
        old = self._at(since, table)
        with translated(self._location):
            return self._by_feed(table, old) or self._by_files(table, old)

    def _at(self, since: str, table: Table) -> RawTable:
        """The table at the version that was taken last."""
        version, identity, *mapped = since.split(" ", 2)
        if identity != self._id:
            raise HistoryGone(
                "another Delta table is at this location",
                where=self._location,
                detail="It was dropped and created again, so its history says nothing of the rows that are kept.",
            )
        names: dict[str, str] = json.loads(mapped[0]) if mapped else {}
        for field in table.fields:
            if names and field.name not in names:
                continue  # it was added since, and is NULL in files from before
            if names.get(field.name, field.name).lower() != self._names.get(field.name, field.name).lower():
                raise HistoryGone(
                    f'another column is called "{field.name}" now',
                    where=self._location,
                    detail="It was dropped or renamed, so rows that no version changed have other values.",
                )
        if int(version) > self._table.version():
            raise HistoryGone(
                f"version {version} of the Delta table is gone",
                where=self._location,
                detail=f"Its newest version is {self._table.version()}: it was set back by other means than RESTORE.",
            )
        try:
            return RawTable(self._location, version=int(version))
        except DeltaError as error:
            raise HistoryGone(
                f"version {version} of the Delta table is gone", where=self._location, detail=first_line(error)
            ) from error

    def _difference(self, old: FileSet, table: Table) -> tuple[Iterator[pa.Table], int]:
        """The rows of the files that only one of two versions has, signed; and the number of these files."""
        self._require_flat(table)
        with translated(self._location):
            parts, files = read_signed(old, file_set(self._table, self._names), table, self._files)
        return self._translated(parts), files

    def _translated(self, parts: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """The same parts, with errors of the package as ours."""
        with translated(self._location):
            yield from parts

    def _require_flat(self, table: Table) -> None:
        """Refuse members of structs that have other names in files."""
        for field in table.fields if self._names else ():
            if _holds_struct(field.type):
                raise Unsupported(
                    f'column "{field.name}" is a STRUCT of a Delta table with a column mapping, which is not supported',
                    where=self._location,
                    hint="Name the columns to take in CREATE TABLE, without this one.",
                )

    def _by_files(self, table: Table, old: RawTable) -> LakeChange:
        parts, files = self._difference(self._files_of(old), table)
        return LakeChange(table, parts, self.position, "difference of files", files=files)

    def _files_of(self, old: RawTable) -> FileSet:
        """The files of an earlier version."""
        try:
            return file_set(old, self._names)
        except DeltaError as error:
            raise HistoryGone(
                "a deletion vector that is needed is gone", where=self._location, detail=first_line(error)
            ) from error

    def _by_feed(self, table: Table, old: RawTable) -> LakeChange | None:
        """The change by the change data feed; None if files have to tell."""
        found = read_feed(old, self._table, self._files)
        if found is None:
            return None
        rows, weights = found
        return LakeChange(table, [weighted(rows, table, weights, self._location)], self.position, "change data feed")


def _require_readable(table: RawTable, location: str) -> None:
    """Refuse features that change what files mean and that we do not know."""
    protocol, settings = table.protocol(), table.metadata().configuration
    unknown = sorted(set(protocol.reader_features or ()) - READABLE_FEATURES)
    if unknown or protocol.min_reader_version > 3:
        asked = ", ".join(unknown) or f"reader version {protocol.min_reader_version}"
        raise Unsupported(f"the Delta table needs {asked}, which is not supported", where=location)
    if settings.get(COLUMN_MAPPING, "none") not in ("none", "name"):
        raise Unsupported(
            f'the Delta table has a column mapping by "{settings[COLUMN_MAPPING]}", which is not supported',
            where=location,
            hint="Write it as a table without one, or with one by name.",
        )


def _holds_struct(type_: Type) -> bool:
    match type_:
        case Array(element):
            return _holds_struct(element)
        case Map(key, value):
            return _holds_struct(key) or _holds_struct(value)
    return isinstance(type_, Struct)
