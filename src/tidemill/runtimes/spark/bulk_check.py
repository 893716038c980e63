"""The check of bulk changes by tasks: the driver hands over rows as a file, and gets back names of files to commit.

Rows that need a closer check, few as a rule, come back to the driver, which checks them as it does those of small
changes. So errors are the same, whoever has checked.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from tidemill.changes.arrow import from_arrow
from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import ZSet
from tidemill.model.errors import TidemillError
from tidemill.model.schema import Table
from tidemill.runtimes.spark.execution.arrow_frames import rows_as_arrow
from tidemill.runtimes.spark.execution.parquet_files import require_written
from tidemill.runtimes.spark.execution.remote_files import granted, shared_staging
from tidemill.runtimes.spark.execution.results import COLLECT_ROWS
from tidemill.runtimes.spark.lookup.key_check import check_in_driver, read_columns
from tidemill.runtimes.spark.tasks.checked_parts import CheckedChange, CheckedPart, check_part, first_keys
from tidemill.storage.filesystem.file_path import FilePath
from tidemill.storage.runs import rows_in, write_table
from tidemill.storage.segments import with_epoch
from tidemill.storage.shared_staging import SharedStaging, write_arrow
from tidemill.storage.store import Store

SAMPLE = 10_000
"""Rows of a change whose keys tell where its parts begin."""

_ANSWERS = pa.schema(
    [
        ("name", pa.string()),
        ("file", pa.binary()),
        ("rows", pa.int64()),
        ("doubtful", pa.int64()),
        ("unsure", pa.binary()),
        ("held", pa.binary()),
        ("fault", pa.binary()),
    ]
)

_ANSWER_FIELDS = "name STRING, file BINARY, rows LONG, doubtful LONG, unsure BINARY, held BINARY, fault BINARY"


class CheckedTables:
    """Changes of tables that tasks have checked in one job."""

    def __init__(self, changes: Mapping[str, CheckedChange], answers: Iterable[CheckedPart]) -> None:
        self._changes = changes
        self._parts: dict[str, list[CheckedPart]] = {}
        for answer in answers:
            self._parts.setdefault(answer.name, []).append(answer)

    def change(self, table: Table) -> ChangeSet | None:
        """The change of a table as files, or the error that refuses it; None if too many rows are in doubt."""
        checked, parts = self._changes[table.name], self._parts[table.name]
        for part in parts:
            if part.fault:
                raise _error(part.fault)
        if sum(part.doubtful for part in parts) > COLLECT_ROWS:
            return None
        written = {_file_of(part, checked): part.rows for part in parts if part.file}
        _require_files(written, checked)
        rest = _settled(table, [part for part in parts if part.doubtful])
        if rest is not None and rest.rows:
            written[_staged_rest(rest, checked)] = rest.rows
        return ChangeSet.of_files(list(written), table.fields, sum(written.values()))


def _file_of(part: CheckedPart, checked: CheckedChange) -> os.PathLike[str]:
    """The file that a task has written."""
    said = pickle.loads(part.file)
    return checked.folder / said if checked.shared is None else checked.shared.file(said)


def _staged_rest(rest: ChangeSet, checked: CheckedChange) -> os.PathLike[str]:
    """The rows that this process has checked, in a file beside those of tasks."""
    rows = with_epoch(rest.arrow(), checked.epoch)
    if checked.shared is not None:
        run = checked.shared.write([rows], rows.schema)
        assert run is not None, "there are rows"
        return checked.shared.file(run)
    file = checked.folder / "rest.parquet"
    write_table(rows, file)
    return file


def check_in_tasks(
    spark: SparkSession, store: Store, changes: Mapping[str, tuple[Table, ChangeSet]], epoch: int, parts: int
) -> CheckedTables:
    """Check the changes of some tables by one job."""
    with _handed_over(store, changes, epoch, parts, partial(shared_staging, spark, store)) as given:
        task = granted(partial(_check_side, tuple(given.values()), parts, COLLECT_ROWS), store)
        frame = spark.range(0, parts, 1, parts).mapInArrow(task, _ANSWER_FIELDS)
        answers = [CheckedPart(**row) for row in rows_as_arrow(frame).to_pylist()]
    return CheckedTables(given, answers)


def _check_side(
    changes: Sequence[CheckedChange], parts: int, most: int, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for part in batch.column(0).to_pylist():
            for change in changes:
                yield pa.RecordBatch.from_pylist([check_part(change, part, parts, most)._asdict()], schema=_ANSWERS)


@contextmanager
def _handed_over(
    store: Store,
    changes: Mapping[str, tuple[Table, ChangeSet]],
    epoch: int,
    parts: int,
    shared_for: Callable[[str], SharedStaging | None] = lambda name: None,
) -> Iterator[dict[str, CheckedChange]]:
    """The changes as tasks get them; rows that are not in files are, for the time of the block."""
    own: list[FilePath] = []
    try:
        given = {}
        for name, (table, change) in changes.items():
            folder, shared = store.staging(name), shared_for(name)
            files = change.files
            if files is None and shared is not None:
                fetched = shared.put_arrow(change.arrow())
                files, own = (fetched,), [*own, fetched.path]
            elif files is None:
                file = folder / "change.arrow"
                files, own = (file,), [*own, file]
                write_arrow(change.arrow(), file)
            starts = _part_starts(table, change, parts)
            # A copy, without the functions that a table keeps once it has made them.
            given[name] = CheckedChange(
                replace(table), files, change.rows, store.runs(name), starts, folder, epoch, shared
            )
        yield given
    finally:
        for path in own:
            path.unlink(missing_ok=True)


def _part_starts(table: Table, change: ChangeSet, parts: int) -> tuple[int, ...] | None:
    """The first keys with which the parts of a change begin; None unless these are whole numbers that differ enough."""
    column = read_columns(change, table.primary_key[:1]).column(0)
    if not pa.types.is_integer(column.type):
        return None
    keys = first_keys(column)
    sample = np.sort(keys[:: -(-len(keys) // SAMPLE)])
    starts = sample[[len(sample) * part // parts for part in range(1, parts)]].tolist()
    return tuple(starts) if len({*starts}) == len(starts) else None


def _require_files(written: Mapping[os.PathLike[str], int], checked: CheckedChange) -> None:
    found = sum(rows_in(file) for file in written if not isinstance(file, Path) or file.exists())
    require_written(sum(written.values()), found, checked.folder, checked.table.name)


def _settled(table: Table, parts: Sequence[CheckedPart]) -> ChangeSet | None:
    """The rows in doubt, summed and checked; None if there are none."""
    if not parts:
        return None
    unsure, held = (
        pa.concat_tables([pa.ipc.open_stream(content).read_all() for content in contents])
        for contents in ([part.unsure for part in parts], [part.held for part in parts])
    )
    *columns, places = range(unsure.num_columns)
    rows = unsure.select(columns).take(pc.array_sort_indices(unsure.column(places)))
    return check_in_driver(table, ChangeSet.of_arrow(rows, table.fields), ZSet.summed(from_arrow(held, table.fields)))


def _error(fault: bytes) -> TidemillError:
    error = pickle.loads(fault)
    assert isinstance(error, TidemillError)
    return error
