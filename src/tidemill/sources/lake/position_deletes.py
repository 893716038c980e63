"""Position deletes of Iceberg: files that say which rows of data files are deleted, by their positions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidemill.sources.lake.columns import without_views
from tidemill.sources.lake.marked_rows import ChangedMarks, Positions, rows_at

__all__ = ["DELETE_SCHEMA", "PATH_ID", "FilesInPart", "changed_marks", "positions_by_file", "read_deletes"]

PATH_ID, PLACE_ID = 2147483546, 2147483545
"""The numbers of the columns of position deletes, as the Iceberg specification has them."""

DELETE_SCHEMA = pa.schema(
    [
        pa.field("file_path", pa.string(), False, {"PARQUET:field_id": str(PATH_ID)}),
        pa.field("pos", pa.int64(), False, {"PARQUET:field_id": str(PLACE_ID)}),
    ]
)


def read_deletes(io: Any, paths: Iterable[str]) -> pa.Table:
    """The positions of deleted rows that files have, with the data files that they are in."""
    found = [DELETE_SCHEMA.empty_table()]
    for path in paths:
        with io.new_input(path).open() as source:
            found.append(pq.read_table(source, columns=DELETE_SCHEMA.names).cast(DELETE_SCHEMA))
    return pa.concat_tables(found)


def positions_by_file(deletes: pa.Table) -> dict[str, Positions]:
    """The positions of deleted rows by data file."""
    groups = deletes.group_by("file_path").aggregate([("pos", "list")])
    paths, lists = groups.column("file_path").to_pylist(), groups.column("pos_list")
    return {path: np.unique(one.values.to_numpy()) for path, one in zip(paths, lists, strict=True)}


def changed_marks(io: Any, deletes: Mapping[str, tuple[frozenset[str], frozenset[str]]]) -> dict[str, ChangedMarks]:
    """The marks that have changed, by data file.

    ``deletes`` has the delete files that applied to each data file, and those that do now. Those that did before are
    read too: a row that two of them mark is as before while one is left.
    """
    named = {one for old, new in deletes.values() for one in old | new}
    places = {one: positions_by_file(read_deletes(io, [one])) for one in sorted(named)}

    def marked(path: str, by: frozenset[str]) -> Positions:
        found = [places[one][path] for one in by if path in places[one]]
        return np.unique(np.concatenate([np.zeros(0, np.int64), *found]))

    changed = {path: ChangedMarks.between(marked(path, old), marked(path, new)) for path, (old, new) in deletes.items()}
    return {path: marks for path, marks in changed.items() if len(marks.positions)}


@dataclass(frozen=True)
class FilesInPart:
    """The data files of ``io`` as if each had its rows at some positions alone, for scans of the package.

    These know the columns of older files by their numbers, and the values of partitions that files do not have.
    """

    io: Any
    positions: Mapping[str, Positions]
    columns: frozenset[int]
    """The numbers of the columns that are wanted; the others are not read."""

    def new_input(self, path: str) -> _FileInPart:
        """A file to read."""
        return _FileInPart(self.io.new_input(path), self.positions[path], self.columns)


@dataclass(frozen=True)
class _FileInPart:
    file: Any
    positions: Positions
    columns: frozenset[int]

    def open(self, seekable: bool = True) -> pa.BufferReader:
        """The file, written anew in memory with the rows at the positions."""
        with self.file.open() as source:
            whole = pq.ParquetFile(source)
            wanted = [field for field in whole.schema_arrow if _number(field) in (None, *self.columns)]
            schema = pa.schema(wanted or whole.schema_arrow)
            nothing = without_views(schema.empty_table())
            rows = pa.concat_tables([nothing, *rows_at(whole, self.positions, schema.names)])
        out = pa.BufferOutputStream()
        pq.write_table(rows, out, compression="none")
        return pa.BufferReader(out.getvalue())


def _number(field: pa.Field) -> int | None:
    """The number of a column of a file; None if the file has none, so that names count."""
    number = (field.metadata or {}).get(b"PARQUET:field_id")
    return None if number is None else int(number)
