"""Expired rows: rows of a map that no change can reach any more are deleted from its runs, in every epoch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidemill.changes.alterations import present_columns
from tidemill.changes.arrow import from_arrow, instants
from tidemill.model.schema import WEIGHT
from tidemill.program.expiry.entries import ExpiredEntries, number_of
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
    if all(_lowest(part, forgotten) >= forgotten.below for part in parts):
        return RunMerge(forgotten.map, (), ())
    names = _columns_read(forgotten)
    marks = [_read(part, [_stored(part, name) for name in names]).rename_columns(names) for part in parts]
    masks = _masks(marks, forgotten)
    before = [(part, mask) for part, mask in zip(parts, masks, strict=True) if _loses(mask)]
    after: list[RunEntry] = []
    for part, mask in before:
        part.require_sound(again=True)
        left = _read(part).filter(mask)
        if left.num_rows:
            after.append(writer.write(left, now, forgotten.map, part.run.altered))
    return RunMerge(forgotten.map, tuple(part.run for part, _ in before), tuple(after))


def _columns_read(forgotten: ExpiredEntries) -> list[str]:
    """The columns that say which rows of a map have expired."""
    tail = forgotten.tail
    more = () if tail is None else (*(key.name for key in tail.keys), tail.link)
    return list(dict.fromkeys([*(name for name in more if isinstance(name, str)), forgotten.column, WEIGHT]))


def _lowest(part: RunSegment, forgotten: ExpiredEntries) -> float:
    """Lower bound of the times in a run, from the statistics of its file."""
    part.require_sound()
    with translate_read_errors(part.path, part.holds), open_run(part.local) as parquet:
        column = _stored(part, forgotten.column)
        path = column if forgotten.part is None else f"{column}.{forgotten.part[0]}"
        groups = [parquet.metadata.row_group(group) for group in range(parquet.metadata.num_row_groups)]
    found = [group.column(place).statistics for group in groups for place in _leaves(group, path)]
    least = [known.min for known in found if known is not None and known.has_min_max]
    return min(map(number_of, least)) if found and len(least) == len(found) else -math.inf


def _leaves(group: pq.RowGroupMetaData, path: str) -> list[int]:
    """The place of a column among those that a file has, in which the fields of structs are columns."""
    return [place for place in range(group.num_columns) if group.column(place).path_in_schema == path]


def _stored(part: RunSegment, column: str) -> str:
    """The name that a column has in the file of a run; columns of partitions are never added."""
    if not part.alterations or column == WEIGHT:
        return column
    return present_columns(part.file_schema(), part.alterations)[column].stored or column


def _read(part: RunSegment, columns: list[str] | None = None) -> pa.Table:
    part.require_sound()
    with translate_read_errors(part.path, part.holds), open_run(part.local) as parquet:
        return parquet.read(columns=columns)


def _masks(tables: Sequence[pa.Table], forgotten: ExpiredEntries) -> list[pa.ChunkedArray]:
    """Mask of the rows that stay, for each table. A row whose time is NULL stays: it is in no partition."""
    times = [_times(table, forgotten) for table in tables]
    above = [pc.fill_null(pc.greater_equal(column, forgotten.below), True) for column in times]
    if forgotten.tail is not None:
        return _with_tail(tables, above, forgotten)
    if not forgotten.ends or not tables:
        return above
    spared = _ends(tables, times, forgotten.below)
    return [pc.or_(stays, pc.is_in(column, spared)) for stays, column in zip(above, times, strict=True)]


def _times(table: pa.Table, forgotten: ExpiredEntries) -> pa.ChunkedArray:
    column = table.column(forgotten.column)
    return instants(column if forgotten.part is None else pc.struct_field(column, forgotten.part[0]))


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


def _with_tail(
    tables: Sequence[pa.Table], above: Sequence[pa.ChunkedArray], forgotten: ExpiredEntries
) -> list[pa.ChunkedArray]:
    """Masks of the rows that stay if some of each group do, although they lie before the bound.

    Rows are added up by group and time, since a later change may cancel one; of each time all rows stay, or none.
    """
    marks = [_group_times(table.filter(pc.invert(mask)), forgotten) for table, mask in zip(tables, above, strict=True)]
    sums: dict[tuple[object, ...], list[int]] = {}
    for marked in marks:
        for key, weight, link in marked:
            total = sums.setdefault(key, [0, 0])
            total[0] += weight
            total[1] += link
    constant = forgotten.tail.link if forgotten.tail is not None and isinstance(forgotten.tail.link, int) else None
    there = {key: link if constant is None else constant for key, (weight, link) in sums.items() if weight > 0}
    stays = there.keys() - set(_by_group_time(forgotten).gone(there))
    return [_over(mask, (key in stays for key, _, _ in marked)) for mask, marked in zip(above, marks, strict=True)]


def _by_group_time(forgotten: ExpiredEntries) -> ExpiredEntries:
    """The same entries of a map whose keys are those of the groups, and the time as a number."""
    assert forgotten.tail is not None
    return replace(forgotten, place=forgotten.tail.width, part=None)


def _group_times(table: pa.Table, forgotten: ExpiredEntries) -> list[tuple[tuple[object, ...], int, int]]:
    """For each row its group and time, its weight, and what it adds to the length of its chain."""
    tail = forgotten.tail
    assert tail is not None
    groups = from_arrow(table.select([*(key.name for key in tail.keys), WEIGHT]), tail.keys)
    lengths = table.column(tail.link).to_pylist() if isinstance(tail.link, str) else [0] * table.num_rows
    times = _times(table, forgotten).to_pylist()
    return [((*row, at), weight, length) for (row, weight), at, length in zip(groups, times, lengths, strict=True)]


def _over(mask: pa.ChunkedArray, stays: Iterator[bool]) -> pa.ChunkedArray:
    """A mask with the rows that it leaves out decided anew, in their order."""
    return pa.chunked_array([pa.array([chosen or next(stays) for chosen in mask.to_pylist()], pa.bool_())])
