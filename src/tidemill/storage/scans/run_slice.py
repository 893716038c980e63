"""Some rows of a run as a segment, so that several tasks share a large run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from tidemill.changes.alterations import present_columns, present_rows, stored_schema_of
from tidemill.storage.runs import RunSegment, rows_between
from tidemill.storage.segments import Places, Segment, TableSegment, has_values
from tidemill.storage.store import ColumnValues

__all__ = ["RunSlice", "slices_of"]

SLICE_ROWS = 16 * 32 * 1024
"""Rows of a slice, sixteen row groups: reading them takes longer than starting a task for it."""


@dataclass(frozen=True, slots=True)
class RunSlice:
    """The rows of a run from place ``begin`` to ``end``; pickled it is the name of the run's file and these numbers."""

    segment: RunSegment
    begin: int
    end: int

    @property
    def first(self) -> int:
        """The first epoch of the run."""
        return self.segment.first

    @property
    def last(self) -> int:
        """The last epoch of the run."""
        return self.segment.last

    @property
    def ended(self) -> int | None:
        """The epoch that replaced the run."""
        return self.segment.ended

    def load(self, schema: pa.Schema, where: ColumnValues | None = None) -> pa.Table:
        """The rows of the slice, or those with the values of ``where``, with exactly the columns of ``schema``."""
        self.segment.require_sound()
        found = pa.concat_tables([schema.empty_table(), *self._rows(schema)])
        return found if where is None else found.filter(has_values(found, where))

    def take(self, schema: pa.Schema, places: Places) -> pa.Table:
        """The rows at some places, ascending, with exactly the columns of ``schema``."""
        return self.segment.take(schema, places + self.begin)

    def _rows(self, schema: pa.Schema) -> Iterator[pa.Table]:
        segment = self.segment
        if not segment.alterations:
            yield from rows_between([segment.local], schema, self.begin, self.end)
            return
        file = segment.file_schema()
        columns = present_columns(file, segment.alterations)
        stored = stored_schema_of(columns, file, schema.names)
        for table in rows_between([segment.local], stored, self.begin, self.end):
            yield present_rows(table, schema, columns)


def slices_of(segment: Segment) -> Iterator[tuple[Segment, int]]:
    """A segment as several for other processes to load, of at most ``SLICE_ROWS`` rows, each with their number."""
    match segment:
        case RunSegment(run=run):
            portable = replace(segment, lookups=None)
            if run.rows <= SLICE_ROWS:
                yield portable, run.rows
                return
            for begin in range(0, run.rows, SLICE_ROWS):
                end = min(begin + SLICE_ROWS, run.rows)
                yield RunSlice(portable, begin, end), end - begin
        case TableSegment(table=table):
            yield segment, table.num_rows
        case _:
            yield segment, 0
