"""The lookups in the runs of a folder: by row groups at first, then in files that are mapped.

Derived files are in the folder ``mapped`` of the warehouse, for all processes that read it; of a warehouse that this
process may not write to, in a temporary folder.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection
from pathlib import Path

import pyarrow as pa

from tidemill.changes.sorted_hashes import sought_hashes
from tidemill.storage.filesystem.durable_files import TemporaryFolder
from tidemill.storage.filesystem.fetched_file import DerivedPlace
from tidemill.storage.filesystem.file_path import FilePath
from tidemill.storage.filesystem.file_system import system_of
from tidemill.storage.mapped.derived_files import delete_derived, derived_bytes, existing_parent
from tidemill.storage.mapped.lookup_costs import LOOKUP_VALUES, making_cost
from tidemill.storage.mapped.mapped_run import IndexedColumns, MappedRun, ReadColumn
from tidemill.storage.row_group_cache import RowGroupCache
from tidemill.storage.store import ColumnValues, StoreTraffic

MAKING_BYTES = 256
"""Bytes of memory for each row of a run that making its files is assumed to take; with 32 a budget was exceeded."""


class RunLookups:
    """Makes derived files where lookups have shown that they pay; ``cache``, under a memory budget, has columns of row
    groups."""

    def __init__(self, root: FilePath, cache: RowGroupCache | None) -> None:
        folder = system_of(root).mapped(root)
        self.cache = cache
        self._root = root
        self._own = None if os.access(existing_parent(folder), os.W_OK) else TemporaryFolder()
        self._folder = folder if self._own is None else self._own.path
        self._spent: Counter[Path] = Counter()
        self.traffic = StoreTraffic()

    def prefix(self, run: str, checksum: int) -> Path:
        """The path that the names of the derived files of a run begin with."""
        return self._folder / _derived_name(run, checksum)

    def derived(self, run: str, checksum: int) -> os.PathLike[str]:
        """The same for whoever opens it, on any machine."""
        name = _derived_name(run, checksum)
        return self._folder / name if isinstance(self._root, Path) else DerivedPlace(self._root, name)

    def mapped(self, run: str, checksum: int, rows: int) -> MappedRun:
        """A run with its derived files. Under a memory budget they are mapped for the time of a lookup."""
        return MappedRun(rows, self.prefix(run, checksum), kept=self.cache is None)

    def find(self, run: MappedRun, schema: pa.Schema, keys: ColumnValues, read: ReadColumn) -> pa.Table | None:
        """The rows of a run with one of ``keys``, and rarely others; None if its row groups had better be read."""
        by = IndexedColumns(pa.schema([schema.field(name) for name in keys]))
        sought = sought_hashes(pa.table(dict(keys)).cast(by.schema).columns)
        self.traffic.lookups += len(sought)
        found = run.find(by, sought, schema)
        if found is not None:
            return found
        if self._spent[run.prefix] < making_cost(run.rows, *run.absent(by, schema)) or not self._may_make(run):
            return None
        self._spent[run.prefix] = 0
        return run.find(by, sought, schema) if run.make(by, schema, read) else None

    def _may_make(self, run: MappedRun) -> bool:
        """True if a memory budget has room for what making files takes."""
        return self.cache is None or MAKING_BYTES * run.rows <= self.cache.limit

    def note(self, run: MappedRun, values: int) -> None:
        """Count the values that a lookup has read of row groups."""
        self._spent[run.prefix] += LOOKUP_VALUES + values

    def cleanup(self) -> None:
        """Delete derived files that are of use to this process alone."""
        if self._own is not None:
            self._own.cleanup()

    def bytes(self, run: str, checksum: int) -> int:
        """Bytes of the derived files of a run."""
        prefix = self.prefix(run, checksum)
        return derived_bytes(prefix.parent, f"{prefix.name}.")


def _derived_name(run: str, checksum: int) -> str:
    file = Path(run)
    return f"{file.parent}/{file.stem}-{checksum:08x}"


def delete_unnamed(folder: Path, named: Collection[str]) -> int:
    """Delete the derived files of runs that are not in ``named``; returns the bytes freed."""

    def is_kept(file: Path) -> bool:
        run = file.name.split(".")[0].rpartition("-")[0]
        return f"{file.parent.name}/{run}.parquet" in named

    return delete_derived(folder, is_kept)
