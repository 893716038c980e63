"""Expired rows: rows of a map that no change can reach any more are deleted from its runs, in every epoch."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.changes.alterations import present_columns
from tidemill.changes.arrow import instants
from tidemill.model.schema import WEIGHT
from tidemill.program.state_expiry import ExpiredEntries, number_of
from tidemill.storage.commits.layout import CommittedState
from tidemill.storage.compaction.run_merge import RunMerge
from tidemill.storage.filesystem.file_path import FilePath
from tidemill.storage.folder_writer import FolderWriter
from tidemill.storage.runs import RunEntry, RunSegment, open_run, translate_read_errors


def unexpired_rows(tables: Sequence[pa.Table], forgotten: ExpiredEntries) -> list[pa.Table]:
    """The rows that remain of each of a map's ``tables``; a table that loses none is returned as it is."""
    masks = _masks(tables, forgotten)
    return [table.filter(mask) if _loses(mask) else table for table, mask in zip(tables, masks, strict=True)]


def expire_map_rows(maps: FilePath, writer: FolderWriter, now: CommittedState, forgotten: ExpiredEntries) -> RunMerge:
    """The runs of a map that hold expired rows, and new runs with the rows that remain."""
    parts = [part for part in now.parts(maps, forgotten.map) if part.ended is None]
    if all(_lowest(part, forgotten.column) >= forgotten.below for part in parts):
        return RunMerge(forgotten.map, (), ())
    names = [forgotten.column, WEIGHT]
    marks = [_read(part, [_stored(part, forgotten.column), WEIGHT]).rename_columns(names) for part in parts]
    masks = _masks(marks, forgotten)
    before = [(part, mask) for part, mask in zip(parts, masks, strict=True) if _loses(mask)]
    after: list[RunEntry] = []
    for part, mask in before:
        part.require_sound(again=True)
        left = _read(part).filter(mask)
        if left.num_rows:
            after.append(writer.write(left, now, forgotten.map, part.run.altered))
    return RunMerge(forgotten.map, tuple(part.run for part, _ in before), tuple(after))


def _lowest(part: RunSegment, column: str) -> float:
    """Lower bound of a column in a run, from the statistics of its file."""
    part.require_sound()
    with translate_read_errors(part.path, part.holds), open_run(part.local) as parquet:
        place = parquet.schema_arrow.names.index(_stored(part, column))
        groups = range(parquet.metadata.num_row_groups)
        found = [parquet.metadata.row_group(group).column(place).statistics for group in groups]
    least = [known.min for known in found if known is not None and known.has_min_max]
    return min(map(number_of, least)) if len(least) == len(found) else -math.inf


def _stored(part: RunSegment, column: str) -> str:
    """The name that a column has in the file of a run; columns of partitions are never added."""
    if not part.alterations:
        return column
    return present_columns(part.file_schema(), part.alterations)[column].stored or column


def _read(part: RunSegment, columns: list[str] | None = None) -> pa.Table:
    part.require_sound()
    with translate_read_errors(part.path, part.holds), open_run(part.local) as parquet:
        return parquet.read(columns=columns)


def _masks(tables: Sequence[pa.Table], forgotten: ExpiredEntries) -> list[pa.ChunkedArray]:
    """Mask of the rows that stay, for each table. A row whose column is NULL stays: it is in no partition."""
    numbers = [instants(table.column(forgotten.column)) for table in tables]
    spared = _ends(tables, numbers, forgotten.below) if forgotten.ends and tables else pa.array([], pa.int64())
    above = [pc.fill_null(pc.greater_equal(column, forgotten.below), True) for column in numbers]
    return [pc.or_(stays, pc.is_in(column, spared)) for stays, column in zip(above, numbers, strict=True)]


def _loses(mask: pa.ChunkedArray) -> bool:
    return not pc.all(mask, min_count=0).as_py()


def _ends(tables: Sequence[pa.Table], numbers: Sequence[pa.ChunkedArray], below: int) -> pa.Array:
    """The least and the greatest value under ``below``, in the sum of all tables: a later change may cancel a row."""
    rows = pa.concat_tables(
        pa.table({"n": column, "w": table.column(WEIGHT)}) for table, column in zip(tables, numbers, strict=True)
    )
    sums = rows.filter(pc.less(rows.column("n"), below)).group_by("n").aggregate([("w", "sum")])
    there = sums.filter(pc.greater(sums.column("w_sum"), 0)).column("n")
    return pa.array([end for end in pc.min_max(there).as_py().values() if end is not None], pa.int64())
