"""Runs: the Parquet files of a map. Written once, synced, and verified against their checksum before they are read.

The checksum covers the whole file: footer, page headers and indexes as well as pages. A process verifies a run when it
first reads it (``filesystem/checksums.py`` has what that costs), and again before it merges it. In addition pages have
checksums of their own, for a page that is damaged while the process runs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidemill.changes.alterations import Alteration, present_columns, present_rows, stored_schema_of
from tidemill.changes.arrow import ZERO, integer_array
from tidemill.model.errors import Corrupt
from tidemill.model.schema import EPOCH, WEIGHT
from tidemill.storage.filesystem.checksums import (
    MISSING_DETAIL,
    UNREAD_HINT,
    compare_parts,
    remember_checksum,
)
from tidemill.storage.filesystem.durable_files import (
    damaged,
    missing,
    translate_os_errors,
)
from tidemill.storage.filesystem.fetched_file import FetchedFile, compare_copy, local_file
from tidemill.storage.filesystem.file_path import FilePath
from tidemill.storage.filesystem.file_system import system_of
from tidemill.storage.filesystem.row_group_checksums import (
    outside_checksum,
    row_group_checksum,
    row_group_checksums,
)
from tidemill.storage.filesystem.symlinks import refuse_link
from tidemill.storage.mapped.mapped_run import MappedRun
from tidemill.storage.mapped.run_lookups import RunLookups
from tidemill.storage.row_group_statistics import possible_groups, same_values
from tidemill.storage.segments import Places, has_values, with_epoch
from tidemill.storage.store import ColumnValues, RunFile

ROW_GROUP = 32 * 1024
"""Rows of a Parquet row group: a lookup reads whole ones, those that the statistics of a sorted run let it not skip.

To read one takes 2 ms for seven columns, where 128 * 1024 rows take 7; writing and reading all rows takes the same."""

THREADED_ROWS = 10_000
"""Rows of a run above which its columns are read by several threads: fewer are read before threads have started."""

PARQUET_OPTIONS: Mapping[str, Any] = {
    "compression": "zstd",
    "row_group_size": ROW_GROUP,
    "write_page_checksum": True,
    "store_decimal_as_integer": True,
}
"""Parquet options of runs, those that the store writes and those that are staged for it.

DECIMALs of up to 18 digits are integers, as Spark writes them: columns of bytes take five times as long to read.
"""


ReadRowGroup = Callable[[pq.ParquetFile, int, Sequence[str]], pa.Table]
"""Gives columns of a row group."""


@dataclass(frozen=True, slots=True)
class RunEntry:
    """The manifest's entry of a run. ``file`` is relative to the folder of all maps; ``retracted`` counts its rows of
    negative weight; from epoch ``ended`` on it is not visible, because its map was replaced. ``groups`` are checksums
    of its row groups if it has several, used to salvage a damaged run. It was written after ``altered`` alterations of
    its map's columns."""

    file: str
    rows: int
    bytes: int
    checksum: int
    first: int
    last: int
    retracted: int = 0
    ended: int | None = None
    groups: tuple[int, ...] = ()
    altered: int = 0


@dataclass(frozen=True, slots=True)
class RunSegment:
    """A run as a segment of map ``name``; ``lookups`` find rows in its mapped files.

    ``path`` is its file in the warehouse, ``local`` that file or a copy of it on this machine. ``alterations`` of the
    map's columns are later than the run.
    """

    run: RunEntry
    path: FilePath
    name: str
    lookups: RunLookups | None = None
    alterations: tuple[Alteration, ...] = ()

    @property
    def first(self) -> int:
        """Its first epoch."""
        return self.run.first

    @property
    def last(self) -> int:
        """Its last epoch."""
        return self.run.last

    @property
    def ended(self) -> int | None:
        """The epoch that replaced it."""
        return self.run.ended

    @property
    def local(self) -> Path:
        """The file on this machine, fetched if it is not there yet; not verified."""
        return local_file(self.path, self.holds)

    def load(self, schema: pa.Schema, where: ColumnValues | None = None) -> pa.Table:
        """The rows, or those with the values of ``where``, with exactly the columns of ``schema``.

        A lookup in a file with checksums of its row groups verifies those that it reads. Rows that were written before
        the epoch that took them in belong to that epoch.
        """
        return self._since_first(self._load(schema, where), schema)

    def take(self, schema: pa.Schema, places: Places) -> pa.Table:
        """The rows at some places, ascending, with exactly the columns of ``schema``: only row groups that have some
        are read."""
        if self.alterations:
            return self.load(schema).take(integer_array(places))
        self.require_sound()
        return self._since_first(read_places(self.local, schema, places, self.holds), schema)

    def _since_first(self, rows: pa.Table, schema: pa.Schema) -> pa.Table:
        """Rows of the epoch that took them in, if they were written before it."""
        place = schema.get_field_index(EPOCH)
        if place < 0 or not rows.num_rows or pc.min(rows.column(place)).as_py() >= self.run.first:
            return rows
        epochs = pc.max_element_wise(rows.column(place), pa.scalar(self.run.first, pa.int64()))
        return rows.set_column(place, schema.field(place), epochs)

    def _load(self, schema: pa.Schema, where: ColumnValues | None) -> pa.Table:
        if self.alterations:
            return self._load_altered(schema, where)
        read: ReadRowGroup = _read_row_group
        if where is not None and self.lookups is not None:
            mapped = self.lookups.mapped(self.run.file, self.run.checksum, self.run.rows)
            found = self.lookups.find(mapped, schema, where, self._read_column)
            if found is not None:
                return found.filter(has_values(found, where))
            read = partial(self._read_noted, self.lookups, mapped)
        if where is not None and self.run.groups:
            try:
                return read_table(self.local, schema, self.holds, where, self._require_sound_groups, read)
            except Corrupt:
                if not system_of(self.path).drop_copy(self.path):
                    raise
        self.require_sound()
        return read_table(self.local, schema, self.holds, where, read_group=read)

    def _load_altered(self, schema: pa.Schema, where: ColumnValues | None) -> pa.Table:
        """The rows of a run that is older than the present columns of its map."""
        file = self.file_schema()
        columns = present_columns(file, self.alterations)
        # By columns that the file has in the same type it can be searched; by others, what is read is filtered.
        places = {name: columns[name].stored for name in where or ()}
        known = {p: v for n, v in (where or {}).items() if (p := places[n]) and file.field(p).type == v.type}
        stored = stored_schema_of(columns, file, schema.names)
        found = replace(self, alterations=()).load(stored, known or None)
        rows = present_rows(found, schema, columns)
        return rows if where is None else rows.filter(has_values(rows, where))

    def file_schema(self) -> pa.Schema:
        """The columns of the file itself."""
        self.require_sound()
        with translate_read_errors(self.path, self.holds), open_run(self.local) as parquet:
            return parquet.schema_arrow

    @property
    def present_schema(self) -> pa.Schema:
        """The columns of its rows as they are read, all of them."""
        columns = present_columns(self.file_schema(), self.alterations)
        return pa.schema([(name, column.type) for name, column in columns.items()])

    def _read_column(self, field: pa.Field) -> pa.ChunkedArray:
        self.require_sound()
        return read_table(self.local, pa.schema([field]), self.holds).column(0)

    def _read_noted(
        self, lookups: RunLookups, mapped: MappedRun, parquet: pq.ParquetFile, group: int, columns: Sequence[str]
    ) -> pa.Table:
        """Columns of a row group, from the cache if there is one; ``lookups`` count what is read."""
        lookups.note(mapped, parquet.metadata.row_group(group).num_rows * len(columns))
        read = partial(_read_row_group, parquet, group)
        cache = lookups.cache
        return read(columns) if cache is None else cache.read(read, (self.path, self.run.checksum, group), columns)

    def _require_sound_groups(self, footer: pq.FileMetaData, groups: Sequence[int]) -> None:
        """Refuse a run of which the footer or one of these row groups is damaged; verified once per process."""
        sums, last = self.run.groups, len(self.run.groups) - 1
        if footer.num_row_groups != last:
            raise damaged(self.path, f"It has {footer.num_row_groups} row groups where its manifest says {last}.")

        local = self.local

        def found(part: int) -> int:
            return outside_checksum(local, footer) if part == last else row_group_checksum(local, footer, part)

        expected = {part: sums[part] for part in (last, *groups)}
        self._refuse(compare_parts(local, self.run.bytes, expected, found, self.run.checksum))

    def require_sound(self, *, again: bool = False) -> None:
        """Refuse a damaged run; verified once per process, unless ``again`` is set."""
        self._refuse(self.wrong(again=again))

    def _refuse(self, wrong: str | None) -> None:
        if wrong is not None:
            raise (missing if wrong == MISSING_DETAIL else damaged)(self.path, f"{wrong} {self.holds}")

    def wrong(self, *, again: bool = False) -> str | None:
        """Describe the damage of its file as a sentence; None if it is intact. A damaged copy is fetched again."""
        return compare_copy(self.path, self.run.bytes, self.run.checksum, again=again)

    def damage(self) -> str | None:
        """Describe the damage of the file in the warehouse itself, not of a copy, as a sentence."""
        system_of(self.path).drop_copy(self.path)
        return self.wrong(again=True)

    @property
    def holds(self) -> str:
        """The rows that a reader misses without it. The maps of a view have names that begin with the view's own."""
        owner = re.split("[/:]", self.name, maxsplit=1)[0]
        epochs = epoch_range_text(self.run.first, self.run.last)
        return f'It holds {self.run.rows:,} rows of "{owner}", {epochs}; views that read it are affected too.'

    def as_run(self) -> RunFile:
        """The run as runtimes see it, who read the file themselves: it is verified first, or when it is fetched."""
        assert self.lookups is not None
        run, file, derived = self.run, self._file, self.lookups.derived(self.run.file, self.run.checksum)
        return RunFile(file, run.rows, run.bytes, run.first, run.last, derived)

    @property
    def _file(self) -> os.PathLike[str]:
        if isinstance(self.path, Path):
            self.require_sound()
            return self.path
        return FetchedFile(self.path, self.run.bytes, self.run.checksum, self.run.rows, self.holds)


def epoch_range_text(first: int, last: int) -> str:
    """A range of epochs as errors name it.

    >>> epoch_range_text(3, 17), epoch_range_text(3, 3)
    ('of epochs 3 to 17', 'of epoch 3')
    """
    return f"of epoch {first}" if first == last else f"of epochs {first} to {last}"


def write_table(table: pa.Table, file: Path) -> None:
    """Write an Arrow table as Parquet that Spark can read."""
    write_tables([table], table.schema, file)


def write_tables(tables: Iterable[pa.Table], schema: pa.Schema, file: Path) -> None:
    """Write Arrow tables one after the other as Parquet that Spark can read. Each begins a row group."""
    refuse_link(file)
    packed = _packed_columns(schema)
    options = dict(PARQUET_OPTIONS)
    rows = options.pop("row_group_size")
    with pq.ParquetWriter(
        file,
        schema,
        **options,
        use_dictionary=[f.name for f in schema if f.name not in packed],
        column_encoding=dict.fromkeys(packed, "DELTA_BINARY_PACKED"),
        write_statistics=columns_with_statistics(schema),
        write_page_index=True,  # so that a lookup reads only the pages that can match
    ) as writer:
        for table in tables:
            writer.write_table(table, row_group_size=rows)


def _packed_columns(schema: pa.Schema) -> list[str]:
    """The columns that are written as differences of neighbours, in as few bits as they need.

    A BIGINT is a key or an amount as a rule. To build a dictionary of these takes a third of the time of writing, and
    then it is given up; whole numbers of 64 bits take twice the time of their differences to write, and to read.
    """
    return [f.name for f in schema if pa.types.is_int64(f.type) and f.name not in (WEIGHT, EPOCH)]


def columns_with_statistics(schema: pa.Schema) -> list[str]:
    """The columns for which minimum and maximum are written, for readers to skip by.

    Doubles are excluded: Arrow leaves NaN out of such bounds, and Spark, where NaN is greater than all numbers, would
    skip it when looking for values above the maximum.
    """
    return [f.name for f in schema if not pa.types.is_floating(f.type) and not pa.types.is_nested(f.type)]


def _read_row_group(parquet: pq.ParquetFile, group: int, columns: Sequence[str]) -> pa.Table:
    # A row group is read faster than threads are started for its columns.
    return parquet.read_row_group(group, columns=columns, use_threads=False)


def read_table(
    file: Path,
    schema: pa.Schema,
    holds: str = "",
    where: ColumnValues | None = None,
    verify: Callable[[pq.FileMetaData, Sequence[int]], None] = lambda footer, groups: None,
    read_group: ReadRowGroup = _read_row_group,
) -> pa.Table:
    """The columns of ``schema`` in that order; Spark's timestamps (INT96) and nullability are converted.

    With ``where`` only the rows that have these values: row groups whose statistics exclude them are skipped, and of
    the others only the columns of ``where``, unless a row is found. ``verify`` sees the footer first, and then the row
    groups that are read, of which ``read_group`` gives columns.
    """
    with translate_read_errors(file, holds), open_run(file) as parquet:
        verify(parquet.metadata, ())
        absent = set(schema.names) - set(parquet.schema_arrow.names)
        if absent:
            raise damaged(file, f"It has no column {', '.join(sorted(absent))}. {holds}".strip())
        if where is None:
            threads = parquet.metadata.num_rows > THREADED_ROWS
            return parquet.read(columns=schema.names, use_threads=threads).select(schema.names).cast(schema)
        groups = possible_groups(parquet, where)
        verify(parquet.metadata, groups)
        found = [_matching_rows(partial(read_group, parquet, group), schema, where) for group in groups]
        return pa.concat_tables([pa.Table.from_batches([], schema), *found])


def read_places(file: Path, schema: pa.Schema, places: Places, holds: str = "") -> pa.Table:
    """The rows at some places, ascending, of a file."""
    with translate_read_errors(file, holds), open_run(file) as parquet:
        sizes = [parquet.metadata.row_group(group).num_rows for group in range(parquet.num_row_groups)]
        ends = np.cumsum(sizes)
        groups, counts = np.unique(np.searchsorted(ends, places, side="right"), return_counts=True)
        before = ends[groups] - np.array(sizes)[groups]  # rows of the file before each group that is read
        read = np.cumsum([0, *np.array(sizes)[groups]])[:-1]  # and rows that are read before it
        at = integer_array(places - np.repeat(before - read, counts))
        same = same_values(parquet, groups.tolist(), (WEIGHT, EPOCH))
        names = [name for name in schema.names if name not in same]
        rows = parquet.read_row_groups(groups.tolist(), columns=names).select(names).take(at)
        columns = [rows.column(f.name) if f.name not in same else pa.repeat(same[f.name], len(at)) for f in schema]
        return pa.table(columns, names=schema.names).cast(schema)


def rows_in(file: os.PathLike[str]) -> int:
    """The number of rows in a run's file; one that would have to be fetched says so itself."""
    return file.rows if isinstance(file, FetchedFile) else int(pq.read_metadata(file).num_rows)


def rows_between(files: Sequence[os.PathLike[str]], schema: pa.Schema, first: int, last: int) -> Iterator[pa.Table]:
    """The rows of some files from one place to another, as if they were one; others are not read."""
    begin = 0
    for file in files:
        count = rows_in(file)
        if begin < last and first < begin + count:
            yield from _rows_of_file(Path(file), schema, first - begin, last - begin)
        begin += count


def _rows_of_file(file: Path, schema: pa.Schema, first: int, last: int) -> Iterator[pa.Table]:
    begin = 0
    with translate_read_errors(file), open_run(file) as parquet:
        for group in range(parquet.num_row_groups):
            end = begin + parquet.metadata.row_group(group).num_rows
            if begin < last and first < end:
                rows = parquet.read_row_group(group, columns=schema.names).select(schema.names).cast(schema)
                yield rows.slice(max(first - begin, 0), min(last, end) - max(first, begin))
            begin = end


def may_hold(file: Path, where: ColumnValues) -> bool:
    """True unless the statistics of a run exclude that a row has these values."""
    with translate_read_errors(file, ""), open_run(file) as parquet:
        return bool(possible_groups(parquet, where))


def _matching_rows(read: Callable[[Sequence[str]], pa.Table], schema: pa.Schema, where: ColumnValues) -> pa.Table:
    """The rows of a row group that have the values; all columns are read only if there are any."""
    wanted = pa.schema([schema.field(name) for name in where])
    keys = read(wanted.names).select(wanted.names).cast(wanted)
    mask = has_values(keys, where)
    if not pc.any(mask).as_py():
        return pa.Table.from_batches([], schema)
    return read(schema.names).select(schema.names).cast(schema).filter(mask)


def open_run(file: Path) -> pq.ParquetFile:
    """Open a run's file, with verification of its page checksums."""
    return pq.ParquetFile(file, coerce_int96_timestamp_unit="us", page_checksum_verification=True)


@contextmanager
def translate_read_errors(file: FilePath, holds: str = "") -> Iterator[None]:
    """Raise Arrow's errors about a file's content as damage, and errors of the operating system as such."""
    try:
        yield
    except FileNotFoundError:
        raise missing(file, f"{MISSING_DETAIL} {holds}".strip()) from None
    except (pa.ArrowException, OSError) as fault:
        if isinstance(fault, OSError) and fault.errno is not None:
            with translate_os_errors("read a run", file, UNREAD_HINT):
                raise
        raise damaged(file, f"It cannot be read as Parquet: {str(fault).strip()} {holds}".strip()) from fault


def write_run(table: pa.Table, maps: FilePath, name: str) -> RunEntry:
    """Store a table of weighted rows, each with its epoch, as the run ``name`` below the folder ``maps``."""
    file, system = maps / name, system_of(maps)
    local = system.new_local(file)
    write_table(table, local)
    system.store(local, file)
    return describe_run(local, name, table.num_rows, table.select([WEIGHT, EPOCH]))


def adopt_run(staged: Path, epoch: int, maps: FilePath, name: str) -> tuple[RunEntry, pa.Table] | None:
    """Make a Parquet file that a runtime staged the run ``name``, without copying it; None if it has no rows.

    Returns its entry, and the weights and epochs of its rows.

    The file holds the map's fields and ``_weight``. If it has ``_epoch`` too it is hard-linked; otherwise it is
    rewritten with ``epoch`` in that column. The staged file stays, so a failed commit can be retried.
    """
    refuse_link(staged)
    with open_run(staged) as parquet:
        columns, rows = parquet.schema_arrow.names, parquet.metadata.num_rows
        if not rows:
            return None
        if EPOCH not in columns:
            table = with_epoch(parquet.read(), epoch)
            return write_run(table, maps, name), table.select([WEIGHT, EPOCH])
        marks = parquet.read(columns=[WEIGHT, EPOCH])
    target, system = maps / name, system_of(maps)
    system.adopt(staged, target)
    return describe_run(system.local_copy(target), name, rows, marks), marks


def describe_run(file: Path, name: str, rows: int, marks: pa.Table) -> RunEntry:
    """The entry of a run, by its file on this machine."""
    bounds = pc.min_max(marks.column(EPOCH))
    return RunEntry(
        file=name,
        rows=rows,
        bytes=file.stat().st_size,
        checksum=remember_checksum(file),
        first=bounds["min"].as_py(),
        last=bounds["max"].as_py(),
        retracted=pc.sum(pc.less(marks.column(WEIGHT), ZERO)).as_py() or 0,
        groups=row_group_checksums(file, pq.read_metadata(file)) if rows > ROW_GROUP else (),
    )


def sync_runs(maps: FilePath, runs: Iterable[RunEntry]) -> None:
    """Make the names of new runs durable: each folder is synced once."""
    for folder in {(maps / run.file).parent for run in runs}:
        system_of(folder).sync_folder(folder)
