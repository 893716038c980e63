"""The check of bulk changes by tasks: the driver hands over rows as a file, and gets back names of files to commit.

Rows that need a closer check, few as a rule, come back to the driver, which checks them as it does those of small
changes. So errors are the same, whoever has checked.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from tidemill.changes.arrow import from_arrow
from tidemill.changes.changeset import ChangeSet
from tidemill.changes.zset import ZSet
from tidemill.model.errors import TidemillError
from tidemill.model.schema import Table
from tidemill.runtimes.spark.execution.arrow_frames import rows_as_arrow
from tidemill.runtimes.spark.execution.parquet_files import require_written
from tidemill.runtimes.spark.execution.results import COLLECT_ROWS
from tidemill.runtimes.spark.lookup.key_check import check_in_driver, read_columns
from tidemill.runtimes.spark.tasks.checked_parts import CheckedChange, CheckedPart, check_part, first_keys
from tidemill.storage.runs import write_table
from tidemill.storage.segments import with_epoch
from tidemill.storage.store import Store

SAMPLE = 10_000
"""Rows of a change whose keys tell where its parts begin."""

_ANSWERS = pa.schema(
    [
        ("name", pa.string()),
        ("file", pa.string()),
        ("rows", pa.int64()),
        ("doubtful", pa.int64()),
        ("unsure", pa.binary()),
        ("held", pa.binary()),
        ("fault", pa.binary()),
    ]
)

_ANSWER_FIELDS = "name STRING, file STRING, rows LONG, doubtful LONG, unsure BINARY, held BINARY, fault BINARY"


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
        written = {checked.folder / part.file: part.rows for part in parts if part.file}
        _require_files(written, checked)
        rest = _settled(table, [part for part in parts if part.doubtful])
        if rest is not None and rest.rows:
            file = checked.folder / "rest.parquet"
            write_table(with_epoch(rest.arrow(), checked.epoch), file)
            written[file] = rest.rows
        return ChangeSet.of_files(list(written), table.fields, sum(written.values()))


def check_in_tasks(
    spark: SparkSession, store: Store, changes: Mapping[str, tuple[Table, ChangeSet]], epoch: int, parts: int
) -> CheckedTables:
    """Check the changes of some tables by one job."""
    with _handed_over(store, changes, epoch, parts) as given:
        frame = spark.range(0, parts, 1, parts).mapInArrow(
            partial(_check_side, tuple(given.values()), parts, COLLECT_ROWS), _ANSWER_FIELDS
        )
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
    store: Store, changes: Mapping[str, tuple[Table, ChangeSet]], epoch: int, parts: int
) -> Iterator[dict[str, CheckedChange]]:
    """The changes as tasks get them; rows that are not in files are, for the time of the block."""
    own: list[Path] = []
    try:
        given = {}
        for name, (table, change) in changes.items():
            folder = store.staging(name)
            files = change.files
            if files is None:
                files = (folder / "change.arrow",)
                own += files
                _write_arrow(change.arrow(), files[0])
            starts = _part_starts(table, change, parts)
            # A copy, without the functions that a table keeps once it has made them.
            given[name] = CheckedChange(replace(table), files, change.rows, store.runs(name), starts, folder, epoch)
        yield given
    finally:
        for file in own:
            file.unlink(missing_ok=True)


def _write_arrow(rows: pa.Table, file: Path) -> None:
    with pa.OSFile(str(file), "wb") as out, pa.ipc.new_file(out, rows.schema) as writer:
        writer.write_table(rows)


def _part_starts(table: Table, change: ChangeSet, parts: int) -> tuple[int, ...] | None:
    """The first keys with which the parts of a change begin; None unless these are whole numbers that differ enough."""
    column = read_columns(change, table.primary_key[:1]).column(0)
    if not pa.types.is_integer(column.type):
        return None
    keys = first_keys(column)
    sample = np.sort(keys[:: -(-len(keys) // SAMPLE)])
    starts = sample[[len(sample) * part // parts for part in range(1, parts)]].tolist()
    return tuple(starts) if len({*starts}) == len(starts) else None


def _require_files(written: Mapping[Path, int], checked: CheckedChange) -> None:
    found = sum(pq.read_metadata(file).num_rows for file in written if file.exists())
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
