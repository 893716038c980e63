"""Many rows as files that the store adopts, so that they are never in memory together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidemill.changes.arrow import arrow_schema
from tidemill.changes.changeset import ChangeSet
from tidemill.model.schema import WEIGHT
from tidemill.model.types import Field
from tidemill.program.maps import Map
from tidemill.sources.lake.spilled_rows import SpilledRows
from tidemill.storage.compaction.cancelling import HashedRows
from tidemill.storage.compaction.consolidate import difference
from tidemill.storage.runs import write_tables

__all__ = ["staged", "staged_sum"]

FILE_ROWS = 1 << 19
"""Rows after which a file ends: the store reads one at a time when it adopts them."""

HELD_FILES = 8
"""Number of files as whose rows a change is summed in memory; a larger one goes through files."""


def staged_sum(parts: Iterable[pa.Table], fields: Sequence[Field], folder: Path) -> ChangeSet:
    """The sum of weighted rows that come in parts: in memory, or in files below ``folder`` if they are many.

    Where no row goes, rows are left as they came.
    """
    tables = _grouped(parts, arrow_schema(tuple(fields)))
    held = list(islice(tables, HELD_FILES))
    if held[-1].num_rows < FILE_ROWS:
        return ChangeSet.of_arrow(_summed(pa.concat_tables(held), fields), fields)
    given = staged(chain(held, tables), fields, folder)
    files = [Path(file) for file in given.files or ()]
    if all(pc.min(pq.read_table(file, columns=[WEIGHT]).column(WEIGHT)).as_py() > 0 for file in files):
        return given
    return staged(_summed_by_hash(files, fields), fields, folder)


def _summed_by_hash(files: Sequence[Path], fields: Sequence[Field]) -> Iterator[pa.Table]:
    """The sums of the rows in files, a part of all hashes at a time; the files are deleted."""
    schema, plain = arrow_schema(tuple(fields)), [field.name for field in fields]
    nothing = HashedRows.of(schema.empty_table(), plain)
    with SpilledRows() as spilled:
        for file in files:
            spilled.add(nothing, HashedRows.of(pq.read_table(file, partitioning=None).cast(schema), plain))
            file.unlink()
        for _, rows in spilled.partitions():
            yield _summed(rows.rows, fields)


def _summed(rows: pa.Table, fields: Sequence[Field]) -> pa.Table:
    return difference(rows.slice(0, 0), rows, Map("change", tuple(fields)))


def staged(parts: Iterable[pa.Table], fields: Sequence[Field], folder: Path) -> ChangeSet:
    """A change of weighted rows that come in parts, in files below ``folder``; one that fits one file is in memory."""
    schema = arrow_schema(tuple(fields))
    tables = _grouped(parts, schema)
    first = next(tables)
    if first.num_rows < FILE_ROWS:
        return ChangeSet.of_arrow(first, fields)
    files, rows = list[Path](), 0
    for number, table in enumerate(chain([first], tables)):
        rows += table.num_rows
        files.append(folder / f"{number:06}.parquet")
        write_tables([table], schema, files[-1])
    return ChangeSet.of_files(files, fields, rows)


def _grouped(parts: Iterable[pa.Table], schema: pa.Schema) -> Iterator[pa.Table]:
    """Parts with about as many rows together as a file has; the last may have none."""
    group: list[pa.Table] = []
    for part in parts:
        group.append(part)
        if sum(one.num_rows for one in group) >= FILE_ROWS:
            yield pa.concat_tables(group)
            group = []
    yield pa.concat_tables([schema.empty_table(), *group])
