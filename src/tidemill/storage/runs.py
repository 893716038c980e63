"""Runs: the Parquet files of a map. Written once, synced, checked for their size whenever they are read."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidemill.model.errors import Corrupt
from tidemill.model.schema import EPOCH, WEIGHT
from tidemill.storage.files import checksum, damaged, make_folder, sync_file, sync_folder
from tidemill.storage.parts import with_epoch
from tidemill.storage.store import Run

ROW_GROUP = 128 * 1024
"""Rows of a Parquet row group: small enough that the statistics of a sorted run let a lookup skip most of it."""


@dataclass(frozen=True, slots=True)
class StoredRun:
    """What a manifest says of a run. ``file`` is relative to the folder of all maps; ``retracted`` counts its rows of
    negative weight; from epoch ``ended`` on it counts no more, because its map was replaced."""

    file: str
    rows: int
    bytes: int
    checksum: int
    first: int
    last: int
    retracted: int = 0
    ended: int | None = None


@dataclass(frozen=True, slots=True)
class FilePart:
    """A run as a part of its map."""

    run: StoredRun
    path: Path

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

    def load(self, schema: pa.Schema) -> pa.Table:
        """The rows, with exactly the columns of ``schema``."""
        check_size(self.path, self.run)
        return read_table(self.path, schema)

    def as_run(self) -> Run:
        """The run as runtimes see it."""
        return Run(self.path, self.run.rows, self.run.bytes, self.run.first, self.run.last)


def write_table(table: pa.Table, file: Path) -> None:
    """Write an Arrow table as Parquet that Spark reads too, and sync it."""
    make_folder(file.parent)
    pq.write_table(
        table,
        file,
        compression="zstd",
        row_group_size=ROW_GROUP,
        write_statistics=bounded(table.schema),
        write_page_index=True,  # so that of a row group only pages are read that can hold what is looked for
    )
    sync_file(file)


def bounded(schema: pa.Schema) -> list[str]:
    """The columns whose least and greatest values are written down, for readers to skip by.

    Doubles are not among them: Arrow leaves NaN out of such bounds, and Spark, looking for numbers above the
    greatest, would skip rows whose NaN is greater than all of them.
    """
    return [f.name for f in schema if not pa.types.is_floating(f.type) and not pa.types.is_nested(f.type)]


def read_table(file: Path, schema: pa.Schema) -> pa.Table:
    """The columns of ``schema`` in that order; Spark's own timestamps (INT96) and nullability are made ours."""
    try:
        with pq.ParquetFile(file, coerce_int96_timestamp_unit="us") as parquet:
            missing = set(schema.names) - set(parquet.schema_arrow.names)
            if missing:
                raise damaged(file, f"It has no column {', '.join(sorted(missing))}.")
            return parquet.read(columns=schema.names).select(schema.names).cast(schema)
    except FileNotFoundError:
        raise _missing(file) from None
    except (pa.ArrowException, OSError) as fault:  # what Arrow finds wrong with a file may be either
        raise damaged(file, f"It cannot be read as Parquet: {str(fault).strip()}") from fault


def write_run(table: pa.Table, maps: Path, name: str) -> StoredRun:
    """Store a table of weighted rows, each with its epoch, as the run ``name`` below the folder ``maps``."""
    write_table(table, maps / name)
    return _describe(maps, name, table.num_rows, table.select([WEIGHT, EPOCH]))


def adopt_run(staged: Path, epoch: int, maps: Path, name: str) -> StoredRun | None:
    """Make a Parquet file that a runtime staged the run ``name``, without copying it; None if it has no rows.

    The file holds the map's fields and ``_weight``. Where it has ``_epoch`` too it is linked into place; otherwise it
    is written again with ``epoch`` in that column. The staged file stays, so a failed commit can be tried again.
    """
    with pq.ParquetFile(staged) as parquet:
        columns, rows = parquet.schema_arrow.names, parquet.metadata.num_rows
        if not rows:
            return None
        if EPOCH not in columns:
            return write_run(with_epoch(parquet.read(), epoch), maps, name)
        marks = parquet.read(columns=[WEIGHT, EPOCH])
    target = maps / name
    make_folder(target.parent)
    os.link(staged, target)
    sync_file(target)
    return _describe(maps, name, rows, marks)


def _describe(maps: Path, name: str, rows: int, marks: pa.Table) -> StoredRun:
    file = maps / name
    bounds = pc.min_max(marks.column(EPOCH))
    return StoredRun(
        file=name,
        rows=rows,
        bytes=file.stat().st_size,
        checksum=checksum(file),
        first=bounds["min"].as_py(),
        last=bounds["max"].as_py(),
        retracted=pc.sum(pc.less(marks.column(WEIGHT), 0)).as_py() or 0,
    )


def sync_runs(maps: Path, runs: Iterable[StoredRun]) -> None:
    """Make the names of new runs durable: each folder once."""
    for folder in {(maps / run.file).parent for run in runs}:
        sync_folder(folder)


def check_size(file: Path, run: StoredRun) -> None:
    """Refuse a run that is not there or does not have the length that its manifest says."""
    try:
        size = file.stat().st_size
    except FileNotFoundError:
        raise _missing(file) from None
    if size != run.bytes:
        raise damaged(file, f"It has {size} bytes where its manifest says {run.bytes}.")


def _missing(file: Path) -> Corrupt:
    return Corrupt(
        f"{file.name} is missing",
        where=str(file),
        detail="The manifest that was opened names it.",
        hint="If another process has vacuumed meanwhile, open the warehouse again; else restore it from a backup.",
    )


def verify_run(file: Path, run: StoredRun) -> str | None:
    """What is wrong with a run, read from its first byte to its last; None if nothing is."""
    if not file.is_file():
        return f"{run.file} is missing"
    if file.stat().st_size != run.bytes:
        return f"{run.file} has {file.stat().st_size} bytes, not {run.bytes}"
    if checksum(file) != run.checksum:
        return f"{run.file} does not match its checksum"
    return None
