"""The task of a lookup on Spark: finds rows of a run by key in the run's mapped files, where the task runs.

Python workers import this module, so it imports little. A task is a function of files and keys alone: it makes derived
files that are absent, and any number of tasks may make the same.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pyarrow as pa

from tidemill.changes.arrow import integer_array, to_stream
from tidemill.changes.hashing import Hashes
from tidemill.changes.sorted_hashes import find_positions, sought_hashes
from tidemill.model.errors import TidemillError
from tidemill.storage.filesystem.fetched_file import is_at_hand
from tidemill.storage.mapped.mapped_run import IndexedColumns, MappedRun
from tidemill.storage.store import RunFile

TASK_FIELDS = "number INT, rows BINARY, fault BINARY"
"""Columns of the answer to a lookup: its number, the rows found as an Arrow stream, and otherwise a pickled error."""


MAPPED_ROWS = 32 * 1024
"""Rows from which a run is mapped: a smaller one is read as fast as files are made of it."""

KEPT_RUNS = 32
"""Number of such small runs whose columns a process keeps, as it keeps files mapped: runs never change."""


ReadRun = Callable[[Path, Path, pa.Schema], pa.Table]

IndexRun = Callable[[Path, Path, IndexedColumns], Hashes]


@dataclass(frozen=True, slots=True)
class RunLookup:
    """A lookup in one run: the ``wanted`` columns of rows with one of ``keys``. Only a ``mapped`` run is indexed.

    It may be made on any machine, over files of that machine.
    """

    stored: RunFile
    by: IndexedColumns
    keys: pa.Table
    wanted: pa.Schema
    mapped: bool

    @property
    def run(self) -> MappedRun:
        """The run with its derived files."""
        return MappedRun(self.stored.rows, self.stored.prefix)

    @property
    def file(self) -> Path:
        """The run's file, fetched if it is not on this machine."""
        return Path(self.stored.file)

    def rows(self, sought: Hashes) -> pa.Table:
        """The rows found by the hashes of the keys, and rarely others with the same hash."""
        found = self._found(sought)
        if found is None and self.run.make(self.by, self.wanted, self._read_column):
            found = self.run.find(self.by, sought, self.wanted)
        return self._scanned(sought, _read, _index) if found is None else found

    def rows_at_hand(self, sought: Hashes) -> pa.Table | None:
        """The same rows; None if files had to be made first, or a large one be fetched."""
        if self.mapped and not is_at_hand(self.stored.file):
            return self.run.find(self.by, sought, self.wanted)
        return self._found(sought)

    def _found(self, sought: Hashes) -> pa.Table | None:
        if not self.mapped:
            return self._scanned(sought, _kept_rows, _kept_index)
        found = self.run.find(self.by, sought, self.wanted)
        return self.wanted.empty_table() if found is None and self._is_excluded() else found

    def _scanned(self, sought: Hashes, read: ReadRun, index: IndexRun) -> pa.Table:
        at = find_positions(index(self.run.prefix, self.file, self.by), self.run.rows, sought)
        return read(self.run.prefix, self.file, self.wanted).take(integer_array(at))

    def _is_excluded(self) -> bool:
        """True if the run has no such keys, as it is with new ones that follow those stored: then no file is made."""
        from tidemill.storage.runs import may_hold

        where = {
            name: column.combine_chunks()
            for name, column in zip(self.keys.column_names, self.keys.columns, strict=True)
            if pa.types.is_integer(column.type) or pa.types.is_string(column.type) or pa.types.is_date(column.type)
        }
        return not self.by.elements and bool(where) and not may_hold(self.file, where)

    def _read_column(self, field: pa.Field) -> pa.ChunkedArray:
        return _read(self.run.prefix, self.file, pa.schema([field])).column(0)


def _read(prefix: Path, file: Path, schema: pa.Schema) -> pa.Table:
    """Columns of a run; ``prefix``, which has its checksum, tells it from others that were called ``file``."""
    from tidemill.storage.runs import read_table  # most tasks read mapped files, and need not import this

    return read_table(file, schema).combine_chunks()


def _index(prefix: Path, file: Path, by: IndexedColumns) -> Hashes:
    return by.index(_read(prefix, file, by.schema).columns)


_kept_rows = lru_cache(maxsize=KEPT_RUNS)(_read)

_kept_index = lru_cache(maxsize=KEPT_RUNS)(_index)


def lookup_in(run: RunFile, by: IndexedColumns, keys: pa.Table, wanted: pa.Schema) -> RunLookup:
    """The lookup of some keys in a run of the store."""
    return RunLookup(run, by, keys, wanted, run.rows >= MAPPED_ROWS)


def find_in_runs(runs: Iterable[RunFile], schema: pa.Schema, keys: pa.Table) -> pa.Table:
    """The rows of runs with one of ``keys``, which are columns of their names, and perhaps others."""
    by = IndexedColumns(pa.schema([keys.schema.field(name) for name in keys.column_names]))
    sought = sought_hashes(keys.columns)
    found = [lookup_in(run, by, keys, schema).rows(sought) for run in runs]
    return pa.concat_tables([schema.empty_table(), *found])


def look_up(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Make the lookups of a task, each a number and a pickled ``RunLookup``."""
    for batch in batches:
        for number, lookup in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
            rows = fault = None
            try:
                asked = pickle.loads(lookup)
                rows = to_stream(asked.rows(sought_hashes(asked.keys.columns)))
            except TidemillError as raised:
                fault = pickle.dumps(raised)
            columns = [pa.array([number], pa.int32()), pa.array([rows], pa.binary()), pa.array([fault], pa.binary())]
            yield pa.record_batch(columns, names=["number", "rows", "fault"])
