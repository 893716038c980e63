"""Stored rows that are looked up in mapped files: by this process where there are any, else by tasks that make them.

A job costs a tenth of a second whatever it does, and a lookup in files that are there costs what it finds: less than
its way through Spark. Files are made where the tasks run (``lookup_task.py``), so this process never reads a relation.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from tidemill.changes.arrow import arrow_schema, from_arrow, to_arrow
from tidemill.changes.sorted_hashes import sought_hashes
from tidemill.changes.zset import Row
from tidemill.model.errors import Corrupt
from tidemill.model.schema import EPOCH, WEIGHT
from tidemill.model.types import Array, Field
from tidemill.runtimes.native.state.snapshot import ColumnPositions, SnapshotLookup, exact_rows
from tidemill.runtimes.spark.execution.arrow_frames import frame_of_arrow, rows_as_arrow
from tidemill.runtimes.spark.execution.errors import not_found_by_tasks, translate_errors
from tidemill.runtimes.spark.lookup.lookup_task import TASK_FIELDS, RunLookup, look_up, lookup_in
from tidemill.storage.mapped.mapped_run import IndexedColumns
from tidemill.storage.runs import read_table
from tidemill.storage.store import RunFile

Granting = Callable[[Callable[..., Iterator[pa.RecordBatch]]], Callable[..., Iterator[pa.RecordBatch]]]
"""Gives a function of tasks what they need to open the files of the store."""

JobSession = Callable[[str], AbstractContextManager[SparkSession]]
"""Gives the session for a job of this description."""


class StoredSnapshot:
    """The rows of some runs of the store, left in their files."""

    remote = True

    def __init__(
        self,
        name: str,
        runs: Sequence[RunFile],
        fields: Sequence[Field],
        in_order: bool,
        session: JobSession,
        granted: Granting = lambda task: task,
    ) -> None:
        """``in_order`` asks for rows in order of epochs, which sums of DOUBLE need."""
        self.name = name
        self.granted = granted
        self.session = session
        self._runs = tuple(runs)
        self._fields = tuple(fields)
        self._in_order = in_order

    def fetch(
        self, positions: ColumnPositions, keys: Collection[Row], columns: ColumnPositions
    ) -> list[tuple[Row, int]]:
        """The rows whose columns at ``positions`` are one of ``keys``; other columns than ``columns`` read None."""
        if not positions:
            return self.pairs() if keys else []
        return fetch_together([SnapshotLookup(self, positions, keys, columns)])[0]

    def table(self, positions: ColumnPositions, keys: Collection[Row], columns: ColumnPositions) -> pa.Table:
        """The same rows as columns."""
        whole = to_arrow(self.fetch(positions, keys, columns), self._fields)
        return whole.select([*columns, len(self._fields)])

    def holders(self, position: int, elements: Collection[Any]) -> list[tuple[Row, int]]:
        """The rows whose array at ``position`` has one of ``elements``."""
        field = self._fields[position]
        assert isinstance(field.type, Array)
        sought = to_arrow((((one,), 1) for one in elements), [Field("element", field.type.element)])
        by = IndexedColumns(_columns_schema([field]), elements=True)
        everything = tuple(range(len(self._fields)))
        lookups = self._in_runs(by, sought.drop_columns([WEIGHT]), everything) if elements else []
        found = from_arrow(self._joined(run_lookups([self], [lookups])[0], everything), self._fields)
        asked = set(elements)
        return [pair for pair in found if not asked.isdisjoint(pair[0][position] or ())]

    def pairs(self) -> list[tuple[Row, int]]:
        """All rows, with their weights."""
        everything = tuple(range(len(self._fields)))
        tables = [read_table(Path(run.file), self._wanted(everything)) for run in self._runs]
        return from_arrow(self._joined(tables, everything), self._fields)

    def lookups(self, positions: ColumnPositions, keys: Collection[Row], columns: ColumnPositions) -> list[RunLookup]:
        """The lookups in each run by which rows are fetched."""
        if not keys:
            return []
        by = [self._fields[position] for position in positions]
        sought = to_arrow(((key, 1) for key in keys), by).drop_columns([WEIGHT])
        return self._in_runs(IndexedColumns(_columns_schema(by)), sought, columns)

    def found(self, lookup: SnapshotLookup, tables: Sequence[pa.Table]) -> list[tuple[Row, int]]:
        """The rows of a lookup, given what was found in each run."""
        table = self._joined(tables, lookup.columns)
        return exact_rows(table, self._fields, lookup.positions, lookup.keys, lookup.columns)

    def _in_runs(self, by: IndexedColumns, keys: pa.Table, columns: ColumnPositions) -> list[RunLookup]:
        wanted = self._wanted(columns)
        return [lookup_in(run, by, keys, wanted) for run in self._runs]

    def _wanted(self, columns: ColumnPositions) -> pa.Schema:
        schema = arrow_schema([self._fields[i] for i in columns])
        return schema.append(pa.field(EPOCH, pa.int64())) if self._in_order else schema

    def _joined(self, tables: Sequence[pa.Table], columns: ColumnPositions) -> pa.Table:
        """The rows found in all runs as one table."""
        table = pa.concat_tables([pa.Table.from_batches([], self._wanted(columns)), *tables])
        return table.sort_by(EPOCH).drop_columns([EPOCH]) if self._in_order else table


def fetch_together(lookups: Sequence[SnapshotLookup]) -> list[list[tuple[Row, int]]]:
    """The rows of each lookup; those in files of the store are found by one job."""
    snapshots = [lookup.snapshot if lookup.positions else None for lookup in lookups]
    remote = {number: one for number, one in enumerate(snapshots) if isinstance(one, StoredSnapshot)}
    asked = [one.lookups(lookups[n].positions, lookups[n].keys, lookups[n].columns) for n, one in remote.items()]
    found = run_lookups(list(remote.values()), asked)
    tables = dict(zip(remote, found, strict=True))
    return [
        remote[number].found(lookup, tables[number]) if number in remote else lookup.rows()
        for number, lookup in enumerate(lookups)
    ]


def run_lookups(snapshots: Sequence[StoredSnapshot], asked: Sequence[Sequence[RunLookup]]) -> list[list[pa.Table]]:
    """The rows found in each run, for the lookups in each of ``snapshots``; one job for those that need files made."""
    found: list[list[pa.Table]] = [[] for _ in asked]
    numbered = []
    for number, group in enumerate(asked):
        sought = sought_hashes(group[0].keys.columns) if group else None
        for lookup in group:
            rows = None if sought is None else lookup.rows_at_hand(sought)
            if rows is None:
                numbered.append((number, lookup))
            else:
                found[number].append(rows)
    if not numbered:
        return found
    given = pa.table(
        {
            "number": pa.array([number for number, _ in numbered], pa.int32()),
            "lookup": pa.array([pickle.dumps(lookup) for _, lookup in numbered], pa.binary()),
        }
    )
    names = ", ".join(dict.fromkeys(snapshot.name for snapshot in snapshots))
    with snapshots[0].session(f"{len(numbered)} lookups in {names}") as spark, translate_errors(names):
        answers = rows_as_arrow(frame_of_arrow(spark, given).mapInArrow(snapshots[0].granted(look_up), TASK_FIELDS))
    for number, rows in _answers(answers):
        found[number].append(rows)
    return found


def _answers(answers: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each answer. An error is raised as the task would have raised it here."""
    for number, rows, fault in zip(*(column.to_pylist() for column in answers.columns), strict=True):
        if fault is not None:
            raised = pickle.loads(fault)
            gone = isinstance(raised, Corrupt) and Path(str(raised.where)).exists() and "missing" in raised.what
            raise not_found_by_tasks(Path(str(raised.where))) if gone else raised
        yield number, pa.ipc.open_stream(rows).read_all()


def _columns_schema(fields: Sequence[Field]) -> pa.Schema:
    schema = arrow_schema(fields)
    return schema.remove(schema.get_field_index(WEIGHT))
