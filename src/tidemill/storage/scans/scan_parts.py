"""A map as parts that tasks read in any process: its rows as of an epoch, or its changes between two epochs.

A map is a sum of weighted rows, so a row may be inserted in one file and deleted in another. Deleted rows are few as a
rule, and they are known when a scan is planned: a task leaves out the rows whose hash is that of a deleted one, and one
more part has these of all files and sums them. If there are too many deleted rows for that, every part takes the rows
of some hashes from all files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.changes.arrow import repeat_rows
from tidemill.changes.hashing import Hashes, hash_rows
from tidemill.model.schema import EPOCH, WEIGHT
from tidemill.model.types import Field
from tidemill.program.maps import Map
from tidemill.storage.compaction.consolidate import difference
from tidemill.storage.runs import RunSegment
from tidemill.storage.scans.run_slice import SLICE_ROWS, slices_of
from tidemill.storage.segments import Segment, TableSegment, check_readable, read_segments, stored_schema
from tidemill.storage.snapshot import StoreSnapshot, require_not_lost

__all__ = ["ChangesPart", "RowsPart", "change_parts", "row_parts"]

DELETED_ROWS = 100_000
"""Number of deleted rows whose hashes go with every part of a scan: 800 KB."""


@dataclass(frozen=True, slots=True)
class _Part:
    """Segments of a map that a task reads: ``fields`` of rows of epochs in ``(since, until]``."""

    segments: tuple[Segment, ...]
    fields: tuple[Field, ...]
    since: int | None
    until: int

    def _tables(self) -> Iterator[pa.Table]:
        """The weighted rows of each segment."""
        for segment in self.segments:
            yield read_segments([segment], stored_schema(self.fields), self.since, self.until)


@dataclass(frozen=True, slots=True)
class ChangesPart(_Part):
    """Changes of a map with ``_weight`` and ``_epoch``, as they were emitted."""

    def tables(self) -> Iterator[pa.Table]:
        """The changes, as tables of any size."""
        return self._tables()


@dataclass(frozen=True, slots=True)
class RowsPart(_Part):
    """Rows of a map, each as often as it is there, without weights.

    ``deleted`` are the hashes of rows that may be cancelled. A ``summed`` part has only these, of all segments, or, if
    there are none given, all rows; of them it takes those of its ``share``, a number out of so many.
    """

    deleted: Hashes | None = None
    summed: bool = False
    share: tuple[int, int] = (0, 1)

    def tables(self) -> Iterator[pa.Table]:
        """The rows, as tables of any size."""
        if self.summed:
            yield from self._summed()
            return
        for table in self._tables():
            if self.deleted is not None and table.num_rows:
                table = table.filter(pa.array(~np.isin(self._hashes(table), self.deleted)))
            yield repeat_rows(table.drop_columns([EPOCH]))

    def _summed(self) -> Iterator[pa.Table]:
        number, shares = self.share
        found = []
        for table in self._tables():
            hashes = self._hashes(table)
            ours = hashes % np.uint64(shares) == np.uint64(number)
            if self.deleted is not None:
                ours &= np.isin(hashes, self.deleted)
            found.append(table.filter(pa.array(ours)).drop_columns([EPOCH]))
        if found:
            rows = pa.concat_tables(found)
            yield repeat_rows(difference(rows.schema.empty_table(), rows, Map("scan", self.fields)))

    def _hashes(self, table: pa.Table) -> Hashes:
        return _hashes(table, self.fields)


def row_parts(snapshot: StoreSnapshot, name: str, fields: Sequence[Field], until: int | None) -> list[RowsPart]:
    """The rows of map ``name`` as of an epoch, divided among tasks; together the parts have each of them once."""
    bound = check_readable(snapshot.oldest, snapshot.epoch, None, until)
    require_not_lost(snapshot.losses, name, None, bound)
    held = tuple(fields)
    segments = [s for s in _segments(snapshot, name, None, bound) if s.ended is None or s.ended > bound]
    slices = [one for segment in segments for one in slices_of(segment)]
    grouped, everything = _grouped(slices), tuple(segment for segment, _ in slices)
    deleting = [segment for segment in segments if _deleted_rows(segment)]
    if not deleting:
        return [RowsPart(group, held, None, bound) for group in grouped]
    if len(grouped) == 1 or sum(map(_deleted_rows, deleting)) > DELETED_ROWS:
        shares = len(grouped)
        return [RowsPart(everything, held, None, bound, summed=True, share=(i, shares)) for i in range(shares)]
    deleted = _deleted_hashes(deleting, held, bound)
    parts = [RowsPart(group, held, None, bound, deleted) for group in grouped]
    return [*parts, RowsPart(everything, held, None, bound, deleted, summed=True)]


def change_parts(
    snapshot: StoreSnapshot, name: str, fields: Sequence[Field], since: int, until: int
) -> list[ChangesPart]:
    """The changes of map ``name`` of epochs in ``(since, until]``, divided among tasks."""
    bound = check_readable(snapshot.oldest, snapshot.epoch, since, until)
    require_not_lost(snapshot.losses, name, since, bound)
    # A run that ended meanwhile counts as retracted by the epoch that replaced it: `read_segments` says how.
    slices = [one for s in _segments(snapshot, name, since, bound) for one in slices_of(s) if s.last > since or s.ended]
    return [ChangesPart(group, tuple(fields), since, bound) for group in _grouped(slices)]


def _segments(snapshot: StoreSnapshot, name: str, since: int | None, until: int) -> list[Segment]:
    """The segments that have rows of epochs up to ``until``."""
    found: list[Segment] = [*snapshot.parts(name), *snapshot.tail.parts(name, since=since, until=until)]
    return [segment for segment in found if segment.first <= until]


def _grouped(slices: Sequence[tuple[Segment, int]]) -> list[tuple[Segment, ...]]:
    """Segments in groups of about ``SLICE_ROWS`` rows, in order."""
    groups: list[list[Segment]] = []
    held = SLICE_ROWS
    for segment, rows in slices:
        if held + rows > SLICE_ROWS:
            groups.append([])
            held = 0
        groups[-1].append(segment)
        held += rows
    return [tuple(group) for group in groups]


def _deleted_rows(segment: Segment) -> int:
    """The number of rows of negative weight in a segment."""
    match segment:
        case RunSegment(run=run):
            return run.retracted
        case TableSegment(table=table):
            return int(pc.sum(pc.less(table.column(WEIGHT), 0)).as_py() or 0)
    return 0


def _deleted_hashes(segments: Sequence[Segment], fields: tuple[Field, ...], until: int) -> Hashes:
    """The hashes of the rows that segments delete, in ascending order."""
    tables = [read_segments([segment], stored_schema(fields), None, until) for segment in segments]
    gone = [_hashes(table.filter(pc.less(table.column(WEIGHT), 0)), fields) for table in tables]
    return np.unique(np.concatenate(gone))


def _hashes(table: pa.Table, fields: Sequence[Field]) -> Hashes:
    return hash_rows([table.column(field.name) for field in fields])
