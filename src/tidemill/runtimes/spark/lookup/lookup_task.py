"""The task of a lookup on Spark: finds rows of a run by key in the run's mapped files, where the task runs.

Python workers import this module, so it imports little. A task is a function of files and keys alone: it makes derived
files that are absent, and any number of tasks may make the same.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from tidemill.changes.arrow import integer_array, to_stream
from tidemill.changes.hashing import hash_columns
from tidemill.changes.sorted_hashes import find_positions
from tidemill.model.errors import TidemillError
from tidemill.storage.mapped.mapped_run import IndexedColumns, MappedRun
from tidemill.storage.store import RunFile

TASK_FIELDS = "number INT, rows BINARY, fault BINARY"
"""Columns of the answer to a lookup: its number, the rows found as an Arrow stream, and otherwise a pickled error."""


MAPPED_ROWS = 32 * 1024
"""Rows from which a run is mapped: a smaller one is read as fast as files are made of it."""


@dataclass(frozen=True, slots=True)
class RunLookup:
    """A lookup in one run: the ``wanted`` columns of rows with one of ``keys``. Only a ``mapped`` run is indexed."""

    file: Path
    run: MappedRun
    by: IndexedColumns
    keys: pa.Table
    wanted: pa.Schema
    mapped: bool

    def rows(self) -> pa.Table:
        """The rows found, and rarely others with the same hash."""
        if self.mapped:
            found = self.run.find(self.by, self.keys, self.wanted)
            if found is None and self.run.make(self.by, self.wanted, self._read_column):
                found = self.run.find(self.by, self.keys, self.wanted)
            if found is not None:
                return found
        table = self._read(pa.unify_schemas([self.wanted, self.by.schema]))
        entries = self.by.index([table.column(name) for name in self.by.schema.names])
        at = find_positions(entries, table.num_rows, hash_columns(self.keys.columns))
        return table.select(self.wanted.names).combine_chunks().take(integer_array(at))

    def _read_column(self, field: pa.Field) -> pa.ChunkedArray:
        return self._read(pa.schema([field])).column(0)

    def _read(self, schema: pa.Schema) -> pa.Table:
        from tidemill.storage.runs import read_table  # most tasks read mapped files, and need not import this

        return read_table(self.file, schema)


def lookup_in(run: RunFile, by: IndexedColumns, keys: pa.Table, wanted: pa.Schema) -> RunLookup:
    """The lookup of some keys in a run of the store."""
    return RunLookup(run.file, MappedRun(run.rows, run.prefix), by, keys, wanted, run.rows >= MAPPED_ROWS)


def look_up(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Make the lookups of a task, each a number and a pickled ``RunLookup``."""
    for batch in batches:
        for number, lookup in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
            rows = fault = None
            try:
                rows = to_stream(pickle.loads(lookup).rows())
            except TidemillError as raised:
                fault = pickle.dumps(raised)
            columns = [pa.array([number], pa.int32()), pa.array([rows], pa.binary()), pa.array([fault], pa.binary())]
            yield pa.record_batch(columns, names=["number", "rows", "fault"])
