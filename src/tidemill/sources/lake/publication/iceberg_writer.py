"""Commits to an Iceberg table that only we write: each is one snapshot, with properties by which it is known again.

A commit that comes after that of somebody else is made again, from what the table has then, unless the table says that
it was made already.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.model.errors import SourceLost
from tidemill.sources.lake.marked_rows import Positions
from tidemill.sources.lake.position_deletes import positions_by_file
from tidemill.sources.lake.publication.file_tiers import crowded_tier
from tidemill.sources.lake.publication.iceberg_catalog import (
    Conflict,
    Table,
    create_table,
    find_table,
    opened_catalog,
    snapshots_back,
    translated,
)
from tidemill.sources.lake.publication.iceberg_snapshot import (
    FileChange,
    IcebergFiles,
    bytes_written,
    commit_snapshot,
    expire_snapshots,
    other_columns,
)
from tidemill.sources.lake.publication.key_index import KeyIndex
from tidemill.sources.lake.publication.key_positions import changed_keys, without
from tidemill.sources.lake.publication.lake_publication import CatalogPlace, Written

__all__ = ["OURS", "IcebergWriter", "Said"]

Said = Mapping[str, str]
"""Properties of a snapshot."""

OURS = "tidemill."
"""Beginning of the names of our properties, which stay when files are compacted."""

TRIES = 5
"""Number of attempts of a commit if others commit meanwhile."""

Make = Callable[[Table], bool]
"""Makes one commit; false if there is nothing to commit."""


class IcebergWriter:
    """The Iceberg table of a name in a catalog; it ``marks`` rows as deleted, or copies the others.

    Where they are is found by ``keys``; a table without them is never merged.
    """

    def __init__(
        self, location: str, catalog: CatalogPlace, keys: KeyIndex | None = None, *, marks: bool = True
    ) -> None:
        self._location, self._catalog, self._keys, self._marks = location, catalog, keys, marks

    def said(self) -> tuple[list[Said], int] | None:
        """The properties of all snapshots, the newest first, and its number; None if there is no table."""
        with translated(self._location), opened_catalog(*self._catalog) as catalog:
            table = find_table(catalog, self._location)
            if table is None:
                return None
            current = table.current_snapshot()
            return list(snapshots_back(table)), current.snapshot_id if current else 0

    def replace(self, rows: pa.Table, said: Said) -> Written:
        """Replace all rows, and the columns."""
        with translated(self._location), opened_catalog(*self._catalog) as catalog:
            if find_table(catalog, self._location) is None:
                try:
                    table = create_table(catalog, self._location, rows, said)
                except Conflict as error:
                    raise SourceLost("others create the table too", where=self._location) from error
                return _written(table, rows.num_rows)
        return self._required(lambda table: self._replace(table, rows, said), said, rows.num_rows)

    def _replace(self, table: Table, rows: pa.Table, said: Said) -> bool:
        files, schema = IcebergFiles(table), other_columns(table, rows.schema)
        change = FileChange(files.write_rows(rows, schema), files.entries)
        commit_snapshot(table, files, change, said, schema)
        return True

    def append(self, rows: pa.Table, said: Said) -> Written:
        """Add rows."""
        return self._required(lambda table: self._append(table, rows, said), said, rows.num_rows)

    def _append(self, table: Table, rows: pa.Table, said: Said) -> bool:
        files = IcebergFiles(table)
        commit_snapshot(table, files, FileChange(files.write_rows(rows)), said)
        return True

    def merge(self, gone: pa.Table, come: pa.Table, said: Said) -> Written | None:
        """Delete the rows with the keys ``gone``, and add ``come``; None if some of them are not there."""
        return self._tried(lambda table: self._merge(table, gone, come, said), said, changed_keys(gone, come))

    def _merge(self, table: Table, gone: pa.Table, come: pa.Table, said: Said) -> bool:
        files = IcebergFiles(table)
        deleted = positions_by_file(files.marked(files.deletes))
        found = self._found(files, gone, deleted) if gone.num_rows else {}
        if sum(map(len, found.values())) != gone.num_rows:
            return False
        touched = {path: places for path, places in found.items() if len(places)}
        if self._marks:
            change = FileChange([*files.write_rows(come), *files.write_deletes(_places(touched))])
        else:
            change = _copied(files, come, touched, deleted)
        commit_snapshot(table, files, change, said)
        return True

    def _found(self, files: IcebergFiles, gone: pa.Table, deleted: Mapping[str, Positions]) -> dict[str, Positions]:
        """The places of the rows with the keys ``gone`` in each file."""
        assert self._keys is not None, "this table is never merged"
        rows = {path: entry.data_file.record_count for path, entry in files.data.items()}
        return self._keys.positions(rows, gone, lambda path: files.read(path, gone.column_names), deleted)

    def compact(self, files: int) -> Written | None:
        """Write small files of similar size as one, if there are so many; the rows and the epoch stay."""
        return self._tried(lambda table: self._compact(table, files), None, 0)

    def _compact(self, table: Table, least: int) -> bool:
        files = IcebergFiles(table)
        chosen, joined = (crowded_tier(_sizes(some), least) for some in (files.data, files.deletes))
        if not (chosen or joined):
            return False
        deleted, names = positions_by_file(files.marked(files.deletes)), [field.name for field in table.schema().fields]
        rows = [without(files.read(path, names), deleted.get(path)) for path in chosen]
        places, kept = files.marked(joined), pa.array(files.data.keys() - set(chosen), pa.string())
        left = places.filter(pc.is_in(places.column("file_path"), value_set=kept))
        change = FileChange(
            [*(files.write_rows(pa.concat_tables(rows)) if rows else ()), *files.write_deletes(left)],
            [*(files.data[path] for path in chosen), *(files.deletes[path] for path in joined)],
        )
        last = next((said for said in snapshots_back(table) if any(map(_is_ours, said))), {})
        commit_snapshot(table, files, change, {name: value for name, value in last.items() if _is_ours(name)})
        return True

    def vacuum(self, seconds: float, keep: int = 1) -> None:
        """Delete snapshots that are no longer shown for so many seconds, but for some of the last, and their files."""
        with translated(self._location), opened_catalog(*self._catalog) as catalog, suppress(*Conflict):
            expire_snapshots(catalog.load_table(self._location), seconds, keep)  # else the next time will do

    def _required(self, make: Make, said: Said, rows: int) -> Written:
        written = self._tried(make, said, rows)
        assert written is not None
        return written

    def _tried(self, make: Make, said: Said | None, rows: int) -> Written | None:
        """Commit, again if others commit meanwhile; None if ``make`` has not."""
        with translated(self._location), opened_catalog(*self._catalog) as catalog:
            for _ in range(TRIES if said else 1):
                table = catalog.load_table(self._location)
                try:
                    if not make(table):
                        return None
                except Conflict:
                    if said is None or not _has(catalog.load_table(self._location), said):
                        continue  # else the commit was made, and its answer was lost
                return _written(catalog.load_table(self._location), rows)
        if said is None:
            return None  # the next time will do
        raise SourceLost("others commit to the Iceberg table all the time", where=self._location)


def _copied(
    files: IcebergFiles, come: pa.Table, touched: Mapping[str, Positions], deleted: Mapping[str, Positions]
) -> FileChange:
    """The files with deleted rows are written anew without them, together with the rows that come."""
    rows = [come]
    for path, places in touched.items():
        gone = np.union1d(places, deleted.get(path, places[:0]))
        rows.append(without(files.read(path, come.column_names), gone).cast(come.schema))
    return FileChange(files.write_rows(pa.concat_tables(rows)), [files.data[path] for path in touched])


def _is_ours(name: str) -> bool:
    return name.startswith(OURS)


def _has(table: Table, said: Said) -> bool:
    return all(next(snapshots_back(table), {}).get(name) == value for name, value in said.items())


def _written(table: Table, rows: int) -> Written:
    return Written(rows, bytes_written(table), table.current_snapshot().snapshot_id)


def _sizes(entries: Mapping[str, Any]) -> dict[str, int]:
    return {path: entry.data_file.file_size_in_bytes for path, entry in entries.items()}


def _places(found: Mapping[str, Positions]) -> pa.Table:
    """The places of rows by file, as a table."""
    paths = np.repeat(np.array([*found], object), [len(places) for places in found.values()])
    places: list[Positions] = [np.array([], np.int64), *found.values()]
    return pa.table({"file_path": pa.array(paths, pa.string()), "pos": np.concatenate(places)})
