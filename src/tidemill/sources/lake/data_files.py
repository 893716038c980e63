"""Data files that a version added and removed, as weighted rows.

A data file never changes, so the change between two versions is the rows of the files that only the new one has, less
those of the files that only the old one has. Rows that were merely rewritten come with both signs, and cancel. Of a
file that both have, only the rows that one of them marks as deleted are read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain

import pyarrow as pa
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq

from tidemill.model.errors import HistoryGone, SourceLost, TidemillError
from tidemill.model.schema import WEIGHT, Table
from tidemill.sources.ingest.frames import changes_of
from tidemill.sources.lake.columns import without_views
from tidemill.sources.lake.marked_rows import PART_ROWS, ChangedMarks, Positions, positions_of, rows_at
from tidemill.sources.lake.rewritten_files import Extent, extent_of, net_rows, repeated_texts, side_by_side

__all__ = ["DataFile", "FileSet", "read_signed", "weighted"]


@dataclass(frozen=True)
class DataFile:
    """A Parquet file of a lake table: its path, the columns that it does not hold, and the rows that count.

    ``kept`` has for each row if it counts; None if all do. Rows beyond its end count. ``names`` are those of columns in
    the file, by their names in the table in lower case, where they have others.
    """

    path: str
    constants: Mapping[str, pa.Scalar] = field(default_factory=dict)
    kept: pa.BooleanArray | None = None
    names: Mapping[str, str] = field(default_factory=dict)


FileSet = Mapping[str, DataFile]
"""The files of a version, each by a key that it has in every version."""


def read_signed(old: FileSet, new: FileSet, table: Table, files: pa_fs.FileSystem) -> tuple[Iterator[pa.Table], int]:
    """The rows that only one of two versions has, signed, in parts; and the number of files that are read for them."""
    added, removed = [new[key] for key in new.keys() - old.keys()], [old[key] for key in old.keys() - new.keys()]
    marked = _marked_anew(old, new)
    parts = _rows_marked_anew(marked, table, files)
    if added and removed:
        parts = chain(parts, _rewritten(removed, added, table, files))
    else:
        signed = [(one, 1) for one in added] + [(one, -1) for one in removed]
        whole = (weighted(part, table, weight, one.path) for one, weight in signed for part in _read(one, table, files))
        parts = chain(parts, whole)
    return parts, len(marked) + len(added) + len(removed)


def _marked_anew(old: FileSet, new: FileSet) -> list[tuple[DataFile, ChangedMarks]]:
    """The files that both versions have, and of which they mark different rows as deleted."""
    pairs = ((old[key], new[key]) for key in old.keys() & new.keys() if not _same(old[key].kept, new[key].kept))
    found = ((after, ChangedMarks.between(positions_of(one.kept), positions_of(after.kept))) for one, after in pairs)
    return [(one, marks) for one, marks in found if len(marks.positions)]


def _same(old: pa.BooleanArray | None, new: pa.BooleanArray | None) -> bool:
    return old is new if old is None or new is None else old.equals(new)


def _rows_marked_anew(
    marked: Iterable[tuple[DataFile, ChangedMarks]], table: Table, files: pa_fs.FileSystem
) -> Iterator[pa.Table]:
    for one, marks in marked:
        for part, weights in marks.weights_of(_read(one, table, files, positions=marks.positions)):
            yield weighted(part, table, weights, one.path)


def _rewritten(
    removed: Sequence[DataFile], added: Sequence[DataFile], table: Table, files: pa_fs.FileSystem
) -> Iterator[pa.Table]:
    """The rows that are left of files that were removed and added."""
    sides = [[(one, _extent(one, files)) for one in sorted(side, key=_path)] for side in (removed, added)]
    totals = [sum(extent.rows for _, extent in side) for side in sides]
    repeated = repeated_texts(sides, table) - {name.lower() for one in (*removed, *added) for name in one.constants}
    if any(one.names for one in (*removed, *added)):
        repeated = frozenset()
    old, new = (_read_all(side, table, files, repeated) for side in side_by_side(*sides))
    yield from net_rows((old, totals[0]), (new, totals[1]), table, repeated)


def _path(one: DataFile) -> str:
    return one.path


def _extent(one: DataFile, files: pa_fs.FileSystem) -> Extent:
    with _opened(one, files) as file:
        return extent_of(file)


def _read_all(
    ordered: Sequence[DataFile], table: Table, files: pa_fs.FileSystem, repeated: Collection[str]
) -> Iterator[pa.Table]:
    return (part for one in ordered for part in _read(one, table, files, repeated))


def _read(
    one: DataFile,
    table: Table,
    files: pa_fs.FileSystem,
    repeated: Collection[str] = (),
    positions: Positions | None = None,
) -> Iterator[pa.Table]:
    """The rows of a file that count, or those at some positions, with the ``repeated`` columns as dictionaries."""
    first = 0
    with _opened(one, files, repeated) as file:
        for part in _columns(file, table, one, positions):
            found = part
            if one.kept is not None and positions is None:
                found = without_views(part).filter(_mask(one.kept.slice(first, part.num_rows), part.num_rows))
            for name, value in one.constants.items():
                found = found.append_column(name, pa.repeat(value, found.num_rows))
            yield found
            first += part.num_rows


@contextmanager
def _opened(one: DataFile, files: pa_fs.FileSystem, repeated: Collection[str] = ()) -> Iterator[pq.ParquetFile]:
    """A file, with errors of reading it as ours."""
    try:
        with files.open_input_file(one.path) as source:
            yield pq.ParquetFile(source, coerce_int96_timestamp_unit="us", read_dictionary=[*repeated])
    except FileNotFoundError:
        raise HistoryGone(
            "a data file that is needed is gone",
            where=one.path,
            detail="It was removed from the lake table and then deleted, by VACUUM for instance.",
        ) from None
    except (OSError, pa.ArrowException) as error:
        raise SourceLost("a data file cannot be read", where=one.path, detail=str(error)) from error


def _columns(file: pq.ParquetFile, table: Table, one: DataFile, positions: Positions | None) -> Iterator[pa.Table]:
    """The columns of a file that the table has; those that it lacks are NULL, as in files older than a column.

    Some writers have the columns of partitions in files, too: they are taken from the log all the same.
    """
    told = {name.lower() for name in one.constants}
    wanted = {one.names.get(f.name, f.name).lower(): f.name for f in table.fields if f.name not in told}
    held = [name for name in file.schema_arrow.names if name.lower() in wanted]
    if not held:
        # Without columns a table of Arrow forgets how many rows it has.
        rows = file.metadata.num_rows if positions is None else int((positions < file.metadata.num_rows).sum())
        yield pa.table({WEIGHT: pa.repeat(pa.scalar(1, pa.int64()), rows)})
        return
    batches = (pa.Table.from_batches([batch]) for batch in file.iter_batches(PART_ROWS, columns=held))
    for part in batches if positions is None else rows_at(file, positions, held):
        yield part.rename_columns([wanted[name.lower()] for name in part.column_names])


def _mask(kept: pa.BooleanArray, rows: int) -> pa.BooleanArray:
    rest = rows - len(kept)
    return kept if rest == 0 else pa.concat_arrays([kept, pa.repeat(pa.scalar(True), rest)])


def weighted(rows: pa.Table, table: Table, weight: int | pa.ChunkedArray, where: str) -> pa.Table:
    """Rows in the columns of ``table``, with one weight or a column of weights."""
    weights = pa.repeat(pa.scalar(weight, pa.int64()), rows.num_rows) if isinstance(weight, int) else weight
    wanted = {f.name for f in table.fields}
    rows = rows.select([name for name in rows.column_names if name.lower() in wanted]).append_column(WEIGHT, weights)
    try:
        return changes_of(rows, table).arrow()
    except TidemillError as error:
        error.where = f"{where}, {error.where}"
        raise
